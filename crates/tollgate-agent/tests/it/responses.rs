//! Responses from end to end: the loop and its client against a server that checks what the provider would.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_agent::{Agent, Answer, ModelClient, ModelConfig, ModelError, Options, RunError};
use tollgate_testkit::RecordingDoor;
use tollgate_testkit::model::{ModelServer, Step};
use tollgate_types::CancellationToken;
use tollgate_wire::{Dialect, Target};

use crate::door::{caller, recording as door};

fn config(server: &ModelServer) -> ModelConfig {
    let base = ModelConfig::new(server.base_url(), "gpt");
    ModelConfig { target: Target::of(Dialect::Responses), ..base }
}

async fn ask(door: &Arc<RecordingDoor>, config: ModelConfig, prompts: &[&str]) -> Vec<Result<Answer, RunError>> {
    let model = Arc::new(ModelClient::new(config).unwrap());
    let options = Options { system: Some("be brief".to_owned()), ..Options::default() };
    let mut agent = Agent::new(door.clone(), caller(), model, options);
    let mut answers = Vec::new();
    for prompt in prompts {
        answers.push(agent.ask(prompt, &CancellationToken::new(), &mut |_| {}).await);
    }
    answers
}

fn thought(id: &str) -> Value {
    json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": "Z0FBQQ==" })
}

fn kinds(request: &Value) -> Vec<&str> {
    request["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

fn script() -> Vec<Step> {
    let calls = [("c1", "echo", json!({"q": "无线键盘 🙂"})), ("c2", "fail", json!({})), ("c3", "draw", json!({}))];
    vec![
        Step::calls(calls).with_text("先看看。").with_parts([thought("rs_1")]),
        Step::calls([("c4", "echo", json!({"n": 7_512_292_042_121_000_001_u64}))]).with_parts([thought("rs_2")]),
        Step::text("好了"),
        Step::text("you are welcome"),
    ]
}

/// The server refuses a request whose thoughts did not come back, or whose calls and results are no pairs.
#[tokio::test]
async fn a_run_with_thoughts_calls_errors_and_images() {
    for (stream, store) in [(true, None), (false, None), (true, Some(false)), (false, Some(true))] {
        let server = ModelServer::start(script()).await;
        let door = door();
        let config = ModelConfig { stream, store, ..config(&server) };
        let answers = ask(&door, config, &["go", "thanks"]).await;
        server.assert_clean();
        let answer = answers[0].as_ref().unwrap();
        assert_eq!((answer.text.as_str(), answer.rounds), ("好了", 3));
        assert_eq!((answer.usage.cached_input_tokens, answer.usage.reasoning_tokens), (24, 12));
        assert_eq!(answers[1].as_ref().unwrap().text, "you are welcome");
        let requests = server.requests();
        let output = "function_call_output";
        let first = ["message", "reasoning", "message", "function_call", "function_call", "function_call"];
        assert_eq!(kinds(&requests[1]), [&first[..], &[output; 3]].concat());
        assert_eq!(requests[2]["instructions"], "be brief");
        assert_eq!(requests[2]["input"][8]["output"][1]["image_url"], "data:image/png;base64,aGk=");
        assert!(requests[2]["input"][7]["output"].as_str().unwrap().contains("it is broken"));
        assert_eq!(requests[2]["input"][10]["arguments"], r#"{"n":7512292042121000001}"#);
        assert_eq!(requests[0].get("include").is_some(), store == Some(false));
        assert_eq!(requests[2]["input"][3].get("id").is_some(), store != Some(false));
        assert_eq!(door.calls().len(), 4);
    }
}

#[tokio::test]
async fn a_stateful_run_sends_only_what_is_new() {
    let server = ModelServer::start(script()).await;
    let answers = ask(&door(), ModelConfig { stateful: true, ..config(&server) }, &["go", "thanks"]).await;
    server.assert_clean();
    assert_eq!(answers[1].as_ref().unwrap().text, "you are welcome");
    let requests = server.requests();
    assert!(requests[0].get("previous_response_id").is_none());
    for (at, previous, expected) in [
        (1, "resp_1", vec!["function_call_output"; 3]),
        (2, "resp_2", vec!["function_call_output"]),
        (3, "resp_3", vec!["message"]),
    ] {
        assert_eq!((&requests[at]["previous_response_id"], kinds(&requests[at])), (&json!(previous), expected));
        assert_eq!(requests[at]["instructions"], "be brief");
    }
}

/// A call that the provider hands back is on record and refused, whole conversation or not, and the model answers.
#[tokio::test]
async fn a_call_that_is_handed_back_is_refused() {
    for stateful in [false, true] {
        let nothing: [(&str, &str, Value); 0] = [];
        let call =
            json!({ "type": "shell_call", "id": "sh_1", "call_id": "c1", "action": { "commands": ["rm -rf /"] } });
        let server = ModelServer::start(vec![Step::calls(nothing).with_parts([call]), Step::text("then not")]).await;
        let door = door();
        let answers = ask(&door, ModelConfig { stateful, ..config(&server) }, &["go"]).await;
        assert_eq!(answers[0].as_ref().unwrap().text, "then not");
        let observed = door.observed();
        assert_eq!((observed.len(), observed[0].tool.name.as_str()), (1, "hosted__shell"));
        assert!(observed[0].is_error && !observed[0].is_offered && observed[0].arguments.contains("rm -rf /"));
        let sent = server.requests()[1]["input"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&sent["type"], &sent["call_id"]), (&json!("shell_call_output"), &json!("c1")));
    }
}

/// However a server says that it no longer has the last reply, it is asked once more with the whole conversation.
#[tokio::test]
async fn a_reply_that_is_gone_is_not_needed() {
    let gone =
        r#"{"error":{"code":"previous_response_not_found","message":"Previous response with id 'resp_1' not found."}}"#;
    let json_type = [("content-type", "application/json")];
    let event = r#"{"type":"error","code":"previous_response_not_found","message":"gone"}"#;
    for refusal in [
        Step::status(400, &json_type, gone),
        Step::status(404, &json_type, gone),
        Step::status(404, &[], "not here"),
        Step::raw_sse(vec![event.to_owned()]),
    ] {
        let calls = Step::calls([("c1", "echo", json!({}))]).with_parts([thought("rs_1")]);
        let server = ModelServer::start(vec![calls, refusal, Step::text("done")]).await;
        let answers = ask(&door(), ModelConfig { stateful: true, ..config(&server) }, &["go"]).await;
        assert_eq!(answers[0].as_ref().unwrap().text, "done");
        server.assert_clean();
        let requests = server.requests();
        assert_eq!(requests[1]["previous_response_id"], "resp_1");
        assert!(requests[2].get("previous_response_id").is_none());
        assert_eq!(kinds(&requests[2]), ["message", "reasoning", "function_call", "function_call_output"]);
        assert!(requests[2]["input"][2].get("id").is_none(), "its ids mean nothing any more");
    }
    // Asked for the whole, a server that does not find something is believed.
    let missing = || Step::status(404, &[], "no such model");
    let server = ModelServer::start(vec![Step::calls([("c1", "echo", json!({}))]), missing(), missing()]).await;
    let answers = ask(&door(), ModelConfig { stateful: true, ..config(&server) }, &["go"]).await;
    assert!(matches!(answers[0], Err(RunError::Model(ModelError::Status { status: 404, .. }))), "{:?}", answers[0]);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn stateful_needs_a_server_that_keeps() {
    let base = || ModelConfig { stateful: true, ..ModelConfig::new("http://127.0.0.1:1/v1", "m") };
    let responses = Target::of(Dialect::Responses);
    for config in [base(), ModelConfig { target: responses, store: Some(false), ..base() }] {
        let error = ModelClient::new(config).map(|_| ()).unwrap_err();
        assert!(matches!(&error, ModelError::Config { reason } if reason.contains("`stateful`")), "{error:?}");
    }
}

#[tokio::test]
async fn calls_that_are_not_whole_do_not_run() {
    let half = Step::calls([("c1", "echo", json!("{\"q\": \"half"))]);
    let script = vec![half.clone().with_finish("length"), half, Step::text("sorry")];
    let server = ModelServer::start(script).await;
    let door = door();
    let answers = ask(&door, config(&server), &["go"]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, "sorry");
    server.assert_clean();
    assert!(door.calls().iter().filter(|(_, call)| call.refusal.is_none()).count() <= 1);
}
