//! Whole conversations pass; each breach is named.

use axum::http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::check;
use crate::model::step::{Asked, Turn};

fn headers() -> HeaderMap {
    HeaderMap::from_iter([(
        axum::http::HeaderName::from_static("anthropic-version"),
        HeaderValue::from_static("2023-06-01"),
    )])
}

fn thought() -> Value {
    json!({ "type": "thinking", "thinking": "hm", "signature": "c2ln" })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "calculate", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "1" })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn conversation(contents: &[Value]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<Value> =
        contents.iter().zip(roles).map(|(content, role)| json!({ "role": role, "content": content })).collect();
    json!({ "model": "m", "max_tokens": 10, "messages": messages })
}

fn breach(body: &Value) -> String {
    check(&headers(), body, &[]).err().unwrap_or_default()
}

#[test]
fn whole_conversations_pass() {
    let hosted = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let image = json!({ "type": "image", "source": { "type": "url", "url": "https://e.x/a.png" } });
    let shown = json!({ "type": "tool_result", "tool_use_id": "a", "content": [text("see"), image] });
    let mut body = conversation(&[
        json!("hi"),
        json!([thought(), text("so"), call("a"), call("b")]),
        json!([result("b"), shown, text("and?"), image]),
        json!([hosted]),
    ]);
    body["system"] = json!([text("be brief")]);
    assert_eq!(breach(&body), "");
    let schema = json!({ "type": "object", "properties": {} });
    body["tools"] = json!([
        { "name": "calculate", "input_schema": schema },
        { "type": "web_search_20250305", "name": "web_search", "max_uses": 3 },
    ]);
    for choice in [
        json!({ "type": "auto", "disable_parallel_tool_use": true }),
        json!({ "type": "none" }),
        json!({ "type": "tool", "name": "calculate" }),
    ] {
        body["tool_choice"] = choice;
        assert_eq!(breach(&body), "");
    }
}

#[test]
fn broken_histories_are_named() {
    let bad_input = json!({ "type": "tool_use", "id": "a", "name": "f", "input": "{}" });
    let bitmap = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/bmp", "data": "aGk=" } });
    let error = json!({ "type": "tool_result", "tool_use_id": "a", "is_error": true, "content": [bitmap] });
    let unsigned = json!({ "type": "thinking", "thinking": "hm", "signature": "" });
    let cases: &[(&[Value], &str)] = &[
        (&[], "`messages` is empty"),
        (&[json!(" ")], "without anything to read"),
        (&[json!([])], "messages[0] has no content"),
        (&[json!([text("")])], "content[0] is text without"),
        (&[json!([call("a")])], "that its role cannot have"),
        (&[json!("hi"), json!("so")], "the last message is of the model"),
        (&[json!("hi"), json!([call("a")]), json!("on")], "the call `a` has no answer in messages[2]"),
        (&[json!("hi"), json!([call("a")])], "the last message is of the model"),
        (&[json!("hi"), json!([call("a"), call("b")]), json!([result("a")])], "the call `b` has no answer"),
        (&[json!("hi"), json!([call("a")]), json!([text("x"), result("a")])], "a result behind something else"),
        (&[json!("hi"), json!([call("a")]), json!([result("a"), result("a")])], "`a`, which is not open here"),
        (&[json!([result("a")])], "`a`, which is not open here"),
        (&[json!("hi"), json!([call("a"), call("a")]), json!([result("a")])], "the id `a` of another call"),
        (&[json!("hi"), json!([call("a.b")]), json!([result("a.b")])], "which is not ^[a-zA-Z0-9_-]+$"),
        (&[json!("hi"), json!([bad_input]), json!([result("a")])], "an input that is not an object"),
        (&[json!("hi"), json!([unsigned]), json!("x")], "has no `signature`"),
        (&[json!("hi"), json!([call("a")]), json!([error])], "is an image of the type `image/bmp`"),
        (&[json!([{ "type": "input_text", "text": "x" }])], "the unknown type `input_text`"),
    ];
    for (contents, expected) in cases {
        let said = breach(&conversation(contents));
        assert!(said.contains(expected), "`{said}` is not `{expected}`");
    }
}

#[test]
fn broken_requests_are_named() {
    let schema = json!({ "type": "object", "properties": {}, "anyOf": [] });
    let loose = json!({ "type": "object", "properties": {} });
    let tool = json!({ "name": "f", "input_schema": loose });
    let marked = |count| vec![json!({ "type": "text", "text": "x", "cache_control": { "type": "ephemeral" } }); count];
    let cases = [
        ("max_tokens", json!(0), "`max_tokens` is not a number above 0"),
        ("stream_options", json!({}), "the field `stream_options`"),
        ("system", json!(""), "without anything to read"),
        ("system", Value::Array(marked(5)), "5 blocks have `cache_control`"),
        ("tool_choice", json!({ "type": "auto" }), "stands without `tools`"),
        ("tools", json!([{ "name": "a.b", "input_schema": loose }]), "has the name `a.b`"),
        ("tools", json!([{ "name": "f", "parameters": loose }]), "the field `parameters`"),
        ("tools", json!([{ "name": "f", "input_schema": schema }]), "`anyOf` at the root"),
        ("tools", json!([{ "name": "f", "input_schema": loose, "strict": true }]), "strict without"),
        ("tools", json!([tool, tool]), "the name `f` of another tool"),
    ];
    for (key, value, expected) in cases {
        let mut body = conversation(&[json!("hi")]);
        body[key] = value;
        let said = breach(&body);
        assert!(said.contains(expected), "`{said}` is not `{expected}`");
    }
    let said = check(&HeaderMap::new(), &conversation(&[json!("hi")]), &[]).unwrap_err();
    assert!(said.contains("anthropic-version"), "{said}");
}

#[test]
fn thoughts_must_come_back_as_they_were() {
    let calls = vec![Asked { id: "a".into(), name: "calculate".into(), arguments: json!({}) }];
    let said = [Turn { calls, parts: vec![thought()], ..Turn::default() }];
    let body = |turn: Value| conversation(&[json!("hi"), turn, json!([result("a")])]);
    assert_eq!(check(&headers(), &body(json!([thought(), call("a")])), &said), Ok(()));
    let other = json!({ "type": "thinking", "thinking": "Hm", "signature": "c2ln" });
    for turn in [json!([call("a")]), json!([other, call("a")])] {
        let breach = check(&headers(), &body(turn), &said).unwrap_err();
        assert!(breach.contains("came back without its"), "{breach}");
    }
}
