//! Requests as people and other programs write them.

use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::{Image, Message, Piece};
use crate::received::{Received, read_request};
use crate::request::ToolChoice;

fn read(body: &Value) -> Result<Received, WireFault> {
    read_request(Dialect::Gemini, body.to_string().as_bytes())
}

/// The names of the protocol's own files, a result of the older role, and no ids anywhere.
#[test]
fn names_may_come_as_the_protocol_files_have_them() {
    let received = read(&json!({
        "system_instruction": {"parts": [{"text": "be kind"}]},
        "contents": [
            {"parts": [{"text": "look"}, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "b"}}]},
            {"role": "function", "parts": [
                {"function_response": {"name": "b", "response": {"temperature": 12345678901234567890_u64}}},
                {"functionResponse": {"name": "a", "response": {"error": "no"}}},
            ]},
            {"role": "user", "parts": [{"file_data": {"file_uri": "https://e.x/a.png"}}]},
        ],
        "generation_config": {"max_output_tokens": 7, "temperature": 0.5, "topK": 3},
        "safetySettings": [],
    }))
    .unwrap();
    let [system, look, asks, b, a, far] = received.messages.as_slice() else { panic!("{:?}", received.messages) };
    assert_eq!(*system, Message::System("be kind".to_owned()));
    let image = Piece::Image(Image::from_url("data:image/png;base64,AAAA"));
    assert_eq!(*look, Message::User(vec![Piece::Text("look".to_owned()), image].into()));
    let Message::Assistant { calls, .. } = asks else { panic!("{asks:?}") };
    let asked: Vec<_> =
        calls.iter().map(|call| (call.id.as_str(), call.wire_id.as_str(), call.arguments.as_str())).collect();
    assert_eq!(asked, [("call_1", "", "{}"), ("call_2", "", "{}")]);
    assert_eq!(*b, Message::tool("call_2", r#"{"temperature":12345678901234567890}"#, false));
    assert_eq!(*a, Message::tool("call_1", "no", true));
    assert_eq!(*far, Message::User(vec![Piece::Image(Image::Url("https://e.x/a.png".to_owned()))].into()));
    assert_eq!((received.max_tokens, received.temperature), (Some(7), Some(0.5)));
    assert_eq!(json!(received.rest), json!({"safetySettings": [], "generationConfig": {"topK": 3}}));
}

#[test]
fn tools_are_offered_or_the_providers() {
    let schema = json!({"type": "OBJECT", "properties": {
        "q": {"type": "STRING", "nullable": true},
        "type": {"type": "ARRAY", "items": {"type": "INTEGER", "nullable": false}},
        "nullable": {"type": "BOOLEAN", "default": {"type": "OBJECT"}},
        "default": {"anyOf": [{"type": "NUMBER"}]},
    }});
    let received = read(&json!({"contents": [], "tools": [
        {"functionDeclarations": [{"name": "old", "parameters": schema}], "codeExecution": {}},
        {"functionDeclarations": [{"name": "bare", "description": "Does it."}]},
        {"googleSearch": {}},
    ]}))
    .unwrap();
    let names: Vec<&str> = received.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["old", "bare"]);
    let expected = json!({"type": "object", "properties": {
        "q": {"type": ["string", "null"]},
        "type": {"type": "array", "items": {"type": "integer"}},
        "nullable": {"type": "boolean", "default": {"type": "OBJECT"}},
        "default": {"anyOf": [{"type": "number"}]},
    }});
    assert_eq!(received.tools[0].input_schema, expected);
    assert_eq!(received.tools[1].input_schema, json!({"type": "object", "properties": {}}));
    let hosted: Vec<&str> = received.hosted.iter().map(|tool| tool.get()).collect();
    assert_eq!(hosted, [r#"{"codeExecution":{}}"#, r#"{"googleSearch":{}}"#]);
}

#[test]
fn a_mode_is_a_choice_and_what_it_cannot_say_stays() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let allowed = |required| ToolChoice::Allowed { required, tools: names(&["a", "b"]) };
    for (config, choice, rest) in [
        (json!({}), ToolChoice::Auto, json!({})),
        (json!({"mode": "NONE"}), ToolChoice::None, json!({})),
        (json!({"mode": "ANY"}), ToolChoice::Required, json!({})),
        (json!({"mode": "ANY", "allowedFunctionNames": ["a"]}), ToolChoice::Named("a".to_owned()), json!({})),
        (json!({"mode": "ANY", "allowed_function_names": ["a", "b"]}), allowed(true), json!({})),
        (json!({"mode": "VALIDATED", "allowedFunctionNames": ["a", "b"]}), allowed(false), json!({})),
        (
            json!({"mode": "VALIDATED"}),
            ToolChoice::Auto,
            json!({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}),
        ),
    ] {
        let received = read(&json!({"contents": [], "toolConfig": {"functionCallingConfig": config}})).unwrap();
        assert_eq!((received.tool_choice, json!(received.rest)), (choice, rest), "{config}");
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let audio = json!({"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}});
    for (body, expected) in [
        (json!({}), "`contents` is missing"),
        (json!({"contents": {}}), "`contents`"),
        (json!({"contents": [7]}), "`contents[0]`"),
        (json!({"contents": [{"role": "system", "parts": []}]}), "`contents[0].role`: `system` is no role"),
        (
            json!({"contents": [{"parts": [{"text": "hi"}, audio]}]}),
            "`contents[0].parts[1]` is neither text nor an image nor a result",
        ),
        (json!({"contents": [], "generationConfig": 7}), "`generationConfig`"),
        (json!({"contents": [], "tools": [{"functionDeclarations": 7}]}), "`tools.functionDeclarations`"),
    ] {
        let fault = read(&body).unwrap_err();
        assert!(matches!(fault, WireFault::Request { .. }) && fault.to_string().contains(expected), "{fault}");
    }
}
