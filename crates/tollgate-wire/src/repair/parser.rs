//! One recursive-descent JSON parser. A deviation that stands on its rung of the ladder is recorded and passed over, every
//! other is a fault. Recursion is bounded by the depth limit. Nearly every text is valid JSON: that way is kept short.

use serde_json::{Map, Number, Value};
use tollgate_types::{Code, Repair, RepairLevel, RepairRule, limits};

use super::{JsonFault, float};

const EXCERPT_CHARS_MAX: usize = 24;
/// A string that is not copied once more when it is put together.
const SCRATCH_BYTES_MAX: usize = 4 * 1024;
const TRUNCATED: &str = "possibly truncated: send the whole call again, shorter or in several calls";

/// Where the parser is, as a list that lives on the stack and costs nothing until a repair asks for it.
enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl Path<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(parent, key) => format!("{}/{}", parent.pointer(), key.replace('~', "~0").replace('/', "~1")),
            Self::Item(parent, at) => format!("{}/{at}", parent.pointer()),
        }
    }
}

pub(super) struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    level: RepairLevel,
    repairs: Vec<Repair>,
    /// Where short strings with escapes are put together, so that each is allocated once.
    scratch: String,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, level: RepairLevel) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, level, repairs: Vec::new(), scratch: String::new() }
    }

    /// Reads only a span of the text; places in messages still count from the start of the whole.
    pub(super) fn within(text: &'t str, start: usize, end: usize, level: RepairLevel) -> Self {
        let bytes = text.as_bytes().get(..end).unwrap_or_default();
        Self { text, bytes, at: start, level, repairs: Vec::new(), scratch: String::new() }
    }

    /// Reads exactly one value and nothing after it.
    pub(super) fn document(mut self) -> Result<(Value, Vec<Repair>), JsonFault> {
        self.skip_space(&Path::Root)?;
        let value = self.value(&Path::Root, 0)?;
        self.skip_space(&Path::Root)?;
        match self.peek() {
            None => Ok((value, self.repairs)),
            Some(b'{') => {
                let fault = self.fault(self.at, "a second JSON value after the first");
                Err(JsonFault { hint: Some("make one call for each object".to_owned()), ..fault })
            }
            Some(_) if value.is_object() && self.is_no_json_left() => {
                self.mend(RepairRule::TrailingText, &Path::Root, "unexpected text after the JSON value")?;
                Ok((value, self.repairs))
            }
            Some(_) => Err(self.fault(self.at, "unexpected text after the JSON value")),
        }
    }

    /// Whether what follows can only be words: nothing of it could belong to the object, or be another value.
    fn is_no_json_left(&self) -> bool {
        let rest = self.text.get(self.at..self.bytes.len()).unwrap_or_default().trim_ascii();
        !rest.contains(['{', '}', '[', ']', '"'])
            && !rest.starts_with([',', ':'])
            && serde_json::from_str::<serde::de::IgnoredAny>(rest).is_err()
    }

    fn value(&mut self, path: &Path<'_>, depth: usize) -> Result<Value, JsonFault> {
        match self.peek() {
            Some(b'{') => self.object(path, self.deeper(depth)?).map(Value::Object),
            Some(b'[') => self.array(path, self.deeper(depth)?).map(Value::Array),
            Some(b'"') => self.string(b'"', path).map(Value::String),
            Some(b'\'') if self.level > RepairLevel::Off => self.single_quoted(path).map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.literal(path),
            _ => Err(self.expected("a value")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, JsonFault> {
        if depth < limits::JSON_DEPTH_MAX {
            return Ok(depth + 1);
        }
        Err(self.fault(self.at, format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX)))
    }

    fn object(&mut self, path: &Path<'_>, depth: usize) -> Result<Map<String, Value>, JsonFault> {
        let mut map = Map::new();
        self.at += 1;
        self.skip_space(path)?;
        if self.eat(b'}') {
            return Ok(map);
        }
        loop {
            let key_at = self.at;
            let key = self.key(path)?;
            self.skip_space(path)?;
            if !self.eat(b':') {
                return Err(self.expected("`:` after the key"));
            }
            self.skip_space(path)?;
            let value = self.value(&Path::Key(path, &key), depth)?;
            if map.insert(key, value).is_some() {
                self.at = key_at;
                let key = self.key(path)?;
                return Err(self.fault(key_at, format!("the key `{}` stands twice", excerpt(&key))));
            }
            self.skip_space(path)?;
            if self.closes(b'}', path)? {
                return Ok(map);
            }
        }
    }

    fn key(&mut self, path: &Path<'_>) -> Result<String, JsonFault> {
        match self.peek() {
            Some(b'"') => self.string(b'"', path),
            Some(b'\'') if self.level > RepairLevel::Off => self.single_quoted(path),
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$') if self.level > RepairLevel::Off => {
                self.mend(RepairRule::UnquotedKey, path, "")?;
                Ok(self.word().to_owned())
            }
            _ => Err(self.expected("a key in double quotes")),
        }
    }

    fn array(&mut self, path: &Path<'_>, depth: usize) -> Result<Vec<Value>, JsonFault> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space(path)?;
        if self.eat(b']') {
            return Ok(items);
        }
        loop {
            items.push(self.value(&Path::Item(path, items.len()), depth)?);
            self.skip_space(path)?;
            if self.closes(b']', path)? {
                return Ok(items);
            }
        }
    }

    /// After a member: either the container ends here, or the next member begins.
    fn closes(&mut self, close: u8, path: &Path<'_>) -> Result<bool, JsonFault> {
        if self.eat(close) {
            return Ok(true);
        }
        let comma_at = self.at;
        if !self.eat(b',') {
            return Err(self.expected(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" }));
        }
        self.skip_space(path)?;
        if self.peek() != Some(close) {
            return Ok(false);
        }
        self.mend_at(comma_at, RepairRule::TrailingComma, path, "a comma after the last member")?;
        self.at += 1;
        Ok(true)
    }

    fn single_quoted(&mut self, path: &Path<'_>) -> Result<String, JsonFault> {
        self.mend(RepairRule::SingleQuotes, path, "")?;
        self.string(b'\'', path)
    }

    fn string(&mut self, quote: u8, path: &Path<'_>) -> Result<String, JsonFault> {
        self.at += 1;
        let start = self.at;
        self.at += plain(self.bytes.get(start..).unwrap_or_default(), quote);
        if self.peek() == Some(quote) {
            let text = self.since(start).to_owned();
            self.at += 1;
            return Ok(text);
        }
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        self.pieces(start, quote, path, &mut out)?;
        if out.len() > SCRATCH_BYTES_MAX {
            return Ok(out);
        }
        let text = out.as_str().to_owned();
        self.scratch = out;
        Ok(text)
    }

    /// The rest of a string that has escapes.
    fn pieces(&mut self, mut from: usize, quote: u8, path: &Path<'_>, out: &mut String) -> Result<(), JsonFault> {
        loop {
            match self.peek() {
                None => return Err(self.truncated("the string is not closed")),
                Some(b'\\') => {
                    out.push_str(self.since(from));
                    out.push(self.escape(quote)?);
                    from = self.at;
                }
                Some(byte) if byte == quote => {
                    out.push_str(self.since(from));
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => {
                    self.mend(RepairRule::ControlCharsEscaped, path, "a raw control character in a string")?;
                    self.at += 1;
                }
            }
            self.at += plain(self.bytes.get(self.at..).unwrap_or_default(), quote);
        }
    }

    fn escape(&mut self, quote: u8) -> Result<char, JsonFault> {
        let start = self.at;
        self.at += 1;
        let Some(byte) = self.peek() else { return Err(self.truncated("the string is not closed")) };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'\'' if quote == b'\'' => '\'',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(start),
            _ => {
                let fault = self.fault(start, "a backslash that escapes nothing");
                return Err(JsonFault { hint: Some("write each backslash of a text as `\\\\`".to_owned()), ..fault });
            }
        })
    }

    fn unicode(&mut self, start: usize) -> Result<char, JsonFault> {
        let unit = self.hex4()?;
        let mut units = vec![unit];
        if (0xD800..0xDC00).contains(&unit) {
            match self.bytes.get(self.at..).unwrap_or_default() {
                [] | [b'\\'] => return Err(self.truncated("the string is not closed")),
                [b'\\', b'u', ..] => {
                    self.at += 2;
                    units.push(self.hex4()?);
                }
                _ => {}
            }
        }
        match char::decode_utf16(units).next() {
            Some(Ok(char)) => Ok(char),
            _ => Err(self.fault(start, "half of a surrogate pair")),
        }
    }

    fn hex4(&mut self) -> Result<u16, JsonFault> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else { return Err(self.truncated("the string is not closed")) };
            let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok()) else {
                return Err(self.expected("four hexadecimal digits after `\\u`"));
            };
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Value, JsonFault> {
        let start = self.at;
        let is_negative = self.eat(b'-');
        let digits_at = self.at;
        if !self.eat(b'0') {
            self.digits()?;
        }
        let digits = digits_at..self.at;
        let is_integer = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.')) {
            return Err(self.fault(start, "a number that JSON does not know"));
        }
        // `-0` is a float, as for serde_json: an integer has no negative zero.
        match self.bytes.get(digits).unwrap_or_default() {
            b"0" if is_negative && is_integer => {}
            digits if is_integer => return self.integer(start, is_negative, digits),
            _ => {}
        }
        self.float(start)
    }

    fn integer(&self, start: usize, is_negative: bool, digits: &[u8]) -> Result<Value, JsonFault> {
        let next = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        let sum = digits.iter().try_fold(0, next);
        let number = if is_negative {
            sum.and_then(|sum| 0_i64.checked_sub_unsigned(sum)).map(Number::from)
        } else {
            sum.map(Number::from)
        };
        number.map(Value::Number).ok_or_else(|| {
            let fault = self.fault(start, "an integer with more digits than can be kept");
            JsonFault { hint: Some("send it as a string where the tool takes one".to_owned()), ..fault }
        })
    }

    fn float(&self, start: usize) -> Result<Value, JsonFault> {
        let text = self.since(start);
        match float::read(text) {
            Some(number) => Ok(Value::Number(number)),
            None if text.parse().is_ok_and(|float: f64| float.is_finite() && float != 0.0) => {
                Err(self.fault(start, "a number with more digits than can be kept"))
            }
            None => Err(self.fault(start, "a number outside of the range of a 64-bit float")),
        }
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(self.expected("a digit")) } else { Ok(()) }
    }

    fn literal(&mut self, path: &Path<'_>) -> Result<Value, JsonFault> {
        let start = self.at;
        let word = self.word();
        let value = match word {
            "true" | "True" => Value::Bool(true),
            "false" | "False" => Value::Bool(false),
            "null" | "None" => Value::Null,
            _ if self.peek().is_none() && ["true", "false", "null"].iter().any(|whole| whole.starts_with(word)) => {
                return Err(self.truncated("the text ends inside a value"));
            }
            _ => return Err(self.fault(start, "expected a value")),
        };
        if word.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.mend_at(start, RepairRule::PythonLiteral, path, "expected a value")?;
        }
        Ok(value)
    }

    fn word(&mut self) -> &'t str {
        let start = self.at;
        while matches!(self.peek(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'-')) {
            self.at += 1;
        }
        self.since(start)
    }

    #[inline]
    fn skip_space(&mut self, path: &Path<'_>) -> Result<(), JsonFault> {
        match self.peek() {
            Some(byte) if byte > b' ' && byte != b'/' => Ok(()),
            _ => self.skip_blanks(path),
        }
    }

    fn skip_blanks(&mut self, path: &Path<'_>) -> Result<(), JsonFault> {
        loop {
            while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
                self.at += 1;
            }
            if self.level < RepairRule::Comment.level() {
                return Ok(());
            }
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let length = if rest.starts_with(b"//") {
                rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
            } else if let Some(inside) = rest.strip_prefix(b"/*") {
                let Some(end) = inside.windows(2).position(|pair| pair == b"*/") else {
                    return Err(self.truncated("the comment is not closed"));
                };
                end + 4
            } else {
                return Ok(());
            };
            self.mend(RepairRule::Comment, path, "")?;
            self.at += length;
        }
    }

    /// Passes over a deviation, or refuses it on a lower rung.
    fn mend(&mut self, rule: RepairRule, path: &Path<'_>, what: &str) -> Result<(), JsonFault> {
        self.mend_at(self.at, rule, path, what)
    }

    fn mend_at(&mut self, offset: usize, rule: RepairRule, path: &Path<'_>, what: &str) -> Result<(), JsonFault> {
        if rule.level() > self.level {
            return Err(self.fault(offset, what));
        }
        if !self.repairs.iter().any(|repair| repair.rule == rule.as_str()) {
            self.repairs.push(Repair::new(path.pointer(), rule));
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    #[cold]
    fn expected(&self, what: &str) -> JsonFault {
        if self.at >= self.bytes.len() {
            return self.truncated(&format!("the text ends where {what} should follow"));
        }
        self.fault(self.at, format!("expected {what}"))
    }

    #[cold]
    fn truncated(&self, what: &str) -> JsonFault {
        JsonFault { hint: Some(TRUNCATED.to_owned()), ..self.fault(self.bytes.len(), what) }
    }

    #[cold]
    fn fault(&self, offset: usize, what: impl Into<String>) -> JsonFault {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let mut message = what.into();
        let found = excerpt(self.text.get(offset..).unwrap_or_default());
        message.push_str(&format!(" at line {line} column {column}"));
        if !found.is_empty() {
            message.push_str(&format!(": `{found}`"));
        }
        JsonFault { code: Code::InvalidJson, message, hint: None, offset }
    }
}

/// How many bytes are nothing but text: no quote, backslash or control character. Eight at a time (Mycroft's test).
fn plain(bytes: &[u8], quote: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let each = |byte: u8| u64::from(byte) * ONES;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(each(0x20)) & !word;
        // A false alarm is only possible above a true one.
        let special = (control | zero(word ^ each(quote)) | zero(word ^ each(b'\\'))) & HIGH;
        if special != 0 {
            return 8 * at + usize::try_from(special.trailing_zeros() / 8).unwrap_or_default();
        }
    }
    let is_special = |byte: &u8| *byte == quote || *byte == b'\\' || *byte < 0x20;
    8 * words.len() + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The beginning of a text, escaped so that it can stand in a message.
fn excerpt(text: &str) -> String {
    let mut out: String = text.chars().take(EXCERPT_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}
