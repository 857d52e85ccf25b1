//! One block of a message.

use serde_json::Value;

use super::only;
use crate::model::protocol::{Fields, name, non_empty};

/// A block that was read.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) kind: Kind,
    pub(super) word: &'a str,
    /// Of a call or a result, the call's.
    pub(super) id: &'a str,
    pub(super) value: &'a Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Image,
    Call,
    Result,
    Thought,
    /// A call that the provider ran itself, or what came of it.
    Hosted,
}

impl Kind {
    /// Whether a message of the model, or of the user, can have it.
    pub(super) fn fits(self, is_assistant: bool) -> bool {
        match self {
            Self::Text => true,
            Self::Image | Self::Result => !is_assistant,
            Self::Call | Self::Thought | Self::Hosted => is_assistant,
        }
    }
}

/// The blocks of a message; a text alone counts as one.
pub(super) fn read<'a>(content: &'a Value, place: &str) -> Result<Vec<Block<'a>>, String> {
    match content {
        Value::String(text) => {
            has_text(text, place)?;
            Ok(vec![Block { kind: Kind::Text, word: "text", id: "", value: content }])
        }
        Value::Array(blocks) if !blocks.is_empty() => {
            blocks.iter().enumerate().map(|(index, value)| block(value, &format!("{place}.content[{index}]"))).collect()
        }
        _ => Err(format!("{place} has no content")),
    }
}

fn has_text(text: &str, place: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err(format!("{place} is text without anything to read")) } else { Ok(()) }
}

fn block<'a>(value: &'a Value, place: &str) -> Result<Block<'a>, String> {
    let fields = value.as_object().ok_or_else(|| format!("{place} is not an object"))?;
    let word = non_empty(fields, "type", place)?;
    let mut id = "";
    let kind = match word {
        "text" => {
            only(fields, &["type", "text", "citations", "cache_control"], place)?;
            has_text(fields.get("text").and_then(Value::as_str).unwrap_or_default(), place)?;
            Kind::Text
        }
        "image" => {
            image(fields, place)?;
            Kind::Image
        }
        "tool_use" => {
            only(fields, &["type", "id", "name", "input", "caller", "toolset_name", "cache_control"], place)?;
            id = call_id(fields, "id", place)?;
            name(fields, place)?;
            if !fields.get("input").is_some_and(Value::is_object) {
                return Err(format!("{place} has an input that is not an object"));
            }
            Kind::Call
        }
        "tool_result" => {
            only(fields, &["type", "tool_use_id", "content", "is_error", "cache_control"], place)?;
            id = call_id(fields, "tool_use_id", place)?;
            result(fields, place)?;
            Kind::Result
        }
        "thinking" => {
            only(fields, &["type", "thinking", "signature"], place)?;
            non_empty(fields, "signature", place)?;
            Kind::Thought
        }
        "redacted_thinking" => {
            non_empty(fields, "data", place)?;
            Kind::Thought
        }
        _ if word.ends_with("_tool_use") || word.ends_with("_tool_result") => Kind::Hosted,
        _ => return Err(format!("{place} has the unknown type `{word}`")),
    };
    Ok(Block { kind, word, id, value })
}

fn call_id<'a>(fields: &'a Fields, key: &str, place: &str) -> Result<&'a str, String> {
    let id = non_empty(fields, key, place)?;
    let is_fit = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_fit { Ok(id) } else { Err(format!("{place} has the id `{id}`, which is not ^[a-zA-Z0-9_-]+$")) }
}

fn image(fields: &Fields, place: &str) -> Result<(), String> {
    let source = fields.get("source").and_then(Value::as_object);
    let source = source.ok_or_else(|| format!("{place} has no `source`"))?;
    match non_empty(source, "type", place)? {
        "base64" => {
            let kind = non_empty(source, "media_type", place)?;
            if !["image/jpeg", "image/png", "image/gif", "image/webp"].contains(&kind) {
                return Err(format!("{place} is an image of the type `{kind}`"));
            }
            non_empty(source, "data", place).map(drop)
        }
        "url" => non_empty(source, "url", place).map(drop),
        other => Err(format!("{place} has a source of the unknown type `{other}`")),
    }
}

fn result(fields: &Fields, place: &str) -> Result<(), String> {
    let Some(content) = fields.get("content") else { return Ok(()) };
    let blocks = read(content, place)?;
    let is_error = fields.get("is_error") == Some(&Value::Bool(true));
    let fits = |block: &Block<'_>| block.kind == Kind::Text || block.kind == Kind::Image && !is_error;
    match blocks.iter().find(|block| !fits(block)) {
        Some(block) => Err(format!("{place} has a block `{}` that this result cannot have", block.word)),
        None => Ok(()),
    }
}
