//! Items in and out, and streams in whatever pieces.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::Message;
use crate::lower::{Lowered, Names};
use crate::request::Request;
use crate::stream::{Stream, read_reply, testing::in_any_pieces};
use crate::turn::{Finish, HostedCall, Part, Turn, Usage};

fn names() -> Names {
    Names::of(["lookup", "ping"])
}

fn reply(body: &Value) -> Result<Turn, WireFault> {
    read_reply(Dialect::Responses, body.to_string().as_bytes(), &names())
}

fn whole(output: Value) -> Turn {
    reply(&json!({"id": "resp_1", "status": "completed", "output": output})).unwrap()
}

fn stream(events: &[Value]) -> Result<(Turn, String), WireFault> {
    let mut stream = Stream::new(Dialect::Responses);
    let mut shown = String::new();
    for event in events {
        let event = format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
        stream.push(event.as_bytes(), &mut |text| shown.push_str(text))?;
    }
    Ok((stream.finish(&names())?, shown))
}

fn body(messages: &[Message], change: impl FnOnce(&mut Request<'_>)) -> Value {
    let tools = Lowered::default();
    let mut request = Request::new("m", messages, &tools);
    change(&mut request);
    serde_json::from_slice(&request.to_body(Dialect::Responses).unwrap()).unwrap()
}

/// A turn of everything that a server may send.
fn everything() -> Value {
    json!([
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gA=="},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "tea"}},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "docs", "name": "find", "arguments": "{\"q\":1}", "output": null,
            "error": {"type": "http_error", "code": 500}, "status": "failed"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
            "content": [{"type": "output_text", "text": "I ", "annotations": []}, {"type": "output_text", "text": "look.", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ping", "arguments": "{}", "status": "completed",
            "caller": {"type": "program", "caller_id": "prog_1"}},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "zz"},
        {"type": "item_of_tomorrow", "deep": {"z": 1.50, "a": "\u{e9}"}},
        {"type": "item_reference", "id": "msg_0"},
    ])
}

#[test]
fn every_item_goes_back_as_it_stands() {
    let text = everything().to_string().replace("\"deep\":", "\"deep\" : ");
    let items: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(&text).unwrap();
    let response = format!(r#"{{"id":"resp_1","status":"completed","output":{text}}}"#);
    let turn = read_reply(Dialect::Responses, response.as_bytes(), &names()).unwrap();
    assert_eq!((turn.text.as_str(), turn.finish.clone()), ("I look.", Finish::ToolCalls));
    assert_eq!(turn.calls[0].id, "call_1");
    assert_eq!(turn.kept.as_ref().unwrap().response_id.as_deref(), Some("resp_1"));
    let hosted = |id: &str, name: &str, arguments: &str, is_error| HostedCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        result: None,
        is_error,
    };
    assert_eq!(
        turn.hosted,
        [
            hosted("ws_1", "web_search", r#"{"type":"search","query":"tea"}"#, false),
            hosted("mcp_1", "mcp", r#"{"server":"docs","tool":"find","arguments":"{\"q\":1}"}"#, true),
        ]
    );
    let messages = [Message::user("go"), Message::assistant(&turn), Message::tool("call_1", "pong", false)];
    let tools = Lowered::default();
    let written = Request::new("m", &messages, &tools).to_body(Dialect::Responses).unwrap();
    let written = String::from_utf8(written).unwrap();
    for (at, item) in items.iter().enumerate().filter(|(at, _)| *at != 5) {
        assert!(written.contains(item.get()), "item {at} changed: {written}");
    }
    let written: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(written["input"][6], everything()[5], "a call keeps what else it has");
    let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "pong",
        "caller": {"type": "program", "caller_id": "prog_1"}});
    assert_eq!(written["input"][10], output, "a program that called gets the answer");
}

/// A server that keeps nothing cannot resolve its own ids, and one that forgot neither.
#[test]
fn ids_that_mean_nothing_are_left_out() {
    let turn = whole(everything());
    let messages = [Message::user("go"), Message::assistant(&turn), Message::tool("call_1", "pong", false)];
    let stateless = body(&messages, |request| request.store = Some(false));
    let forgotten = body(&messages, |request| request.is_forgotten = true);
    for (name, written) in [("store", &stateless), ("forgotten", &forgotten)] {
        let kinds: Vec<&str> =
            written["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
        let expected = [
            "message",
            "reasoning",
            "web_search_call",
            "mcp_call",
            "message",
            "function_call",
            "compaction",
            "item_of_tomorrow",
            "function_call_output",
        ];
        assert_eq!(kinds, expected, "{name}");
        assert_eq!(written["input"][1], everything()[0]);
        let said = json!({"type": "message", "role": "assistant", "content": "I look.", "phase": "commentary"});
        assert_eq!(written["input"][4], said);
        assert!(written["input"][5].get("id").is_none(), "{name}");
    }
    assert_eq!(stateless["include"], json!(["reasoning.encrypted_content"]));
    assert!(forgotten.get("include").is_none() && forgotten.get("store").is_none());
    let extra =
        json!({"include": ["file_search_call.results"], "text": {"format": {"type": "json_object"}}, "input": "never"});
    let tools = Lowered::default();
    let request = Request { store: Some(false), extra: extra.as_object(), ..Request::new("m", &messages, &tools) };
    let written: Value = serde_json::from_slice(&request.to_body(Dialect::Responses).unwrap()).unwrap();
    assert_eq!(written["include"], json!(["file_search_call.results", "reasoning.encrypted_content"]));
    assert_eq!(written["text"], extra["text"]);
    assert!(written["input"].is_array());
}

#[test]
fn only_what_came_after_a_reply_is_sent() {
    let turn = |id: &str, call: &str| {
        let call = json!([{"type": "function_call", "id": "fc", "call_id": call, "name": "ping", "arguments": "{}"}]);
        reply(&json!({"id": id, "status": "completed", "output": call})).unwrap()
    };
    let messages = [
        Message::System("be brief".to_owned()),
        Message::user("go"),
        Message::assistant(&turn("resp_1", "c1")),
        Message::tool("c1", "one", false),
        Message::assistant(&turn("resp_2", "c2")),
        Message::tool("c2", "two", false),
        Message::user("and?"),
    ];
    let written = body(&messages, |request| request.previous = Some("resp_2"));
    assert_eq!(written["previous_response_id"], "resp_2");
    assert_eq!(written["instructions"], "be brief", "they are not kept with a reply");
    assert_eq!(
        written["input"],
        json!([
            {"type": "function_call_output", "call_id": "c2", "output": "two"},
            {"type": "message", "role": "user", "content": "and?"},
        ])
    );
    let earlier = body(&messages, |request| request.previous = Some("resp_1"));
    assert_eq!(earlier["input"].as_array().unwrap().len(), 4);
    let whole = body(&messages, |_| {});
    assert!(whole.get("previous_response_id").is_none());
    assert_eq!(whole["input"].as_array().unwrap().len(), 6);
}

fn added(index: i64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: i64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn call_item(id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments, "status": "completed"})
}

fn arguments(index: i64, id: &str, delta: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": id, "delta": delta})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": output}})
}

/// What some server does on each line: its events, the calls as `id name arguments`, `!` before those that must not run.
#[test]
fn pieces_find_their_item() {
    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        events: Vec<Value>,
        calls: Vec<String>,
        diagnostic: Option<String>,
    }
    for line in include_str!("pieces.jsonl").lines() {
        let mut case: Case = serde_json::from_str(line).unwrap();
        case.events.push(completed(json!([])));
        let (turn, _) = stream(&case.events).unwrap();
        let line = |call: &crate::ModelCall| {
            format!("{}{} {} {}", if call.refusal.is_some() { "!" } else { "" }, call.id, call.name, call.arguments)
        };
        assert_eq!(turn.calls.iter().map(line).collect::<Vec<_>>(), case.calls, "{}", case.name);
        let is_known = |code: &String| turn.diagnostics.contains(code);
        assert!(case.diagnostic.as_ref().is_none_or(is_known), "{}: {:?}", case.name, turn.diagnostics);
        assert_eq!(turn.kept.unwrap().parts.len(), case.calls.len(), "{}", case.name);
    }
}

#[test]
fn text_is_told_once() {
    let message = |text: &str| {
        json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
    };
    let delta = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": text});
    let over = json!({"type": "response.output_text.done", "output_index": 0, "item_id": "msg_1", "content_index": 0, "text": "hello"});
    let refused = json!({"type": "response.refusal.delta", "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "no"});
    let cases = [
        (
            vec![added(0, message("")), delta("hel"), delta("lo"), over.clone(), done(0, message("hello"))],
            "hello",
            None,
        ),
        (vec![added(0, message("")), delta("hel"), done(0, message("hello"))], "hello", None),
        (vec![completed(json!([message("hello")]))], "hello", None),
        (vec![delta("hel"), over, delta("!")], "hel", Some("delta_after_done_ignored")),
        (vec![delta("hey"), done(0, message("hello"))], "hey", Some("text_differs")),
        (vec![refused], "no", Some("refusal")),
        (
            vec![json!({"type": "response.reasoning_text.delta", "output_index": 0, "delta": "hm"}), json!({"x": 1})],
            "",
            Some("event_ignored"),
        ),
    ];
    for (mut events, expected, diagnostic) in cases {
        events.push(completed(json!([])));
        let (turn, shown) = stream(&events).unwrap();
        assert_eq!((turn.text.as_str(), shown.as_str()), (expected, expected));
        assert!(
            diagnostic.is_none_or(|code| turn.diagnostics.iter().any(|known| known == code)),
            "{:?}",
            turn.diagnostics
        );
    }
    let plain = reply(&json!({"status": "completed", "output": [], "output_text": "hi"})).unwrap();
    assert_eq!(plain.text, "hi");
    let bare = whole(json!([{"role": "assistant", "content": "hi"}]));
    assert_eq!((bare.text.as_str(), &bare.kept.unwrap().parts[..]), ("hi", &[Part::Text("hi".to_owned())][..]));
}

#[test]
fn ends_are_told_apart() {
    let call = call_item("fc_1", "a", "ping", "{}");
    let ended = |status: &str, reason: Value| {
        reply(&json!({"status": status, "incomplete_details": reason, "output": [call], "usage": {"input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}}}))
    };
    let usage = Usage { input_tokens: 9, output_tokens: 5, cached_input_tokens: 4, reasoning_tokens: 2 };
    for (status, reason, finish, runs) in [
        ("completed", Value::Null, "tool_calls", true),
        ("incomplete", json!({"reason": "max_output_tokens"}), "length", false),
        ("incomplete", json!({"reason": "content_filter"}), "content_filter", false),
        ("incomplete", Value::Null, "incomplete", false),
    ] {
        let turn = ended(status, reason).unwrap();
        assert_eq!((turn.finish.as_str(), turn.calls[0].refusal.is_none()), (finish, runs));
        assert_eq!(turn.usage, Some(usage));
    }
    for status in ["failed", "cancelled", "queued", "in_progress"] {
        assert!(matches!(ended(status, Value::Null), Err(WireFault::Server { .. })), "{status}");
    }
    let half =
        json!({"type": "function_call", "call_id": "a", "name": "ping", "arguments": "{}", "status": "incomplete"});
    assert!(whole(json!([half])).calls[0].refusal.is_some());
    let server = |message: &str| Err(WireFault::Server { message: message.to_owned() });
    let error = json!({"code": "server_error", "message": "overloaded"});
    assert_eq!(reply(&json!({"status": "failed", "error": error, "output": []})).map(|_| ()), server("overloaded"));
    for event in [
        json!({"type": "response.failed", "response": {"status": "failed", "error": error}}),
        json!({"type": "error", "code": "server_error", "message": "overloaded", "param": null}),
        json!({"type": "error", "error": error}),
        json!({"error": error}),
    ] {
        assert_eq!(stream(std::slice::from_ref(&event)).map(|_| ()), server("overloaded"), "{event}");
    }
    let gone = json!({"type": "error", "code": "previous_response_not_found", "message": "no resp_1"});
    assert_eq!(stream(&[gone]).map(|_| ()), Err(WireFault::PreviousGone { message: "no resp_1".to_owned() }));
    assert_eq!(stream(&[added(0, call)]).map(|_| ()), Err(WireFault::Closed));
    assert!(matches!(reply(&json!({"ok": true})), Err(WireFault::Malformed { .. })));
}

/// Calls that nobody here can run, as a server hands them back.
fn handed() -> Value {
    json!([
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"},
        {"type": "shell_call", "id": "sh_2", "call_id": "c2", "action": {"commands": ["pwd"]}, "status": "completed"},
        {"type": "shell_call_output", "id": "sho_2", "call_id": "c2", "output": [{"stdout": "/mnt", "stderr": ""}]},
        {"type": "local_shell_call", "id": "ls_1", "call_id": "c3", "action": {"type": "exec", "command": ["ls"]}, "status": "completed"},
        {"type": "apply_patch_call", "id": "ap_1", "call_id": "c4", "operation": {"type": "delete_file", "path": "a"}, "status": "completed"},
        {"type": "tool_search_call", "id": "ts_1", "call_id": "c5", "arguments": {"q": "tea"}, "execution": "client", "status": "completed"},
        {"type": "tool_search_call", "id": "ts_2", "call_id": null, "arguments": {"q": "tea"}, "execution": "server", "status": "completed"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "docs", "name": "drop", "arguments": "{}"},
    ])
}

#[test]
fn calls_that_are_handed_back_are_told_and_refused_and_the_turn_goes_on() {
    let turn = whole(handed());
    assert_eq!((turn.calls.len(), turn.finish.clone()), (0, Finish::Paused));
    let told: Vec<(&str, &str, bool)> =
        turn.hosted.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.is_error)).collect();
    let expected = [
        ("c1", "shell", true),
        ("c2", "shell", false),
        ("c3", "local_shell", true),
        ("c4", "apply_patch", true),
        ("c5", "tool_search", true),
        ("ts_2", "tool_search", false),
        ("mcpr_1", "mcp", true),
    ];
    assert_eq!(told, expected);
    assert_eq!(turn.hosted[0].arguments, r#"{"commands":["ls"]}"#);
    assert_eq!(turn.hosted[6].arguments, r#"{"server":"docs","tool":"drop","arguments":"{}"}"#);
    let messages = [Message::user("go"), Message::assistant(&turn)];
    let written = body(&messages, |_| {});
    let answers = |written: &Value, from: usize| -> Vec<(String, String)> {
        let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let id = |item: &Value| text(item, "call_id") + &text(item, "approval_request_id");
        let items = written["input"].as_array().unwrap();
        items[from..].iter().map(|item| (text(item, "type"), id(item))).collect()
    };
    let refused = [
        ("shell_call_output", "c1"),
        ("local_shell_call_output", "c3"),
        ("apply_patch_call_output", "c4"),
        ("tool_search_output", "c5"),
        ("mcp_approval_response", "mcpr_1"),
    ]
    .map(|(kind, id)| (kind.to_owned(), id.to_owned()));
    assert_eq!(answers(&written, 10), refused);
    assert_eq!(written["input"][14]["approve"], json!(false));
    let continued = body(&messages, |request| request.previous = Some("resp_1"));
    assert_eq!(answers(&continued, 0), refused, "the server has the calls, and not what is said to them");
}

#[test]
fn what_somebody_answered_is_not_answered_again() {
    let call = json!({"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}});
    let output = json!({"type": "shell_call_output", "call_id": "c1", "output": []});
    let said = json!({"type": "message", "role": "user", "content": "and now?"});
    let request = json!({"model": "m", "input": [call, said, output]}).to_string();
    let received = super::read_request(serde_json::from_str(&request).unwrap()).unwrap();
    let written = body(&received.messages, |_| {});
    let kinds: Vec<&str> =
        written["input"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["shell_call", "message", "shell_call_output"]);
}

#[test]
fn limits_hold() {
    let mut events: Vec<Value> =
        (0..2000).map(|at| added(at, call_item(&format!("fc_{at}"), &format!("c{at}"), "ping", ""))).collect();
    events.push(completed(json!([])));
    assert!(matches!(stream(&events), Err(WireFault::TooLarge { unit: "items", .. })));
    let large = "x".repeat(tollgate_types::limits::ARGUMENTS_BYTES_MAX / 2 + 1);
    let begin = added(0, call_item("fc_1", "a", "ping", ""));
    let (turn, _) =
        stream(&[begin, arguments(0, "fc_1", &large), arguments(0, "fc_1", &large), completed(json!([]))]).unwrap();
    assert!(turn.calls[0].refusal.is_some() && turn.diagnostics.iter().any(|code| code == "args_too_large"));
}

fn script(texts: &[String], line: &str) -> Vec<u8> {
    let mut events =
        vec![json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}})];
    for (at, text) in texts.iter().enumerate() {
        let (at, id) = (i64::try_from(at).unwrap() * 2, format!("msg_{at}"));
        let message = json!({"type": "message", "id": id, "role": "assistant", "content": [{"type": "output_text", "text": text}]});
        events.push(json!({"type": "response.output_text.delta", "output_index": at, "item_id": id, "content_index": 0, "delta": text}));
        events.push(done(at, message));
        let call = call_item(&format!("fc_{at}"), &format!("c{at}"), "ping", &json!({ "t": text }).to_string());
        events.push(arguments(at + 1, &format!("fc_{at}"), &json!({ "t": text }).to_string()));
        events.push(done(at + 1, call));
    }
    events.push(completed(json!([])));
    let mut out = String::new();
    for event in events {
        out.push_str(&format!("event: {}{line}data: {event}{line}{line}", event["type"].as_str().unwrap()));
    }
    out.into_bytes()
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_turn(
        texts in prop::collection::vec(any::<String>(), 0..4),
        line in prop::sample::select(vec!["\n", "\r\n"]),
        cuts in prop::collection::vec(1_usize..60, 1..30),
    ) {
        let bytes = script(&texts, line);
        let whole = in_any_pieces(Dialect::Responses, &names(), &bytes, &cuts);
        prop_assert_eq!(&whole.0, &texts.concat());
        prop_assert_eq!(whole.1.calls.len(), texts.len());
    }
}
