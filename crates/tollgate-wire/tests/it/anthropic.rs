//! The shared cases of Anthropic's wire.

use serde_json::{Value, json};
use tollgate_wire::{Dialect, Finish, History, Lowered, Message, ModelCall, Names, Request, Stream, Turn, read_reply};

use crate::{cases, check_turn};

fn read(input: &Value) -> Turn {
    let tools = input["tools"].as_array().into_iter().flatten();
    let names = Names::in_dialect(Dialect::Anthropic, tools.map(|tool| tool["name"].as_str().unwrap()));
    if let Some(response) = input.get("response") {
        return read_reply(Dialect::Anthropic, response.to_string().as_bytes(), &names).unwrap();
    }
    let mut events = input["events"].as_array().unwrap().clone();
    // The cases leave out how a message ends where it does not matter; a server never does.
    if events.last().is_none_or(|event| event["type"] != "message_stop") {
        events.push(json!({"type": "message_stop"}));
    }
    let mut stream = Stream::new(Dialect::Anthropic);
    for event in events {
        stream.push(format!("data: {event}\n\n").as_bytes(), &mut |_| {}).unwrap();
    }
    stream.finish(&names).unwrap()
}

fn body(messages: &[Message]) -> Value {
    let tools = Lowered::default();
    let body = Request::new("m", messages, &tools).to_body(Dialect::Anthropic).unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn replies_streams_and_bodies() {
    for case in cases(include_str!("../cases/anthropic.jsonl")) {
        let (id, input, expected) = (&case["id"], &case["input"], &case["expected"]);
        match expected["outcome"].as_str().unwrap() {
            "continue_loop" => {
                let turn = read(input);
                assert_eq!((&turn.finish, turn.calls.len()), (&Finish::Paused, 0), "{id}");
                let body = body(&[Message::user("go"), Message::assistant(&turn)]);
                let said = body["messages"].as_array().unwrap();
                assert_eq!((said.len(), &said[1]["content"]), (2, &input["response"]["content"]), "{id}");
            }
            "error_to_model" if expected.get("code").is_none() => {
                let turn = read(input);
                assert!(turn.calls.iter().all(|call| call.refusal.is_some()) && !turn.calls.is_empty(), "{id}");
            }
            "transform_outbound" => transformed(&case),
            _ => check_turn(&case, &read(input)),
        }
    }
}

fn transformed(case: &Value) {
    let call = ModelCall { id: "toolu_1".into(), name: "f".into(), ..ModelCall::default() };
    let turn = Turn { calls: vec![call], ..Turn::default() };
    let parts = case["input"]["user_message_parts"].as_array().unwrap().iter().map(|part| part.as_str().unwrap());
    let said = parts.map(|part| match part.split_once(": ") {
        Some(("text", text)) => Message::user(text),
        _ => Message::tool("toolu_1", "1", false),
    });
    let mut messages = vec![Message::assistant(&turn)];
    messages.extend(said);
    let mut repaired = History::from(messages.clone());
    repaired.repair();
    for messages in [messages.as_slice(), repaired.messages()] {
        let body = body(messages);
        let said = body["messages"].as_array().unwrap();
        let kinds: Vec<&Value> = said[1]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!((said.len(), json!(kinds)), (2, case["expected"]["order"].clone()), "{}", case["id"]);
    }
}
