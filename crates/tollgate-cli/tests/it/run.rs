//! `tollgate run` against a model double that checks the protocol on every message.

use serde_json::{Value, json};
use tollgate_testkit::model::{ModelServer, Step};

use crate::shop::{Done, Shop};

fn config(server: &ModelServer) -> String {
    format!(
        "[models.default]\nbase_url = \"{}\"\nmodel = \"scripted\"\nfirst_byte_timeout_ms = 500\nidle_timeout_ms = 500\n",
        server.base_url()
    )
}

async fn run(shop: &Shop, args: &[&str]) -> Done {
    let mut command = shop.command(args);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    output.await.unwrap().into()
}

fn events(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_works_with_the_tools() {
    let server = ModelServer::start(vec![
        Step::calls([
            ("call_1", "calculate", json!({"expression": "34817 * 293"})),
            ("call_2", "read_file", json!({"path": "说明.txt"})),
        ]),
        Step::text("答案是 10201381。"),
    ])
    .await;
    let shop = Shop::with(&config(&server));
    std::fs::write(shop.path().join("说明.txt"), "你好\n").unwrap();
    let done = run(&shop, &["run", "34817 × 293 = ?", "--json"]).await;
    assert_eq!(done.code, 0, "{}", done.stderr);
    server.assert_clean();
    let kinds: Vec<String> = events(&done).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.first().unwrap(), "run_started");
    assert_eq!(kinds.last().unwrap(), "answer");
    assert_eq!(kinds.iter().filter(|kind| *kind == "call_finished").count(), 2);
    assert_eq!(events(&done).last().unwrap()["text"], "答案是 10201381。");
    let asked = server.requests();
    let results: Vec<&Value> =
        asked[1]["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!((&results[0]["tool_call_id"], &results[0]["content"]), (&json!("call_1"), &json!("10201381")));
    assert!(results[1]["content"].as_str().unwrap().contains("你好"));
    let callers: Vec<Value> = shop.ledger().iter().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    assert!(callers.iter().all(|record| record["caller"]["surface"] == "agent"));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_fail_are_named() {
    let refused = || vec![Step::status(429, &[("retry-after", "0")], "slow down"); 5];
    let cases: Vec<(Vec<Step>, i32, &str)> = vec![
        (vec![Step::hang()], 1, "500 ms"),
        (vec![Step::hang_mid_stream(vec![])], 1, "500 ms"),
        (
            vec![Step::close_mid_stream(vec![r#"{"choices":[{"index":0,"delta":{"content":"ha"}}]}"#.into()])],
            1,
            "broke off",
        ),
        (vec![Step::html("<html><body>Bad gateway</body></html>")], 1, "html"),
        (refused(), 3, "429"),
        (vec![Step::status(401, &[], r#"{"error":{"message":"bad key"}}"#)], 1, "401"),
    ];
    for (script, code, part) in cases {
        let server = ModelServer::start(script).await;
        let shop = Shop::with(&config(&server));
        let done = run(&shop, &["--format", "text", "run", "hello"]).await;
        assert_eq!(done.code, code, "{part}: {} {}", done.stdout, done.stderr);
        let told = done.stderr.to_lowercase();
        assert!(told.contains(part), "{part}: {}", done.stderr);
        assert!(told.contains("hint:"), "{part}: {}", done.stderr);
    }
    let shop = Shop::with("[models.default]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n");
    let done = run(&shop, &["--format", "text", "run", "hello"]).await;
    assert!(done.code == 1 && done.stderr.contains("127.0.0.1:9"), "{}", done.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_did_not_finish_writing_is_recorded_and_not_run() {
    let cut = Step::calls([("c1", "write_file", json!({"path": "a.md", "content": "# Ti"}))]).with_finish("length");
    let server = ModelServer::start(vec![cut, Step::text("sorry")]).await;
    let shop = Shop::with(&config(&server));
    assert_eq!(run(&shop, &["run", "write"]).await.code, 0);
    server.assert_clean();
    assert!(!shop.path().join("a.md").exists());
    let finished: Value = serde_json::from_str(shop.ledger().last().unwrap()).unwrap();
    assert_eq!((&finished["event"], &finished["outcome"]["status"]), (&json!("finished"), &json!("refused")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_replayed_without_a_model() {
    let script = vec![Step::calls([("c1", "read_file", json!({"path": "stock.txt"}))]), Step::text("42 left")];
    let server = ModelServer::start(script).await;
    let shop = Shop::with(&config(&server));
    std::fs::write(shop.path().join("stock.txt"), "42\n").unwrap();
    assert_eq!(run(&shop, &["run", "how many?", "--record", "run.jsonl"]).await.code, 0);
    assert_eq!(run(&shop, &["run", "how many?", "--record", "run.jsonl"]).await.code, 2, "nothing is written over");
    drop(server);
    let same = run(&shop, &["--format", "text", "run", "--replay", "run.jsonl"]).await;
    assert_eq!(same.code, 0, "{} {}", same.stdout, same.stderr);
    assert_eq!(same.stdout, "42 left\n", "the answer and nothing else");
    std::fs::write(shop.path().join("stock.txt"), "7\n").unwrap();
    let other = run(&shop, &["--format", "text", "run", "--replay", "run.jsonl"]).await;
    assert_eq!(other.code, 1);
    assert!(other.stderr.contains("recorded: 42") && other.stderr.contains("now:      7"), "{}", other.stderr);
    std::fs::write(shop.path().join("broken.jsonl"), "{\"tollgate_recording\":1}\nnonsense\n").unwrap();
    let broken = run(&shop, &["run", "--replay", "broken.jsonl"]).await;
    assert!(broken.code == 2 && broken.stderr.contains("broken.jsonl:2"), "{}", broken.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on() {
    let server = ModelServer::start(vec![Step::text("one"), Step::text("two")]).await;
    let shop = Shop::with(&config(&server));
    let shop_path = std::sync::Arc::new(shop);
    let for_task = std::sync::Arc::clone(&shop_path);
    let done =
        tokio::task::spawn_blocking(move || for_task.fed(&["run"], "first\n\nsecond\n".as_bytes())).await.unwrap();
    assert_eq!(done.code, 0, "{}", done.stderr);
    server.assert_clean();
    assert_eq!(server.requests()[1]["messages"].as_array().unwrap().len(), 3, "the second prompt knows the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_choice_goes_out_and_is_reset() {
    for (given, sent) in
        [("required", json!("required")), ("calculate", json!({"type": "function", "function": {"name": "calculate"}}))]
    {
        let script = vec![Step::calls([("c", "calculate", json!({"expression": "1"}))]), Step::text("1")];
        let server = ModelServer::start(script).await;
        let shop = Shop::with(&config(&server));
        assert_eq!(run(&shop, &["run", "go", "--tool-choice", given]).await.code, 0);
        let asked = server.requests();
        assert_eq!(asked[0]["tool_choice"], sent);
        assert!(asked[1].get("tool_choice").is_none_or(|choice| choice == "auto"));
    }
    let server = ModelServer::start(vec![Step::text("no tools")]).await;
    let shop = Shop::with(&config(&server));
    assert_eq!(run(&shop, &["run", "go", "--tool-choice", "none"]).await.code, 0);
    server.assert_clean();
}
