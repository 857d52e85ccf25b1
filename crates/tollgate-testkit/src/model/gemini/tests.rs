//! Whole conversations pass; each breach is named.

use serde_json::{Value, json};

use super::check;
use crate::model::step::{Asked, Turn};

fn user(parts: Value) -> Value {
    json!({ "role": "user", "parts": parts })
}

fn model(parts: Value) -> Value {
    json!({ "role": "model", "parts": parts })
}

fn call(name: &str) -> Value {
    json!({ "functionCall": { "name": name, "args": {} }, "thoughtSignature": "c2ln" })
}

fn result(name: &str) -> Value {
    json!({ "functionResponse": { "name": name, "response": { "output": "1" } } })
}

fn text() -> Value {
    json!({ "text": "hi" })
}

fn breach(contents: &[Value]) -> String {
    check(&json!({ "contents": contents }), &[]).err().unwrap_or_default()
}

#[test]
fn whole_conversations_pass() {
    let blob = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA" } });
    let far = json!({ "fileData": { "mimeType": "image/png", "fileUri": "https://e.x/a.png" } });
    let thought = json!({ "text": "hm", "thought": true });
    let mut unsigned = call("b");
    unsigned.as_object_mut().unwrap().remove("thoughtSignature");
    let mut shown = result("b");
    shown["functionResponse"]["parts"] = json!([blob]);
    let contents = [
        user(json!([text(), blob, far])),
        model(json!([thought, call("a"), unsigned])),
        user(json!([result("a"), shown])),
        model(json!([text()])),
        user(json!([text()])),
    ];
    assert_eq!(breach(&contents), "");
    let declaration = json!({ "name": "a.b:c", "description": "…", "parametersJsonSchema": { "type": "object", "properties": { "q": {} } } });
    let mut body = json!({ "contents": contents, "systemInstruction": { "parts": [text()] } });
    body["tools"] =
        json!([{ "functionDeclarations": [declaration, { "name": "x", "description": "…" }] }, { "googleSearch": {} }]);
    for config in [
        json!({ "mode": "AUTO" }),
        json!({ "mode": "ANY", "allowedFunctionNames": ["a.b:c"] }),
        json!({ "mode": "VALIDATED", "allowedFunctionNames": ["x"] }),
    ] {
        body["toolConfig"] = json!({ "functionCallingConfig": config });
        assert_eq!(check(&body, &[]), Ok(()));
    }
}

#[test]
fn broken_contents_are_named() {
    let unsigned = json!({ "functionCall": { "name": "a", "args": {} } });
    let with_id = json!({ "functionCall": { "id": "g", "name": "a", "args": {} }, "thoughtSignature": "c2ln" });
    let two = json!({ "text": "hi", "inlineData": { "mimeType": "image/png", "data": "A" } });
    let cases: &[(&[Value], &str)] = &[
        (&[], "`contents` is empty"),
        (&[json!({ "role": "system", "parts": [text()] })], "unknown role `system`"),
        (&[user(json!([]))], "contents[0] has no parts"),
        (&[user(json!([two]))], "contents[0].parts[0] is not one thing"),
        (&[user(json!([{ "txt": "hi" }]))], "`txt`, which nobody knows"),
        (&[user(json!([{ "inlineData": { "data": "A" } }]))], "data without a type"),
        (&[user(json!([call("a")]))], "`functionCall` that its role cannot have"),
        (&[user(json!([text()])), model(json!([text()]))], "the last content is of the model"),
        (&[model(json!([call("a")])), user(json!([result("a")]))], "does not come right behind"),
        (&[user(json!([text()])), model(json!([call("a")])), user(json!([text()]))], "0 results for 1 calls"),
        (
            &[
                user(json!([text()])),
                model(json!([call("a"), call("b")])),
                user(json!([result("a")])),
                user(json!([result("b")])),
            ],
            "1 results for 2 calls",
        ),
        (
            &[user(json!([text()])), model(json!([call("a"), call("b")])), user(json!([result("b"), result("a")]))],
            "was called",
        ),
        (
            &[user(json!([text()])), model(json!([call("a")])), user(json!([result("a"), text()]))],
            "beside something else",
        ),
        (&[user(json!([text()])), model(json!([with_id])), user(json!([result("a")]))], "answers the id"),
        (&[user(json!([text(), result("a")]))], "1 results for 0 calls"),
        (&[user(json!([text()])), model(json!([unsigned])), user(json!([result("a")]))], "no `thoughtSignature`"),
        (&[user(json!([text()])), model(json!([call("a b")])), user(json!([result("a b")]))], "the name `a b`"),
        (
            &[user(json!([text()])), model(json!([{ "functionCall": { "name": "a", "args": "{}" } }]))],
            "`args` that are no object",
        ),
        (&[user(json!([{ "functionResponse": { "name": "a", "response": {} } }]))], "no `response`"),
    ];
    for (contents, expected) in cases {
        let error = breach(contents);
        assert!(error.contains(expected), "{error}\nis not\n{expected}");
    }
}

#[test]
fn broken_tools_and_choices_are_named() {
    let with = |declarations: Value, config: Value| {
        json!({ "contents": [user(json!([text()]))], "tools": [{ "functionDeclarations": declarations }],
            "toolConfig": { "functionCallingConfig": config } })
    };
    let tool = |name: &str| json!({ "name": name, "description": "…" });
    let auto = || json!({ "mode": "AUTO" });
    let empty = json!({ "name": "x", "description": "…", "parameters": { "type": "OBJECT", "properties": {} } });
    let both = json!({ "name": "x", "description": "…", "parameters": {}, "parametersJsonSchema": {} });
    let lonely = json!({ "contents": [user(json!([text()]))], "toolConfig": { "functionCallingConfig": auto() } });
    let cases = [
        (with(json!([]), auto()), "has no declarations"),
        (with(json!([tool("1x")]), auto()), "the name `1x`"),
        (with(json!([tool("x"), tool("x")]), auto()), "the name of another"),
        (with(json!([{ "name": "x" }]), auto()), "has no `description`"),
        (with(json!([empty]), auto()), "no object with properties"),
        (with(json!([both]), auto()), "both `parameters` and"),
        (with(json!([{ "name": "x", "description": "…", "strict": true }]), auto()), "`strict`, which nobody knows"),
        (with(json!([tool("x")]), json!({ "mode": "auto" })), "unknown mode `auto`"),
        (with(json!([tool("x")]), json!({ "mode": "AUTO", "allowedFunctionNames": ["x"] })), "beside the mode `AUTO`"),
        (with(json!([tool("x")]), json!({ "mode": "ANY", "allowedFunctionNames": ["y"] })), "which is no tool here"),
        (lonely, "stands without declarations"),
        (json!({ "contents": [], "model": "m" }), "`model`, which nobody knows"),
    ];
    for (body, expected) in cases {
        let error = check(&body, &[]).expect_err(expected);
        assert!(error.contains(expected), "{error}\nis not\n{expected}");
    }
}

/// A thought that is left out, moved or changed.
#[test]
fn a_turn_that_does_not_come_back_as_it_was_is_named() {
    let thought = json!({ "text": "hm", "thought": true });
    let asked = Asked { id: String::new(), name: "a".into(), arguments: json!({ "q": 1 }) };
    let turn = Turn { text: Some("so".into()), calls: vec![asked], parts: vec![thought.clone()], ..Turn::default() };
    let parts = super::reply::parts(&turn);
    let back = |parts: Vec<Value>| {
        let contents = [user(json!([text()])), model(json!(parts)), user(json!([result("a")]))];
        check(&json!({ "contents": contents }), std::slice::from_ref(&turn))
    };
    assert_eq!(back(parts.clone()), Ok(()));
    let without = parts[1..].to_vec();
    let moved = vec![parts[1].clone(), thought, parts[2].clone()];
    let mut changed = parts;
    changed[2]["thoughtSignature"] = json!("other");
    for parts in [without, moved, changed] {
        assert!(back(parts).unwrap_err().contains("a turn came back as"));
    }
}
