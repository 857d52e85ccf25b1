//! The events of a streamed HTTP answer, bytes in and events out (WHATWG HTML §9.2, as far as MCP uses it: `event` and
//! `data`, and `id` and `retry` for going on where a stream broke off).

use std::time::Duration;

/// An event's id that is longer is not kept: it has to stand in a header.
const ID_BYTES_MAX: usize = 1024;

/// Takes bytes as they come and gives each whole event.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    retry: Option<Duration>,
}

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// What kind it is; empty where it does not say.
    pub name: &'a [u8],
    /// Its lines.
    pub data: &'a [u8],
}

/// An event is longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Events {
    /// Takes a piece; `each` gets every event that it completes and that has data.
    ///
    /// # Errors
    /// When an event is longer than `bytes_max`.
    pub fn feed(&mut self, piece: &[u8], bytes_max: usize, mut each: impl FnMut(Event<'_>)) -> Result<(), TooLong> {
        let mut lines = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            if self.line.len() + self.name.len() + self.data.len() + part.len() > bytes_max {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            if lines.peek().is_some() {
                self.end_line(&mut each);
            }
        }
        Ok(())
    }

    /// The id of the last event that had one: from there a stream can be taken up again.
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// How long the server asks to be left alone before that.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The stream broke off, and another goes on: what was not whole never was.
    pub fn broke_off(&mut self) {
        self.line.clear();
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }

    fn end_line(&mut self, each: &mut impl FnMut(Event<'_>)) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                each(Event { name: &self.name, data: &self.data });
            }
            self.data.clear();
            self.name.clear();
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.name.clear();
            self.name.extend_from_slice(name.strip_prefix(b" ").unwrap_or(name));
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        } else if let Some(id) = line.strip_prefix(b"id:") {
            let id = id.strip_prefix(b" ").unwrap_or(id);
            // What cannot stand in a header cannot be said to the server either.
            let is_fit = (1..=ID_BYTES_MAX).contains(&id.len()) && id.iter().all(|byte| matches!(byte, b' '..=b'~'));
            self.id = is_fit.then(|| String::from_utf8_lossy(id).into_owned());
        } else if let Some(retry) = line.strip_prefix(b"retry:") {
            let ms = std::str::from_utf8(retry).ok().and_then(|text| text.trim().parse().ok());
            self.retry = ms.map(Duration::from_millis).or(self.retry);
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let stream = b": hello\r\nid: 1\r\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:\n\nretry: 3\n\ndata: x\n\ndata: cut";
        for size in 1..stream.len() {
            let (mut events, mut seen) = (Events::default(), Vec::new());
            for piece in stream.chunks(size) {
                events
                    .feed(piece, 100, |event| seen.push(format!("{}={}", text(event.name), text(event.data))))
                    .unwrap();
            }
            assert_eq!(seen, ["message={\"a\":\n1}", "=", "=x"], "in pieces of {size}");
            assert_eq!((events.last_id(), events.retry()), (Some("1"), Some(Duration::from_millis(3))));
        }
    }

    #[test]
    fn an_endless_event_is_given_up() {
        let mut events = Events::default();
        assert_eq!(events.feed(&[b'x'; 101], 100, |_| {}), Err(TooLong));
        let mut events = Events::default();
        let fed = (0..100).try_for_each(|_| events.feed(b"data: 12345\n", 100, |_| {}));
        assert_eq!(fed, Err(TooLong));
    }
}
