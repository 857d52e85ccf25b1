//! What models send: streams in any pieces.

use tollgate_wire::{Dialect, Event, Names, Sse, Stream};

/// The first byte is left over, the second says where the stream is cut in two.
pub fn wire(data: &[u8]) {
    let [_, cut, rest @ ..] = data else { return };
    stream(rest, usize::from(*cut));
}

fn events(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let (mut sse, mut events) = (Sse::default(), Vec::new());
    let mut take = |event: Event<'_>| {
        events.push(event.data.to_vec());
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
