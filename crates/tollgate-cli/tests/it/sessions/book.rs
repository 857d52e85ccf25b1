//! Finding, showing, copying and exporting sessions, and what is never in one.

use serde_json::{Value, json};
use tollgate_testkit::model::Step;

use super::{House, config, last_event, note};
use crate::shop::Shop;

#[test]
fn a_text_that_is_no_session_is_refused() {
    let shop = Shop::with(&config("http://127.0.0.1:9/v1"));
    for id in ["../x", "a/b", "", "库存", "-x", "a b", "nobody", "0197c0de-0000-7000-8000-000000000001", "0197"] {
        for args in [["run", "--resume", id].as_slice(), &["sessions", "show", id], &["sessions", "export", id]] {
            let done = shop.tollgate(args);
            assert_eq!(done.code, 2, "{args:?}: {}", done.stderr);
        }
    }
    let bad = shop.tollgate(&["run", "hi", "--session", "../x"]);
    assert!(bad.code == 2 && bad.stderr.contains("cannot be a session's name"), "{}", bad.stderr);
    assert_eq!(shop.tollgate(&["sessions", "list"]).json(), json!([]));
    assert!(!shop.path().join(".tollgate/store.db").exists(), "to look makes no state");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_is_copied_and_shown() {
    let script = vec![
        Step::calls([("c1", "read_file", json!({"path": "stock.txt"}))]),
        Step::text("还有四十二个"),
        Step::text("second"),
        Step::text("otherwise"),
    ];
    let house = House::with(script).await;
    std::fs::write(house.shop.path().join("stock.txt"), "42\n").unwrap();
    house.expect(&["run", "还有多少？", "--session", "stock"], 0).await;
    house.expect(&["run", "and then?", "--session", "stock"], 0).await;
    assert_eq!(house.server.requests()[2]["messages"].as_array().unwrap().len(), 5);

    let copy = house.expect(&["sessions", "fork", "stock", "--turn", "2", "--name", "b"], 0).await.json();
    assert_eq!((&copy["name"], copy["steps"].as_array().unwrap().len()), (&json!("b"), 3));
    house.expect(&["sessions", "fork", "stock", "--turn", "9"], 2).await;
    house.expect(&["sessions", "fork", "stock", "--name", "b"], 2).await;
    house.expect(&["run", "--resume", "b", "or else?"], 0).await;
    let asked = house.server.requests()[3]["messages"].clone();
    assert_eq!((asked.as_array().unwrap().len(), &asked[4]["content"]), (5, &json!("or else?")));

    let listed = house.expect(&["sessions", "list"], 0).await.json();
    let row = |at: usize| (listed[at]["name"].clone(), listed[at]["status"].clone(), listed[at]["turns"].clone());
    assert_eq!(row(0), (json!("b"), json!("answered"), json!(3)));
    assert_eq!(row(1), (json!("stock"), json!("answered"), json!(3)));
    assert_eq!((&listed[0]["forked_from"], &listed[0]["prompt"]), (&listed[1]["id"], &json!("还有多少？")));
    let text = house.expect(&["--format", "text", "sessions", "list"], 0).await.stdout;
    assert!(text.contains("stock") && text.contains("bob (developer)") && text.contains("还有多少？"), "{text}");
    let id = listed[1]["id"].as_str().unwrap();
    let end: String = id.chars().skip(24).collect();
    let shown = house.expect(&["--format", "text", "sessions", "show", &end], 0).await.stdout;
    for part in ["› 还有多少？", "turn 2", "→ read_file {\"path\":\"stock.txt\"}", "done (attempt ", "second"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    house.server.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_there_or_is_busy_is_told() {
    let house = House::with(vec![Step::text("one"), Step::text("two"), Step::hang()]).await;
    house.expect(&["run", "a", "--session", "stock-berlin"], 0).await;
    house.expect(&["run", "b", "--session", "stock-beijing"], 0).await;
    let listed = house.expect(&["sessions", "list"], 0).await.json();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let mistyped = format!("{}0000", id.chars().take(32).collect::<String>());
    for (wanted, near) in
        [("stock-berln", "`stock-berlin`"), ("Stock_Beijing", "`stock-beijing`"), (mistyped.as_str(), id.as_str())]
    {
        for args in [["sessions", "show", wanted], ["run", "--resume", wanted], ["sessions", "export", wanted]] {
            let done = house.expect(&args, 2).await;
            assert!(
                done.stderr.contains("no session is named") && done.stderr.contains("did you mean"),
                "{}",
                done.stderr
            );
            let said = done.stderr.split_whitespace().collect::<String>().replace('│', "");
            assert!(said.contains(near), "{near}: {}", done.stderr);
        }
    }
    let nothing = house.expect(&["sessions", "show", "inventory"], 2).await;
    assert!(!nothing.stderr.contains("did you mean") && nothing.stderr.contains("sessions list"), "{}", nothing.stderr);

    let mut busy = house.shop.start(&["run", "c", "--session", "stock-berlin"]);
    house.server.wait_for_requests(3).await;
    let refused = house.expect(&["run", "--resume", "stock-berlin"], 3).await;
    let whose = format!("another process (number {}) works in session", busy.id());
    let said = refused.stderr.split_whitespace().collect::<Vec<_>>().join(" ").replace("│ ", "");
    assert!(said.contains(&whose) && said.contains("sessions fork"), "{}", refused.stderr);
    house.expect(&["sessions", "show", "stock-berlin"], 0).await;
    busy.kill().unwrap();
    tokio::task::spawn_blocking(move || busy.wait().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_messages_or_the_whole_record() {
    let script = vec![
        Step::calls([("c1", "read_file", json!({"path": "stock.txt"}))]).with_text("I look"),
        Step::text("四十二"),
        note("c2", "x"),
    ];
    let house = House::with(script).await;
    std::fs::write(house.shop.path().join("stock.txt"), "42\n").unwrap();
    house.expect(&["run", "how many?", "--session", "s1", "--system", "be brief"], 0).await;
    house.expect(&["run", "note it", "--resume", "s1"], 4).await;

    let lines = house.expect(&["sessions", "export", "s1", "--as", "messages"], 0).await.stdout;
    let messages: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"]);
    assert_eq!((&messages[2]["content"], &messages[2]["tool_calls"][0]["id"]), (&json!("I look"), &json!("c1")));
    assert_eq!((&messages[3]["tool_call_id"], &messages[4]["content"]), (&json!("c1"), &json!("四十二")));
    assert!(messages[7]["content"].as_str().unwrap().contains("outcome_unknown"), "{}", messages[7]);
    assert_eq!(
        messages[..6],
        house.server.requests()[2]["messages"].as_array().unwrap()[..],
        "as the model was sent them"
    );

    let record = house.expect(&["sessions", "export", "s1", "--as", "record"], 0).await.json();
    assert_eq!(
        (&record["tollgate_session"], &record["name"], &record["system"]),
        (&json!(1), &json!("s1"), &json!("be brief"))
    );
    assert_eq!((&record["caller"]["subject"], &record["steps"][0]["strategy"]), (&json!("bob"), &json!("react")));
    let read = &record["steps"][1];
    assert_eq!((&read["seq"], &read["event"], &read["usage"]["input_tokens"]), (&json!(2), &json!("turn"), &json!(20)));
    let attempt = read["outcomes"][0]["result"]["attempt"].as_str().unwrap();
    let finished = house.shop.ledger().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert!(finished.into_iter().any(|line| line["attempt"] == attempt && line["call_id"] == "c1"), "{attempt}");
    let open = &record["steps"][4]["outcomes"][0];
    assert!(open["approval"].is_string() && open["result"].is_null() && open["idempotency_key"].is_string(), "{open}");

    let shown = house.expect(&["--format", "text", "sessions", "show", "s1"], 0).await.stdout;
    let end: String = attempt.chars().skip(24).collect();
    for part in [format!("done (attempt {end}): 42"), "turn 1 · 20 + 10 tokens".into(), "audit query --session".into()]
    {
        assert!(shown.contains(&part), "{part}: {shown}");
    }
    house.expect(&["audit", "show", &end], 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_is_a_recording() {
    let read = Step::calls([("c1", "read_file", json!({"path": "stock.txt"}))]);
    let house = House::with(vec![read, Step::text("42 left"), note("c2", "x")]).await;
    std::fs::write(house.shop.path().join("stock.txt"), "42\n").unwrap();
    house.expect(&["run", "how many?", "--session", "s1"], 0).await;
    let export = house.expect(&["sessions", "export", "s1"], 0).await.stdout;
    assert_eq!(export.lines().count(), 6, "{export}");
    std::fs::write(house.shop.path().join("run.jsonl"), &export).unwrap();
    let replayed = house.expect(&["run", "--replay", "run.jsonl"], 0).await;
    assert_eq!(last_event(&replayed)["text"], "42 left");
    std::fs::write(house.shop.path().join("stock.txt"), "7\n").unwrap();
    house.expect(&["run", "--replay", "run.jsonl"], 1).await;
    assert_eq!(house.expect(&["sessions", "list"], 0).await.json().as_array().unwrap().len(), 1, "a replay is none");

    // A call that waits has no line yet, and the turn cannot be copied.
    house.expect(&["run", "note", "--resume", "s1"], 4).await;
    assert_eq!(house.expect(&["sessions", "export", "s1"], 0).await.stdout.lines().count(), 8);
    house.expect(&["sessions", "fork", "s1", "--turn", "3"], 2).await;
    let status = house.expect(&["sessions", "list"], 0).await.json()[0]["status"].clone();
    assert_eq!(status, json!("waiting"));
    let shown = house.expect(&["--format", "text", "sessions", "show", "s1"], 0).await.stdout;
    assert!(shown.contains("waits for approval "), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_injected_secret_is_not_kept() {
    const SECRET: &str = "zq-injected-secret-4711";
    let house = House::with(vec![note("c1", SECRET), Step::text("done")]).await;
    let config = format!("{}\n[env]\nDEPLOY_TOKEN = {{ env = \"TEST_DEPLOY\" }}\n", config(&house.server.base_url()));
    std::fs::write(house.shop.path().join("tollgate.toml"), config).unwrap();
    let run = |args: &[&str]| {
        let mut command = house.shop.command(args);
        command.env("TEST_DEPLOY", SECRET);
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let first = run(&["run", &format!("deploy with {SECRET}"), "--session", "s1"]).await.unwrap();
    assert_eq!(first.status.code(), Some(4), "{}", String::from_utf8_lossy(&first.stderr));
    for file in ["store.db", "store.db-wal"] {
        let bytes = std::fs::read(house.shop.path().join(".tollgate").join(file)).unwrap_or_default();
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{file}");
    }
    // What is stored is not what was asked for: it is not run in its place, approved or not.
    let id = house.expect(&["approvals", "list"], 0).await.json()[0]["id"].as_str().unwrap().to_owned();
    house.expect(&["approvals", "approve", &id], 0).await;
    let second = run(&["run", "--resume", "s1"]).await.unwrap();
    assert_eq!(second.status.code(), Some(0), "{}", String::from_utf8_lossy(&second.stderr));
    assert!(house.told("c1").contains("held a secret"), "{}", house.told("c1"));
    assert_eq!(house.ran().len(), 0);
    house.server.assert_clean();
}
