//! Server-sent events (WHATWG HTML §9.2) from bytes in any pieces: LF, CR and CRLF even when split, comments, several
//! `data` lines, a byte order mark. Of `event` it matters whether it is `error`; `id` and `retry` are passed over.

use std::mem;

use tollgate_types::limits;

use crate::fault::WireFault;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its data.
    pub data: &'a [u8],
    /// Whether its name is `error`.
    pub is_error: bool,
}

/// A parser of server-sent events. Each byte is looked at once.
#[derive(Debug, Default)]
pub struct Sse {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    is_error: bool,
    is_after_cr: bool,
    is_begun: bool,
}

impl Sse {
    /// Takes the next bytes and hands on each whole event.
    ///
    /// # Errors
    /// When an event is larger than [`limits::SSE_EVENT_BYTES_MAX`], or what `on_event` returns.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_event: &mut dyn FnMut(Event<'_>) -> Result<(), WireFault>,
    ) -> Result<(), WireFault> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(end);
            let is_cr = tail.first() == Some(&b'\r');
            rest = tail.get(1..).unwrap_or_default();
            let is_second_half = self.is_after_cr && !is_cr && head.is_empty();
            self.is_after_cr = is_cr;
            if is_second_half {
                continue;
            }
            if self.line.is_empty() {
                self.take_line(head, on_event)?;
            } else {
                self.line.extend_from_slice(head);
                let mut line = mem::take(&mut self.line);
                self.take_line(&line, on_event)?;
                line.clear();
                self.line = line;
            }
        }
        if !rest.is_empty() {
            self.is_after_cr = false;
            self.line.extend_from_slice(rest);
        }
        if self.line.len() + self.data.len() > limits::SSE_EVENT_BYTES_MAX {
            return Err(WireFault::TooLarge { limit: limits::SSE_EVENT_BYTES_MAX, unit: "bytes in one event" });
        }
        Ok(())
    }

    /// The data of an event that no blank line has ended.
    pub(crate) fn into_rest(mut self) -> Option<Vec<u8>> {
        let line = mem::take(&mut self.line);
        if !line.is_empty() {
            // The line is not empty, so that it cannot end an event.
            self.take_line(&line, &mut |_| Ok(())).ok()?;
        }
        self.has_data.then_some(self.data)
    }

    fn take_line(
        &mut self,
        line: &[u8],
        on_event: &mut dyn FnMut(Event<'_>) -> Result<(), WireFault>,
    ) -> Result<(), WireFault> {
        let line = if mem::replace(&mut self.is_begun, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            let is_error = mem::take(&mut self.is_error);
            if mem::take(&mut self.has_data) {
                on_event(Event { data: &self.data, is_error })?;
                self.data.clear();
            }
            return Ok(());
        }
        self.is_error |= matches!(line, b"event: error" | b"event:error");
        // Some servers drop a bare error object into the stream.
        let value = if line.starts_with(b"{") { Some(line) } else { line.strip_prefix(b"data") };
        let value = match value {
            Some([]) => value,
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => Some(value),
            Some([b'{', ..]) => value,
            Some(_) | None => None,
        };
        if let Some(value) = value {
            if mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        Ok(())
    }
}
