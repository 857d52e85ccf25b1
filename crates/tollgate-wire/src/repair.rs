//! From the text that a model wrote to the JSON that the gate uses. What a rung of the ladder allows is mended and
//! reported; everything else is refused with the place where it is wrong. Nothing is ever guessed or closed.
//! docs/repair.md has the rungs and their rules.

mod extent;
mod float;
mod parser;

use serde_json::{Map, Value};
use tollgate_types::{Code, ErrorObject, Repair, RepairLevel, RepairRule, Text, limits};

pub(crate) use extent::Extent;
use parser::Parser;

/// Arguments as a value, and what was mended on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The arguments; always an object.
    pub value: Value,
    /// What was mended, each rule once, at the first place that needed it.
    pub repairs: Vec<Repair>,
}

/// Why a text is not JSON that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonFault {
    /// `invalid_json`, or `invalid_arguments` for JSON of the wrong kind or size.
    pub code: Code,
    /// What is wrong and where, with a short excerpt.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The byte offset into the text.
    pub offset: usize,
}

impl From<JsonFault> for ErrorObject {
    fn from(fault: JsonFault) -> Self {
        let text = if fault.code == Code::InvalidJson { Text::NotJson } else { Text::NotAnObject };
        let error = text.error(&[("what", &fault.message)]);
        Self { hint: fault.hint.or(error.hint), ..error }
    }
}

/// Reads JSON exactly: RFC 8259 and I-JSON's rules (RFC 7493) that keep meaning, so no duplicate keys, lone surrogates
/// or numbers that would change. Linear in the text; nesting is limited by [`limits::JSON_DEPTH_MAX`].
///
/// # Errors
/// The first thing that is wrong.
pub fn strict(text: &str) -> Result<Value, JsonFault> {
    check_size(text)?;
    Parser::new(text, RepairLevel::Off).document().map(|(value, _)| value)
}

/// Reads the arguments of a call, mending what may be mended on this rung, by the rules of [`RepairRule`] that are about
/// text.
///
/// ```
/// use tollgate_types::RepairLevel::{Lenient, Lossless};
/// use tollgate_wire::repair::arguments;
///
/// let parsed = arguments("```json\n{'in_stock': True,}\n```", Lossless).unwrap();
/// assert_eq!(parsed.value, serde_json::json!({"in_stock": true}));
/// assert_eq!(parsed.repairs[0].rule, "code_fence");
/// assert!(arguments(r#"{"q":"tea"} That should do."#, Lossless).is_err());
/// // \d is illegal, but \r is not: nobody knows
/// assert!(arguments(r#"{"path":"C:\data\reports"}"#, Lenient).is_err());
/// ```
///
/// # Errors
/// `invalid_json` when the text cannot be read without guessing, `invalid_arguments` when it is no object.
pub fn arguments(text: &str, level: RepairLevel) -> Result<Parsed, JsonFault> {
    check_size(text)?;
    let is_mended = level > RepairLevel::Off;
    if is_mended && text.trim_ascii().is_empty() {
        return Ok(empty());
    }
    let (value, mut repairs) = read(text, level)?;
    match value {
        Value::Object(_) => Ok(Parsed { value, repairs }),
        Value::Null if is_mended => Ok(empty()),
        Value::String(inner) if is_mended => match read(&inner, level) {
            Ok((value @ Value::Object(_), inner_repairs)) => {
                repairs.push(Repair::new("", RepairRule::DoubleEncoded));
                repairs.extend(inner_repairs);
                Ok(Parsed { value, repairs })
            }
            Ok(_) | Err(_) => Err(not_an_object("a string")),
        },
        Value::Null => Err(not_an_object("null")),
        Value::String(_) => Err(not_an_object("a string")),
        Value::Array(_) => Err(not_an_object("an array")),
        Value::Number(_) => Err(not_an_object("a number")),
        Value::Bool(_) => Err(not_an_object("a boolean")),
    }
}

/// Whether two texts of arguments say the same.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.trim_ascii() == other.trim_ascii()
        || matches!((strict(one), strict(other)), (Ok(one), Ok(other)) if one == other)
}

/// The parts of a text that is nothing but two or more different JSON objects in a row: parallel calls that a server
/// ran together. Equal objects are one call said twice or two calls; that cannot be known, so they are not split.
pub(crate) fn objects(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text.trim_ascii();
    while !rest.is_empty() {
        let mut extent = Extent::default();
        let end = rest.bytes().position(|byte| {
            extent.feed_byte(byte);
            extent.has_ended()
        })?;
        let (part, tail) = rest.split_at_checked(end + 1)?;
        if !matches!(strict(part), Ok(Value::Object(_)))
            || parts.contains(&part)
            || parts.len() == limits::CALLS_PER_TURN_MAX
        {
            return None;
        }
        parts.push(part);
        rest = tail.trim_ascii_start();
    }
    (parts.len() > 1).then_some(parts)
}

fn read(text: &str, level: RepairLevel) -> Result<(Value, Vec<Repair>), JsonFault> {
    let exact = Parser::new(text, RepairLevel::Off).document();
    if exact.is_ok() || level == RepairLevel::Off {
        return exact;
    }
    // What is refused on this rung is the reason worth telling: the rest would have been mended.
    let Some((start, end)) = fenced(text) else { return Parser::new(text, level).document() };
    let (value, mut repairs) = Parser::within(text, start, end, level).document()?;
    repairs.insert(0, Repair::new("", RepairRule::CodeFence));
    Ok((value, repairs))
}

/// The span inside a Markdown code fence that is the whole text.
fn fenced(text: &str) -> Option<(usize, usize)> {
    let body = text.trim_ascii().strip_prefix("```")?.strip_suffix("```")?;
    let body = body.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    if !body.starts_with([' ', '\t', '\r', '\n', '{']) {
        return None;
    }
    let start = body.as_ptr().addr() - text.as_ptr().addr();
    Some((start, start + body.len()))
}

fn empty() -> Parsed {
    Parsed { value: Value::Object(Map::new()), repairs: vec![Repair::new("", RepairRule::EmptyArguments)] }
}

fn not_an_object(kind: &str) -> JsonFault {
    JsonFault {
        code: Code::InvalidArguments,
        message: format!("arguments must be a JSON object, not {kind}"),
        hint: Some("send an object whose keys are the tool's parameters".to_owned()),
        offset: 0,
    }
}

fn check_size(text: &str) -> Result<(), JsonFault> {
    if text.len() <= limits::ARGUMENTS_BYTES_MAX {
        return Ok(());
    }
    Err(JsonFault {
        code: Code::InvalidArguments,
        message: format!("{} bytes of JSON are more than the limit of {}", text.len(), limits::ARGUMENTS_BYTES_MAX),
        hint: Some("send less in one call, or write it to a file and name the file".to_owned()),
        offset: limits::ARGUMENTS_BYTES_MAX,
    })
}

#[cfg(test)]
mod tests;
