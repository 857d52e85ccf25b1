//! What can be learned of a message before, or without, parsing it: how deep it nests and which id it carries. One
//! pass, no recursion, no memory; the text may be cut off, not UTF-8 or not JSON at all.

/// Whether objects and arrays nest deeper than `levels_max`.
pub(crate) fn is_deeper_than(text: &[u8], levels_max: usize) -> bool {
    let mut depth = 0_usize;
    Tokens(text).any(|token| {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Comma | Token::Scalar(_) => {}
        }
        depth > levels_max
    })
}

/// The raw value of `id` in the outermost object: a whole string, number or word. None when it is not there, cut off,
/// an object or an array, or there twice.
pub(super) fn top_level_id(text: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut expects_key, mut is_id) = (0_usize, false, false);
    let mut found = None;
    for token in Tokens(text) {
        match token {
            Token::Open(b'[') if depth == 0 => return None,
            Token::Open(_) => {
                depth += 1;
                (expects_key, is_id) = (depth == 1, false);
            }
            Token::Close if depth <= 1 => break,
            Token::Close => depth -= 1,
            Token::Comma => (expects_key, is_id) = (depth == 1, false),
            Token::Scalar(raw) if depth == 1 && expects_key => (expects_key, is_id) = (false, raw == br#""id""#),
            Token::Scalar(raw) if depth == 1 && is_id => {
                if found.replace(raw).is_some() {
                    return None;
                }
                is_id = false;
            }
            Token::Scalar(_) => {}
        }
    }
    found
}

enum Token<'a> {
    Open(u8),
    Close,
    Comma,
    /// A string with its quotes, a number, a word or rubbish; never cut off.
    Scalar(&'a [u8]),
}

struct Tokens<'a>(&'a [u8]);

impl<'a> Tokens<'a> {
    /// Splits off the first `length` bytes.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let first = *self.0.first()?;
            let length = match first {
                b'"' => string_length(self.0)?,
                b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => 1,
                _ => self.0.iter().position(|byte| b",:{}[]\" \t\n\r".contains(byte))?,
            };
            let raw = self.take(length)?;
            match first {
                b'{' | b'[' => return Some(Token::Open(first)),
                b'}' | b']' => return Some(Token::Close),
                b',' => return Some(Token::Comma),
                b':' | b' ' | b'\t' | b'\n' | b'\r' => {}
                _ => return Some(Token::Scalar(raw)),
            }
        }
    }
}

/// The length of the string that `text` starts with, quotes included; none when it does not end.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    })?;
    Some(end + 2)
}
