//! Anthropic's wire from end to end: the loop and its client against a server that checks what the provider would.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_agent::{Agent, Answer, Hosted, ModelClient, ModelConfig, ModelError, Options, RunError};
use tollgate_testkit::RecordingDoor;
use tollgate_testkit::model::{ModelServer, Step};
use tollgate_types::{CancellationToken, Permission, Risk, Secret};
use tollgate_wire::{Dialect, Finish, Target};

use crate::door::{caller, recording as door};

const KEY: &str = "sk-ant-very-secret";

fn config(server: &ModelServer) -> ModelConfig {
    let wire = RawValue::from_string(r#"{"type":"web_search_20250305","name":"web_search"}"#.into()).unwrap();
    let search = Hosted::new("web_search", Risk::Read, Permission::Network, wire);
    let base = ModelConfig::new(server.base_url(), "claude");
    ModelConfig {
        target: Target::of(Dialect::Anthropic),
        api_key: Some(Secret::new(KEY)),
        hosted: vec![search],
        cache: true,
        ..base
    }
}

async fn ask(
    door: &Arc<RecordingDoor>,
    config: ModelConfig,
    options: Options,
    prompts: &[&str],
) -> Vec<Result<Answer, RunError>> {
    let model = Arc::new(ModelClient::new(config).unwrap());
    let mut agent = Agent::new(door.clone(), caller(), model, options);
    let mut answers = Vec::new();
    for prompt in prompts {
        answers.push(agent.ask(prompt, &CancellationToken::new(), &mut |_| {}).await);
    }
    answers
}

fn thought(text: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": "c2lnbmF0dXJl" })
}

fn blocks(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

/// The server refuses a request whose thoughts did not come back, whose results are late, apart or of the wrong kind.
#[tokio::test]
async fn a_run_with_thoughts_calls_errors_and_images() {
    for stream in [true, false] {
        let hidden = json!({ "type": "redacted_thinking", "data": "ZW5j" });
        let calls = [("t1", "echo", json!({"q": "无线键盘"})), ("t2", "fail", json!({})), ("t3", "draw", json!({}))];
        let server = ModelServer::start(vec![
            Step::calls(calls).with_text("先看看。").with_parts([thought("想一想 🙂"), hidden]),
            Step::calls([("t4", "echo", json!({"n": 7_512_292_042_121_000_001_u64}))]).with_parts([thought("again")]),
            Step::text("好了"),
            Step::text("you are welcome"),
        ])
        .await;
        let door = door();
        let options = Options { system: Some("be brief".to_owned()), ..Options::default() };
        let answers = ask(&door, ModelConfig { stream, ..config(&server) }, options, &["go", "thanks"]).await;
        let answer = answers[0].as_ref().unwrap();
        assert_eq!((answer.text.as_str(), answer.rounds), ("好了", 3));
        assert_eq!((answer.usage.input_tokens, answer.usage.cached_input_tokens), (60, 9));
        assert_eq!(answers[1].as_ref().unwrap().text, "you are welcome");
        server.assert_clean();
        assert_eq!(server.authorizations()[0].as_deref(), Some(KEY));
        let requests = server.requests();
        assert_eq!(requests[0]["system"][0]["text"], "be brief");
        let said = requests[2]["messages"].as_array().unwrap();
        assert_eq!(blocks(&said[1]), ["thinking", "redacted_thinking", "text", "tool_use", "tool_use", "tool_use"]);
        assert_eq!(blocks(&said[2]), ["tool_result", "tool_result", "tool_result"]);
        assert_eq!((&said[2]["content"][1]["is_error"], said[2]["content"][0].get("is_error")), (&json!(true), None));
        assert_eq!(said[2]["content"][2]["content"][1]["source"]["data"], "aGk=");
        assert_eq!(said[3]["content"][1]["input"]["n"], 7_512_292_042_121_000_001_u64);
        assert_eq!(said[4]["content"][0]["cache_control"], json!({ "type": "ephemeral" }));
        assert_eq!(requests[2]["tools"].as_array().unwrap().len(), 4);
        assert_eq!(door.calls().len(), 4);
    }
}

/// A pause is no end: what was said goes back as it is, until the limit of rounds.
#[tokio::test]
async fn a_paused_turn_goes_on_within_the_rounds() {
    let search =
        |id: &str| json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tea"} });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let paused =
        |parts: Vec<Value>| Step::calls(Vec::<(&str, &str, Value)>::new()).with_parts(parts).with_finish("pause_turn");
    let server = ModelServer::start(vec![
        paused(vec![thought("look it up"), search("s1")]),
        Step::text("green").with_parts([found]),
        paused(vec![search("s2")]),
        paused(vec![search("s3")]),
        Step::text("never mind"),
    ])
    .await;
    let door = door();
    let options = Options { rounds_max: 2, ..Options::default() };
    let answers = ask(&door, config(&server), options, &["which tea?", "more", "forget it"]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, "green");
    assert_eq!(answers[0].as_ref().unwrap().finish, Finish::Stop);
    assert!(matches!(answers[1], Err(RunError::BudgetExceeded { .. })), "{:?}", answers[1]);
    assert_eq!(answers[2].as_ref().unwrap().text, "never mind");
    server.assert_clean();
    let requests = server.requests();
    let said = requests[1]["messages"].as_array().unwrap();
    assert_eq!((said.len(), blocks(&said[1])), (2, vec!["thinking", "server_tool_use"]));
    assert_eq!(said[1]["content"][1], search("s1"));
    // What never got a result does not go back in the middle.
    let said = requests[4]["messages"].as_array().unwrap();
    assert_eq!(blocks(&said[1]), ["thinking", "server_tool_use", "web_search_tool_result", "text"]);
    assert_eq!((said.len(), blocks(&said[2])), (3, vec!["text", "text"]));
    let observed: Vec<_> = door.observed().iter().map(|call| (call.id.to_string(), call.result.is_some())).collect();
    assert_eq!(observed[..2], [("s1".to_owned(), false), ("s1".to_owned(), true)]);
}

#[tokio::test]
async fn calls_that_are_not_whole_do_not_run() {
    let broken = Step::calls([("t1", "echo", json!("{\"q\": \"half"))]);
    let server = ModelServer::start(vec![
        broken.clone().with_finish("max_tokens"),
        broken.clone(),
        Step::calls([("t3", "echo", json!({}))]).with_finish("refusal"),
        Step::text("sorry"),
    ])
    .await;
    let door = door();
    let answers = ask(&door, config(&server), Options::default(), &["go"]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, "sorry");
    server.assert_clean();
    let said = server.requests()[3]["messages"].as_array().unwrap().clone();
    for at in [2, 4, 6] {
        let result = &said[at]["content"][0];
        assert_eq!((&result["type"], &result["is_error"]), (&json!("tool_result"), &json!(true)));
        assert!(result["content"].as_str().unwrap().contains("invalid_json"), "{result}");
    }
    // What was cut is answered by the door, which runs nothing.
    assert!(door.calls().iter().filter(|(_, call)| call.refusal.is_none()).count() <= 1);
}

#[tokio::test]
async fn overload_passes_and_errors_name_their_request() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let refused = r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}"#;
    let json_type = ("content-type", "application/json");
    let server = ModelServer::start(vec![
        Step::status(529, &[json_type], overloaded),
        Step::raw_sse(vec![overloaded.to_owned()]),
        Step::text("here"),
        Step::status(400, &[json_type, ("request-id", "req_011")], refused),
    ])
    .await;
    let answers = ask(&door(), config(&server), Options::default(), &["go", "again"]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, "here");
    let error = answers[1].as_ref().unwrap_err();
    assert!(matches!(error, RunError::Model(ModelError::Status { status: 400, .. })), "{error:?}");
    assert!(error.to_string().contains("max_tokens: too large (request `req_011`)"), "{error}");
    server.assert_clean();
}
