//! A streamed chat completion: bytes in any pieces go in, text comes out at once, and the turn at the end.

mod assemble;
mod delta;
mod sse;

use crate::chat::WireFault;
use crate::lower::Names;
use crate::turn::Turn;

pub(crate) use assemble::Assembler;
pub(crate) use delta::{CallDelta, REASONING, arguments_text, scalar_text};
pub use sse::Sse;

/// Reads one streamed reply.
///
/// ```
/// use tollgate_wire::{ChatStream, Names};
///
/// let mut stream = ChatStream::default();
/// let mut shown = String::new();
/// let bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\n\n";
/// for byte in bytes.chunks(1) {
///     stream.push(byte, &mut |text| shown.push_str(text)).unwrap();
/// }
/// assert_eq!(stream.finish(&Names::default()).unwrap().text, shown);
/// ```
#[derive(Debug, Default)]
pub struct ChatStream {
    sse: Sse,
    assembler: Assembler,
    is_done: bool,
    events: u64,
}

impl ChatStream {
    /// Takes the next bytes and hands on new text.
    ///
    /// # Errors
    /// When an event cannot be read, reports an error, or a limit is passed.
    pub fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), WireFault> {
        let Self { sse, assembler, is_done, events } = self;
        sse.push(bytes, &mut |data| {
            *events += 1;
            take(assembler, is_done, data, on_text)
        })
    }

    /// How many events there were. Comments are none: a server that sends nothing else is silent.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether the server said that nothing follows, so that reading can stop.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the turn is whole, even if the server never says that nothing follows.
    pub fn is_complete(&self) -> bool {
        self.is_done || self.assembler.has_finish()
    }

    /// The turn, after the last bytes.
    ///
    /// # Errors
    /// When the stream ended too early.
    pub fn finish(self, names: &Names) -> Result<Turn, WireFault> {
        let Self { sse, mut assembler, mut is_done, .. } = self;
        // Servers forget the last blank line; an event cut in its middle is not JSON and stays out.
        let whole =
            |data: &[u8]| data == b"[DONE]" || serde_json::from_slice::<&serde_json::value::RawValue>(data).is_ok();
        if let Some(data) = sse.into_rest().filter(|data| whole(data)) {
            take(&mut assembler, &mut is_done, &data, &mut |_| {})?;
        }
        if !is_done && !assembler.has_finish() {
            return Err(WireFault::Closed);
        }
        assembler.finish(names)
    }
}

fn take(
    assembler: &mut Assembler,
    is_done: &mut bool,
    data: &[u8],
    on_text: &mut dyn FnMut(&str),
) -> Result<(), WireFault> {
    let text = std::str::from_utf8(data).map_err(|e| WireFault::malformed(e, &String::from_utf8_lossy(data)))?;
    let text = text.trim_ascii();
    if *is_done || text.is_empty() {
        return Ok(());
    }
    if text == "[DONE]" {
        *is_done = true;
        return Ok(());
    }
    let before = assembler.text().len();
    assembler.push(text)?;
    match assembler.text().get(before..) {
        None | Some("") => {}
        Some(new) => on_text(new),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
