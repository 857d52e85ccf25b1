//! The shared cases of what models and servers send, as far as a wire can judge them: what a schema or a gate decides
//! is left to those.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod anthropic;
#[path = "../canonical/mod.rs"]
mod canonical;
mod gemini;
mod golden;
mod identity;
mod lies;
mod lower;
mod quirks;
mod responses;
mod soundness;

use serde_json::{Value, json};
use tollgate_types::{Code, RepairLevel};
use tollgate_wire::{Dialect, History, Message, ModelCall, Names, Stream, Turn, read_reply, repair};

fn cases(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(case: &Value) -> Turn {
    let input = &case["input"];
    let tools = input["tools"].as_array().unwrap();
    let names = Names::of(tools.iter().map(|tool| tool["name"].as_str().unwrap()));
    if input["wire"] == "chat" {
        return read_reply(Dialect::Chat, input["response"].to_string().as_bytes(), &names).unwrap();
    }
    let mut stream = Stream::new(Dialect::Chat);
    for chunk in input["chunks"].as_array().unwrap() {
        let data = chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned);
        stream.push(format!("data: {data}\n\n").as_bytes(), &mut |_| {}).unwrap();
    }
    stream.finish(&names).unwrap()
}

type Fault = (Code, Option<String>);

/// The arguments of a call, or the code with which it is answered, and the rules that mended them.
fn settle(call: &ModelCall) -> (Result<Value, Fault>, Vec<String>) {
    if let Some(refusal) = &call.refusal {
        return (Err((refusal.error, refusal.hint.clone())), Vec::new());
    }
    match repair::arguments(&call.arguments, RepairLevel::Lossless) {
        Ok(parsed) => (Ok(parsed.value), parsed.repairs.into_iter().map(|repair| repair.rule).collect()),
        Err(fault) => (Err((fault.code, fault.hint)), Vec::new()),
    }
}

fn check(case: &Value) {
    check_turn(case, &read(case));
}

fn check_turn(case: &Value, turn: &Turn) {
    let (id, expected) = (&case["id"], &case["expected"]);
    let settled: Vec<_> = turn.calls.iter().map(settle).collect();
    if let Some(diagnostic) = expected["diagnostic"].as_str() {
        let known = turn.diagnostics.iter().chain(settled.iter().flat_map(|(_, rules)| rules));
        assert!(known.into_iter().any(|code| code == diagnostic), "{id}: {:?}", turn.diagnostics);
    }
    let arguments = || settled.iter().map(|(value, _)| value.clone().unwrap()).collect::<Vec<_>>();
    match expected["outcome"].as_str().unwrap() {
        "execute" | "repair_then_execute" => {
            for (at, call) in expected["calls"].as_array().into_iter().flatten().enumerate() {
                assert_eq!(call["name"], turn.calls[at].name, "{id}");
                assert!(call.get("id").is_none_or(|id| *id == turn.calls[at].id), "{id}");
                // What the schema decides, the catalog coerces.
                if !case["kind"].as_str().unwrap().starts_with("coerce.") {
                    assert_eq!(call["args"], arguments()[at], "{id}");
                }
            }
            if let Some(calls) = expected["calls"].as_array() {
                assert_eq!(calls.len(), turn.calls.len(), "{id}");
            }
            if let Some(args) = expected.get("call_args_in_order") {
                assert_eq!(*args, json!(arguments()), "{id}");
            }
            if let Some(raw) = expected.get("calls_raw") {
                assert_eq!(*raw, turn.calls[0].arguments, "{id}");
            }
            let mut ids: Vec<_> = turn.calls.iter().map(|call| call.id.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            assert!(ids.len() == turn.calls.len() && !ids.contains(&""), "{id}");
            assert!(expected.get("text").is_none_or(|text| *text == turn.text), "{id}");
        }
        "error_to_model" => {
            let code = match expected["code"].as_str() {
                Some("invalid_json") => Code::InvalidJson,
                Some("truncated_by_max_tokens") => Code::InvalidJson,
                Some("args_not_object") => Code::InvalidArguments,
                // The gate and the catalog refuse these; here they are read as they are.
                Some("tool_not_found" | "invalid_args") | None => return drop(arguments()),
                Some(other) => panic!("{id}: unknown code {other}"),
            };
            let (fault, hint) = settled[0].0.clone().unwrap_err();
            assert_eq!(fault, code, "{id}");
            let is_truncated =
                expected["code"] == "truncated_by_max_tokens" || expected["hint"] == "possibly_truncated";
            assert!(!is_truncated || hint.unwrap().starts_with("possibly truncated"), "{id}");
        }
        "final_text" | "by_policy" => {
            assert!(turn.calls.is_empty() && !turn.text.is_empty(), "{id}");
            let is_suspected = turn.diagnostics.iter().any(|code| code == "text_tool_call_suspected");
            assert_eq!(is_suspected, expected["outcome"] == "by_policy", "{id}");
        }
        other => panic!("{id}: unknown outcome {other}"),
    }
}

#[test]
fn chat_replies() {
    cases(include_str!("../cases/chat.jsonl")).iter().for_each(check);
}

#[test]
fn chat_streams() {
    cases(include_str!("../cases/chat_stream.jsonl")).iter().for_each(check);
}

#[test]
fn mcp_arguments() {
    for case in cases(include_str!("../cases/mcp.jsonl")) {
        let arguments = &case["input"]["call"]["arguments"];
        let parsed = repair::arguments(&arguments.to_string(), RepairLevel::Off).unwrap();
        assert_eq!((&parsed.value, parsed.repairs.len()), (arguments, 0), "{}", case["id"]);
    }
}

#[test]
fn histories() {
    for case in cases(include_str!("../cases/history.jsonl")) {
        let id = &case["id"];
        let input = &case["input"];
        let messages = match input.get("messages").or_else(|| input.get("message")) {
            Some(Value::Array(messages)) => messages.clone(),
            Some(message) => vec![message.clone()],
            None => vec![input["turn"]["choices"][0]["message"].clone()],
        };
        let messages: Vec<Message> = serde_json::from_str(&json!(messages).to_string()).unwrap();
        let mut history = History::from(messages);
        history.repair();
        let calls: usize = history
            .messages()
            .iter()
            .map(|message| match message {
                Message::Assistant { calls, .. } => calls.len(),
                Message::System(_) | Message::User(_) | Message::Tool { .. } => 0,
            })
            .sum();
        let results = history.messages().iter().filter(|message| matches!(message, Message::Tool { .. })).count();
        assert_eq!(calls, results, "{id}");
    }
}
