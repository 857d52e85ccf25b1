//! What is sent for a conversation, and what is read of each form of a reply.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::value::RawValue;
use tollgate_types::{ToolDefinition, limits};

use super::*;
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::{Content, Image, Message, Piece};
use crate::lower::{Lowered, Target, lower};
use crate::stream::{Stream, read_reply, testing::in_any_pieces};
use crate::turn::{Finish, HostedCall, Part, Turn, Usage};

fn tools(names: &[&str]) -> Lowered {
    let tools: Vec<_> = names.iter().map(|name| Arc::new(ToolDefinition::new(*name, "Looks."))).collect();
    lower(&tools, &Target::of(Dialect::Gemini)).unwrap()
}

fn body_of(request: &Request<'_>) -> Value {
    serde_json::from_slice(&request.to_body(Dialect::Gemini).unwrap()).unwrap()
}

fn contents(messages: &[Message]) -> Value {
    body_of(&Request::new("m", messages, &Lowered::default()))["contents"].take()
}

fn read(parts: &str, finish: &str) -> Turn {
    let body = format!(
        r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"finishReason":"{finish}"}}],"responseId":"r1"}}"#
    );
    read_reply(Dialect::Gemini, body.as_bytes(), &Names::of(["lookup", "ping"])).unwrap()
}

/// `!` before those that must not run.
fn lines(turn: &Turn) -> Vec<String> {
    let line = |call: &crate::ModelCall| {
        format!("{}{} {} {}", if call.refusal.is_some() { "!" } else { "" }, call.id, call.name, call.arguments)
    };
    turn.calls.iter().map(line).collect()
}

#[test]
fn a_choice_is_a_mode_and_the_names_that_it_allows() {
    let offered = tools(&["lookup", "天气"]);
    let wire = offered.names().on_wire("天气").into_owned();
    let allowed = |required, names: &[&str]| ToolChoice::Allowed {
        required,
        tools: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    for (choice, config) in [
        (ToolChoice::Auto, json!({"mode": "AUTO"})),
        (ToolChoice::None, json!({"mode": "NONE"})),
        (ToolChoice::Required, json!({"mode": "ANY"})),
        (ToolChoice::Named("天气".to_owned()), json!({"mode": "ANY", "allowedFunctionNames": [wire]})),
        (allowed(true, &["lookup"]), json!({"mode": "ANY", "allowedFunctionNames": ["lookup"]})),
        (allowed(false, &["lookup"]), json!({"mode": "VALIDATED", "allowedFunctionNames": ["lookup"]})),
        (allowed(true, &[]), json!({"mode": "NONE"})),
    ] {
        let messages = [Message::user("hi")];
        let request = Request { tool_choice: &choice, ..Request::new("m", &messages, &offered) };
        assert_eq!(body_of(&request)["toolConfig"], json!({ "functionCallingConfig": config }));
        let without = Lowered::default();
        let request = Request { tool_choice: &choice, ..Request::new("m", &messages, &without) };
        assert!(body_of(&request).get("toolConfig").is_none());
    }
}

#[test]
fn what_the_operator_adds_is_merged_and_replaces_nothing() {
    let (offered, messages) = (tools(&["lookup"]), [Message::System("be kind".to_owned()), Message::user("hi")]);
    let extra = json!({
        "generationConfig": {"temperature": 1, "thinkingConfig": {"includeThoughts": true}},
        "toolConfig": {"functionCallingConfig": {"mode": "NONE", "streamFunctionCallArguments": true}, "includeServerSideToolInvocations": true},
        "safetySettings": [],
        "contents": [],
    });
    let hosted = [RawValue::from_string(r#"{"googleSearch":{}}"#.to_owned()).unwrap()];
    let request = Request {
        max_tokens: Some(9),
        temperature: Some(0.5),
        hosted: &hosted,
        extra: extra.as_object(),
        ..Request::new("m", &messages, &offered)
    };
    let body = body_of(&request);
    assert_eq!(
        body["generationConfig"],
        json!({"maxOutputTokens": 9, "temperature": 0.5, "thinkingConfig": {"includeThoughts": true}})
    );
    assert_eq!(
        body["toolConfig"],
        json!({"functionCallingConfig": {"mode": "AUTO", "streamFunctionCallArguments": true}, "includeServerSideToolInvocations": true})
    );
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["name"], "lookup");
    assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
    assert_eq!(body["safetySettings"], json!([]));
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "be kind"}]}));
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "hi"}]}]));
}

#[test]
fn results_stand_in_one_content_with_names_errors_and_images() {
    let mut turn = read(
        r#"{"functionCall":{"name":"lookup","args":{"n":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"g2","name":"lookup","args":{"n":2}}}"#,
        "STOP",
    );
    turn.text.clear();
    let image = Piece::Image(Image::from_url("data:image/png;base64,AAAA"));
    let far = Piece::Image(Image::Url("https://example.com/a.webp?x=1".to_owned()));
    let pieces = vec![Piece::Text("seen".to_owned()), image, far];
    let messages = [
        Message::user("go"),
        Message::assistant(&turn),
        Message::tool("call_1", Content::from(pieces), false),
        Message::tool("g2", "no such file", true),
    ];
    assert_eq!(
        contents(&messages),
        json!([
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "lookup", "args": {"n": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "g2", "name": "lookup", "args": {"n": 2}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "lookup", "response": {"output": "seen"}, "parts": [
                    {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                    {"fileData": {"mimeType": "image/webp", "fileUri": "https://example.com/a.webp?x=1"}},
                ]}},
                {"functionResponse": {"id": "g2", "name": "lookup", "response": {"error": "no such file"}}},
            ]},
        ])
    );
}

/// A history from elsewhere has no signatures, and none is made up; the server never saw its ids.
#[test]
fn a_history_of_another_dialect_goes_out_as_text_and_calls() {
    let call = crate::ModelCall {
        id: "call_9".to_owned(),
        wire_id: "call_9".to_owned(),
        name: "lookup".to_owned(),
        arguments: r#"{"n": 18446744073709551615}"#.to_owned(),
        provider_meta: Some(json!({"thoughtSignature": "b3RoZXI="})),
        ..crate::ModelCall::default()
    };
    for dialect in [None, Some(Dialect::Anthropic)] {
        let raw = Part::Raw(r#"{"type":"thinking"}"#.to_owned());
        let kept = dialect.map(|dialect| Box::new(crate::Kept { dialect, response_id: None, parts: vec![raw] }));
        let turn = Turn { text: "so".to_owned(), calls: vec![call.clone()], kept, ..Turn::default() };
        let messages = [Message::user(""), Message::assistant(&turn), Message::tool("call_9", "", false)];
        let body = Request::new("m", &messages, &Lowered::default()).to_body(Dialect::Gemini).unwrap();
        let expected = r#"{"contents":[{"role":"model","parts":[{"text":"so"},{"functionCall":{"name":"lookup","args":{"n": 18446744073709551615}}}]},{"role":"user","parts":[{"functionResponse":{"name":"lookup","response":{"output":""}}}]}]}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected, "{dialect:?}");
    }
}

#[test]
fn a_turn_goes_back_as_it_came() {
    let parts = [
        r#"{"text": "let me","thought":true}"#,
        r#"{"text":"I look"}"#,
        r#"{"executableCode":{"id":"e1","language":"PYTHON","code":"print(1)"}}"#,
        r#"{"codeExecutionResult":{"id":"e1","outcome":"OUTCOME_FAILED","output":"no"}}"#,
        r#"{"functionCall":{"name":"lookup","args":{"n":1e2},"futureField":[1]},"thoughtSignature":"c2ln","partMetadata":{"a":1}}"#,
        r#"{"text":" up.","thoughtSignature":"ZW5k"}"#,
        r#"{"somethingNew":{"x" : 12345678901234567890123}}"#,
    ];
    let turn = read(&parts.join(","), "STOP");
    assert_eq!((turn.text.as_str(), &turn.finish), ("I look up.", &Finish::ToolCalls));
    let again: Turn = serde_json::from_str(&json!(turn).to_string()).unwrap();
    assert_eq!(again, turn);
    let messages = [Message::assistant(&again), Message::tool("call_1", "1", false)];
    let body = Request::new("m", &messages, &Lowered::default()).to_body(Dialect::Gemini).unwrap();
    let body = String::from_utf8(body).unwrap();
    for part in parts.iter().filter(|part| !part.contains("functionCall")) {
        assert!(body.contains(part), "{part}\n{body}");
    }
    let sent: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(sent["contents"][0]["parts"][4], serde_json::from_str::<Value>(parts[4]).unwrap());
    let ran = HostedCall {
        id: "e1".to_owned(),
        name: "codeExecution".to_owned(),
        arguments: r#"{"id":"e1","language":"PYTHON","code":"print(1)"}"#.to_owned(),
        result: Some(r#"{"id":"e1","outcome":"OUTCOME_FAILED","output":"no"}"#.to_owned()),
        is_error: true,
    };
    assert_eq!(turn.hosted, [ran]);
}

/// Each form of a call that a server sends, and the calls that come of it.
#[test]
fn calls_are_parts() {
    for (name, parts, calls, diagnostic) in [
        (
            "the same name three times",
            r#"{"functionCall":{"name":"lookup","args":{"q":"1"}}},{"functionCall":{"name":"lookup","args":{"q":"2"}}},{"functionCall":{"name":"lookup","args":{"q":"3"}}}"#,
            vec![r#"call_1 lookup {"q":"1"}"#, r#"call_2 lookup {"q":"2"}"#, r#"call_3 lookup {"q":"3"}"#],
            None,
        ),
        ("no args", r#"{"functionCall":{"name":"ping"}}"#, vec!["call_1 ping {}"], None),
        ("null args", r#"{"functionCall":{"id":"","name":"ping","args":null}}"#, vec!["call_1 ping {}"], None),
        (
            "a string for args",
            r#"{"functionCall":{"id":"a","name":"ping","args":"{\"q\":1}"}}"#,
            vec![r#"a ping {"q":1}"#],
            Some("args_not_object"),
        ),
        (
            "a list for args",
            r#"{"functionCall":{"id":"a","name":"ping","args":[1]}}"#,
            vec!["a ping [1]"],
            Some("args_not_object"),
        ),
        (
            "one id twice",
            r#"{"functionCall":{"id":"a","name":"ping"}},{"functionCall":{"id":"a","name":"ping"}}"#,
            vec!["a ping {}", "!call_2 ping {}"],
            Some("id_replaced"),
        ),
        (
            "a prefix",
            r#"{"functionCall":{"id":"a","name":"default_api:ping"}}"#,
            vec!["a ping {}"],
            Some("name_prefix_stripped"),
        ),
        ("nothing", r#"{"functionCall":{}}"#, vec![], Some("orphan_fragment_dropped")),
        ("a number as id", r#"{"functionCall":{"id":7,"name":"ping"}}"#, vec!["7 ping {}"], None),
        (
            "big numbers",
            r#"{"functionCall":{"name":"ping","args":{"n":98765432109876543210.50}}}"#,
            vec!["call_1 ping {\"n\":98765432109876543210.50}"],
            None,
        ),
        ("no part", r#"7,{"functionCall":{"id":"a","name":"ping"}}"#, vec!["a ping {}"], Some("content_part_ignored")),
    ] {
        let turn = read(parts, "STOP");
        assert_eq!(lines(&turn), calls, "{name}");
        let is_known = |code: &str| turn.diagnostics.iter().any(|known| known == code);
        assert!(diagnostic.is_none_or(is_known), "{name}: {:?}", turn.diagnostics);
    }
}

/// `streamFunctionCallArguments`: pieces, each with its place.
#[test]
fn arguments_in_pieces_find_their_place() {
    let begin = r#"{"functionCall":{"name":"lookup","willContinue":true},"thoughtSignature":"c2ln"}"#;
    let piece = |pieces: &str| format!(r#"{{"functionCall":{{"partialArgs":[{pieces}],"willContinue":true}}}}"#);
    let text = |path: &str, text: &str, more: bool| {
        format!(r#"{{"jsonPath":"{path}","stringValue":"{text}","willContinue":{more}}}"#)
    };
    let end = r#"{"functionCall":{}}"#;
    let cases: [(&str, Vec<String>, &str); 8] = [
        (
            "a string grows",
            vec![
                piece(&text("$.q", "你\\ud83d", true)),
                piece(&text("$.q", "\\ude00", true)),
                piece(&text("$.q", "!", false)),
                end.to_owned(),
            ],
            r#"call_1 lookup {"q":"你😀!"}"#,
        ),
        (
            "every kind of value, deep",
            vec![
                piece(
                    r#"{"jsonPath":"$.a.b[0]['x y']","numberValue":3},{"jsonPath":"$.a.b[1]","boolValue":false},{"jsonPath":"$.c","nullValue":"NULL_VALUE"}"#,
                ),
                end.to_owned(),
            ],
            r#"call_1 lookup {"a":{"b":[{"x y":3},false]},"c":null}"#,
        ),
        (
            "said again, not more",
            vec![piece(&text("$.q", "a", false)), piece(&text("$.q", "b", false)), end.to_owned()],
            r#"call_1 lookup {"q":"b"}"#,
        ),
        ("nothing at all", vec![end.to_owned()], "call_1 lookup {}"),
        ("the end never comes", vec![piece(&text("$.q", "a", false))], r#"!call_1 lookup {"q":"a"}"#),
        ("half a pair", vec![piece(&text("$.q", "\\ud83d", false)), end.to_owned()], "!call_1 lookup "),
        (
            "no list is that long",
            vec![piece(&text("$.q[4000000000]", "a", false)), end.to_owned()],
            r#"!call_1 lookup {"q":[]}"#,
        ),
        ("no path", vec![piece(&text("q..", "a", false)), end.to_owned()], "!call_1 lookup {}"),
    ];
    for (name, pieces, expected) in cases {
        let mut stream = Stream::new(Dialect::Gemini);
        for part in std::iter::once(begin.to_owned()).chain(pieces) {
            let event = format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{part}]}}}}]}}\n\n");
            stream.push(event.as_bytes(), &mut |_| {}).unwrap();
        }
        stream.push(b"data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n", &mut |_| {}).unwrap();
        let turn = stream.finish(&Names::of(["lookup"])).unwrap();
        assert_eq!(lines(&turn), [expected], "{name}");
        assert_eq!(turn.calls[0].provider_meta, Some(json!({"thoughtSignature": "c2ln"})), "{name}");
    }
}

#[test]
fn two_calls_in_pieces_stay_apart() {
    let part = |call: &str| format!(r#"{{"functionCall":{call}}}"#);
    let parts = [
        part(r#"{"id":"a","name":"lookup","willContinue":true}"#),
        part(r#"{"id":"b","name":"lookup","willContinue":true}"#),
        part(r#"{"id":"a","partialArgs":[{"jsonPath":"$.q","stringValue":"1"}]}"#),
        part(r#"{"id":"b","partialArgs":[{"jsonPath":"$.q","stringValue":"2"}]}"#),
    ];
    assert_eq!(lines(&read(&parts.join(","), "STOP")), [r#"a lookup {"q":"1"}"#, r#"b lookup {"q":"2"}"#]);
}

#[test]
fn a_word_says_how_the_turn_ended() {
    let call = r#"{"functionCall":{"name":"ping"}}"#;
    for (word, finish, runs) in [
        ("STOP", "tool_calls", true),
        ("FINISH_REASON_UNSPECIFIED", "tool_calls", true),
        ("MAX_TOKENS", "length", false),
        ("SAFETY", "content_filter", false),
        ("RECITATION", "content_filter", false),
        ("OTHER", "OTHER", false),
        ("A_NEW_WORD", "A_NEW_WORD", false),
    ] {
        let turn = read(call, word);
        assert_eq!((turn.finish.as_str(), turn.calls[0].refusal.is_none()), (finish, runs), "{word}");
        assert_eq!(turn.diagnostics.contains(&word.to_ascii_lowercase()), finish == "content_filter", "{word}");
    }
    let body =
        |word: &str| format!(r#"{{"candidates":[{{"content":{{}},"finishReason":"{word}","finishMessage":"so"}}]}}"#);
    for (word, again) in [
        ("MALFORMED_FUNCTION_CALL", true),
        ("UNEXPECTED_TOOL_CALL", true),
        ("MALFORMED_RESPONSE", true),
        ("TOO_MANY_TOOL_CALLS", false),
        ("MISSING_THOUGHT_SIGNATURE", false),
    ] {
        let fault = read_reply(Dialect::Gemini, body(word).as_bytes(), &Names::default()).unwrap_err();
        assert_eq!(fault.to_string(), format!("the turn ended with `{word}`: so"));
        assert!(matches!(fault, WireFault::Ended { is_retryable, .. } if is_retryable == again), "{fault:?}");
    }
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let fault = read_reply(Dialect::Gemini, blocked.as_bytes(), &Names::default()).unwrap_err();
    assert_eq!(fault.to_string(), "the turn ended with `prompt blocked: SAFETY`");
    let mut stream = Stream::new(Dialect::Gemini);
    stream.push(format!("data: {blocked}\n\n").as_bytes(), &mut |_| {}).unwrap();
    assert!(stream.is_complete());
    assert_eq!(stream.finish(&Names::default()), Err(fault));
}

#[test]
fn what_stands_beside_the_content_is_read() {
    let body = json!([
        {"candidates": [{"content": {"parts": [{"text": "it "}]}, "groundingMetadata": {}}], "usageMetadata": {"promptTokenCount": 5}, "responseId": "r1"},
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "another"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "rains"}]}, "finishReason": "STOP",
            "groundingMetadata": {"webSearchQueries": ["weather"], "groundingChunks": []},
            "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://x", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"}]}}],
         "usageMetadata": {"promptTokenCount": 5, "toolUsePromptTokenCount": 2, "cachedContentTokenCount": 4, "candidatesTokenCount": 3, "thoughtsTokenCount": 6}},
    ]);
    let turn = read_reply(Dialect::Gemini, body.to_string().as_bytes(), &Names::default()).unwrap();
    assert_eq!((turn.text.as_str(), &turn.kept), ("it rains", &None));
    assert_eq!(turn.diagnostics, ["other_choice_ignored"]);
    let usage = Usage { input_tokens: 7, output_tokens: 9, cached_input_tokens: 4, reasoning_tokens: 6 };
    assert_eq!(turn.usage, Some(usage));
    let told: Vec<_> =
        turn.hosted.iter().map(|call| (call.name.as_str(), call.arguments.as_str(), call.is_error)).collect();
    assert_eq!(told[0], ("googleSearch", r#"["weather"]"#, false));
    assert_eq!((told[1].0, told[1].2, told.len()), ("urlContext", true, 2));
}

#[test]
fn broken_replies_are_told_apart() {
    let whole = |body: &str| read_reply(Dialect::Gemini, body.as_bytes(), &Names::default());
    let server = WireFault::Server { message: "overloaded".to_owned() };
    let error = r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#;
    assert_eq!(whole(error), Err(server.clone()));
    assert_eq!(whole(&format!("[{error}]")), Err(server.clone()));
    for body in ["{}", "[]", "<html>", r#"{"candidates":7}"#, r#"{"candidates":[]}"#, r#"{"candidates":[{"#] {
        assert!(matches!(whole(body), Err(WireFault::Malformed { .. })), "{body}: {:?}", whole(body));
    }
    let odd = r#"{"candidates":[{"content":{"parts":null,"role":7},"finishReason":7,"safetyRatings":1}],"usageMetadata":"x","promptFeedback":[],"modelVersion":{}}"#;
    assert_eq!(whole(odd).unwrap().finish, Finish::Other("7".to_owned()));
    let stream = |events: &[&str]| {
        let mut stream = Stream::new(Dialect::Gemini);
        let text: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
        stream.push(text.as_bytes(), &mut |_| {}).and_then(|()| stream.finish(&Names::default()))
    };
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}"#;
    assert_eq!(stream(&[text]), Err(WireFault::Closed));
    assert_eq!(stream(&[text, error]), Err(server));
    let last = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    assert_eq!(stream(&[text, r#"{"somethingNew":1}"#, last]).unwrap().text, "hi");
    let many = vec![r#"{"functionCall":{"name":"ping"}}"#; 8 * limits::CALLS_PER_TURN_MAX + 1].join(",");
    let many = format!(r#"{{"candidates":[{{"content":{{"parts":[{many}]}}}}]}}"#);
    assert!(matches!(whole(&many), Err(WireFault::TooLarge { unit: "calls", .. })));
    let huge =
        format!(r#"{{"functionCall":{{"name":"ping","args":{{"x":"{}"}}}}}}"#, "x".repeat(limits::ARGUMENTS_BYTES_MAX));
    let turn = read(&huge, "STOP");
    assert_eq!((lines(&turn), turn.diagnostics[0].as_str()), (vec!["!call_1 ping {}".to_owned()], "args_too_large"));
}

fn script(line: &str, texts: &[String]) -> Vec<u8> {
    let mut out = format!("\u{feff}: hello{line}{line}");
    for text in texts {
        let parts = json!([
            {"text": text, "thought": true},
            {"text": text},
            {"functionCall": {"name": "ping", "args": {"text": text}}, "thoughtSignature": "c2ln"},
        ]);
        let chunk = json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]}).to_string();
        let (head, tail) = chunk.split_at("{\"candidates\":[".len());
        out.push_str(&format!("event: x{line}data: {head}{line}data:{tail}{line}id: 7{line}{line}"));
    }
    let last = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}});
    out.push_str(&format!("data: {last}{line}{line}"));
    out.into_bytes()
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_turn(
        texts in prop::collection::vec(any::<String>(), 0..5),
        line in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        cuts in prop::collection::vec(1_usize..40, 1..40),
    ) {
        let bytes = script(line, &texts);
        let cut = in_any_pieces(Dialect::Gemini, &Names::default(), &bytes, &cuts);
        prop_assert_eq!(cut.0, texts.concat());
        prop_assert_eq!(cut.1.calls.len(), texts.len());
        for (call, text) in cut.1.calls.iter().zip(&texts) {
            prop_assert_eq!(&call.arguments, &json!({ "text": text }).to_string());
        }
    }
}
