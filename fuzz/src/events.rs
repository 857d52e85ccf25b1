//! Event streams of MCP servers: the same events however the bytes are cut, and never more kept than allowed.

use tollgate_mcp::upstream::{Event, Events};

const BYTES_MAX: usize = 64;

/// The first byte says where the stream is cut in two.
pub fn events(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else { return };
    let (head, tail) = data.split_at(usize::from(*cut).min(data.len()));
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    let whole = read(&[data]);
    assert_eq!(read(&[head, tail]), whole);
    assert_eq!(read(&bytes), whole);
    for (name, data) in whole.seen {
        assert!(name.len() + data.len() <= BYTES_MAX);
    }
}

/// What came of a stream.
#[derive(Debug, PartialEq)]
struct Read {
    seen: Vec<(Vec<u8>, Vec<u8>)>,
    is_taken: bool,
    last_id: Option<String>,
}

fn read(pieces: &[&[u8]]) -> Read {
    let (mut events, mut seen) = (Events::default(), Vec::new());
    let mut each = |event: Event<'_>| seen.push((event.name.to_vec(), event.data.to_vec()));
    let is_taken = pieces.iter().all(|piece| events.feed(piece, BYTES_MAX, &mut each).is_ok());
    Read { seen, is_taken, last_id: events.last_id().map(str::to_owned) }
}
