//! What models send: JSON in need of repair, and streams in any pieces.

use serde_json::Value;
use tollgate_wire::{Dialect, Names, Sse, Stream, repair};

/// The first byte says what the rest is, the second where a stream is cut in two.
pub fn wire(data: &[u8]) {
    let [how, cut, rest @ ..] = data else { return };
    match how % 2 {
        0 => arguments(rest),
        _ => stream(rest, usize::from(*cut)),
    }
}

fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let parsed = repair::arguments(text);
    if let Ok(value @ Value::Object(_)) = repair::strict(text) {
        let parsed = parsed.as_ref().unwrap_or_else(|fault| panic!("strict JSON is refused: {fault}"));
        assert_eq!((&parsed.value, parsed.repairs.len()), (&value, 0), "strict JSON is mended: {text}");
    }
    if let Ok(parsed) = parsed {
        assert!(parsed.value.is_object());
        let again = repair::arguments(&parsed.value.to_string()).unwrap();
        assert_eq!((again.value, again.repairs.len()), (parsed.value, 0), "what was mended needs it again: {text}");
    }
}

fn events(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let (mut sse, mut events) = (Sse::default(), Vec::new());
    let mut take = |data: &[u8]| {
        events.push(data.to_vec());
        Ok(())
    };
    let is_right = pieces.iter().all(|piece| sse.push(piece, &mut take).is_ok());
    (events, is_right)
}

fn stream(data: &[u8], cut: usize) {
    let (head, tail) = data.split_at(cut.min(data.len()));
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    let whole = events(&[data]);
    assert_eq!(events(&[head, tail]), whole);
    assert_eq!(events(&bytes), whole);
    let turn = |dialect: Dialect, pieces: &[&[u8]]| {
        let (mut stream, mut said) = (Stream::new(dialect), String::new());
        for piece in pieces {
            if let Err(fault) = stream.push(piece, &mut |text| said.push_str(text)) {
                return (Err(fault.to_string()), said);
            }
        }
        (stream.finish(&Names::default()).map(|turn| format!("{turn:?}")).map_err(|fault| fault.to_string()), said)
    };
    for dialect in Dialect::ALL {
        assert_eq!(turn(dialect, &[head, tail]), turn(dialect, &[data]), "{dialect}");
    }
}
