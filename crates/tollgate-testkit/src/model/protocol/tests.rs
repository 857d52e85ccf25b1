//! Whole conversations pass; each breach is named.

use serde_json::json;

use super::*;

fn call(id: &str, arguments: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "calculate", "arguments": arguments } })
}

fn asks(calls: &[Value]) -> Value {
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

fn answers(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "1" })
}

fn tool(name: &str) -> Value {
    let parameters = json!({ "type": "object", "properties": {} });
    json!({ "type": "function", "function": { "name": name, "description": "…", "parameters": parameters } })
}

fn body(messages: &[Value]) -> Value {
    json!({ "model": "m", "messages": messages })
}

fn with(pointer_key: &str, value: Value) -> Value {
    let mut body = body(&[json!({ "role": "user", "content": "hi" })]);
    body[pointer_key] = value;
    body
}

#[test]
fn whole_conversations_pass() {
    let user = json!({ "role": "user", "content": [{ "type": "text", "text": "hi" }] });
    let system = json!({ "role": "system", "content": "" });
    let two = asks(&[call("a", "{}"), call("b", r#"{"x":1}"#)]);
    let again = asks(&[call("a", "{}")]);
    let said = json!({ "role": "assistant", "content": "1" });
    let messages = [system, user.clone(), two, answers("a"), answers("b"), again, answers("a"), said, user];
    let mut body = body(&messages);
    assert_eq!(check(&body), Ok(()));
    body["tools"] = json!([tool("calculate"), tool("x-1")]);
    for choice in
        [json!("auto"), json!("none"), json!("required"), json!({ "type": "function", "function": { "name": "x-1" } })]
    {
        body["tool_choice"] = choice;
        assert_eq!(check(&body), Ok(()));
    }
}

#[test]
fn broken_histories_are_named() {
    let user = json!({ "role": "user", "content": "hi" });
    let a = || asks(&[call("a", "{}"), call("b", "{}")]);
    let cases: &[(&[Value], &str)] = &[
        (&[], "`messages` is empty"),
        (&[json!("hi")], "messages[0] is not an object"),
        (&[json!({ "content": "hi" })], "messages[0] has no `role`"),
        (&[json!({ "role": "function", "content": "hi" })], "unknown role `function`"),
        (&[json!({ "role": "user" })], "messages[0] has no content"),
        (&[json!({ "role": "user", "content": [] })], "messages[0] has no content"),
        (&[json!({ "role": "user", "content": [{}] })], "content part without `type`"),
        (&[json!({ "role": "assistant", "content": null })], "messages[0] has no content"),
        (&[asks(&[])], "`tool_calls` that are not an array with calls"),
        (&[a()], "the call `a` has no answer"),
        (&[a(), answers("a")], "the call `b` has no answer"),
        (&[a(), answers("a"), user.clone()], "messages[2] has the role `user` while the call `b` has no answer"),
        (&[a(), answers("b")], "answers the call `b` before `a`"),
        (&[a(), answers("a"), answers("a")], "messages[2] answers the call `a`, which is not open here"),
        (&[a(), answers("c")], "`c`, which is not open here"),
        (&[user.clone(), answers("a")], "`a`, which is not open here"),
        (&[a(), json!({ "role": "tool", "content": "1" })], "messages[1] has no `tool_call_id`"),
        (&[a(), json!({ "role": "tool", "tool_call_id": "a", "content": { "x": 1 } })], "content is not a string"),
        (&[asks(&[call("a", "{}"), call("a", "{}")])], "messages[0].tool_calls[1] has the id `a` of another call"),
        (&[asks(&[call("", "{}")])], "has no `id`"),
        (&[asks(&[call("a", "{\"x\":")])], "arguments that are not a JSON object"),
        (&[asks(&[call("a", "[]")])], "arguments that are not a JSON object"),
        (&[asks(&[call("a", "")])], "arguments that are not a JSON object"),
        (
            &[asks(&[json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": {} } })])],
            "not a string",
        ),
        (&[asks(&[json!({ "id": "a", "type": "custom" })])], "not of the type `function`"),
    ];
    for (messages, expected) in cases {
        let error = check(&body(messages)).expect_err(expected);
        assert!(error.contains(expected), "{error}\nis not\n{expected}");
    }
}

#[test]
fn broken_tools_and_choices_are_named() {
    let mut nameless = tool("x");
    nameless["function"]["description"] = json!("");
    let mut shapeless = tool("x");
    shapeless["function"]["parameters"] = json!({ "type": "object" });
    let long = "x".repeat(65);
    let mut elsewhere = with("tools", json!([tool("x")]));
    elsewhere["tool_choice"] = json!({ "type": "function", "function": { "name": "y" } });
    let mut any = with("tools", json!([tool("x")]));
    any["tool_choice"] = json!("any");
    let cases = [
        (json!([]), "the body is not an object"),
        (json!({ "messages": [] }), "the body has no `model`"),
        (json!({ "model": "m" }), "`messages` is not an array"),
        (with("stream", json!("yes")), "`stream` is not a boolean"),
        (with("stream_options", json!({})), "without `stream: true`"),
        (with("tools", json!([])), "`tools` is not an array with tools"),
        (with("tools", json!([{ "type": "web_search" }])), "tools[0] is not of the type `function`"),
        (with("tools", json!([tool("get weather")])), "`get weather`, which is not ^[a-zA-Z0-9_-]{1,64}$"),
        (with("tools", json!([tool("查库存")])), "`查库存`, which is not"),
        (with("tools", json!([tool(&long)])), "which is not"),
        (with("tools", json!([tool("x"), tool("x")])), "tools[1] has the name `x` of another tool"),
        (with("tools", json!([nameless])), "tools[0] has no `description`"),
        (with("tools", json!([shapeless])), "not an object schema with `properties`"),
        (with("tool_choice", json!("auto")), "`tool_choice` stands without `tools`"),
        (with("parallel_tool_calls", json!(true)), "`parallel_tool_calls` stands without `tools`"),
        (elsewhere, "names `y`, which is no tool here"),
        (any, "`tool_choice` is `\"any\"`"),
    ];
    for (body, expected) in cases {
        let error = check(&body).expect_err(expected);
        assert!(error.contains(expected), "{error}\nis not\n{expected}");
    }
}
