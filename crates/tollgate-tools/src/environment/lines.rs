//! Reading text by lines, a window at a time: any size of file, any length of line, never more memory than is shown.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use tollgate_types::ToolError;

use crate::text::{bytes, whole_end};
use crate::typed::Stop;

/// A line beyond this is cut with a mark.
pub(crate) const LINE_CHARS_MAX: usize = 2_000;
/// What one window may hold; it ends early there.
const WINDOW_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Beyond this a file is not decoded from UTF-16, and not read to its end only to count its lines.
pub(crate) const WHOLE_BYTES_MAX: u64 = 16 * 1024 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;
/// Where a NUL is looked for, as git does.
const SNIFF_BYTES: usize = 8_000;

/// Some lines of a file.
#[derive(Debug)]
pub(crate) struct Window {
    /// The lines, without the last line's end.
    pub(crate) text: String,
    /// How many lines of it there are.
    pub(crate) lines: u64,
    /// How many the file has, where it was read to its end.
    pub(crate) lines_total: Option<u64>,
}

/// Which lines are wanted.
pub(crate) struct Wanted {
    /// The first, from 1.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) limit: u64,
}

/// Reads a window of `file`, which has `size` bytes.
pub(crate) fn window(file: impl Read, size: u64, wanted: &Wanted, stop: &Stop) -> Result<Window, ToolError> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let head = reader.fill_buf().map_err(|error| failed(&error))?;
    match head {
        [0xff, 0xfe, ..] => return utf16(reader, size, u16::from_le_bytes, wanted, stop),
        [0xfe, 0xff, ..] => return utf16(reader, size, u16::from_be_bytes, wanted, stop),
        [0xef, 0xbb, 0xbf, ..] => reader.consume(3),
        _ if head.iter().take(SNIFF_BYTES).any(|&byte| byte == 0) => return Err(binary(size)),
        _ => {}
    }
    read(reader, size <= WHOLE_BYTES_MAX, wanted, stop)
}

fn utf16(
    mut reader: impl BufRead,
    size: u64,
    unit: fn([u8; 2]) -> u16,
    wanted: &Wanted,
    stop: &Stop,
) -> Result<Window, ToolError> {
    if size > WHOLE_BYTES_MAX {
        return Err(ToolError::new(format!("UTF-16 text of {} is too large to decode", bytes(size)))
            .with_tool_code("TOO_LARGE")
            .with_hint("convert the file to UTF-8 first"));
    }
    let mut raw = Vec::new();
    reader.by_ref().take(WHOLE_BYTES_MAX + 1).read_to_end(&mut raw).map_err(|error| failed(&error))?;
    let (pairs, rest) = raw.as_chunks::<2>();
    let units = pairs.iter().skip(1).map(|&pair| unit(pair));
    let text = char::decode_utf16(units).collect::<Result<String, _>>();
    match text {
        Ok(text) if rest.is_empty() => read(Cursor::new(text.into_bytes()), true, wanted, stop),
        Ok(_) | Err(_) => Err(ToolError::new("the file begins as UTF-16 but is not")
            .with_tool_code("NOT_UTF8")
            .with_hint("it may be damaged or binary; only text can be read")),
    }
}

fn read(mut reader: impl BufRead, to_the_end: bool, wanted: &Wanted, stop: &Stop) -> Result<Window, ToolError> {
    let mut window = Window { text: String::new(), lines: 0, lines_total: None };
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        let is_after = window.lines >= wanted.limit || window.text.len() > WINDOW_BYTES_MAX;
        if is_after && !to_the_end {
            return Ok(window);
        }
        let is_wanted = !is_after && number + 1 >= wanted.offset;
        line.clear();
        let Some(chars) = next_line(&mut reader, is_wanted.then_some(&mut line), stop)? else {
            window.lines_total = Some(number);
            return Ok(window);
        };
        number += 1;
        if is_wanted {
            if window.lines > 0 {
                window.text.push('\n');
            }
            push(&mut window.text, &line, chars, number)?;
            window.lines += 1;
        }
    }
}

/// The next line into `kept`, as far as it may be shown, without its end; its length in characters. None at the end.
fn next_line(
    reader: &mut impl BufRead,
    mut kept: Option<&mut Vec<u8>>,
    stop: &Stop,
) -> Result<Option<usize>, ToolError> {
    let mut chars = 0;
    let mut is_at_end = true;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(&error)),
        };
        if chunk.is_empty() {
            return Ok((!is_at_end).then_some(chars));
        }
        is_at_end = false;
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let part = end.and_then(|end| chunk.get(..end)).unwrap_or(chunk);
        if let Some(kept) = kept.as_deref_mut() {
            chars += part.iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
            let room = (LINE_CHARS_MAX * 4 + 8).saturating_sub(kept.len());
            kept.extend(part.iter().take(room));
        }
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(chars));
        }
        stop.check()?;
    }
}

fn push(text: &mut String, line: &[u8], chars: usize, number: u64) -> Result<(), ToolError> {
    let line = match str::from_utf8(line) {
        Ok(line) => line,
        // Only what was cut by its length may end within a character.
        Err(error) if error.error_len().is_none() && chars > LINE_CHARS_MAX => {
            line.get(..error.valid_up_to()).and_then(|line| str::from_utf8(line).ok()).unwrap_or_default()
        }
        Err(_) => {
            return Err(ToolError::new(format!("line {number} is not UTF-8"))
                .with_tool_code("NOT_UTF8")
                .with_hint("the file is binary or in another encoding (such as GB18030): convert it to UTF-8 first"));
        }
    };
    if chars > LINE_CHARS_MAX {
        // What was kept goes on a little behind the cut, so that it can be seen whether a word does.
        let end = line.char_indices().nth(LINE_CHARS_MAX).map_or(line.len(), |(end, _)| end);
        let shown = line.get(..whole_end(line, end)).unwrap_or_default();
        text.push_str(shown);
        text.push_str(&format!("… [line cut: {} of {chars} characters]", shown.chars().count()));
    } else {
        text.push_str(line.strip_suffix('\r').unwrap_or(line));
    }
    Ok(())
}

fn failed(error: &io::Error) -> ToolError {
    ToolError::new(format!("reading stopped: {error}")).with_tool_code("IO")
}

/// The file is not text.
pub(crate) fn binary(size: u64) -> ToolError {
    ToolError::new(format!("the file is binary ({})", bytes(size)))
        .with_tool_code("BINARY_FILE")
        .with_hint("only text can be read; a program that understands the format must convert it first")
}
