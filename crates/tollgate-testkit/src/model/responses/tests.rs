//! Whole conversations pass; each breach is named.

use serde_json::json;

use super::*;
use crate::model::step::{Say, Step};

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": text })
}

fn call(id: &str) -> Value {
    json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "calculate", "arguments": "{}" })
}

fn answer(id: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": id, "output": "1" })
}

fn thought() -> Value {
    json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA==" })
}

fn turn(calls: &[&str], parts: &[Value]) -> Turn {
    let step = Step::calls(calls.iter().map(|id| (*id, "calculate", json!({})))).with_parts(parts.to_vec());
    let Say::Turn(turn) = step.0 else { return Turn::default() };
    turn
}

fn body(input: &[Value]) -> Value {
    json!({ "model": "m", "input": input })
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

#[test]
fn whole_conversations_pass() {
    let said = [turn(&["a", "b"], &[thought()])];
    let image = json!([{ "type": "input_text", "text": "x" }, { "type": "input_image", "image_url": "data:image/png;base64,AA" }]);
    let shown = json!({ "type": "function_call_output", "call_id": "b", "output": image });
    let whole = [user("hi"), thought(), call("a"), call("b"), answer("a"), shown.clone(), user("and?")];
    let tool = json!({ "type": "function", "name": "calculate", "parameters": { "type": "object", "properties": {} }, "strict": false });
    let custom = json!({ "type": "custom", "name": "run_sql" });
    let choice = json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "custom", "name": "run_sql" }] });
    let tools = with(body(&[user("hi")]), "tools", json!([tool, custom, { "type": "web_search" }]));
    for (name, body) in [
        ("first", body(&[user("hi")])),
        ("text", json!({ "model": "m", "input": "hi" })),
        ("whole", body(&whole)),
        ("what comes after", with(body(&[answer("a"), shown]), "previous_response_id", json!("resp_1"))),
        ("tools", with(tools, "tool_choice", choice)),
    ] {
        assert_eq!(check(&body, &said), Ok(()), "{name}");
    }
}

#[test]
fn breaches_are_named() {
    let said = [turn(&["a"], &[thought()])];
    let whole = || body(&[user("hi"), thought(), call("a"), answer("a")]);
    let on = |input: &[Value]| with(body(input), "previous_response_id", json!("resp_1"));
    let unkept = with(whole(), "store", json!(false));
    let bare = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let shown = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "x" }] });
    let cases = [
        (with(whole(), "messages", json!([])), "`messages` is no parameter"),
        (with(whole(), "max_output_tokens", json!(4)), "`max_output_tokens` cannot be 4"),
        (with(whole(), "include", json!(["all"])), "`include` cannot be"),
        (with(whole(), "tool_choice", json!("auto")), "stands without `tools`"),
        (body(&[]), "`input` is neither"),
        (body(&[user("hi"), call("a")]), "no tool output found for function call `a`"),
        (body(&[user("hi"), answer("z")]), "no tool call found"),
        (body(&[user("hi"), thought(), call("a"), answer("a"), answer("a")]), "again"),
        (body(&[user("hi"), call("a"), answer("a")]), "did not come back"),
        (body(&[user("hi"), thought()]), "without its following item"),
        (body(&[user("hi"), shown]), "without `id` and `status`"),
        (unkept, "items are not persisted"),
        (with(body(&[user("hi"), bare, user("x")]), "store", json!(false)), "items are not persisted"),
        (on(&[user("hi")]), "no tool output found"),
        (on(&[call("a"), answer("a")]), "is in the reply already"),
        (with(whole(), "previous_response_id", json!("resp_7")), "no reply of this server"),
    ];
    for (body, expected) in cases {
        let fault = check(&body, &said).unwrap_err();
        assert!(fault.contains(expected), "{expected}: {fault}");
    }
}
