//! Gemini's wire from end to end: the loop and its client against a server that checks what the provider would.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_agent::{Agent, Answer, Event, Hosted, ModelClient, ModelConfig, Options, RunError};
use tollgate_testkit::RecordingDoor;
use tollgate_testkit::model::{ModelServer, Step};
use tollgate_types::{CancellationToken, Code, ErrorObject, Permission, Risk, Secret};
use tollgate_wire::{Dialect, Target, ToolChoice};

use crate::door::{caller, recording as door};

const KEY: &str = "AIza-very-secret";

fn config(server: &ModelServer) -> ModelConfig {
    let wire = RawValue::from_string(r#"{"googleSearch":{}}"#.into()).unwrap();
    let search = Hosted::new("googleSearch", Risk::Read, Permission::Network, wire);
    let base = ModelConfig::new(server.base_url(), "gemini-3-pro");
    ModelConfig { target: Target::of(Dialect::Gemini), api_key: Some(Secret::new(KEY)), hosted: vec![search], ..base }
}

async fn ask(
    door: &Arc<RecordingDoor>,
    config: ModelConfig,
    options: Options,
    prompts: &[&str],
) -> (Vec<Result<Answer, RunError>>, Vec<Event>) {
    let model = Arc::new(ModelClient::new(config).unwrap());
    let mut agent = Agent::new(door.clone(), caller(), model, options);
    let (mut answers, mut events) = (Vec::new(), Vec::new());
    for prompt in prompts {
        answers.push(agent.ask(prompt, &CancellationToken::new(), &mut |event| events.push(event.clone())).await);
    }
    (answers, events)
}

fn thought(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

/// The server refuses a request whose turns did not come back part by part, whose results are apart, too few, in another
/// order or of another id, or whose first call has no signature.
#[tokio::test]
async fn a_run_with_thoughts_calls_errors_and_images() {
    for stream in [true, false] {
        let calls = [
            ("", "echo", json!({"q": "无线键盘"})),
            ("", "fail", json!({})),
            ("g3", "draw", json!({})),
            ("", "echo", json!({"q": "again"})),
        ];
        let code = json!({ "executableCode": { "language": "PYTHON", "code": "print(1)" } });
        let ran = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1\n" } });
        let signed = json!({ "text": "so", "thoughtSignature": "ZW5k" });
        let server = ModelServer::start(vec![
            Step::calls(calls).with_text("先看看。").with_parts([thought("想一想 🙂"), code, ran]),
            Step::calls([("", "echo", json!({"n": 7_512_292_042_121_000_001_u64}))]).with_parts([signed]),
            Step::text("好了"),
            Step::text("you are welcome"),
        ])
        .await;
        let door = door();
        let options = Options { system: Some("be brief".to_owned()), ..Options::default() };
        let (answers, events) = ask(&door, ModelConfig { stream, ..config(&server) }, options, &["go", "thanks"]).await;
        let answer = answers[0].as_ref().unwrap();
        assert_eq!((answer.text.as_str(), answer.rounds), ("好了", 3));
        assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (60, 30));
        assert_eq!((answer.usage.cached_input_tokens, answer.usage.reasoning_tokens), (9, 12));
        assert_eq!(answers[1].as_ref().unwrap().text, "you are welcome");
        server.assert_clean();
        assert_eq!(server.authorizations()[0].as_deref(), Some(KEY));
        let requests = server.requests();
        assert_eq!(requests[0]["systemInstruction"]["parts"][0]["text"], "be brief");
        assert_eq!(requests[0]["tools"][1], json!({"googleSearch": {}}));
        let results = &requests[1]["contents"][2]["parts"];
        let response = |at: usize| &results[at]["functionResponse"];
        assert!(response(0)["response"]["output"].as_str().unwrap().contains("无线键盘"));
        assert!(response(1)["response"]["error"].as_str().unwrap().contains("it is broken"));
        assert_eq!(response(2)["parts"][0]["inlineData"]["data"], "aGk=");
        assert!(response(3)["response"]["output"].as_str().unwrap().contains("again"));
        assert_eq!(requests[2]["contents"][3]["parts"][1]["functionCall"]["args"]["n"], 7_512_292_042_121_000_001_u64);
        assert_eq!(door.calls().len(), 5);
        let observed = door.observed();
        assert_eq!((observed.len(), observed[0].tool.name.as_str()), (1, "hosted__codeExecution"));
        let shown: String = events
            .iter()
            .filter_map(|event| match event {
                Event::TextDelta { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(shown, "先看看。so好了you are welcome", "thoughts are no text");
    }
}

#[tokio::test]
async fn choices_arrive_and_return_to_auto() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let config_of = |body: &Value| body["toolConfig"]["functionCallingConfig"].clone();
    for (tool_choice, first, then) in [
        (ToolChoice::Required, json!({"mode": "ANY"}), json!({"mode": "AUTO"})),
        (
            ToolChoice::Named("echo".to_owned()),
            json!({"mode": "ANY", "allowedFunctionNames": ["echo"]}),
            json!({"mode": "AUTO"}),
        ),
        (
            ToolChoice::Allowed { required: true, tools: names(&["echo", "draw"]) },
            json!({"mode": "ANY", "allowedFunctionNames": ["echo", "draw"]}),
            json!({"mode": "VALIDATED", "allowedFunctionNames": ["echo", "draw"]}),
        ),
    ] {
        let server = ModelServer::start(vec![Step::calls([("", "echo", json!({}))]), Step::text("done")]).await;
        let options = Options { tool_choice, ..Options::default() };
        let (answers, _) = ask(&door(), config(&server), options, &["go"]).await;
        assert_eq!(answers[0].as_ref().unwrap().text, "done");
        server.assert_clean();
        let requests = server.requests();
        assert_eq!((config_of(&requests[0]), config_of(&requests[1])), (first, then));
    }
}

/// A turn that the server could not end well is asked for again; one that no asking mends says what to do.
#[tokio::test]
async fn a_turn_that_ended_badly_is_told() {
    let ended = |word: &str| Step::raw_json(json!({"candidates": [{"content": {}, "finishReason": word}]}));
    let server = ModelServer::start(vec![
        ended("MALFORMED_FUNCTION_CALL"),
        Step::text("here"),
        ended("MISSING_THOUGHT_SIGNATURE"),
        Step::raw_json(json!({"promptFeedback": {"blockReason": "SAFETY"}})),
        Step::raw_json(json!([{"candidates": [{"content": {"parts": [{"text": "listed"}]}, "finishReason": "STOP"}]}])),
        Step::calls([("", "echo", json!({}))]).with_finish("MAX_TOKENS"),
        Step::text("sorry"),
    ])
    .await;
    let door = door();
    let (answers, _) = ask(&door, config(&server), Options::default(), &["a", "b", "c", "d", "e"]).await;
    assert_eq!(answers[0].as_ref().unwrap().text, "here");
    for (answer, word, hint) in [
        (&answers[1], "MISSING_THOUGHT_SIGNATURE", "begin a new session"),
        (&answers[2], "prompt blocked: SAFETY", "safetySettings"),
    ] {
        let error = ErrorObject::from(answer.as_ref().unwrap_err());
        assert_eq!((error.error, error.retryable), (Code::UpstreamError, false), "{word}");
        assert!(error.message.contains(word), "{}", error.message);
        assert!(error.hint.unwrap().contains(hint), "{word}");
    }
    assert_eq!(answers[3].as_ref().unwrap().text, "listed");
    assert_eq!(answers[4].as_ref().unwrap().text, "sorry");
    server.assert_clean();
    // What was cut is answered by the door, which runs nothing.
    assert!(door.calls().iter().all(|(_, call)| call.refusal.is_some()));
}
