//! Values that stand where a secret would and are none: references, masks, types, words of prose, counters.

use serde_json::Value;

use super::keys;

/// What may stand under a secret's name and say nothing: in a tree, where names and values cannot be confused.
pub(super) fn is_harmless(value: &Value, rule: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => is_counter(&number.to_string(), rule),
        Value::String(text) => text.trim().is_empty() || is_reference(text) || is_counter(text, rule),
        Value::Array(items) => items.iter().all(|item| is_harmless(item, rule)),
        Value::Object(map) => {
            let is_env = map.len() == 1 && map.get("env").and_then(Value::as_str).is_some_and(is_env_name);
            is_env || map.values().all(|item| is_harmless(item, rule))
        }
    }
}

/// A longer value is taken for what it is; it keeps every look at a text short.
pub(super) const PLACEHOLDER_BYTES_MAX: usize = 256;

/// A reference to a secret, a mask over one, or a marker where one was.
pub(super) fn is_reference(value: &str) -> bool {
    if value.len() > PLACEHOLDER_BYTES_MAX {
        return false;
    }
    let value = value.trim();
    let between = |open: &str, close: &str| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let mask = value.chars().next().filter(|c| matches!(c, '*' | 'x' | 'X' | '•' | '.' | '_' | '-'));
    let is_mask = mask.is_some_and(|mask| value.chars().all(|c| c == mask));
    let is_marker = between("[redacted", "]").is_some_and(|inner| !inner.contains([']', '[']))
        || between("<", ">").is_some_and(|inner| !inner.contains(['<', '>']))
        || value.eq_ignore_ascii_case("redacted");
    let is_variable = between("${", "}").is_some_and(|name| !name.contains('}'))
        || between("{{", "}}").is_some_and(|name| !name.contains('}'))
        || between("{", "}").is_some_and(is_identifier)
        || value.starts_with("$(")
        || value.strip_prefix('$').is_some_and(is_env_name)
        || between("%", "%").is_some_and(is_env_name)
        || value == "%s";
    is_mask || is_marker || is_variable || value.starts_with("secret://")
}

/// `token: 1532` counts tokens, `pin: 13` is a pin of a chip.
pub(super) fn is_counter(value: &str, rule: &str) -> bool {
    let digits_max = match rule {
        "token" => 7,
        "pin" => 3,
        _ => return false,
    };
    value.len() <= digits_max && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// A word that no secret is, in a text or in code: `password: required`, `token=None`, `secret: str`.
const STOP_WORDS: [&str; 80] = [
    "none",
    "null",
    "nil",
    "undefined",
    "nan",
    "true",
    "false",
    "yes",
    "no",
    "required",
    "optional",
    "empty",
    "missing",
    "unset",
    "set",
    "hidden",
    "masked",
    "redacted",
    "removed",
    "invalid",
    "expired",
    "incorrect",
    "wrong",
    "unknown",
    "enabled",
    "disabled",
    "string",
    "str",
    "text",
    "int",
    "integer",
    "number",
    "bool",
    "boolean",
    "any",
    "object",
    "bytes",
    "char",
    "void",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "i32",
    "i64",
    "f32",
    "f64",
    "the",
    "a",
    "an",
    "to",
    "for",
    "of",
    "in",
    "on",
    "with",
    "from",
    "by",
    "is",
    "are",
    "was",
    "not",
    "must",
    "should",
    "may",
    "can",
    "and",
    "or",
    "if",
    "as",
    "at",
    "see",
    "flag",
    "option",
    "options",
    "parameter",
    "argument",
    "env",
    "n/a",
];

/// Whether a value is one of the words that no secret is.
pub(super) fn is_stop_word(value: &str) -> bool {
    STOP_WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// A longer name is none that a programmer wrote.
const CODE_NAME_BYTES_MAX: usize = 32;

/// Code that fetches the value from elsewhere: `get_token(`, `os.environ[`, `self.token`, `access_token`.
pub(super) fn is_code(value: &str) -> bool {
    let end = value.find(|c: char| !(c.is_ascii_alphabetic() || c == '_' || c == '.')).unwrap_or(value.len());
    let (head, rest) = value.split_at(end);
    if head.is_empty() || head.starts_with('.') || head.len() > CODE_NAME_BYTES_MAX {
        return false;
    }
    let is_access = ["self.", "this.", "args.", "config.", "settings.", "os.", "process.", "env.", "request.", "req."];
    match rest.chars().next() {
        None => keys::mentions_secret(head) || is_access.iter().any(|prefix| head.starts_with(prefix)),
        Some(open) => matches!(open, '(' | '[') && head.len() > 2,
    }
}

fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

fn is_env_name(name: &str) -> bool {
    is_identifier(name) && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
