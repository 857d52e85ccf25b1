//! Text as the value of a header: what can not stand there as it is goes as Base64 (MCP 2026-07-28, Streamable HTTP: value
//! encoding).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The text as a header's value.
pub(crate) fn value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !text.starts_with("=?") {
        return text.to_owned();
    }
    format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
}

/// The text that a header's value stands for. None for what does not decode.
pub(crate) fn text(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_headers() {
        for (name, header) in [
            ("get_sum", "get_sum"),
            ("a b", "a b"),
            (" a", "=?base64?IGE=?="),
            ("求和", "=?base64?5rGC5ZKM?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ] {
            assert_eq!(value(name), header);
            assert_eq!(text(header).as_deref(), Some(name));
        }
    }
}
