//! The answer to `tools/call` as an outcome: blocks that are not plain text pass as they came, and a number that a
//! [`Value`] can not hold exactly stays text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_guard::client::{NOT_ALLOWED_ADVICE, Renewal};
use tollgate_types::{Code, Content, ToolError, ToolOutput, limits};

use super::fault::Fault;
use crate::jsonrpc::scan::is_deeper_than;
use crate::wire_name;

/// Blocks of one result.
const BLOCKS_MAX: usize = 10_000;
/// Decimal digits that a double keeps.
const EXACT_DIGITS: usize = 17;
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
/// The headers do not say what the body says (MCP 2026-07-28).
pub(super) const HEADER_MISMATCH: i64 = -32020;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainText<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: String,
}

/// Reads a result. `has_schema`: programs rely on the structured part, so it stays even if a number loses digits.
pub(super) fn read(server: &str, result: &RawValue, has_schema: bool) -> Result<ToolOutput, ToolError> {
    let broken = |what: &str| ToolError::with_code(Code::UpstreamError, format!("`{server}`: {what}"));
    if is_deeper_than(result.get().as_bytes(), limits::JSON_DEPTH_MAX) {
        return Err(broken(&format!("its result is nested deeper than {} levels", limits::JSON_DEPTH_MAX)));
    }
    let raw = wire_name::renamed(server, result);
    let result = raw.value();
    let read: CallResult<'_> =
        serde_json::from_str(result.get()).map_err(|error| broken(&format!("its result can not be read: {error}")))?;
    if read.result_type.as_deref().is_some_and(|kind| kind != "complete") {
        return Err(broken("it asks for more input, which can not be given"));
    }
    let blocks = read.content.unwrap_or_default();
    if blocks.len() > BLOCKS_MAX {
        return Err(broken(&format!("its result has more than {BLOCKS_MAX} parts")));
    }
    let mut content = blocks
        .into_iter()
        .map(block)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| broken(&format!("a part of its result can not be read: {error}")))?;
    if read.is_error == Some(true) {
        return Err(ToolError::new(said(&content)).from_outside());
    }
    let mut structured = None;
    if let Some(raw) = read.structured_content {
        let is_exact = is_exact(raw.get());
        if content.is_empty() || !is_exact {
            content.push(Content::Text(raw.get().to_owned()));
        }
        if is_exact || has_schema {
            let value = serde_json::from_str(raw.get());
            structured = Some(value.map_err(|error| broken(&format!("its result can not be read: {error}")))?);
        }
    }
    Ok(ToolOutput { content, structured, raw: Some(raw) })
}

fn block(raw: &RawValue) -> Result<Content, serde_json::Error> {
    if let Ok(plain) = serde_json::from_str::<PlainText<'_>>(raw.get())
        && plain.kind == "text"
    {
        return Ok(Content::Text(plain.text));
    }
    if !is_exact(raw.get()) {
        return Ok(Content::Text(raw.get().to_owned()));
    }
    serde_json::from_str::<Value>(raw.get()).map(Content::Other)
}

/// A failed tool's words.
fn said(content: &[Content]) -> String {
    let mut text = String::new();
    for part in content {
        let part = match part {
            Content::Text(part) => Cow::Borrowed(part.as_str()),
            // An image has no words; its bytes are none.
            Content::Other(value) => value.get("text").and_then(Value::as_str).unwrap_or_default().into(),
        };
        if !text.is_empty() && !part.is_empty() {
            text.push('\n');
        }
        text.push_str(&part);
    }
    if text.trim().is_empty() {
        return "the tool failed and did not say why".to_owned();
    }
    match text.char_indices().nth(limits::ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Whether every number survives as a [`Value`]: an integer of 64 bits, or a fraction of few enough digits.
fn is_exact(json: &str) -> bool {
    let mut rest = json.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'"' => {
                let mut is_escaped = false;
                let end = rest.iter().position(|byte| {
                    let is_end = *byte == b'"' && !is_escaped;
                    is_escaped = *byte == b'\\' && !is_escaped;
                    is_end
                });
                rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                let (number, after) = rest.split_at(length);
                rest = after;
                if !is_exact_number(*first, number) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

fn is_exact_number(first: u8, rest: &[u8]) -> bool {
    let is_integer = rest.iter().all(u8::is_ascii_digit);
    if is_integer {
        let digits = std::str::from_utf8(rest).unwrap_or_default();
        let text = format!("{}{digits}", char::from(first));
        return text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    }
    let mantissa = rest.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    mantissa.filter(|byte| byte.is_ascii_digit()).count() < EXACT_DIGITS
}

/// A question without a usable answer, as the model reads it.
pub(super) fn explain(server: &str, fault: &Fault) -> ToolError {
    let message = format!("`{server}`: {fault}");
    let upstream = |message| ToolError::with_code(Code::UpstreamError, message);
    match fault {
        Fault::Rpc(failure) => {
            let mut error = upstream(message).with_tool_code(format!("RPC_{}", failure.code)).from_outside();
            if failure.code == HEADER_MISMATCH {
                return error.with_hint("ask again: its tools are being listed anew");
            }
            if matches!(failure.code, INVALID_PARAMS | METHOD_NOT_FOUND) {
                error.retryable = false;
                error = error.with_hint("correct the arguments as the server says");
            }
            error
        }
        Fault::TooLarge { .. } => ToolError::with_code(Code::ResultTooLarge, message).with_hint("ask for less"),
        Fault::TimedOut { .. } => ToolError::with_code(Code::Timeout, message),
        Fault::Http { status, text, retry_after, renewal, .. } => {
            let error = upstream(message).with_tool_code(format!("HTTP_{status}")).retry_after(*retry_after);
            let error = if text.is_empty() { error } else { error.from_outside() };
            match status {
                401 | 403 | 407 => {
                    let error = ToolError { retryable: false, ..error.nothing_happened() };
                    match status {
                        _ if *renewal == Renewal::LoggedOut => {
                            error.with_hint(format!("the operator must log in: tollgate mcp login {server}"))
                        }
                        403 => error.with_hint(NOT_ALLOWED_ADVICE),
                        _ => error.with_hint(format!("the server does not take our credentials; {}", renewal.advice())),
                    }
                }
                429 => error.nothing_happened().with_hint("the server asks for fewer calls; ask again later"),
                _ => error,
            }
        }
        Fault::Unreachable(_) => {
            upstream(message).nothing_happened().with_tool_code("UNREACHABLE").with_hint("ask again later")
        }
        Fault::SessionLost { is_certain: true } => {
            upstream(message).nothing_happened().with_tool_code("BROKEN_OFF").with_hint("ask again")
        }
        Fault::Closed(_) | Fault::SessionLost { is_certain: false } => {
            upstream(message).with_tool_code("BROKEN_OFF").with_hint("ask again later: the server is started again")
        }
        Fault::Broken(_) | Fault::Revision(_) => upstream(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_stay_text() {
        for (json, exact) in [
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("-9223372036854775808", true),
            ("-9223372036854775809", false),
            (r#"{"a":"123456789012345678901234567890","b":[1,2.5e10,-0.125]}"#, true),
            (r#"{"a":"\"","b":123456789012345678901234567890}"#, false),
            ("[0.1234567890123456789]", false),
            (r#""unended 123456789012345678901234567890"#, true),
        ] {
            assert_eq!(is_exact(json), exact, "{json}");
        }
    }
}
