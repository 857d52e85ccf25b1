//! Bytes to lines. A line over the limit is skipped to its end; of it only the head is kept, so memory stays bounded.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// All of it.
    Line(&'a [u8]),
    /// The head of a line that is longer than allowed.
    TooLong(&'a [u8]),
}

/// The lines of a stream.
pub(crate) struct Frames<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    line_bytes_max: usize,
    is_too_long: bool,
    is_handed_out: bool,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, line_bytes_max: usize) -> Self {
        Self {
            input: BufReader::with_capacity(READ_BUFFER_BYTES, input),
            line: Vec::new(),
            line_bytes_max,
            is_too_long: false,
            is_handed_out: false,
        }
    }

    /// The next line, the last one also without a line feed; none at the end of the stream. May be dropped and asked
    /// again: what was read is kept.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        if std::mem::take(&mut self.is_handed_out) {
            self.line.clear();
            self.line.shrink_to(READ_BUFFER_BYTES);
            self.is_too_long = false;
        }
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                if self.line.is_empty() && !self.is_too_long {
                    return Ok(None);
                }
                break;
            }
            let part = chunk.split(|byte| *byte == b'\n').next().unwrap_or(chunk);
            let ends_here = part.len() < chunk.len();
            let used = part.len() + usize::from(ends_here);
            let room = self.line_bytes_max.saturating_sub(self.line.len());
            self.is_too_long |= part.len() > room;
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            self.input.consume(used);
            if ends_here {
                break;
            }
        }
        self.is_handed_out = true;
        Ok(Some(if self.is_too_long { Frame::TooLong(&self.line) } else { Frame::Line(&self.line) }))
    }
}
