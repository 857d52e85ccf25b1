//! Frames as they come: whole, broken, deep, long, hostile.

use proptest::prelude::*;
use serde_json::json;

use super::frame::{Frame, Frames};
use super::{Id, Message, answer, failure, parse};

/// The code and the id with which a frame is refused.
fn refusal(frame: impl AsRef<[u8]>) -> serde_json::Value {
    let malformed = parse(frame.as_ref()).unwrap_err();
    let line = failure(malformed.id.as_ref(), &malformed.error);
    let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
    json!([value["error"]["code"], value["id"]])
}

#[test]
fn a_malformed_frame_is_refused_under_its_id_where_that_can_be_read() {
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":"d","method":"ping","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    let id_last = format!(r#"{{"params":{}{},"id":18446744073709551615}}"#, "[".repeat(200), "]".repeat(200));
    let table: &[(&[u8], serde_json::Value)] = &[
        (deep.as_bytes(), json!([-32600, "d"])),
        (id_last.as_bytes(), json!([-32600, u64::MAX])),
        (&[b'['; 200_000], json!([-32600, null])),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping""#, json!([-32700, 7])),
        (br#"{"jsonrpc":"2.0","id":7"#, json!([-32700, null])),
        (br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#, json!([-32600, null])),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}"#, json!([-32600, 7])),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}", json!([-32700, 7])),
        (b"{\"params\":\"\\\"\",\"id\":1,}", json!([-32700, 1])),
        (b"not json", json!([-32700, null])),
        (br#"["id",5"#, json!([-32700, null])),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, json!([-32600, null])),
        (b"[]", json!([-32600, null])),
        (b"[1,2,3,4,5,6,7]", json!([-32600, null])),
        (b"1", json!([-32600, null])),
        (b"{}", json!([-32600, null])),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, json!([-32600, 1])),
        (br#"{"id":1,"method":"ping"}"#, json!([-32600, 1])),
        (br#"{"jsonrpc":"2.0","id":1}"#, json!([-32600, 1])),
        (br#"{"jsonrpc":"2.0","id":1,"method":5}"#, json!([-32600, 1])),
        (br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, json!([-32600, null])),
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, json!([-32600, null])),
        (br#"{"jsonrpc":"2.0","id":{"id":1},"method":"ping"}"#, json!([-32600, null])),
    ];
    for (frame, expected) in table {
        assert_eq!(refusal(frame), *expected, "{}", String::from_utf8_lossy(frame.get(..80).unwrap_or(frame)));
    }
}

#[test]
fn an_id_is_echoed_in_exactly_the_text_it_came_in() {
    for id in
        ["0", "-1", "1.0", "1.50", "1e3", "18446744073709551615", "123456789012345678901234567890", r#""""#, r#""é""#]
    {
        let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let Ok(Message::Request { id: read, .. }) = parse(frame.as_bytes()) else { panic!("not a request: {frame}") };
        let line = String::from_utf8(answer(&read, json!({}))).unwrap();
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[test]
fn text_and_number_are_different_ids() {
    let id = |raw: &str| serde_json::from_str::<Id>(raw).unwrap();
    assert_eq!(id(r#""a""#), id(r#""\u0061""#));
    assert_ne!(id("1"), id(r#""1""#));
}

#[test]
fn answers_of_the_client_and_blank_lines_are_no_requests() {
    let response = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#;
    assert!(matches!(parse(response.as_bytes()), Ok(Message::Response { .. })));
    assert!(matches!(parse(b" \r"), Ok(Message::Blank)));
}

/// Everything that `Frames` makes of `bytes`: each line, and whether it is whole.
fn lines(bytes: &[u8], line_bytes_max: usize) -> Vec<(bool, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut frames = Frames::new(bytes, line_bytes_max);
        let mut lines = Vec::new();
        while let Some(frame) = frames.next_line().await.unwrap() {
            lines.push(match frame {
                Frame::Line(line) => (true, line.to_vec()),
                Frame::TooLong(head) => (false, head.to_vec()),
            });
        }
        lines
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_brackets_and_quotes_are_a_message_or_refused(text in r#"[\[\]{}",:\\id01. ]{0,80}"#) {
        let _ = parse(text.as_bytes());
    }

    #[test]
    fn frames_are_the_lines_cut_at_the_limit(text in "[ab\n]{0,40}", max in 1_usize..6) {
        let mut expected: Vec<_> = text.split('\n').collect();
        if expected.last() == Some(&"") {
            expected.pop();
        }
        let expected: Vec<_> = expected.iter().map(|line| (line.len() <= max, line.as_bytes()[..line.len().min(max)].to_vec())).collect();
        prop_assert_eq!(lines(text.as_bytes(), max), expected);
    }
}
