//! The shared cases of Responses. What a stream leaves out of its end is added here.

use serde_json::{Value, json};
use tollgate_types::{Code, RepairLevel};
use tollgate_wire::{Dialect, Lowered, Message, Names, Request, Stream, Turn, read_reply, repair};

use crate::cases;

fn case(id: &str) -> Value {
    let all = cases(include_str!("../cases/responses.jsonl"));
    all.into_iter().find(|case| case["id"] == id).unwrap()
}

fn names() -> Names {
    Names::of(["lookup"])
}

fn whole(id: &str, output: &Value) -> Turn {
    let reply = json!({"id": id, "status": "completed", "output": output});
    read_reply(Dialect::Responses, reply.to_string().as_bytes(), &names()).unwrap()
}

fn streamed(events: &Value) -> Turn {
    let end = json!({"type": "response.completed", "response": {"id": "resp_1", "output": []}});
    let mut stream = Stream::new(Dialect::Responses);
    for event in events.as_array().unwrap().iter().chain([&end]) {
        stream.push(format!("data: {event}\n\n").as_bytes(), &mut |_| {}).unwrap();
    }
    stream.finish(&names()).unwrap()
}

fn body(messages: &[Message], previous: Option<&str>) -> Value {
    let tools = Lowered::default();
    let request = Request { previous, ..Request::new("m", messages, &tools) };
    serde_json::from_slice(&request.to_body(Dialect::Responses).unwrap()).unwrap()
}

fn answered(body: &Value) -> Vec<&str> {
    let items = body["input"].as_array().unwrap().iter();
    items.filter(|item| item["type"] == "function_call_output").map(|item| item["call_id"].as_str().unwrap()).collect()
}

#[test]
fn arguments_that_are_no_object_are_told_to_the_model() {
    let turn = whole("resp_1", &case("TC-008")["input"]["output"]);
    assert_eq!(
        repair::arguments(&turn.calls[0].arguments, RepairLevel::Lossless).unwrap_err().code,
        Code::InvalidArguments
    );
}

#[test]
fn a_piece_without_its_optional_fields_counts() {
    let case = case("TC-047");
    let turn = streamed(&case["input"]["events"]);
    let expected = &case["expected"]["deltas"][0];
    assert_eq!(turn.calls[0].id, expected["call_id"].as_str().unwrap());
    assert_eq!(turn.calls[0].arguments, expected["fragment"].as_str().unwrap());
    assert!(turn.calls[0].refusal.is_none());
}

#[test]
fn what_is_done_counts() {
    let case = case("TC-048");
    let turn = streamed(&case["input"]["events"]);
    let (call, expected) = (&turn.calls[0], &case["expected"]["calls"][0]);
    assert_eq!((json!(call.id), json!(call.name)), (expected["id"].clone(), expected["name"].clone()));
    assert_eq!(repair::arguments(&call.arguments, RepairLevel::Lossless).unwrap().value, expected["args"]);
    assert_eq!(turn.diagnostics, [case["expected"]["diagnostic"].as_str().unwrap()]);
}

/// One of two calls ran, the other was rejected: both are answered.
#[test]
fn each_of_two_calls_is_answered() {
    let case = case("TC-081");
    let turn = whole("resp_1", &case["input"]["output"]);
    let messages = [
        Message::user("go"),
        Message::assistant(&turn),
        Message::tool("cA", case["input"]["results"]["cA"].as_str().unwrap(), false),
        Message::tool("cB", "rejected", true),
    ];
    for previous in [None, Some("resp_1")] {
        let body = body(&messages, previous);
        assert_eq!(json!(answered(&body)), case["expected"]["next_input_call_ids"]);
    }
}

#[test]
fn only_the_new_result_is_sent() {
    let case = case("TC-082");
    let asks = |id: &str, call: &str| {
        whole(id, &json!([{"type": "function_call", "call_id": call, "name": "lookup", "arguments": "{}"}]))
    };
    let messages = [
        Message::user("go"),
        Message::assistant(&asks("resp_1", "c1")),
        Message::tool("c1", "one", false),
        Message::assistant(&asks("resp_2", "c2")),
        Message::tool("c2", "two", false),
    ];
    let body = body(&messages, Some("resp_2"));
    let expected = &case["expected"]["third_request"];
    assert_eq!(body["previous_response_id"], expected["previous_response_id"]);
    assert_eq!(json!(answered(&body)), expected["input_call_ids"]);
    assert_eq!(body["input"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_server_repeats_of_the_request_does_not_matter() {
    let case = case("TC-091");
    let reply = json!({"id": "r", "status": "completed", "tools": case["input"]["response_echo"]["tools"], "tool_choice": 7,
        "output": [{"type": "function_call", "call_id": "c", "name": "lookup", "arguments": "{}"}]});
    let turn = read_reply(Dialect::Responses, reply.to_string().as_bytes(), &names()).unwrap();
    assert!(turn.calls[0].refusal.is_none());
}
