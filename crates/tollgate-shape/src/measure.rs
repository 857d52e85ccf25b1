//! How much a text or a value takes: characters, bytes, and tokens by an estimate.

use serde_json::Value;

/// A quarter of a token is the unit of the estimate.
const QUARTERS: usize = 4;

/// What may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Characters.
    pub chars: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// Tokens, estimated; none asks for no estimate.
    pub tokens: Option<usize>,
}

impl Limits {
    /// So many characters.
    pub fn chars(chars: usize) -> Self {
        Self { chars, bytes: usize::MAX, tokens: None }
    }

    /// Whether so much may be shown.
    pub fn hold(&self, usage: Usage) -> bool {
        usage.chars <= self.chars
            && usage.bytes <= self.bytes
            && self.tokens.is_none_or(|tokens| usage.quarters.div_ceil(QUARTERS) <= tokens)
    }

    /// Whether a text fits; a long one is not read to its end.
    pub fn hold_text(&self, text: &str) -> bool {
        // A character has four bytes at most.
        text.len() / 4 <= self.chars && text.len() <= self.bytes && self.hold(self.usage(text))
    }

    /// Whether a value fits as compact JSON; a long one is not measured to its end.
    pub(crate) fn hold_json(&self, value: &Value) -> bool {
        self.hold_more(value, &mut Usage::default())
    }

    /// Whether a value fits behind what was used already, which it is added to.
    fn hold_more(&self, value: &Value, used: &mut Usage) -> bool {
        let holds = |used: &mut Usage, more: Usage| {
            *used = used.plus(more);
            self.hold(*used)
        };
        match value {
            Value::Array(items) => {
                holds(used, frame_of_list(items.len())) && items.iter().all(|item| self.hold_more(item, used))
            }
            Value::Object(map) => {
                holds(used, frame_of_map(map.len()))
                    && map.iter().all(|(key, value)| {
                        *used = used.plus(usage_of_string(key));
                        self.hold_more(value, used)
                    })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => holds(used, usage_of_json(value)),
        }
    }

    /// What a text takes of what is limited.
    pub(crate) fn usage(&self, text: &str) -> Usage {
        if self.tokens.is_some() {
            return usage_of_text(text);
        }
        Usage { chars: count_chars(text), bytes: text.len(), quarters: 0 }
    }

    /// What is left of it.
    pub(crate) fn minus(&self, usage: Usage) -> Self {
        Self {
            chars: self.chars.saturating_sub(usage.chars),
            bytes: self.bytes.saturating_sub(usage.bytes),
            tokens: self.tokens.map(|tokens| tokens.saturating_sub(usage.quarters.div_ceil(QUARTERS))),
        }
    }

    /// Half of it.
    pub(crate) fn half(&self) -> Self {
        Self { chars: self.chars / 2, bytes: self.bytes / 2, tokens: self.tokens.map(|tokens| tokens / 2) }
    }

    /// Where a text has to end that goes on for too long, between two characters that are drawn apart.
    pub(crate) fn end_in(&self, text: &str) -> usize {
        let (mut usage, mut end) = (Usage::default(), 0);
        for (at, c) in text.char_indices() {
            usage = usage.plus(Usage { chars: 1, bytes: c.len_utf8(), quarters: quarters_of(c) });
            if !self.hold(usage) {
                return whole_end(text, at);
            }
            end = at + c.len_utf8();
        }
        end
    }
}

/// Steps back from `at` while what follows is drawn onto what stands before; never for long.
fn whole_end(text: &str, at: usize) -> usize {
    const STEPS_MAX: usize = 16;
    const JOINER: char = '\u{200D}';
    let mut end = at;
    for _ in 0..STEPS_MAX {
        let (before, after) = text.split_at_checked(end).unwrap_or((text, ""));
        let (Some(last), Some(next)) = (before.chars().next_back(), after.chars().next()) else { return end };
        let is_style = matches!(next, '\u{FE00}'..='\u{FE0F}' | JOINER);
        if !(is_style || last == JOINER || tollgate_types::visible::is_mark(next)) {
            return end;
        }
        end -= last.len_utf8();
    }
    at
}

/// What a text or a value takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Characters.
    pub chars: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    quarters: usize,
}

impl Usage {
    /// Tokens, estimated: an ASCII character is a quarter of one, one of another alphabet half of one, a Chinese
    /// character one, and what lies beyond, such as an emoji, two.
    pub fn tokens(&self) -> usize {
        self.quarters.div_ceil(QUARTERS)
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        Self { chars: self.chars + more.chars, bytes: self.bytes + more.bytes, quarters: self.quarters + more.quarters }
    }

    pub(crate) fn ascii(bytes: usize) -> Self {
        Self { chars: bytes, bytes, quarters: bytes }
    }
}

fn quarters_of(c: char) -> usize {
    match c.len_utf8() {
        1 => 1,
        2 => QUARTERS / 2,
        3 => QUARTERS,
        _ => 2 * QUARTERS,
    }
}

/// Characters: every byte but those that go on with one.
pub(crate) fn count_chars(text: &str) -> usize {
    count(text.as_bytes(), |byte| byte & 0xC0 != 0x80)
}

/// Bytes of a kind, in blocks whose counts fit a byte, so that many are counted at once.
pub(crate) fn count(bytes: &[u8], is_one: impl Fn(u8) -> bool) -> usize {
    let of = |block: &[u8]| usize::from(block.iter().fold(0_u8, |sum, byte| sum + u8::from(is_one(*byte))));
    bytes.chunks(usize::from(u8::MAX)).map(of).sum()
}

/// What a text takes.
pub fn usage_of_text(text: &str) -> Usage {
    let bytes = text.as_bytes();
    let (two, three, four) = (
        count(bytes, |byte| (0xC0..0xE0).contains(&byte)),
        count(bytes, |byte| (0xE0..0xF0).contains(&byte)),
        count(bytes, |byte| byte >= 0xF0),
    );
    let ascii = bytes.len() - 2 * two - 3 * three - 4 * four;
    let quarters = ascii + two * (QUARTERS / 2) + three * QUARTERS + four * 2 * QUARTERS;
    Usage { chars: ascii + two + three + four, bytes: bytes.len(), quarters }
}

/// What a value takes as compact JSON, without making it.
pub fn usage_of_json(value: &Value) -> Usage {
    match value {
        Value::Null | Value::Bool(true) => Usage::ascii(4),
        Value::Bool(false) => Usage::ascii(5),
        Value::Number(number) => Usage::ascii(digits(number)),
        Value::String(text) => usage_of_string(text),
        Value::Array(items) => items.iter().map(usage_of_json).fold(frame_of_list(items.len()), Usage::plus),
        Value::Object(map) => {
            let frame = frame_of_map(map.len());
            map.iter().fold(frame, |sum, (key, value)| sum.plus(usage_of_string(key)).plus(usage_of_json(value)))
        }
    }
}

/// Brackets and commas.
fn frame_of_list(items: usize) -> Usage {
    Usage::ascii(2 + items.saturating_sub(1))
}

/// Braces, commas and colons.
fn frame_of_map(members: usize) -> Usage {
    Usage::ascii(2 + members.saturating_sub(1) + members)
}

fn digits(number: &serde_json::Number) -> usize {
    let of = |magnitude: u64| magnitude.checked_ilog10().unwrap_or(0) as usize + 1;
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => of(number),
        (None, Some(number)) => 1 + of(number.unsigned_abs()),
        (None, None) => number.to_string().len(),
    }
}

/// A string as JSON: its quotes, and what `serde_json` escapes.
fn usage_of_string(text: &str) -> Usage {
    let bytes = text.as_bytes();
    let short = count(bytes, |byte| matches!(byte, b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12));
    let controls = count(bytes, |byte| byte < 0x20);
    let long = controls - count(bytes, |byte| matches!(byte, b'\n' | b'\r' | b'\t' | 8 | 12));
    usage_of_text(text).plus(Usage::ascii(2 + short + 5 * long))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_measured() {
        assert_eq!(usage_of_text("北京 ok"), Usage { chars: 5, bytes: 9, quarters: 11 });
        assert_eq!(usage_of_text("北京 ok").tokens(), 3);
        assert_eq!(usage_of_text("é👍").tokens(), 3);
        assert!(Limits { chars: 9, bytes: 9, tokens: Some(3) }.hold_text("北京 ok"));
        assert!(!Limits { chars: 9, bytes: 8, tokens: None }.hold_text("北京 ok"));
        assert!(!Limits { chars: 9, bytes: 9, tokens: Some(2) }.hold_text("北京 ok"));
    }

    #[test]
    fn no_letter_loses_its_marks_and_no_emoji_its_parts() {
        assert_eq!(Limits::chars(3).end_in("abe\u{301}f"), 2);
        assert_eq!(Limits::chars(2).end_in("a👨\u{200D}👩"), 1);
        assert_eq!(Limits::chars(3).end_in("a👨\u{200D}👩"), 1);
        assert_eq!(Limits::chars(3).end_in("北京上海"), 9);
    }

    proptest! {
        #[test]
        fn a_value_is_measured_as_it_is_written(text in any::<String>(), key in any::<String>(), number in any::<i64>()) {
            let value = json!({ key: [text, number, null, true, false, 1.5, {}], "x": [] });
            prop_assert_eq!(usage_of_json(&value), usage_of_text(&value.to_string()));
            for chars in [0, 1, 10, usage_of_json(&value).chars - 1, usage_of_json(&value).chars] {
                let limits = Limits { chars, bytes: usize::MAX, tokens: Some(chars) };
                prop_assert_eq!(limits.hold_json(&value), limits.hold(usage_of_json(&value)));
            }
        }
    }
}
