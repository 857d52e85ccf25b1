//! A call that waits for a human ends the run; the answer comes from another process, and a third one goes on.

use serde_json::json;
use tollgate_testkit::model::Step;

use super::{House, last_event, line, note};

/// Runs until the call waits; answers the approval's id.
async fn paused(house: &House, args: &[&str]) -> String {
    let done = house.expect(args, 4).await;
    let paused = last_event(&done);
    assert_eq!((&paused["type"], &paused["session"]), (&json!("paused"), &json!("s1")), "{paused}");
    paused["waiting"][0]["approval"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_from_elsewhere_lets_it_run_once() {
    let house = House::with(vec![note("c1", "十个键盘"), Step::text("记下了。")]).await;
    let id = paused(&house, &["run", "记一下：十个键盘", "--session", "s1"]).await;
    assert_eq!((house.ran().len(), house.server.requests().len()), (0, 1));
    assert_eq!(paused(&house, &["run", "--resume", "s1"]).await, id, "still open: the same question");
    assert_eq!(house.server.requests().len(), 1, "the model is not asked before the call is answered");
    let text = house.expect(&["--format", "text", "run", "--resume", "s1"], 4).await;
    for part in [format!("tollgate approvals approve {id}"), "tollgate run --resume s1".into(), "note".into()] {
        assert!(text.stderr.contains(&part), "{part}: {}", text.stderr);
    }
    let refused = house.expect(&["run", "--resume", "s1", "还有"], 2).await;
    assert!(refused.stderr.contains("a call without an answer"), "{}", refused.stderr);

    house.expect(&["approvals", "approve", &id], 0).await;
    let done = house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!(last_event(&done)["text"], "记下了。");
    assert_eq!((house.ran(), house.told("c1").as_str()), (vec![line("十个键盘")], "noted"));
    let messages = house.server.requests()[1]["messages"].clone();
    assert_eq!((messages.as_array().unwrap().len(), &messages[0]["content"]), (3, &json!("记一下：十个键盘")));

    let again = house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!(last_event(&again)["text"], "记下了。", "nothing is missing: the answer is said again");
    assert_eq!((house.ran().len(), house.server.requests().len()), (1, 2));
    house.server.assert_clean();
    house.expect(&["audit", "verify"], 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_and_an_end_of_time_are_told_to_the_model() {
    let script = vec![note("c1", "a"), Step::text("then not"), note("c2", "b"), Step::text("too late")];
    let house = House::with(script).await;
    let id = paused(&house, &["run", "note a", "--session", "s1"]).await;
    house.expect(&["approvals", "reject", &id, "--reason", "冻结期"], 0).await;
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert!(house.told("c1").contains("approval_rejected") && house.told("c1").contains("冻结期"));

    paused(&house, &["run", "--resume", "s1", "note b"]).await;
    house.database().execute("update approvals set expires = created + 1 where status = 'pending'", []).unwrap();
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert!(house.told("c2").contains("approval_expired"), "{}", house.told("c2"));
    assert_eq!(house.ran().len(), 0);
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_missing_calls_of_a_turn_are_asked_for() {
    let turn = Step::calls([
        ("c1", "read_file", json!({"path": "stock.txt"})),
        ("c2", "note", json!({"text": "x"})),
        ("c3", "note", json!({"text": "y"})),
    ]);
    let house = House::with(vec![turn, Step::text("done")]).await;
    std::fs::write(house.shop.path().join("stock.txt"), "42\n").unwrap();
    let done = house.expect(&["run", "go", "--session", "s1"], 4).await;
    let waiting = last_event(&done)["waiting"].as_array().unwrap().clone();
    assert_eq!(waiting.len(), 2);
    let id = |call: &str| {
        let one = waiting.iter().find(|one| one["call_id"] == call).unwrap();
        one["approval"].as_str().unwrap().to_owned()
    };
    house.expect(&["approvals", "approve", &id("c3")], 0).await;
    house.expect(&["run", "--resume", "s1"], 4).await;
    assert_eq!(house.ran(), [line("y")]);
    house.expect(&["approvals", "approve", &id("c2")], 0).await;
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!(house.ran(), [line("y"), line("x")]);
    assert_eq!((house.received("read_file"), house.received("note")), (1, 5));
    // The results stand in call order, whenever they came.
    let messages = house.server.requests()[1]["messages"].clone();
    let order: Vec<&str> = messages.as_array().unwrap().iter().filter_map(|m| m["tool_call_id"].as_str()).collect();
    assert_eq!(order, ["c1", "c2", "c3"]);
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_gone_on_with_as_it_was_begun() {
    let house = House::with(vec![note("c1", "x"), Step::text("done")]).await;
    paused(&house, &["run", "go", "--session", "s1", "--system", "be brief"]).await;
    let role = house.expect(&["--role", "free", "run", "--resume", "s1"], 2).await;
    assert!(role.stderr.contains("in the role `developer`"), "a yes is bound to the role: {}", role.stderr);
    let mut eve = house.shop.command(&["run", "--resume", "s1"]);
    let eve = tokio::task::spawn_blocking(move || eve.env("USER", "eve").output().unwrap()).await.unwrap();
    assert_eq!(eve.status.code(), Some(3));
    assert!(String::from_utf8(eve.stderr).unwrap().contains("was begun by `bob`"));
    assert_eq!((house.ran().len(), house.server.requests().len()), (0, 1));
}
