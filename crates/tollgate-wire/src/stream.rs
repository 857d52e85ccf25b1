//! Replies of every dialect: bytes in any pieces go in, text comes out at once, and the turn at the end.

mod sse;

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use tollgate_types::limits;

use crate::dialect::Dialect;
use crate::fault::{FAULT_CHARS_MAX, WireFault};
use crate::lower::Names;
use crate::turn::Turn;

pub use sse::{Event, Sse};

/// Puts the turn of one dialect together.
pub(crate) trait Assemble: fmt::Debug + Send {
    /// Takes the JSON of one event of a stream.
    fn event(&mut self, json: &str) -> Result<(), WireFault>;

    /// Takes a reply that came whole.
    fn reply(&mut self, json: &str) -> Result<(), WireFault>;

    /// The text so far.
    fn text(&self) -> &str;

    /// Whether the turn is over.
    fn is_complete(&self) -> bool;

    /// The turn. Calls get our ids, the tools' own names, and a refusal where they are not whole.
    fn finish(self: Box<Self>, names: &Names) -> Result<Turn, WireFault>;
}

fn assembler(dialect: Dialect) -> Box<dyn Assemble> {
    match dialect {
        Dialect::Chat => Box::<crate::chat::Assembler>::default(),
        Dialect::Responses => Box::<crate::responses::Assembler>::default(),
        Dialect::Anthropic => Box::<crate::anthropic::Assembler>::default(),
        Dialect::Gemini => Box::<crate::gemini::Assembler>::default(),
    }
}

/// Reads a reply that came whole.
///
/// # Errors
/// When it is no reply of this dialect, or an error object.
pub fn read_reply(dialect: Dialect, body: &[u8], names: &Names) -> Result<Turn, WireFault> {
    let mut assembler = assembler(dialect);
    count(&mut 0, body)?;
    assembler.reply(text_of(body)?)?;
    assembler.finish(names)
}

/// Reads one streamed reply.
///
/// ```
/// use tollgate_wire::{Dialect, Names, Stream};
///
/// let mut stream = Stream::new(Dialect::Chat);
/// let mut shown = String::new();
/// let bytes = b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\n\n";
/// for byte in bytes.chunks(1) {
///     stream.push(byte, &mut |text| shown.push_str(text)).unwrap();
/// }
/// assert_eq!(stream.finish(&Names::default()).unwrap().text, shown);
/// ```
#[derive(Debug)]
pub struct Stream {
    sse: Sse,
    taken: Taken,
    events: u64,
}

/// What was taken of a stream.
#[derive(Debug)]
struct Taken {
    assembler: Box<dyn Assemble>,
    is_done: bool,
    bytes: usize,
}

impl Stream {
    /// A stream of which nothing has come yet.
    pub fn new(dialect: Dialect) -> Self {
        let taken = Taken { assembler: assembler(dialect), is_done: false, bytes: 0 };
        Self { sse: Sse::default(), taken, events: 0 }
    }

    /// Takes the next bytes and hands on new text.
    ///
    /// # Errors
    /// When an event cannot be read, reports an error, or a limit is passed.
    pub fn push(&mut self, bytes: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), WireFault> {
        let Self { sse, taken, events } = self;
        sse.push(bytes, &mut |event| {
            *events += 1;
            taken.take(event.data, on_text)?;
            if event.is_error { Err(WireFault::Server { message: words(event.data) }) } else { Ok(()) }
        })
    }

    /// How many events there were. Comments are none: a server that sends nothing else is silent.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Whether the server said that nothing follows, so that reading can stop.
    pub fn is_done(&self) -> bool {
        self.taken.is_done
    }

    /// Whether the turn is whole, even if the server never says that nothing follows.
    pub fn is_complete(&self) -> bool {
        self.taken.is_complete()
    }

    /// The turn, after the last bytes.
    ///
    /// # Errors
    /// When the stream ended too early.
    pub fn finish(self, names: &Names) -> Result<Turn, WireFault> {
        let Self { sse, mut taken, .. } = self;
        // Servers forget the last blank line; an event cut in its middle is not JSON and stays out.
        let whole = |data: &[u8]| data == b"[DONE]" || serde_json::from_slice::<&RawValue>(data).is_ok();
        if let Some(data) = sse.into_rest().filter(|data| whole(data)) {
            taken.take(&data, &mut |_| {})?;
        }
        if taken.is_complete() { taken.assembler.finish(names) } else { Err(WireFault::Closed) }
    }
}

impl Taken {
    fn is_complete(&self) -> bool {
        self.is_done || self.assembler.is_complete()
    }

    fn take(&mut self, data: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), WireFault> {
        count(&mut self.bytes, data)?;
        let text = text_of(data)?.trim_ascii();
        if self.is_done || text.is_empty() {
            return Ok(());
        }
        if text == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let before = self.assembler.text().len();
        self.assembler.event(text)?;
        match self.assembler.text().get(before..) {
            None | Some("") => {}
            Some(new) => on_text(new),
        }
        Ok(())
    }
}

/// Takes what came into account: nobody keeps a reply without end.
fn count(bytes: &mut usize, data: &[u8]) -> Result<(), WireFault> {
    *bytes += data.len();
    if *bytes > limits::HTTP_BODY_BYTES_MAX {
        return Err(WireFault::TooLarge { limit: limits::HTTP_BODY_BYTES_MAX, unit: "bytes" });
    }
    Ok(())
}

fn text_of(bytes: &[u8]) -> Result<&str, WireFault> {
    std::str::from_utf8(bytes).map_err(|e| WireFault::malformed(e, &String::from_utf8_lossy(bytes)))
}

/// The words of an event that is an error by its name.
fn words(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(json) => said_error(json.get()).unwrap_or_else(|| error_text(json)),
        Err(_) => text.chars().take(FAULT_CHARS_MAX).collect(),
    }
}

/// The words of an object that is an error, in one of the ways in which servers and gateways write what their protocol has no
/// place for.
pub(crate) fn said_error(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    let is_word = |name: &str| value.get(name).is_some_and(|word| word == "error");
    let is_code = |code: &Value| !code.is_null() && code != 0 && code != "0" && code != 200;
    let has_code =
        ["code", "error_code", "status", "status_code"].iter().any(|name| value.get(name).is_some_and(is_code));
    let named = ["detail", "error_msg", "error_message", "errors", "err_msg"].iter().find_map(|name| value.get(name));
    let base = value.get("base_resp").filter(|base| base.get("status_code").is_some_and(is_code));
    let said = match (named, base, value.get("message").or_else(|| value.get("msg"))) {
        (Some(said), _, _) if !said.is_null() => said,
        (_, Some(base), _) => base.get("status_msg").unwrap_or(base),
        (_, _, Some(said)) if has_code || is_word("object") || is_word("type") => said,
        _ if is_word("object") || is_word("type") => &value,
        _ => return None,
    };
    let text = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    Some(text.chars().take(FAULT_CHARS_MAX).collect())
}

/// The words of an error object, however it is built.
pub(crate) fn error_text(error: &RawValue) -> String {
    let value: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let message = value.get("message").unwrap_or(&value);
    let text = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
    text.chars().take(FAULT_CHARS_MAX).collect()
}

/// What tests of every dialect share.
#[cfg(test)]
pub(crate) mod testing {
    use super::{Dialect, Names, Stream, Turn};

    /// What is shown of a stream and what it comes to: the same in one piece and in pieces of these sizes.
    pub(crate) fn in_any_pieces(dialect: Dialect, names: &Names, bytes: &[u8], sizes: &[usize]) -> (String, Turn) {
        let read = |sizes: &[usize]| {
            let (mut stream, mut shown) = (Stream::new(dialect), String::new());
            let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
            while !rest.is_empty() {
                let (piece, tail) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                stream.push(piece, &mut |text| shown.push_str(text)).unwrap();
                rest = tail;
            }
            (shown, stream.finish(names).unwrap())
        };
        let whole = read(&[usize::MAX]);
        assert_eq!(read(sizes), whole);
        whole
    }
}
