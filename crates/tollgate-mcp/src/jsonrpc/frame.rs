//! Where the messages of a client come from: the lines of a byte stream, or whole messages that a transport cut apart. A
//! line over the limit is skipped to its end; of it only the head is kept, so memory stays bounded.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;
use tollgate_types::CancellationToken;

const READ_BUFFER_BYTES: usize = 64 * 1024;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// All of it.
    Line(&'a [u8]),
    /// The head of a line that is longer than allowed.
    TooLong(&'a [u8]),
}

/// What a client says, one message after the other.
pub(crate) trait Source: Send {
    /// The next message; none when nothing more comes. May be dropped and asked again.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<Frame<'_>>>> + Send;
}

/// The lines of a stream.
pub(crate) struct Frames<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    line_bytes_max: usize,
    /// What was skipped of the line, and how much may be.
    skipped_bytes: usize,
    skipped_bytes_max: usize,
    is_handed_out: bool,
}

/// Whole messages, until `stop` or their end.
pub(crate) struct Messages {
    queue: mpsc::Receiver<Vec<u8>>,
    message: Vec<u8>,
    message_bytes_max: usize,
    stop: CancellationToken,
}

impl Messages {
    pub(crate) fn new(queue: mpsc::Receiver<Vec<u8>>, message_bytes_max: usize, stop: CancellationToken) -> Self {
        Self { queue, message: Vec::new(), message_bytes_max, stop }
    }
}

impl Source for Messages {
    async fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        self.message = Vec::new();
        tokio::select! {
            message = self.queue.recv() => match message {
                Some(message) => self.message = message,
                None => return Ok(None),
            },
            () = self.stop.cancelled() => return Ok(None),
        }
        Ok(Some(match self.message.get(..self.message_bytes_max) {
            Some(head) if head.len() < self.message.len() => Frame::TooLong(head),
            Some(_) | None => Frame::Line(&self.message),
        }))
    }
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub(crate) fn new(input: R, line_bytes_max: usize) -> Self {
        Self {
            input: BufReader::with_capacity(READ_BUFFER_BYTES, input),
            line: Vec::new(),
            line_bytes_max,
            skipped_bytes: 0,
            skipped_bytes_max: usize::MAX,
            is_handed_out: false,
        }
    }

    /// The same, given up at a line of which so much would be skipped: it may have no end.
    pub(crate) fn skipping(self, skipped_bytes_max: usize) -> Self {
        Self { skipped_bytes_max, ..self }
    }

    /// The next line, the last one also without a line feed; none at the end of the stream. May be dropped and asked
    /// again: what was read is kept.
    pub(crate) async fn next_line(&mut self) -> io::Result<Option<Frame<'_>>> {
        if std::mem::take(&mut self.is_handed_out) {
            self.line.clear();
            self.line.shrink_to(READ_BUFFER_BYTES);
            self.skipped_bytes = 0;
        }
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                if self.line.is_empty() && self.skipped_bytes == 0 {
                    return Ok(None);
                }
                break;
            }
            let part = chunk.split(|byte| *byte == b'\n').next().unwrap_or(chunk);
            let ends_here = part.len() < chunk.len();
            let used = part.len() + usize::from(ends_here);
            let room = self.line_bytes_max.saturating_sub(self.line.len());
            self.skipped_bytes = self.skipped_bytes.saturating_add(part.len().saturating_sub(room));
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            self.input.consume(used);
            if ends_here {
                break;
            }
            if self.skipped_bytes > self.skipped_bytes_max {
                let bytes = self.line.len().saturating_add(self.skipped_bytes);
                return Err(io::Error::other(format!("{bytes} bytes came without the end of a line")));
            }
        }
        self.is_handed_out = true;
        Ok(Some(if self.skipped_bytes > 0 { Frame::TooLong(&self.line) } else { Frame::Line(&self.line) }))
    }
}

impl<R: AsyncRead + Unpin + Send> Source for Frames<R> {
    async fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        self.next_line().await
    }
}
