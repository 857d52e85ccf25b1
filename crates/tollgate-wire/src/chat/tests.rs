//! The table of what servers do with fragments, and that pieces of any size give the same turn.

use proptest::prelude::*;

use super::*;
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::stream::{Assemble, Stream, testing::in_any_pieces};
use crate::turn::{Finish, Turn};

/// Reads chunks; answers the calls as `id name arguments`, `!` before those that must not run.
fn calls(deltas: &[Value], finish: &str) -> (Vec<String>, Turn) {
    let mut assembler = Assembler::default();
    for delta in deltas {
        assembler.event(&json!({"choices": [{"index": 0, "delta": {"tool_calls": delta}}]}).to_string()).unwrap();
    }
    assembler.event(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}).to_string()).unwrap();
    let turn = Box::new(assembler).finish(&Names::of(["lookup", "ping"])).unwrap();
    let line = |call: &crate::ModelCall| {
        format!("{}{} {} {}", if call.refusal.is_some() { "!" } else { "" }, call.id, call.name, call.arguments)
    };
    (turn.calls.iter().map(line).collect(), turn)
}

/// One server's habit a line: what it sends, and what must come of it.
#[test]
fn fragments_find_their_call() {
    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        deltas: Vec<Value>,
        calls: Vec<String>,
        diagnostic: Option<String>,
    }
    for line in include_str!("fragments.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        let (calls, turn) = calls(&case.deltas, "tool_calls");
        assert_eq!(calls, case.calls, "{}", case.name);
        let is_known = |code: &String| turn.diagnostics.contains(code);
        assert!(case.diagnostic.as_ref().is_none_or(is_known), "{}: {:?}", case.name, turn.diagnostics);
    }
}

#[test]
fn the_calls_decide_and_cut_turns_do_not_run() {
    let call = json!([{"index":0,"id":"c","function":{"name":"ping","arguments":"{}"}}]);
    for (finish, runs) in [
        ("stop", true),
        ("tool_calls", true),
        ("eos", true),
        ("length", false),
        ("content_filter", false),
        ("error", false),
    ] {
        let (calls, turn) = calls(std::slice::from_ref(&call), finish);
        assert_eq!(calls[0].starts_with('!'), !runs, "{finish}");
        assert_eq!(turn.finish, Finish::from(finish.to_owned()));
    }
}

#[test]
fn halves_of_a_surrogate_pair_are_joined_over_pieces() {
    let piece = |arguments: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"content":"{arguments}","tool_calls":[{{"index":0,"function":{{"name":"ping","arguments":"{arguments}"}}}}]}}}}]}}"#
        )
    };
    for (pieces, text, runs) in [
        ([r"a\ud83d", r"\ude00b"], "a😀b", true),
        ([r"a\ud83d", "b"], "a\u{fffd}b", false),
        ([r"\ude00", r"\n"], "\u{fffd}\n", false),
    ] {
        let mut assembler = Assembler::default();
        for part in pieces {
            assembler.event(&piece(part)).unwrap();
        }
        let turn = Box::new(assembler).finish(&Names::default()).unwrap();
        assert_eq!((turn.text.as_str(), turn.calls[0].arguments.as_str()), (text, text));
        assert_eq!(turn.calls[0].refusal.is_none(), runs, "{pieces:?}");
    }
}

#[test]
fn thoughts_stay_with_calls_and_are_no_text() {
    let call = json!([{"index": 0, "id": "c", "function": {"name": "ping", "arguments": "{}"}}]);
    let cases = [
        (
            "deepseek",
            vec![r#"{"reasoning_content":"let "}"#, r#"{"reasoning_content":"me"}"#],
            json!({"reasoning_content": "let me"}),
        ),
        ("vllm", vec![r#"{"reasoning":"a\ud83d"}"#, r#"{"reasoning":"\ude00"}"#], json!({"reasoning": "a😀"})),
        (
            "both",
            vec![r#"{"reasoning":"x","reasoning_content":"x"}"#],
            json!({"reasoning_content": "x", "reasoning": "x"}),
        ),
        ("empty is something", vec![r#"{"reasoning_content":""}"#], json!({"reasoning_content": ""})),
        ("null is nothing", vec![r#"{"reasoning_content":null}"#, r#"{"reasoning":{"effort":1}}"#], json!({})),
    ];
    for (name, deltas, kept) in cases {
        for (has_call, kept) in [(true, kept), (false, json!({}))] {
            let last = if has_call { json!({ "tool_calls": call }) } else { json!({ "content": "hi" }) }.to_string();
            let mut stream = Stream::new(Dialect::Chat);
            let mut shown = String::new();
            for delta in deltas.iter().copied().chain([last.as_str()]) {
                let event = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
                stream.push(event.as_bytes(), &mut |text| shown.push_str(text)).unwrap();
            }
            stream.push(b"data: [DONE]\n\n", &mut |_| {}).unwrap();
            let turn = stream.finish(&Names::default()).unwrap();
            assert_eq!(json!(turn.provider_meta), kept, "{name}");
            assert_eq!((shown.as_str(), &turn.text), (if has_call { "" } else { "hi" }, &shown), "{name}");
            let again: Turn = serde_json::from_str(&json!(turn).to_string()).unwrap();
            assert_eq!(again, turn, "{name}");
        }
    }
}

/// Whoever knows the secrets hides them before the text is cut, so that the cut never goes through one.
#[test]
fn faults_keep_more_than_they_show() {
    let fault = |event: String| Stream::new(Dialect::Chat).push(event.as_bytes(), &mut |_| {}).unwrap_err();
    let long = "x\u{1b}".repeat(1000);
    let broken = fault(format!("data: {long}\n\n"));
    assert!(matches!(&broken, WireFault::Malformed { excerpt, .. } if *excerpt == long));
    let server = fault(format!("data: {}\n\n", json!({"error": long})));
    assert!(matches!(&server, WireFault::Server { message } if *message == long));
    assert!(broken.to_string().len() < 700 && server.to_string().len() < 700);
    assert!(broken.to_string().ends_with("x\\u{1b}x\\u{1b}`"), "{broken}");
}

#[test]
fn wrong_kinds_do_no_harm() {
    let odd = r#"{"id":1,"choices":[{"index":null,"finish_reason":null,"logprobs":[],"delta":{"role":"assistant","content":[{"type":"text","text":"hi"}],"tool_calls":null,"function_call":null,"x":{}}}],"usage":"none"}"#;
    let mut assembler = Assembler::default();
    assembler.event(odd).unwrap();
    assembler.event(r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#).unwrap();
    assembler.event(r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#).unwrap();
    let turn = Box::new(assembler).finish(&Names::default()).unwrap();
    assert_eq!(
        (turn.text.as_str(), turn.usage),
        ("hi", Some(crate::Usage { input_tokens: 3, output_tokens: 4, ..crate::Usage::default() }))
    );
}

#[test]
fn broken_replies_are_told_apart() {
    let stream = |bytes: &str| {
        let mut stream = Stream::new(Dialect::Chat);
        stream.push(bytes.as_bytes(), &mut |_| {}).and_then(|()| stream.finish(&Names::default()))
    };
    let text = r#"{"choices":[{"delta":{"content":"hi"}}]}"#;
    assert_eq!(stream(&format!("data: {text}\n\n")), Err(WireFault::Closed));
    assert_eq!(stream(&format!("data: {text}\n\ndata: [DO")), Err(WireFault::Closed));
    assert_eq!(stream(&format!("data: {text}\n\ndata: [DONE]")).unwrap().text, "hi");
    assert_eq!(stream(""), Err(WireFault::Closed));
    let error = r#"{"error":{"message":"overloaded"}}"#;
    for event in [format!("data: {error}\n\n"), format!("event: error\ndata: {error}\n\n"), format!("{error}\n\n")] {
        assert_eq!(stream(&event), Err(WireFault::Server { message: "overloaded".to_owned() }), "{event}");
    }
    assert!(matches!(stream("data: <html>\n\n"), Err(WireFault::Malformed { .. })));
    assert!(matches!(stream(&format!("data: {}\n\n", "[".repeat(200_000))), Err(WireFault::Malformed { .. })));
    let mut endless = Stream::new(Dialect::Chat);
    let piece = vec![b'x'; 1 << 20];
    let fault = (0..32).find_map(|_| endless.push(&piece, &mut |_| {}).err());
    assert!(matches!(fault, Some(WireFault::TooLarge { .. })));
}

fn script(line: &str, texts: &[String]) -> Vec<u8> {
    let mut out = format!("\u{feff}: hello{line}{line}");
    for text in texts {
        let chunk = json!({"choices": [{"delta": {"content": text, "tool_calls": [{"index": 0, "id": "c", "function": {"name": "ping", "arguments": json!(text).to_string()}}]}}]});
        let chunk = chunk.to_string();
        let (head, tail) = chunk.split_at("{\"choices\":[".len());
        out.push_str(&format!("event: x{line}data: {head}{line}data:{tail}{line}id: 7{line}{line}"));
    }
    out.push_str(&format!(
        "data: {}{line}{line}data: [DONE]{line}{line}",
        json!({"choices": [{"finish_reason": "stop"}]})
    ));
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
        let cut = in_any_pieces(Dialect::Chat, &Names::default(), &bytes, &cuts);
        prop_assert_eq!(cut.0, texts.concat());
    }
}
