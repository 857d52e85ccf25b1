//! Replies that say of themselves what is not so: an error in a place of its own, an end after another end, a call that comes
//! twice. Nothing of them may run that did not arrive whole, and nothing twice.

use tollgate_wire::{Dialect, Names, Stream, Turn, WireFault, read_reply};

fn names() -> Names {
    Names::of(["save", "lookup"])
}

fn stream(dialect: Dialect, events: &[&str]) -> Result<Turn, WireFault> {
    let mut stream = Stream::new(dialect);
    for event in events {
        let event = if event.starts_with("event:") { format!("{event}\n\n") } else { format!("data: {event}\n\n") };
        stream.push(event.as_bytes(), &mut |_| {})?;
    }
    stream.finish(&names())
}

/// The calls that run, by their arguments.
fn runs(turn: &Turn) -> Vec<&str> {
    turn.calls.iter().filter(|call| call.refusal.is_none()).map(|call| call.arguments.as_str()).collect()
}

const CALL: &str = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"save","arguments":"{\"text\":\"pay\"}"}}]}}]}"#;
const ENDS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;

#[test]
fn an_error_is_one_wherever_it_stands() {
    for (error, words) in [
        (r#"{"object":"error","message":"boom","code":400}"#, "boom"),
        ("event: error\ndata: {\"message\":\"boom\"}", "boom"),
        ("event: error\ndata: boom", "boom"),
        (r#"{"detail":"boom"}"#, "boom"),
        (r#"{"code":"InvalidParameter","message":"boom"}"#, "boom"),
        (r#"{"error_msg":"boom","error_code":17}"#, "boom"),
        (r#"{"code":"1301","msg":"boom"}"#, "boom"),
        (r#"{"base_resp":{"status_code":1001,"status_msg":"boom"},"choices":null}"#, "boom"),
        (r#"{"choices":[{"index":0,"delta":{},"error":{"message":"boom"},"finish_reason":"stop"}]}"#, "boom"),
    ] {
        for before in [vec![CALL], vec![CALL, ENDS], vec![]] {
            let events = [&before[..], &[error, "[DONE]"]].concat();
            match stream(Dialect::Chat, &events) {
                Err(WireFault::Server { message }) => assert!(message.contains(words), "{error}: {message}"),
                Err(WireFault::Malformed { .. }) if error.ends_with("data: boom") => {}
                other => panic!("{error}: {other:?}"),
            }
        }
        if error.starts_with('{') {
            assert!(read_reply(Dialect::Chat, error.as_bytes(), &names()).is_err(), "{error}");
        }
    }
    let call = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c1","name":"save","arguments":"{}"}}"#;
    let failed = stream(Dialect::Responses, &[call, r#"{"object":"error","message":"boom"}"#, "[DONE]"]);
    assert!(matches!(&failed, Err(WireFault::Server { message }) if message == "boom"), "{failed:?}");
    // What servers say beside their chunks is no error.
    let said = r#"{"id":"x","prompt_filter_results":[],"base_resp":{"status_code":0,"status_msg":""},"choices":null}"#;
    assert_eq!(runs(&stream(Dialect::Chat, &[said, CALL, ENDS, "[DONE]"]).unwrap()), [r#"{"text":"pay"}"#]);
}

#[test]
fn what_was_cut_stays_so_and_an_end_that_nobody_knows_is_none() {
    let ends = |word: &str| format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{word}"}}]}}"#);
    for words in [
        &["length", "stop"][..],
        &["length", "tool_calls"],
        &["content_filter", "stop"],
        &["LENGTH"],
        &["insufficient_system_resource"],
        &["network_error"],
        &["abort"],
    ] {
        let ends: Vec<String> = words.iter().map(|word| ends(word)).collect();
        let events: Vec<&str> = [CALL].into_iter().chain(ends.iter().map(String::as_str)).chain(["[DONE]"]).collect();
        let turn = stream(Dialect::Chat, &events).unwrap();
        assert!(runs(&turn).is_empty() && turn.calls.len() == 1, "{words:?}: {turn:?}");
    }
    for word in ["stop", "tool_calls", "STOP", "eos_token", "end_turn"] {
        assert_eq!(runs(&stream(Dialect::Chat, &[CALL, &ends(word), "[DONE]"]).unwrap()).len(), 1, "{word}");
    }
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"save","input":{"text":"pay"}}}"#;
    let stops = [r#"{"type":"content_block_stop","index":0}"#, r#"{"type":"message_stop"}"#];
    let delta = |word: &str| format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}"}}}}"#);
    let (cut, whole, odd) = (delta("max_tokens"), delta("tool_use"), delta("aborted"));
    assert!(runs(&stream(Dialect::Anthropic, &[block, stops[0], &cut, &whole, stops[1]]).unwrap()).is_empty());
    assert!(runs(&stream(Dialect::Anthropic, &[block, stops[0], &odd, stops[1]]).unwrap()).is_empty());
    assert_eq!(runs(&stream(Dialect::Anthropic, &[block, stops[0], &whole, stops[1]]).unwrap()).len(), 1);
    let part = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"save","args":{"text":"pay"}}}]},"finishReason":"MAX_TOKENS"}]}"#;
    let whole = r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#;
    assert!(runs(&stream(Dialect::Gemini, &[part, whole]).unwrap()).is_empty());
    let open = r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"f","delta":"{}"}"#;
    let begun = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"f","call_id":"c1","name":"save","arguments":""}}"#;
    assert!(runs(&stream(Dialect::Responses, &[begun, open, "[DONE]"]).unwrap()).is_empty());
}

#[test]
fn a_text_that_comes_at_its_end_alone_is_the_answer() {
    let text = r#"{"type":"response.output_text.done","output_index":0,"item_id":"m","content_index":0,"text":"好"}"#;
    let end = r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#;
    assert_eq!(stream(Dialect::Responses, &[text, end]).unwrap().text, "好");
    let piece =
        r#"{"type":"response.output_text.delta","output_index":0,"item_id":"m","content_index":0,"delta":"好"}"#;
    assert_eq!(stream(Dialect::Responses, &[piece, text, end]).unwrap().text, "好");
}

#[test]
fn pieces_that_name_no_item_are_those_of_the_item_that_comes() {
    let piece = |text: &str| format!(r#"{{"type":"response.output_text.delta","delta":"{text}"}}"#);
    let message = r#"{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hallo"}]}"#;
    let call = r#"{"type":"function_call","id":"f","call_id":"c1","name":"save","arguments":"{\"text\":\"pay\"}"}"#;
    let completed = |items: &str| {
        format!(r#"{{"type":"response.completed","response":{{"id":"r","status":"completed","output":[{items}]}}}}"#)
    };
    let turn = stream(Dialect::Responses, &[&piece("hal"), &piece("lo"), &completed(message)]).unwrap();
    assert_eq!(turn.text, "hallo");
    let input = |text: &str| format!(r#"{{"type":"response.function_call_arguments.delta","delta":"{text}"}}"#);
    let events = [input(r#"{\"text\":"#), input(r#"\"pay\"}"#), completed(call)];
    let turn = stream(Dialect::Responses, &events.each_ref().map(String::as_str)).unwrap();
    assert_eq!((runs(&turn), turn.calls.len()), (vec![r#"{"text":"pay"}"#], 1), "{turn:?}");
}

#[test]
fn a_call_that_comes_twice_runs_once() {
    let message = r#"{"role":"assistant","content":"hi","tool_calls":[{"id":"c1","type":"function","function":{"name":"save","arguments":"{\"text\": \"pay\"}"}}]}"#;
    let text = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
    let whole = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"tool_calls"}}]}}"#);
    let again = CALL.replace(r#"{\"text\":"#, r#"{\"text\": "#);
    let both = CALL.replace(
        r#""tool_calls":"#,
        r#""function_call":{"name":"save","arguments":"{\"text\":\"pay\"}"},"tool_calls":"#,
    );
    for events in [vec![text, CALL, &whole], vec![CALL, &again, ENDS], vec![&both, ENDS]] {
        let turn = stream(Dialect::Chat, &[&events[..], &["[DONE]"]].concat()).unwrap();
        assert_eq!(runs(&turn).len(), 1, "{events:?}: {turn:?}");
        assert!(turn.text.len() <= 2, "{}", turn.text);
    }
    let unnumbered = format!(r#"{{"choices":[{{"message":{message}}},{{"message":{message}}}]}}"#);
    assert_eq!(runs(&read_reply(Dialect::Chat, unnumbered.as_bytes(), &names()).unwrap()).len(), 1);

    let item = |id: &str| {
        format!(
            r#"{{"type":"function_call","id":"{id}","call_id":"call_A","name":"save","arguments":"{{\"text\":\"pay\"}}"}}"#
        )
    };
    for place in [r#""output_index":1,"#, r#""output_index":0,"#, ""] {
        let done = format!(r#"{{"type":"response.output_item.done",{place}"item":{}}}"#, item("fc_1"));
        let completed = format!(
            r#"{{"type":"response.completed","response":{{"id":"r","status":"completed","output":[{}]}}}}"#,
            item("fc_2")
        );
        let turn = stream(Dialect::Responses, &[&done, &completed]).unwrap();
        assert_eq!(runs(&turn).len(), 1, "{place}: {turn:?}");
    }
    let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"save","input":{"text":"pay"}}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let end = [r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#, r#"{"type":"message_stop"}"#];
    let turn = stream(Dialect::Anthropic, &[block, stop, block, stop, end[0], end[1]]).unwrap();
    assert_eq!(runs(&turn).len(), 1, "{turn:?}");
    // The same id is no sign of it where the calls differ.
    let other = CALL.replace("pay", "tell").replace(r#""index":0,"id""#, r#""index":1,"id""#);
    assert_eq!(runs(&stream(Dialect::Chat, &[CALL, &other, ENDS, "[DONE]"]).unwrap()).len(), 2);
}
