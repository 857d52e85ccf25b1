//! Text whose hidden characters are written as what they are: controls and what terminals obey, bidi, tags, and what is
//! not drawn. What writing itself needs stays: line ends, tabs, joiners between letters, the styles of emoji.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tollgate_types::visible::{MARKS_MAX, has_styles, is_hidden, is_mark};

/// A text without anything hidden. Where it is JSON it stays the same value: what is hidden is a `\u` escape there.
///
/// ```
/// assert_eq!(tollgate_shape::neutral("a\u{202E}txt.exe\r\n北京"), "a\\u{202e}txt.exe\r\n北京");
/// assert_eq!(tollgate_shape::neutral("[\"a\u{202E}\"]"), "[\"a\\u202e\"]");
/// ```
pub fn neutral(text: &str) -> Cow<'_, str> {
    let Some(first) = first_hidden(text) else { return Cow::Borrowed(text) };
    let is_json = text.trim_start().starts_with(['{', '[', '"']) && serde_json::from_str::<IgnoredAny>(text).is_ok();
    Cow::Owned(written(text, first, if is_json { Form::Json } else { Form::Text }))
}

/// The same for every name and text of a value.
pub fn neutral_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(first) = first_hidden(text) {
                *text = written(text, first, Form::Text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(neutral_value),
        Value::Object(map) => {
            if map.keys().any(|key| first_hidden(key).is_some()) {
                let renamed: Map<String, Value> =
                    std::mem::take(map).into_iter().map(|(key, value)| (neutral_name(key), value)).collect();
                *map = renamed;
            }
            map.values_mut().for_each(neutral_value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn neutral_name(name: String) -> String {
    match first_hidden(&name) {
        Some(first) => written(&name, first, Form::Text),
        None => name,
    }
}

/// How what is hidden is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// The text with what is hidden from `first` on written out. Between two characters that might be hidden all is copied at once.
fn written(text: &str, first: usize, form: Form) -> String {
    let (clean, mut rest) = text.split_at_checked(first).unwrap_or((text, ""));
    let mut shown = String::with_capacity(text.len() + text.len() / 8 + 16);
    shown.push_str(clean);
    let mut walk = Walk::after(clean);
    loop {
        let mut chars = rest.chars();
        let Some(c) = chars.next() else { return shown };
        rest = chars.as_str();
        if walk.hides(c, chars.next()) {
            escape(c, form, &mut shown);
        } else {
            shown.push(c);
        }
        let plain = next_suspect(rest.as_bytes()).unwrap_or(rest.len());
        let (copied, behind) = rest.split_at_checked(plain).unwrap_or((rest, ""));
        shown.push_str(copied);
        walk.pass(copied);
        rest = behind;
    }
}

fn escape(c: char, form: Form, shown: &mut String) {
    // A text can always be written to.
    let _ = match form {
        Form::Text => write!(shown, "\\u{{{:x}}}", u32::from(c)),
        Form::Json => c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(shown, "\\u{unit:04x}")),
    };
}

/// What stands before the next character.
#[derive(Default)]
struct Walk {
    before: Option<char>,
    marks: usize,
}

impl Walk {
    fn after(text: &str) -> Self {
        let marks = text.chars().rev().take(MARKS_MAX + 1).take_while(|c| is_mark(*c)).count();
        Self { before: text.chars().next_back(), marks }
    }

    /// Goes on behind a text in which nothing is hidden, nor drawn on what stands before it.
    fn pass(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            *self = Self { before: Some(last), marks: 0 };
        }
    }

    /// Whether `c` must not be shown as it is, with `next` behind it.
    fn hides(&mut self, c: char, next: Option<char>) -> bool {
        self.marks = if is_mark(c) { self.marks + 1 } else { 0 };
        let is_hidden = match c {
            '\n' | '\t' => false,
            '\r' => next != Some('\n'),
            // Persian and Indic writing and families of emoji need them; between ASCII they only hide.
            '\u{200C}' | '\u{200D}' => {
                let is_after = self.before.is_some_and(|c| !c.is_ascii() && !matches!(c, '\u{200C}' | '\u{200D}'));
                !is_after || next.is_none_or(|c| c.is_ascii() || is_hidden(c))
            }
            '\u{FE0E}' | '\u{FE0F}' => !self.before.is_some_and(has_styles),
            c => self.marks > MARKS_MAX || is_hidden(c),
        };
        // What is written out ends in a bracket.
        self.before = Some(if is_hidden { '}' } else { c });
        is_hidden
    }
}

/// Whether a byte begins characters of which some are hidden or drawn on others: controls, U+0080–00BF, U+0300–037F,
/// U+0480–04BF, U+0600–063F, U+1000–3FFF, U+E000–FFFF, and the planes beyond the first.
const fn is_suspect(byte: u8) -> bool {
    matches!(byte,
        0..=0x08 | 0x0B..=0x1F | 0x7F | 0xC2 | 0xCC | 0xCD | 0xD2 | 0xD8 | 0xE1..=0xE3 | 0xEE | 0xEF | 0xF0 | 0xF3 | 0xF4)
}

/// The same of each byte.
#[expect(clippy::indexing_slicing, reason = "the table is made while compiling, and the index is below its length")]
const SUSPECTS: [bool; 256] = {
    let mut suspects = [false; 256];
    let mut byte = 0;
    while byte < suspects.len() {
        suspects[byte] = is_suspect(byte as u8);
        byte += 1;
    }
    suspects
};

/// Where the first hidden character stands.
fn first_hidden(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = bytes.get(from..).and_then(next_suspect) {
        let at = from + found;
        let c = text.get(at..).and_then(|rest| rest.chars().next())?;
        if is_hidden(c) || is_mark(c) {
            let (before, rest) = text.split_at_checked(at)?;
            if Walk::after(before).hides(c, rest.chars().nth(1)) {
                return Some(at);
            }
        }
        from = at + c.len_utf8();
    }
    None
}

/// The first suspect byte. Blocks of plain text are passed by as a whole.
fn next_suspect(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    let is_plain = |byte: u8| (0x20..0x7F).contains(&byte) | (byte == b'\n') | (byte == b'\t');
    let first = |bytes: &[u8]| bytes.iter().position(|byte| SUSPECTS.get(usize::from(*byte)).is_some_and(|is| *is));
    // In many writings the next one is near.
    let near = bytes.get(..BLOCK / 4).unwrap_or(bytes);
    if let Some(found) = first(near) {
        return Some(found);
    }
    let mut at = near.len();
    for block in bytes.get(at..).unwrap_or_default().chunks(BLOCK) {
        let is_all_plain = block.iter().fold(true, |plain, byte| plain & is_plain(*byte));
        if let Some(found) = if is_all_plain { None } else { first(block) } {
            return Some(at + found);
        }
        at += block.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_hidden_is_written_and_what_is_written_stays() {
        for (text, shown) in [
            ("a\x1b[31mred\x1b[0m", "a\\u{1b}[31mred\\u{1b}[0m"),
            ("a\x1b]8;;http://evil\x07b", "a\\u{1b}]8;;http://evil\\u{7}b"),
            ("a\u{9b}2Jb", "a\\u{9b}2Jb"),
            ("a\rb", "a\\u{d}b"),
            ("a\u{E0049}\u{E0067}b", "a\\u{e0049}\\u{e0067}b"),
            ("a\u{E0100}b", "a\\u{e0100}b"),
            ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
            ("pass\u{200B}word p\u{200D}q", "pass\\u{200b}word p\\u{200d}q"),
            ("e\u{301}\u{301}\u{301}\u{301}\u{301}", "e\u{301}\u{301}\u{301}\u{301}\\u{301}"),
        ] {
            assert_eq!(neutral(text), shown);
        }
        let family = "👨\u{200D}👩\u{200D}👧 می\u{200C}خواهم ❤\u{FE0F}\u{200D}🔥";
        for text in ["a\r\nb\tc", "北京，上海。", "1\u{FE0F}\u{20E3} ⚠\u{FE0F}", family, "e\u{301} й Ñ한국어 ไทย नमस्ते"]
        {
            assert!(matches!(neutral(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = json!({"路径": "a\u{202E}b\u{E0072}", "n": [1, "\u{1b}[0m"]});
        let shown = neutral(&value.to_string()).into_owned();
        assert!(shown.contains(r"a\u202eb\udb40\udc72"), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        let mut value = json!({"a\u{202E}": ["\u{E0072}", {"b": "\u{1b}"}]});
        neutral_value(&mut value);
        assert_eq!(value, json!({"a\\u{202e}": ["\\u{e0072}", {"b": "\\u{1b}"}]}));
    }

    #[test]
    fn every_hidden_character_begins_with_a_suspect_byte() {
        for c in (0..=0x0010_FFFF).filter_map(char::from_u32).filter(|c| is_hidden(*c) || is_mark(*c)) {
            let first = c.encode_utf8(&mut [0; 4]).as_bytes()[0];
            assert!(is_suspect(first) || matches!(c, '\n' | '\t'), "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn twice_is_once(text in r"[a-z北\n\r\u{1b}\u{200d}\u{202e}\u{301}\u{fe0f}👍é ]{0,40}") {
            let once = neutral(&text).into_owned();
            prop_assert_eq!(neutral(&once), once.as_str());
        }
    }
}
