//! Looking for a pattern in a whole result, line by line, in time that grows with it and no faster.

use std::io::{self, BufRead};

use regex::{Regex, RegexBuilder};
use tollgate_types::limits;

/// What the compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// What is shown on either side of what was found.
const AROUND_CHARS: usize = 120;

/// Why nothing can be looked for.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The pattern is none.
    #[error("{0}")]
    Pattern(String),
    /// The result cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A pattern.
#[derive(Debug, Clone)]
pub struct Search(Regex);

impl Search {
    /// A text as it stands, or a regular expression (the syntax of the crate `regex`); both in any case.
    ///
    /// # Errors
    /// When it is too long, or no regular expression.
    pub fn new(pattern: &str, is_regex: bool) -> Result<Self, SearchError> {
        if pattern.is_empty() || pattern.chars().count() > limits::SEARCH_CHARS_MAX {
            let most = limits::SEARCH_CHARS_MAX;
            return Err(SearchError::Pattern(format!("a pattern has 1 to {most} characters")));
        }
        let escaped = if is_regex { pattern.to_owned() } else { regex::escape(pattern) };
        let built = RegexBuilder::new(&escaped)
            .case_insensitive(true)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build();
        built.map(Self).map_err(|error| SearchError::Pattern(format!("the pattern cannot be used: {error}")))
    }

    /// Tells of each line in which it is found: `12: the line`, or of a long one what stands around it, and the offset
    /// in characters at which the line, or the part of it, begins. Stops when `tell` says false.
    ///
    /// # Errors
    /// When the result cannot be read.
    pub fn run(&self, input: impl BufRead, mut tell: impl FnMut(String) -> bool) -> Result<(), SearchError> {
        let mut pieces = Pieces { input, line: 0, offset: 0, is_inside: false };
        while let Some(piece) = pieces.next()? {
            let text = piece.text.trim_end_matches(['\n', '\r']);
            for found in self.0.find_iter(text) {
                let is_whole = text.chars().count() <= 2 * AROUND_CHARS;
                let (from, to) = if is_whole { (0, text.len()) } else { around(text, found.start(), found.end()) };
                let shown = text.get(from..to).unwrap_or_default();
                let offset = piece.offset + text.get(..from).unwrap_or_default().chars().count();
                let ends = |is_cut: bool| if is_cut { "…" } else { "" };
                let (before, after) = (ends(from > 0), ends(to < text.len()));
                if !tell(format!("{}: {before}{shown}{after} (offset {offset})", piece.line)) {
                    return Ok(());
                }
                if is_whole {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The byte offsets of some characters before and behind.
fn around(text: &str, from: usize, to: usize) -> (usize, usize) {
    let before = text.get(..from).unwrap_or_default();
    let behind = text.get(to..).unwrap_or_default();
    let start = before.char_indices().rev().nth(AROUND_CHARS - 1).map_or(0, |(at, _)| at);
    let end = behind.char_indices().nth(AROUND_CHARS).map_or(text.len(), |(at, _)| to + at);
    (start, end)
}

struct Piece {
    text: String,
    line: usize,
    offset: usize,
}

/// Lines, and parts of those that are too long to be held.
struct Pieces<R> {
    input: R,
    line: usize,
    offset: usize,
    is_inside: bool,
}

impl<R: BufRead> Pieces<R> {
    fn next(&mut self) -> Result<Option<Piece>, SearchError> {
        let mut bytes = Vec::new();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n').map_or(buffer.len(), |at| at + 1);
            let part = buffer.get(..end).unwrap_or_default();
            let room = limits::SEARCH_LINE_BYTES_MAX.saturating_sub(bytes.len());
            let mut taken = part.len().min(room.max(1));
            // Not inside a character.
            while taken < part.len() && part.get(taken).is_some_and(|byte| byte & 0xC0 == 0x80) {
                taken += 1;
            }
            bytes.extend_from_slice(part.get(..taken).unwrap_or_default());
            self.input.consume(taken);
            let is_full = bytes.len() >= limits::SEARCH_LINE_BYTES_MAX;
            if bytes.ends_with(b"\n") || is_full && std::str::from_utf8(&bytes).is_ok() {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        if !self.is_inside {
            self.line += 1;
        }
        self.is_inside = !bytes.ends_with(b"\n");
        let text = String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let piece = Piece { offset: self.offset, line: self.line, text };
        self.offset += piece.text.chars().count();
        Ok(Some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, pattern: &str, is_regex: bool) -> Vec<String> {
        let mut lines = Vec::new();
        let search = Search::new(pattern, is_regex).unwrap();
        let input = std::io::BufReader::with_capacity(7, text.as_bytes());
        search
            .run(input, |line| {
                lines.push(line);
                true
            })
            .unwrap();
        lines
    }

    #[test]
    fn lines_are_found_with_their_numbers_and_offsets() {
        let text = "第一行 Order A1\r\nsecond\n订单 A2 and a2\n";
        assert_eq!(found(text, "order", false), ["1: 第一行 Order A1 (offset 0)"]);
        assert_eq!(found(text, r"a\d", true), ["1: 第一行 Order A1 (offset 0)", "3: 订单 A2 and a2 (offset 21)"]);
        assert!(found(text, r"a\d", false).is_empty());
        assert_eq!(found("a\n\nb", "^$", true), ["2:  (offset 2)"]);
    }

    #[test]
    fn of_a_long_line_the_surroundings_are_shown() {
        let text = format!("{}needle{}", "北".repeat(500), "x".repeat(3 << 20));
        let lines = found(&text, "needle", false);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("1: …北") && lines[0].ends_with("x… (offset 380)"), "{}", lines[0]);
        assert!(found(&"é".repeat(2 << 20), "needle", false).is_empty(), "parts end between characters");
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (pattern, is_regex) in [("", false), ("(", true), (r"\w{1000}{1000}", true), (&"x".repeat(1001), false)] {
            assert!(Search::new(pattern, is_regex).is_err(), "{pattern}");
        }
        assert!(Search::new("(", false).is_ok());
    }
}
