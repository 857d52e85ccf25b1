//! The body of a request, and turns from replies whole and in pieces.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::ToolDefinition;

use super::*;
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::{Content, Image, Message, Piece};
use crate::lower::{Lowered, Names, Target, lower};
use crate::stream::{Stream, read_reply, testing::in_any_pieces};
use crate::turn::{Finish, Kept, ModelCall, Part, Turn, Usage};

fn tools(names: &[&str]) -> Lowered {
    let tools: Vec<_> = names.iter().map(|name| Arc::new(ToolDefinition::new(*name, "Does it."))).collect();
    lower(&tools, &Target::of(Dialect::Anthropic)).unwrap()
}

fn printed(request: &Request<'_>) -> Value {
    serde_json::from_slice(&body(request).unwrap()).unwrap()
}

fn conversation(messages: &[Message]) -> Value {
    printed(&Request::new("m", messages, &Lowered::default()))
}

fn call(id: &str, name: &str, arguments: &str) -> ModelCall {
    ModelCall { id: id.into(), name: name.into(), arguments: arguments.into(), ..ModelCall::default() }
}

fn asks(text: &str, calls: Vec<ModelCall>) -> Message {
    Message::assistant(&Turn { text: text.into(), calls, ..Turn::default() })
}

fn image() -> Piece {
    Piece::Image(Image::from_url("data:image/png;base64,aGk="))
}

/// Feeds events; the texts that were shown come first.
fn streamed(events: &[Value]) -> (String, Result<Turn, WireFault>) {
    let mut stream = Stream::new(Dialect::Anthropic);
    let mut shown = String::new();
    for event in events {
        let kind = event["type"].as_str().unwrap_or("x");
        let bytes = format!("event: {kind}\ndata: {event}\n\n");
        if let Err(fault) = stream.push(bytes.as_bytes(), &mut |text| shown.push_str(text)) {
            return (shown, Err(fault));
        }
    }
    (shown, stream.finish(&Names::of(["lookup", "ping"])))
}

fn block(index: i64, start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": start})];
    events.extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn ended(mut events: Vec<Value>, reason: &str) -> Vec<Value> {
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn asking(id: &str, pieces: &[&str]) -> (Value, Vec<Value>) {
    let deltas = pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
    (json!({"type": "tool_use", "id": id, "name": "lookup", "input": {}}), deltas)
}

#[test]
fn results_come_first_and_in_one_message() {
    let messages = [
        Message::System("be brief".into()),
        Message::user("go"),
        asks(" ", vec![call("a", "lookup", "{\"q\" : 1}"), call("functions.x:0", "ping", "")]),
        Message::tool("a", "1", false),
        Message::tool("functions.x:0", Content::from(vec![Piece::Text("no".into()), image()]), true),
        Message::System("hurry".into()),
        Message::user(vec![image(), Piece::Text(String::new()), Piece::Image(Image::Url("https://e.x/a".into()))]),
    ];
    let body = conversation(&messages);
    // An id that this wire refuses is another one, in the call and in its result.
    let made = body["messages"][1]["content"][1]["id"].clone();
    assert!(is_call_id(made.as_str().unwrap()), "{made}");
    assert_eq!(body["system"], json!([{"type": "text", "text": "be brief"}]));
    let said = json!([
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "lookup", "input": {"q": 1}},
            {"type": "tool_use", "id": made, "name": "ping", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "1"},
            {"type": "tool_result", "tool_use_id": made, "is_error": true,
             "content": "no[an image, which this model cannot be shown]"},
            {"type": "text", "text": "hurry"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            {"type": "image", "source": {"type": "url", "url": "https://e.x/a"}},
        ]},
    ]);
    assert_eq!(body["messages"], said);
    assert_eq!((&body["max_tokens"], &body["stream"]), (&json!(limits::MODEL_TURN_TOKENS), &json!(false)));
    assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
}

#[test]
fn results_are_text_or_blocks_and_never_blank() {
    let bitmap = Image::from_url("data:image/bmp;base64,aGk=");
    let cases: Vec<(Content, Value)> = vec![
        ("".into(), json!(null)),
        (" \n".into(), json!(null)),
        ("ok".into(), json!("ok")),
        (vec![Piece::Text("a".into()), Piece::Text(" ".into())].into(), json!([{"type": "text", "text": "a"}])),
        (vec![Piece::Text(" ".into()), Piece::Text(" ".into())].into(), json!(null)),
        (
            vec![image()].into(),
            json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]),
        ),
        (
            vec![Piece::Image(bitmap)].into(),
            json!([{"type": "text", "text": "[an image of the type `image/bmp`, which this model cannot be shown]"}]),
        ),
    ];
    for (content, expected) in cases {
        let body = conversation(&[asks("", vec![call("a", "f", "{}")]), Message::tool("a", content, false)]);
        assert_eq!(body["messages"][1]["content"][0].get("content").unwrap_or(&Value::Null), &expected);
    }
}

#[test]
fn choices_are_written_as_this_wire_has_them() {
    let tools = tools(&["a.b", "c"]);
    let wire = tools.names().on_wire("a.b").into_owned();
    let allowed = |required, names: &[&str]| ToolChoice::Allowed {
        required,
        tools: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let cases = [
        (ToolChoice::Auto, None, json!({"type": "auto"}), 2),
        (ToolChoice::Auto, Some(false), json!({"type": "auto", "disable_parallel_tool_use": true}), 2),
        (ToolChoice::Required, Some(true), json!({"type": "any", "disable_parallel_tool_use": false}), 2),
        (ToolChoice::None, Some(false), json!({"type": "none"}), 2),
        (ToolChoice::Named("a.b".into()), None, json!({"type": "tool", "name": wire}), 2),
        (allowed(false, &["a.b"]), None, json!({"type": "auto"}), 1),
        (allowed(true, &["c"]), None, json!({"type": "any"}), 1),
        (allowed(true, &[]), None, json!(null), 0),
    ];
    let messages = [Message::user("go")];
    for (choice, parallel, expected, offered) in cases {
        let body = printed(&Request { tool_choice: &choice, parallel, ..Request::new("m", &messages, &tools) });
        assert_eq!(body.get("tool_choice").unwrap_or(&Value::Null), &expected, "{choice:?}");
        assert_eq!(body.get("tools").map_or(0, |tools| tools.as_array().unwrap().len()), offered, "{choice:?}");
    }
}

#[test]
fn a_request_says_what_the_server_shall_keep() {
    let hosted = [RawValue::from_string(r#"{"type":"web_search_20250305","name":"web_search"}"#.into()).unwrap()];
    let tools = tools(&["a"]);
    let paused = kept(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#);
    for (last, at) in [(Message::user("and?"), 2), (paused, 0)] {
        let messages = [Message::user("go"), asks("hi", vec![]), last];
        let request = Request { cache: true, hosted: &hosted, ..Request::new("m", &messages, &tools) };
        let body = printed(&request);
        let marked = |value: &Value| value.get("cache_control").is_some();
        assert_eq!(body["tools"][1]["cache_control"], json!({"type": "ephemeral"}));
        assert!(!marked(&body["tools"][0]));
        let marks: Vec<bool> = body["messages"].as_array().unwrap().iter().map(|m| marked(&m["content"][0])).collect();
        assert_eq!(marks.iter().position(|mark| *mark), Some(at), "{body}");
    }
    let extra = json!({"thinking": {"type": "enabled", "budget_tokens": 4096}, "max_tokens": 1});
    let messages = [Message::user("go")];
    let request = Request { extra: extra.as_object(), ..Request::new("m", &messages, &tools) };
    assert_eq!(printed(&request)["max_tokens"], limits::MODEL_TURN_TOKENS + 4096);
    assert_eq!(printed(&Request { max_tokens: Some(9000), ..request })["max_tokens"], 9000);
}

/// A turn that is one part, as it came.
fn kept(json: &str) -> Message {
    let kept = Kept { dialect: Dialect::Anthropic, response_id: None, parts: vec![Part::Raw(json.to_owned())] };
    Message::assistant(&Turn { kept: Some(Box::new(kept)), ..Turn::default() })
}

const THOUGHT: &str = r#"{"type":"thinking", "thinking":"h\u006dm","signature":"c2ln", "x":1.50}"#;
const HIDDEN: &str = r#"{"type":"redacted_thinking","data":"ZW5j"}"#;
const SEARCH: &str = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query": "tea"}}"#;
const FOUND: &str = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","encrypted_content":"x=="}]}"#;
const CITED: &str = r#"{"type":"text","text":"so","citations":[{"type":"char_location","cited_text":"t"}]}"#;
const ASKED: &str =
    r#"{"type":"tool_use","id":"t1","name":"lookup","input":{"n": 7512292042121000001},"caller":{"type":"direct"}}"#;

/// What goes back must be the bytes that came, or its signatures are worth nothing.
#[test]
fn a_turn_goes_back_byte_for_byte() {
    let content = [THOUGHT, HIDDEN, SEARCH, FOUND, CITED, ASKED].join(",");
    let reply = format!(
        r#"{{"type":"message","id":"msg","content":[{content}],"stop_reason":"tool_use","usage":{{"input_tokens":3,"cache_read_input_tokens":5,"cache_creation_input_tokens":7,"output_tokens":2}}}}"#
    );
    let turn = read_reply(Dialect::Anthropic, reply.as_bytes(), &Names::of(["lookup"])).unwrap();
    assert_eq!((turn.text.as_str(), &turn.finish), ("so", &Finish::ToolCalls));
    assert_eq!(turn.calls[0].arguments, r#"{"n": 7512292042121000001}"#);
    assert_eq!(turn.calls[0].provider_meta, Some(json!({"caller": {"type": "direct"}})));
    let usage = Usage { input_tokens: 15, output_tokens: 2, cached_input_tokens: 5, reasoning_tokens: 0 };
    assert_eq!(turn.usage, Some(usage));
    assert_eq!((turn.hosted.len(), turn.hosted[0].name.as_str()), (1, "web_search"));
    assert_eq!(turn.hosted[0].arguments, r#"{"query": "tea"}"#);
    assert!(turn.hosted[0].result.as_ref().unwrap().contains("x==") && !turn.hosted[0].is_error);
    // Through a store and back.
    let turn: Turn = serde_json::from_str(&json!(turn).to_string()).unwrap();
    let history = [Message::user("go"), Message::assistant(&turn), Message::tool("t1", "1", false)];
    let tools = Lowered::default();
    let body = String::from_utf8(body(&Request::new("m", &history, &tools)).unwrap()).unwrap();
    assert!(body.contains(&content), "{body}");
    // Another dialect is shown what was said and asked, and nothing of what is ours.
    let other = Request::new("m", &history, &tools).to_body(Dialect::Chat).unwrap();
    let other: Value = serde_json::from_slice(&other).unwrap();
    assert_eq!(other["messages"][1]["content"], "so");
    assert!(!other.to_string().contains("c2ln") && !other.to_string().contains("caller"), "{other}");
}

#[test]
fn a_streamed_turn_keeps_what_it_was() {
    let (start, deltas) = asking("t1", &["", "{\"q\":", "\"tea\"}"]);
    let events: Vec<Value> = [
        vec![json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}}}), json!({"type": "ping"})],
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), &[
            json!({"type": "thinking_delta", "thinking": "h"}), json!({"type": "thinking_delta", "thinking": "m"}),
            json!({"type": "signature_delta", "signature": "c2ln"}),
        ]),
        block(1, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}), &[
            json!({"type": "input_json_delta", "partial_json": "{\"query\": \"tea\"}"}),
        ]),
        block(2, serde_json::from_str(&FOUND.replace("s1", "s")).unwrap(), &[]),
        block(3, json!({"type": "text", "text": "", "citations": null}), &[
            json!({"type": "text_delta", "text": "so"}), json!({"type": "citations_delta", "citation": {"n": 1}}),
        ]),
        block(4, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": " be it"})]),
        block(5, start, &deltas),
        vec![json!({"type": "a_new_event"})],
    ].concat();
    let (shown, turn) = streamed(&ended(events, "tool_use"));
    let turn = turn.unwrap();
    assert_eq!((shown.as_str(), turn.text.as_str()), ("so be it", "so be it"));
    assert_eq!(turn.calls, [ModelCall { wire_id: "t1".into(), ..call("t1", "lookup", "{\"q\":\"tea\"}") }]);
    assert_eq!(turn.diagnostics, ["event_ignored"]);
    assert_eq!(
        turn.usage,
        Some(Usage { input_tokens: 7, output_tokens: 9, cached_input_tokens: 4, reasoning_tokens: 0 })
    );
    let raw = |part: &Part| match part {
        Part::Raw(json) => serde_json::from_str(json).unwrap(),
        Part::Text(text) => json!(text),
        Part::Call(at) => json!(at),
    };
    let parts: Vec<Value> = turn.kept.unwrap().parts.iter().map(raw).collect();
    assert_eq!(parts[0], json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}));
    assert_eq!(parts[1]["input"], json!({"query": "tea"}));
    assert_eq!(parts[2]["tool_use_id"], "s");
    assert_eq!(parts[3], json!({"type": "text", "text": "so", "citations": [{"n": 1}]}));
    assert_eq!(parts[4..], [json!(" be it"), json!(0)]);
    assert_eq!((turn.hosted.len(), turn.hosted[0].arguments.as_str()), (1, "{\"query\": \"tea\"}"));
}

/// One server's habit a line: what it sends, and what must come of it.
#[test]
fn pieces_find_their_block_or_nothing_runs() {
    #[derive(Deserialize)]
    struct Case {
        name: String,
        events: Vec<Vec<Value>>,
        calls: Vec<String>,
        diagnostic: Option<String>,
    }
    let event = |event: &Vec<Value>| match event.as_slice() {
        [kind, index, id] if kind == "start" => {
            let start = json!({"type": "tool_use", "id": id, "name": "lookup", "input": {}});
            json!({"type": "content_block_start", "index": index, "content_block": start})
        }
        [_, index, piece] => {
            let delta = json!({"type": "input_json_delta", "partial_json": piece});
            json!({"type": "content_block_delta", "index": index, "delta": delta})
        }
        [_, index] => json!({"type": "content_block_stop", "index": index}),
        other => panic!("{other:?}"),
    };
    for line in include_str!("blocks.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let turn = streamed(&ended(case.events.iter().map(event).collect(), "tool_use")).1.unwrap();
        let mark = |call: &ModelCall| if call.refusal.is_some() { "!" } else { "" };
        let line = |call: &ModelCall| format!("{}{} {}", mark(call), call.id, call.arguments);
        assert_eq!(turn.calls.iter().map(line).collect::<Vec<_>>(), case.calls, "{}", case.name);
        let is_known = |code: &String| turn.diagnostics.contains(code);
        assert!(case.diagnostic.as_ref().is_none_or(is_known), "{}: {:?}", case.name, turn.diagnostics);
    }
}

#[test]
fn halves_of_a_surrogate_pair_are_joined_over_pieces() {
    for (pieces, text, runs) in [([r"\ud83d", r"\ude00"], "😀", true), ([r"\ud83d", "b"], "\u{fffd}b", false)] {
        let mut stream = Stream::new(Dialect::Anthropic);
        let mut push = |json: &str| stream.push(format!("data: {json}\n\n").as_bytes(), &mut |_| {}).unwrap();
        for (index, start, delta) in [
            (0, r#"{"type":"text"}"#, r#""type":"text_delta","text""#),
            (1, r#"{"type":"tool_use","id":"a"}"#, r#""type":"input_json_delta","partial_json""#),
        ] {
            push(&format!(r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#));
            for piece in pieces {
                push(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{{delta}:"{piece}"}}}}"#));
            }
            push(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#));
        }
        push(r#"{"type":"message_stop"}"#);
        let turn = stream.finish(&Names::default()).unwrap();
        assert_eq!((turn.text.as_str(), turn.calls[0].arguments.as_str()), (text, text));
        assert_eq!(turn.calls[0].refusal.is_none(), runs, "{pieces:?}");
    }
}

#[test]
fn why_a_server_stops_decides_what_runs() {
    for (reason, finish, runs) in [
        ("end_turn", Finish::Stop, true),
        ("tool_use", Finish::ToolCalls, true),
        ("stop_sequence", Finish::Other("stop_sequence".into()), true),
        ("pause_turn", Finish::Paused, true),
        ("max_tokens", Finish::Length, false),
        ("model_context_window_exceeded", Finish::Length, false),
        ("refusal", Finish::ContentFilter, false),
    ] {
        let (start, deltas) = asking("a", &["{}"]);
        let turn = streamed(&ended(block(0, start, &deltas), reason)).1.unwrap();
        assert_eq!((&turn.finish, turn.calls[0].refusal.is_none()), (&finish, runs), "{reason}");
    }
    let refused = json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "not this"}}});
    let (shown, turn) = streamed(&[refused]);
    assert_eq!((shown.as_str(), turn.unwrap().text.as_str()), ("not this", "not this"));
}

/// A thought without its signature is refused when it comes back, so that it does not.
#[test]
fn what_was_cut_does_not_go_back() {
    let thought = block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[json!({"type": "thinking_delta", "thinking": "hm"})],
    );
    let turn = streamed(&ended(thought, "max_tokens")).1.unwrap();
    assert_eq!((turn.text.as_str(), turn.kept), ("", None));
    let paused = kept(SEARCH);
    let answered = kept(FOUND);
    let text = |body: &Value| body["messages"].to_string();
    let goes_on = conversation(&[Message::user("go"), paused.clone()]);
    assert!(text(&goes_on).contains("server_tool_use"));
    let resumed = conversation(&[Message::user("go"), paused.clone(), answered, Message::user("thanks")]);
    assert_eq!((resumed["messages"].as_array().unwrap().len(), text(&resumed).contains("server_tool_use")), (3, true));
    let left = conversation(&[Message::user("go"), paused, Message::user("never mind")]);
    assert_eq!(
        left["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "never mind"}]}])
    );
}

#[test]
fn broken_replies_are_told_apart() {
    let text = block(0, json!({"type": "text", "text": ""}), &[json!({"type": "text_delta", "text": "hi"})]);
    assert_eq!(streamed(&text), ("hi".into(), Err(WireFault::Closed)));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let fault = WireFault::Server { message: "Overloaded".into() };
    assert_eq!(streamed(std::slice::from_ref(&overloaded)).1, Err(fault.clone()));
    assert_eq!(read_reply(Dialect::Anthropic, overloaded.to_string().as_bytes(), &Names::default()), Err(fault));
    for json in ["{}", "[]", "<html>", "{\"content\":[{\"type\":\"text\""] {
        let fault = read_reply(Dialect::Anthropic, json.as_bytes(), &Names::default()).unwrap_err();
        assert!(matches!(fault, WireFault::Malformed { .. }), "{json}: {fault}");
    }
    let odd = json!({"content": [null, 1, {"type": 3}, {"type": "text", "text": "hi"}], "stop_reason": null, "usage": "none"});
    let turn = read_reply(Dialect::Anthropic, odd.to_string().as_bytes(), &Names::default()).unwrap();
    assert_eq!((turn.text.as_str(), turn.usage, turn.finish), ("hi", None, Finish::Stop));
    let calls: Vec<Value> = (0..1025).map(|_| asking("a", &[]).0).collect();
    let many = json!({ "content": calls }).to_string();
    let fault = read_reply(Dialect::Anthropic, many.as_bytes(), &Names::default()).unwrap_err();
    assert!(matches!(fault, WireFault::TooLarge { unit: "calls", .. }), "{fault}");
}

/// Texts, thoughts and calls as events in ASCII or not, each text cut anywhere, even within a character.
fn script(texts: &[(u8, String)]) -> Vec<u8> {
    let mut events = Vec::new();
    for (index, (kind, text)) in texts.iter().enumerate() {
        let index = i64::try_from(index).unwrap();
        let arguments = json!({ "text": text }).to_string();
        let (start, field, text) = match kind % 3 {
            0 => (json!({"type": "text", "text": ""}), ("text_delta", "text"), text),
            1 => (json!({"type": "thinking", "thinking": "", "signature": "s"}), ("thinking_delta", "thinking"), text),
            _ => (asking("a", &[]).0, ("input_json_delta", "partial_json"), &arguments),
        };
        let deltas: Vec<Value> = text.chars().map(|c| json!({"type": field.0, field.1: c.to_string()})).collect();
        events.extend(block(index, start, &deltas));
    }
    let mut out = String::new();
    for (at, event) in ended(events, "tool_use").iter().enumerate() {
        let json = event.to_string();
        let ascii: String =
            json.chars()
                .flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec())
                .map(|unit| {
                    if unit < 128 { char::from_u32(unit.into()).unwrap().to_string() } else { format!("\\u{unit:04x}") }
                })
                .collect();
        out.push_str(&format!("event: x\r\ndata: {}\r\n\r\n", if at % 2 == 0 { &json } else { &ascii }));
    }
    out.into_bytes()
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_turn(
        texts in prop::collection::vec((any::<u8>(), any::<String>()), 0..6),
        cuts in prop::collection::vec(1_usize..40, 1..40),
    ) {
        let bytes = script(&texts);
        let cut = in_any_pieces(Dialect::Anthropic, &Names::default(), &bytes, &cuts);
        prop_assert_eq!(&cut.0, &cut.1.text);
        let said: String = texts.iter().filter(|(kind, _)| kind % 3 == 0).map(|(_, text)| text.as_str()).collect();
        prop_assert_eq!(cut.0, said);
        prop_assert!(cut.1.calls.iter().all(|call| call.refusal.is_none()));
    }
}
