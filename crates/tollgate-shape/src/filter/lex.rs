//! The words of a filter.

use super::FilterError;

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    /// A name, such as `select`.
    Name(String),
    /// A point and a name: a member.
    Field(String),
    /// A string.
    Text(String),
    /// A number.
    Number(serde_json::Number),
    /// Anything else, such as `|` or `==`.
    Sign(&'static str),
}

/// The longest first.
const SIGNS: [&str; 25] = [
    "..", "==", "!=", "<=", ">=", "//", "|", ",", ".", "[", "]", "(", ")", "{", "}", ":", ";", "?", "<", ">", "+", "-",
    "*", "/", "%",
];

/// Words with the character that each begins at, counted from 1.
pub(super) fn words(text: &str) -> Result<Vec<(usize, Word)>, FilterError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.chars().count() - rest.chars().count() + 1;
        let fault = |message: &str| FilterError::Syntax { message: message.into(), at };
        let (word, length) = if first == '"' {
            let end = string_end(rest).ok_or_else(|| fault("the string is not closed"))?;
            let inner = serde_json::from_str(rest.get(..end).unwrap_or_default());
            (Word::Text(inner.map_err(|_| fault("the string is not written as in JSON"))?), end)
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
            let number = rest.get(..end).unwrap_or_default();
            (Word::Number(number.parse().map_err(|_| fault("that is no number"))?), end)
        } else if is_name(first) {
            let name = name_of(rest);
            (Word::Name(name.to_owned()), name.len())
        } else if first == '.' && rest.chars().nth(1).is_some_and(is_name) {
            let name = name_of(rest.get(1..).unwrap_or_default());
            (Word::Field(name.to_owned()), 1 + name.len())
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
            let sign = sign.ok_or_else(|| fault(&format!("`{}` means nothing here", first.escape_debug())))?;
            (Word::Sign(sign), sign.len())
        };
        words.push((at, word));
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(words)
}

fn is_name(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn name_of(text: &str) -> &str {
    let end = text.find(|c: char| !(is_name(c) || c.is_numeric())).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// Behind the closing quote.
fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return Some(at + 1),
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}
