//! The parts of a content: one thing each, and nothing that nobody knows.

use serde_json::{Map, Value};

use super::name;

/// What may stand beside the one thing.
const BESIDE: [&str; 3] = ["thought", "thoughtSignature", "partMetadata"];

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Blob,
    Call,
    Result,
    Hosted,
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "text" => Self::Text,
            "inlineData" | "fileData" => Self::Blob,
            "functionCall" => Self::Call,
            "functionResponse" => Self::Result,
            "executableCode" | "codeExecutionResult" | "toolCall" | "toolResponse" => Self::Hosted,
            _ => return None,
        })
    }

    pub(super) fn fits(self, is_model: bool) -> bool {
        match self {
            Self::Text | Self::Blob => true,
            Self::Call | Self::Hosted => is_model,
            Self::Result => !is_model,
        }
    }
}

/// A part that was read.
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    pub(super) word: &'a str,
    pub(super) value: &'a Map<String, Value>,
}

impl Part<'_> {
    /// A field of the thing that it is.
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.value.get(self.word)?.get(name)
    }
}

pub(super) fn only(fields: &Map<String, Value>, known: &[&str], place: &str) -> Result<(), String> {
    let other = fields.keys().find(|key| !known.contains(&key.as_str()));
    other.map_or(Ok(()), |key| Err(format!("{place} has the field `{key}`, which nobody knows")))
}

/// The parts of a content.
pub(super) fn read<'a>(content: &'a Value, place: &str) -> Result<Vec<Part<'a>>, String> {
    let content = content.as_object().ok_or_else(|| format!("{place} is not an object"))?;
    only(content, &["role", "parts"], place)?;
    let parts = content.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(|| format!("{place} has no parts"))?;
    parts.iter().enumerate().map(|(at, part)| one(part, &format!("{place}.parts[{at}]"))).collect()
}

fn one<'a>(part: &'a Value, place: &str) -> Result<Part<'a>, String> {
    let value = part.as_object().ok_or_else(|| format!("{place} is not an object"))?;
    let mut things = value.keys().filter(|key| !BESIDE.contains(&key.as_str()));
    let (Some(word), None) = (things.next(), things.next()) else {
        return Err(format!("{place} is not one thing: {part}"));
    };
    let kind = Kind::of(word).ok_or_else(|| format!("{place} has the field `{word}`, which nobody knows"))?;
    let part = Part { kind, word, value };
    check(&part, place)?;
    Ok(part)
}

fn check(part: &Part<'_>, place: &str) -> Result<(), String> {
    let thing = part.value.get(part.word).unwrap_or(&Value::Null);
    if part.kind == Kind::Text {
        return if thing.is_string() { Ok(()) } else { Err(format!("{place} has a text that is none")) };
    }
    let fields = thing.as_object().ok_or_else(|| format!("{place} has a `{}` that is no object", part.word))?;
    let has = |name: &str| fields.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match part.word {
        "functionCall" => {
            only(fields, &["id", "name", "args"], place)?;
            name(fields, place)?;
            let is_fit = fields.get("args").is_some_and(Value::is_object);
            if is_fit { Ok(()) } else { Err(format!("{place} has `args` that are no object")) }
        }
        "functionResponse" => {
            only(fields, &["id", "name", "response", "parts", "willContinue", "scheduling"], place)?;
            name(fields, place)?;
            let response = fields.get("response").and_then(Value::as_object).filter(|response| !response.is_empty());
            let mut images = fields.get("parts").and_then(Value::as_array).into_iter().flatten();
            let is_blob = |part: &Value| one(part, place).is_ok_and(|part| part.kind == Kind::Blob);
            match response {
                None => Err(format!("{place} has no `response`")),
                Some(_) if images.all(is_blob) => Ok(()),
                Some(_) => Err(format!("{place} has a part that is no data")),
            }
        }
        "inlineData" if has("mimeType") && has("data") => only(fields, &["mimeType", "data", "displayName"], place),
        "fileData" if has("mimeType") && has("fileUri") => only(fields, &["mimeType", "fileUri", "displayName"], place),
        "inlineData" | "fileData" => Err(format!("{place} has data without a type or a place")),
        _ => Ok(()),
    }
}
