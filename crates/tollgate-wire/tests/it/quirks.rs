//! What servers of Chat Completions want otherwise, and what they send that nobody specified.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_types::ToolDefinition;
use tollgate_wire::{
    CallIds, Dialect, Lowered, Message, ModelCall, Names, Quirks, Request, Stream, Target, ToolChoice, Turn, Usage,
    WireFault, lower, read_reply, read_request,
};

fn tools(names: &[&str]) -> Lowered {
    let definitions: Vec<_> = names.iter().map(|name| Arc::new(ToolDefinition::new(*name, "Does it."))).collect();
    lower(&definitions, &Target::default()).unwrap()
}

fn asks(calls: &[(&str, &str)]) -> Message {
    let call = |(id, name): &(&str, &str)| ModelCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: "{}".to_owned(),
        ..ModelCall::default()
    };
    Message::assistant(&Turn { text: "hm".to_owned(), calls: calls.iter().map(call).collect(), ..Turn::default() })
}

fn body(messages: &[Message], names: &[&str], choice: &ToolChoice, quirks: Quirks) -> Value {
    let tools = tools(names);
    let request = Request { quirks, tool_choice: choice, max_tokens: Some(9), ..Request::new("m", messages, &tools) };
    serde_json::from_slice(&request.to_body(Dialect::Chat).unwrap()).unwrap()
}

#[test]
fn the_older_form_asks_one_by_one() {
    let quirks = Quirks { legacy_functions: true, ..Quirks::default() };
    let messages = [
        Message::user("go"),
        asks(&[("a", "ping"), ("b", "maps.search")]),
        Message::tool("a", "pong", false),
        Message::tool("b", "there", false),
    ];
    let names = ["ping", "maps.search"];
    let written = body(&messages, &names, &ToolChoice::Auto, quirks);
    let on_wire = Names::of(names).on_wire("maps.search").into_owned();
    assert_eq!(
        written["messages"],
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "hm"},
            {"role": "assistant", "content": null, "function_call": {"name": "ping", "arguments": "{}"}},
            {"role": "function", "name": "ping", "content": "pong"},
            {"role": "assistant", "content": null, "function_call": {"name": on_wire, "arguments": "{}"}},
            {"role": "function", "name": on_wire, "content": "there"},
        ])
    );
    assert_eq!(written["functions"][0]["name"], "ping");
    for absent in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert!(written.get(absent).is_none(), "{absent}");
    }
    // It is read back with ids, each result with that of its call.
    let received = read_request(Dialect::Chat, written.to_string().as_bytes()).unwrap();
    assert_eq!(received.tools.len(), 2);
    let ids: Vec<String> = received
        .messages
        .iter()
        .flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.iter().map(|call| call.id.clone()).collect(),
            Message::Tool { call_id, .. } => vec![call_id.clone()],
            Message::System(_) | Message::User(_) => Vec::new(),
        })
        .collect();
    assert_eq!(ids, ["call_1", "call_1", "call_2", "call_2"]);

    let allowed = |required, tools: &[&str]| ToolChoice::Allowed {
        required,
        tools: tools.iter().map(|name| (*name).to_owned()).collect(),
    };
    let cases = [
        (ToolChoice::Auto, 2, json!("auto")),
        (ToolChoice::None, 2, json!("none")),
        (ToolChoice::Named("ping".to_owned()), 2, json!({"name": "ping"})),
        (ToolChoice::Required, 1, json!({"name": "ping"})),
        (ToolChoice::Required, 2, json!("auto")),
        (allowed(true, &["ping"]), 2, json!({"name": "ping"})),
        (allowed(false, &["ping"]), 2, json!("auto")),
        (allowed(true, &names), 2, json!("auto")),
    ];
    for (choice, count, expected) in cases {
        assert_eq!(body(&messages, &names[..count], &choice, quirks)["function_call"], expected, "{choice:?}");
    }
    assert!(body(&messages, &[], &ToolChoice::Required, quirks).get("functions").is_none());
    // A reply in the older form is a call like any other.
    let reply = json!({"choices": [{"message": {"content": null, "function_call": {"name": "ping", "arguments": "{}"}},
        "finish_reason": "function_call"}]});
    let turn = read_reply(Dialect::Chat, reply.to_string().as_bytes(), &Names::of(names)).unwrap();
    assert_eq!((turn.calls[0].id.as_str(), turn.calls[0].name.as_str()), ("call_1", "ping"));
}

#[test]
fn ids_that_do_not_fit_are_replaced_everywhere_alike() {
    let quirks = Quirks { call_ids: CallIds::Mistral, ..Quirks::default() };
    let ids = ["call_1", "abcDEF123", "chatcmpl-tool-0123456789abcdef0123456789abcdef", "é"];
    let calls = ids.map(|id| (id, "ping"));
    let mut messages = vec![Message::user("go"), asks(&calls)];
    messages.extend(ids.iter().map(|id| Message::tool(*id, "pong", false)));
    let written = body(&messages, &["ping"], &ToolChoice::Auto, quirks);
    let asked: Vec<&str> = written["messages"][1]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    let answered: Vec<&str> = (2..6).map(|at| written["messages"][at]["tool_call_id"].as_str().unwrap()).collect();
    assert_eq!(asked, answered);
    assert_eq!(asked[1], "abcDEF123");
    assert!(asked.iter().all(|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())), "{asked:?}");
    assert_eq!(asked.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
    // The same in a later request, which has more calls.
    messages.splice(1..1, [asks(&[("call_0", "ping")]), Message::tool("call_0", "pong", false)]);
    let later = body(&messages, &["ping"], &ToolChoice::Auto, quirks);
    assert_eq!(later["messages"][3]["tool_calls"], written["messages"][1]["tool_calls"]);
    assert_eq!(
        body(&messages, &["ping"], &ToolChoice::Auto, Quirks::default())["messages"][2]["tool_call_id"],
        "call_0"
    );
}

#[test]
fn the_limit_has_two_names() {
    let messages = [Message::user("go")];
    for is_new in [true, false] {
        let quirks = Quirks { max_completion_tokens: is_new, ..Quirks::default() };
        let written = body(&messages, &[], &ToolChoice::Auto, quirks);
        assert_eq!(written.get("max_completion_tokens"), is_new.then_some(&json!(9)));
        assert_eq!(written.get("max_tokens"), (!is_new).then_some(&json!(9)));
        assert_eq!(read_request(Dialect::Chat, written.to_string().as_bytes()).unwrap().max_tokens, Some(9));
    }
}

#[test]
fn what_nobody_knows_is_kept_and_sent_back() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "ping", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2ln"}}, "caller": {"type": "direct"}, "index": 0, "x": null});
    let message = json!({"role": "assistant", "content": "hi", "tool_calls": [call], "annotations": [], "refusal": null,
        "reasoning_details": [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}],
        "phase": "commentary", "nothing": ""});
    let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    let deltas = [
        json!({"role": "assistant", "content": "h", "reasoning_details": [{"type": "reasoning.text", "text": "a"}], "phase": "comm"}),
        json!({"content": "i", "reasoning_details": [{"type": "reasoning.text", "text": "b"}], "phase": "entary", "nothing": null}),
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ping", "arguments": ""}, "caller": {"type": "direct"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}, "extra_content": {"google": {"thought_signature": "c2ln"}}}]}),
    ];
    let mut stream = Stream::new(Dialect::Chat);
    for delta in deltas {
        stream.push(format!("data: {}\n\n", json!({"choices": [{"delta": delta}]})).as_bytes(), &mut |_| {}).unwrap();
    }
    stream.push(b"data: [DONE]\n\n", &mut |_| {}).unwrap();
    let whole = read_reply(Dialect::Chat, whole.to_string().as_bytes(), &Names::default()).unwrap();
    for turn in [whole, stream.finish(&Names::default()).unwrap()] {
        assert_eq!(turn.provider_meta.keys().collect::<Vec<_>>(), ["reasoning_details", "phase"]);
        let messages = [Message::assistant(&turn), Message::tool("c", "pong", false)];
        let written = &body(&messages, &["ping"], &ToolChoice::Auto, Quirks::default())["messages"][0];
        assert_eq!(written["reasoning_details"], message["reasoning_details"]);
        assert_eq!(written["phase"], "commentary");
        for kept in ["extra_content", "caller"] {
            assert_eq!(written["tool_calls"][0][kept], call[kept]);
        }
        for silent in ["annotations", "refusal", "nothing"] {
            assert!(written.get(silent).is_none(), "{silent}");
        }
        assert!(written["tool_calls"][0].get("index").is_none());
    }
}

#[test]
fn an_empty_finish_reason_says_nothing() {
    let chunk = |delta: Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta, "finish_reason": ""}]}));
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ping", "arguments": "{}"}}]});
    let mut stream = Stream::new(Dialect::Chat);
    stream.push((chunk(call) + &chunk(json!({}))).as_bytes(), &mut |_| {}).unwrap();
    assert!(!stream.is_complete());
    stream.push(b"data: [DONE]\n\n", &mut |_| {}).unwrap();
    let turn = stream.finish(&Names::default()).unwrap();
    assert_eq!((turn.finish.as_str(), turn.calls[0].refusal.is_none()), ("tool_calls", true));
}

#[test]
fn tokens_are_read_under_every_name() {
    let cases = [
        (json!({"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}), (5, 3, 0, 0)),
        (
            json!({"prompt_tokens": 5, "input_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2}}),
            (5, 3, 4, 2),
        ),
        (json!({"prompt_tokens": 5, "completion_tokens": 3, "prompt_cache_hit_tokens": 1}), (5, 3, 1, 0)),
        (json!({"input_tokens": 5, "output_tokens": 3, "prompt_tokens_details": null}), (5, 3, 0, 0)),
    ];
    for (usage, (input_tokens, output_tokens, cached_input_tokens, reasoning_tokens)) in cases {
        let reply = json!({"choices": [{"message": {"content": "hi"}}], "usage": usage});
        let turn = read_reply(Dialect::Chat, reply.to_string().as_bytes(), &Names::default()).unwrap();
        let expected = Usage { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens };
        assert_eq!(turn.usage, Some(expected), "{usage}");
    }
}

#[test]
fn a_bad_request_says_where() {
    let cases = [
        ("[]", "the body is no JSON object"),
        ("{\"model\": \"m\"}", "`messages` is missing"),
        (r#"{"messages": {}}"#, "`messages`: "),
        (r#"{"messages": [{"role": "user", "content": "a"}, {"role": "bot"}]}"#, "`messages[1]`: "),
        (r#"{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}"#, "`messages[0]`: "),
        (r#"{"messages": [], "max_tokens": "many"}"#, "`max_tokens`: "),
        (r#"{"messages": [], "stream": 1}"#, "`stream`: "),
    ];
    for (body, expected) in cases {
        let fault = read_request(Dialect::Chat, body.as_bytes()).unwrap_err();
        assert!(matches!(&fault, WireFault::Request { reason } if reason.contains(expected)), "{body}: {fault}");
    }
}
