//! Redaction of a stream of any length in bounded memory: it is gone through in blocks of whole lines, and a block ends
//! where no secret goes on.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use super::Redactor;

/// What is held of the stream; a longer line is gone through in pieces.
const BLOCK_BYTES: usize = 1024 * 1024;
/// A secret that is longer, such as the tree below a name, ends the stream.
const SECRET_BYTES_MAX: usize = 8 * BLOCK_BYTES;
/// A long line is cut where no name stands so near before.
const APART_BYTES: usize = 1024;
/// How many places are tried.
const PLACES_MAX: usize = 256;

/// Copies `input` to `output` without secrets, as [`Redactor::text`] takes them out of each text. Bytes that are not
/// UTF-8 pass through as they are.
///
/// # Errors
/// When reading or writing fails, or one secret has more than 8 MiB; nothing of it was written then.
pub fn filter(redactor: &Redactor, mut input: impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut held = Vec::with_capacity(BLOCK_BYTES);
    let mut room = BLOCK_BYTES;
    loop {
        let wanted = u64::try_from(room.saturating_sub(held.len())).unwrap_or(u64::MAX);
        let is_end = wanted > 0 && input.by_ref().take(wanted).read_to_end(&mut held)? < room_of(wanted);
        if is_end {
            output.write_all(&block(redactor, &held))?;
            return output.flush();
        }
        match cut(redactor, &held) {
            Some(end) => {
                let rest = held.split_off(end);
                output.write_all(&block(redactor, &held))?;
                held = rest;
                room = BLOCK_BYTES.max(held.len() + BLOCK_BYTES / 2);
            }
            None if room < SECRET_BYTES_MAX => room *= 2,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "a secret has more than 8 MiB")),
        }
    }
}

fn room_of(wanted: u64) -> usize {
    usize::try_from(wanted).unwrap_or(usize::MAX)
}

/// Where a block may end: behind a line if there is one, else between two words.
fn cut(redactor: &Redactor, held: &[u8]) -> Option<usize> {
    let text = decoded(held);
    // What stands in the last part may go on in what was not read yet.
    let reach = text.len().saturating_sub(redactor.secrets().longest().max(APART_BYTES) * 2);
    let spans = redactor.covered(&text);
    // What stands in the line before may say that a secret begins.
    let is_free = |at: usize| !spans.iter().any(|span| span.start <= at && at < span.end);
    let is_apart = |at: usize| !spans.iter().any(|span| span.start < at + APART_BYTES && at < span.end);
    let head = text.get(..text.floor_char_boundary(reach))?;
    let line = head.rmatch_indices('\n').take(PLACES_MAX).map(|(at, _)| at + 1).find(|at| is_free(*at));
    let words = head.rmatch_indices([' ', ',', ';', '}']).take(PLACES_MAX);
    let word = || words.map(|(at, _)| at + 1).find(|at| is_apart(*at));
    let end = line.or_else(word).or_else(|| Some(head.len()).filter(|at| is_apart(*at)))?;
    let is_latin = matches!(text, Cow::Owned(_));
    let head = text.get(..end)?;
    (end > 0).then(|| if is_latin { head.chars().count() } else { end })
}

/// The text of a block. Where it is not UTF-8, each byte is taken for a character, as in ISO 8859-1, which loses nothing.
fn decoded(block: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(block) {
        Ok(text) => Cow::Borrowed(text),
        // The last character may go on in what was not read yet.
        Err(error) if error.error_len().is_none() => {
            let whole = block.get(..error.valid_up_to()).unwrap_or_default();
            Cow::Borrowed(std::str::from_utf8(whole).unwrap_or_default())
        }
        Err(_) => Cow::Owned(block.iter().map(|byte| char::from(*byte)).collect()),
    }
}

fn block(redactor: &Redactor, block: &[u8]) -> Vec<u8> {
    if let Ok(text) = std::str::from_utf8(block) {
        return lines(redactor, text).into_bytes();
    }
    // Known secrets may have letters that are none in ISO 8859-1.
    let mut clean = Vec::with_capacity(block.len());
    for chunk in block.utf8_chunks() {
        clean.extend_from_slice(redactor.secrets_only(chunk.valid()).as_bytes());
        clean.extend_from_slice(chunk.invalid());
    }
    let text: String = clean.iter().map(|byte| char::from(*byte)).collect();
    lines(redactor, &text).chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

/// A block is one text, but for the lines in it that are JSON by themselves.
fn lines(redactor: &Redactor, block: &str) -> String {
    let mut clean = String::with_capacity(block.len());
    let mut from = 0;
    let mut at = 0;
    for line in block.split_inclusive('\n') {
        let before = block.get(from..at).unwrap_or_default();
        let content = line.trim_end_matches(['\n', '\r']);
        let is_value = content.starts_with('{') && content.ends_with('}') && content.len() > 2;
        if is_value && content.len() < block.trim_end().len() && !redactor.is_open(before) {
            clean.push_str(&redactor.text(before));
            clean.push_str(&redactor.text(content));
            clean.push_str(line.get(content.len()..).unwrap_or_default());
            from = at + line.len();
        }
        at += line.len();
    }
    let rest = block.get(from..).unwrap_or_default();
    // What JSON is ends where its last bracket does.
    let content = rest.trim_end();
    clean.push_str(&redactor.text(content));
    clean.push_str(rest.get(content.len()..).unwrap_or_default());
    clean
}
