//! The shared cases of Gemini's wire.

use serde_json::{Value, json};
use tollgate_wire::{Dialect, Lowered, Message, ModelCall, Names, Request, Stream, Turn, WireFault, read_reply};

use crate::{cases, check_turn};

/// The reply of a case; where it says no more than the parts, they are a whole turn.
fn read(input: &Value) -> Result<Turn, WireFault> {
    let tools = input["tools"].as_array().into_iter().flatten();
    let names = Names::in_dialect(Dialect::Gemini, tools.map(|tool| tool["name"].as_str().unwrap()));
    if let Some(response) = input.get("response") {
        return read_reply(Dialect::Gemini, response.to_string().as_bytes(), &names);
    }
    let parts = input.get("response_parts").unwrap_or(&input["parts"]).as_array().unwrap();
    if input["wire"] == "gemini" {
        let reply = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
        return read_reply(Dialect::Gemini, reply.to_string().as_bytes(), &names);
    }
    let mut stream = Stream::new(Dialect::Gemini);
    for part in parts {
        let event = json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
        stream.push(format!("data: {event}\n\n").as_bytes(), &mut |_| {})?;
    }
    stream.push(b"data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n", &mut |_| {})?;
    stream.finish(&names)
}

fn contents(messages: &[Message]) -> Vec<Value> {
    let tools = Lowered::default();
    let body = Request::new("m", messages, &tools).to_body(Dialect::Gemini).unwrap();
    serde_json::from_slice::<Value>(&body).unwrap()["contents"].as_array().unwrap().clone()
}

/// The turn as it goes back after it was stored and read again.
fn replayed(turn: &Turn) -> Vec<Value> {
    let stored: Turn = serde_json::from_str(&json!(turn).to_string()).unwrap();
    let results = stored.calls.iter().map(|call| Message::tool(&call.id, "1", false));
    let messages: Vec<Message> =
        [Message::user("go"), Message::assistant(&stored)].into_iter().chain(results).collect();
    let contents = contents(&messages);
    assert_eq!(contents[2]["parts"].as_array().unwrap().len(), turn.calls.len());
    contents[1]["parts"].as_array().unwrap().clone()
}

#[test]
fn replies_streams_and_bodies() {
    for case in cases(include_str!("../cases/gemini.jsonl")) {
        let (id, input, expected) = (&case["id"], &case["input"], &case["expected"]);
        match expected["outcome"].as_str().unwrap() {
            "fail_turn" => {
                let fault = read(input).unwrap_err();
                let WireFault::Ended { word, is_retryable, .. } = &fault else { panic!("{id}: {fault:?}") };
                assert_eq!(*word, input["response"]["candidates"][0]["finishReason"], "{id}");
                assert_eq!(expected["retryable"], *is_retryable, "{id}");
            }
            "transform_outbound" => transformed(&case),
            "continue_loop" => {
                let parts = replayed(&read(input).unwrap());
                assert_eq!(parts, *input["response_parts"].as_array().unwrap(), "{id}");
                let signatures: Vec<Value> = parts.iter().map(|part| part["thoughtSignature"].clone()).collect();
                let expected = expected.get("signatures_replayed").cloned();
                let expected =
                    expected.unwrap_or_else(|| json!([case["expected"]["replayed_part_has"]["thoughtSignature"]]));
                assert_eq!(json!(signatures), expected, "{id}");
            }
            _ => {
                let turn = read(input).unwrap();
                check_turn(&case, &turn);
                let executions = expected.get("executions").cloned().unwrap_or_else(|| json!(1));
                assert_eq!(json!(turn.calls.len()), executions, "{id}");
            }
        }
    }
}

fn transformed(case: &Value) {
    let count = case["input"]["calls"].as_u64().unwrap();
    let ids: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
    let calls = ids.iter().map(|id| ModelCall { id: id.clone(), name: format!("f_{id}"), ..ModelCall::default() });
    let turn = Turn { calls: calls.collect(), ..Turn::default() };
    let results = ids.iter().map(|id| Message::tool(id, "1", false));
    let messages: Vec<Message> = [Message::user("go"), Message::assistant(&turn)].into_iter().chain(results).collect();
    let contents = contents(&messages);
    assert_eq!(json!(contents.len() - 2), case["expected"]["contents"], "{}", case["id"]);
    let names = |content: &Value, kind: &str| -> Vec<Value> {
        content["parts"].as_array().unwrap().iter().map(|part| part[kind]["name"].clone()).collect()
    };
    let asked = names(&contents[1], "functionCall");
    assert_eq!(json!(asked.len()), case["expected"]["functionResponse_parts"], "{}", case["id"]);
    assert_eq!(asked, names(&contents[2], "functionResponse"), "{}", case["id"]);
}
