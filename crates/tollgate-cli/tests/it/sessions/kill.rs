//! `kill -9` at every point: nothing that was stored is lost, and no side effect happens twice.

use std::io::{BufRead, BufReader};
use std::process::Child;

use serde_json::json;
use tollgate_testkit::model::{ModelServer, Step};

use super::{House, config, last_event, line, note};

const FREE: [&str; 2] = ["--role", "free"];

fn free<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&FREE, args].concat()
}

/// Kills without a word, and waits until it is gone.
async fn kill(mut child: Child) {
    tokio::task::spawn_blocking(move || {
        child.kill().unwrap();
        child.wait().unwrap();
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_call_and_before_the_answer() {
    let script = vec![Step::hang(), note("c1", "once"), Step::hang(), Step::text("好")];
    let house = House::with(script).await;
    let first = house.shop.start(&free(&["run", "记一次", "--session", "s1"]));
    house.server.wait_for_requests(1).await;
    kill(first).await;
    assert_eq!(house.ran().len(), 0);
    let refused = house.expect(&["run", "--resume", "s1", "more"], 2).await;
    assert!(refused.stderr.contains("a prompt without an answer"), "{}", refused.stderr);

    let second = house.shop.start(&["run", "--resume", "s1"]);
    house.server.wait_for_requests(3).await;
    assert_eq!(house.ran(), [line("once")]);
    kill(second).await;

    let third = house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!((last_event(&third)["text"].clone(), house.ran().len(), house.received("note")), (json!("好"), 1, 1));
    assert_eq!(house.told("c1"), "noted");
    house.server.assert_clean();
}

/// A run whose call of `hold` has begun. What is left of the tool ends when the file is dropped.
#[cfg(unix)]
async fn holding(house: &House) -> (Child, std::fs::File) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let [started, end] = ["started.fifo", "end.fifo"].map(|name| house.shop.path().join(name));
    for path in [&started, &end] {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    }
    let end = std::fs::OpenOptions::new().read(true).write(true).open(end).unwrap();
    let child = house.shop.start(&free(&["run", "go", "--session", "s1"]));
    // Opening waits for the tool.
    tokio::task::spawn_blocking(move || std::fs::read_to_string(started).unwrap()).await.unwrap();
    (child, end)
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_asked_to_stop_says_what_it_broke_off() {
    let turn = Step::calls([("c1", "hold", json!({"text": "once"}))]);
    let house = House::with(vec![turn, Step::text("I shall check")]).await;
    let (mut child, _held) = holding(&house).await;
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert!(house.told("c1").contains("cancelled") && house.told("c1").contains("may have happened"));
    assert_eq!(std::fs::read_to_string(house.shop.path().join("held")).unwrap().lines().count(), 1);
    house.server.assert_clean();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn while_the_tool_runs() {
    let turn = Step::calls([("c1", "hold", json!({"text": "once"})), ("c2", "note", json!({"text": "too"}))]);
    let house = House::with(vec![turn, Step::text("I shall check")]).await;
    let (child, _held) = holding(&house).await;
    kill(child).await;

    house.expect(&["run", "--resume", "s1"], 0).await;
    assert!(house.told("c1").contains("outcome_unknown"), "{}", house.told("c1"));
    let held = std::fs::read_to_string(house.shop.path().join("held")).unwrap();
    assert_eq!(held.lines().collect::<Vec<_>>(), [line("once")], "not once more");
    // The other one ran before the kill, after it, or during it; never twice, and the model is told the truth.
    let noted = house.ran().len();
    match house.told("c2").as_str() {
        "noted" => assert_eq!(noted, 1),
        unknown => assert!(unknown.contains("outcome_unknown") && noted <= 1, "{unknown} {noted}"),
    }
    house.server.assert_clean();
}

/// Runs until so many events were printed, then kills.
async fn killed_after(house: &House, events: usize) {
    let mut child = house.shop.start(&free(&["run", "go", "--session", "s1", "--json"]));
    let child = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.take(events).all(|line| line.is_ok()));
        child
    });
    kill(child.await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_each_event_each_call_happened_once_or_is_said_to_be_unknown() {
    for events in 1..=11 {
        let first = Step::calls([("c1", "note", json!({"text": "a"})), ("c2", "note", json!({"text": "b"}))]);
        let rest = [note("c3", "c"), Step::text("good"), Step::text("good"), Step::text("good")];
        let house = House::with([vec![first], rest.to_vec()].concat()).await;
        killed_after(&house, events).await;
        let done = house.expect(&["run", "--resume", "s1"], 0).await;
        assert_eq!(last_event(&done)["text"], "good");
        let shown = house.expect(&["sessions", "show", "s1"], 0).await.json();
        let turns = shown["steps"].as_array().unwrap().iter().filter_map(|step| step["calls"].as_array());
        for call in turns.flatten() {
            let text = call["result"]["text"].as_str().unwrap();
            // Two that run at the same time may share a line.
            let ran = std::fs::read_to_string(house.shop.path().join("ran")).unwrap_or_default();
            let times = ran.matches(call["arguments"].as_str().unwrap()).count();
            match text {
                "noted" => assert_eq!(times, 1, "{events}: {call}"),
                _ => assert!(text.contains("outcome_unknown") && times <= 1, "{events}: {call}"),
            }
        }
        house.expect(&["audit", "verify"], 0).await;
        house.server.assert_clean();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_tool_ran_and_before_that_was_stored() {
    let house = House::with(vec![note("c1", "once"), Step::text("lost"), Step::text("found")]).await;
    house.expect(&free(&["run", "go", "--session", "s1"]), 0).await;
    // What a crash between the gate's last word and the session's leaves.
    let database = house.database();
    database.execute("update session_calls set outcome = null", []).unwrap();
    database.execute("delete from session_steps where seq = 3", []).unwrap();
    // Long after, when other keys are forgotten.
    database.execute("update idempotency set expires = 1", []).unwrap();
    house.expect(&free(&["call", "note", r#"{"text":"other"}"#, "--idempotency-key", "k"]), 0).await;
    assert_eq!(house.ran(), [line("once"), line("other")]);

    let done = house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!(last_event(&done)["text"], "found");
    assert_eq!((house.ran().len(), house.told("c1").as_str()), (2, "noted"), "the stored answer is told");

    // The answer is in the session now: the key is forgotten with the others.
    house.expect(&free(&["call", "note", r#"{"text":"third"}"#, "--idempotency-key", "l"]), 0).await;
    let kept: u32 = database
        .query_row("select count(*) from idempotency where key like 'session:%'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 0);
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_happened_is_never_told_as_refused() {
    let house = House::with(vec![note("c1", "once"), Step::text("lost"), Step::text("found")]).await;
    house.expect(&free(&["run", "go", "--session", "s1"]), 0).await;
    let database = house.database();
    database.execute("update session_calls set outcome = null", []).unwrap();
    database.execute("delete from session_steps where seq = 3", []).unwrap();
    // Meanwhile the role lost the tool, so that the gate stops the call before it looks under its key.
    let without = config(&house.server.base_url()).replace("tools = [\"*\"]", "tools = [\"read_*\"]");
    std::fs::write(house.shop.path().join("tollgate.toml"), without).unwrap();
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert!(house.told("c1").contains("outcome_unknown"), "{}", house.told("c1"));
    assert_eq!(house.ran().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_said_now_is_asked_later() {
    let turn = Step::calls([("c1", "note", json!({"text": "a"})), ("c2", "note", json!({"text": "b"}))]);
    let house = House::with(vec![turn, Step::text("lost"), Step::text("found")]).await;
    house.expect(&free(&["run", "go", "--session", "s1"]), 0).await;
    let database = house.database();
    database.execute("update session_calls set outcome = null", []).unwrap();
    database.execute("delete from session_steps where seq = 3", []).unwrap();
    let limit = "\n[[limit]]\ntools = [\"note\"]\nper = []\ncalls = 1\nevery = \"1h\"\n";
    let limited = config(&house.server.base_url()) + limit;
    std::fs::write(house.shop.path().join("tollgate.toml"), limited).unwrap();
    let later = house.expect(&["run", "--resume", "s1"], 3).await;
    assert!(
        later.stdout.contains("rate_limited") && later.stdout.contains("resume the session later"),
        "{}",
        later.stdout
    );
    assert_eq!(house.server.requests().len(), 2, "a model would take `rate_limited` for a call that never was");
    house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!((house.told("c1").as_str(), house.told("c2").as_str(), house.ran().len()), ("noted", "noted", 2));
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_and_a_dead_one_does_not_count() {
    let house = House::with(vec![Step::text("one"), Step::hang(), Step::text("two")]).await;
    house.expect(&["run", "first", "--session", "s1"], 0).await;
    let holder = house.shop.start(&["run", "--resume", "s1", "second"]);
    house.server.wait_for_requests(2).await;
    for args in [&["run", "--resume", "s1"][..], &["run", "third", "--session", "s1"]] {
        let refused = house.expect(args, 3).await;
        let who = format!("another process (number {})", holder.id());
        assert!(refused.stderr.contains(&who), "{}", refused.stderr);
    }
    kill(holder).await;
    house.expect(&["run", "--resume", "s1"], 0).await;
    let locks = std::fs::read_dir(house.shop.path().join(".tollgate/sessions")).unwrap().count();
    assert_eq!((house.server.requests().len(), locks), (3, 0));
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_away_costs_nothing() {
    let house = House::with(vec![note("c1", "once"), Step::status(401, &[], "no")]).await;
    let failed = house.expect(&free(&["run", "go", "--session", "s1"]), 1).await;
    assert!(failed.stderr.contains("tollgate run --resume s1"), "{}", failed.stderr);
    std::fs::write(house.shop.path().join("tollgate.toml"), config("http://127.0.0.1:9/v1")).unwrap();
    house.expect(&["run", "--resume", "s1"], 1).await;
    let back = ModelServer::start(vec![Step::text("back")]).await;
    std::fs::write(house.shop.path().join("tollgate.toml"), config(&back.base_url())).unwrap();
    let done = house.expect(&["run", "--resume", "s1"], 0).await;
    assert_eq!((last_event(&done)["text"].clone(), house.ran().len()), (json!("back"), 1));
    assert_eq!(back.requests()[0]["messages"].as_array().unwrap().len(), 3);
    back.assert_clean();
}
