//! What Anthropic's API asks of a request, as it would check it, and turns as it says them.

mod block;
mod reply;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use serde_json::Value;

use super::protocol::{Fields, name, non_empty};
use super::step::Turn;
use block::{Block, Kind};
pub(super) use reply::{events, message};

/// The fields of a request. Any other is refused.
const FIELDS: [&str; 17] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "temperature",
    "stream",
    "cache_control",
    "container",
    "context_management",
    "mcp_servers",
    "metadata",
    "output_config",
    "service_tier",
    "stop_sequences",
    "thinking",
];
const TOOL_FIELDS: [&str; 8] =
    ["type", "name", "description", "input_schema", "strict", "cache_control", "defer_loading", "input_examples"];
/// Breakpoints of the cache in one request.
const BREAKPOINTS_MAX: usize = 4;

/// Says what is wrong with a request first.
pub(super) fn check(headers: &HeaderMap, body: &Value, said: &[Turn]) -> Result<(), String> {
    if headers.get("anthropic-version").and_then(|value| value.to_str().ok()) != Some("2023-06-01") {
        return Err("the header `anthropic-version` is not `2023-06-01`".to_owned());
    }
    let body = body.as_object().ok_or("the body is not an object")?;
    only(body, &FIELDS, "the body")?;
    non_empty(body, "model", "the body")?;
    if body.get("max_tokens").and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
        return Err("`max_tokens` is not a number above 0".to_owned());
    }
    if body.get("stream").is_some_and(|stream| !stream.is_boolean()) {
        return Err("`stream` is not a boolean".to_owned());
    }
    if let Some(system) = body.get("system") {
        let blocks = block::read(system, "system")?;
        if blocks.iter().any(|block| block.kind != Kind::Text) {
            return Err("`system` has a block that is no text".to_owned());
        }
    }
    let messages = messages(body)?;
    returned(&messages, said)?;
    let names = tools(body)?;
    tool_choice(body, &names)?;
    let marks = Value::Object(body.clone()).to_string().matches("\"cache_control\":{").count();
    if marks > BREAKPOINTS_MAX {
        return Err(format!("{marks} blocks have `cache_control`, and at most {BREAKPOINTS_MAX} may"));
    }
    Ok(())
}

fn only(fields: &Fields, known: &[&str], place: &str) -> Result<(), String> {
    let other = fields.keys().find(|key| !known.contains(&key.as_str()));
    other.map_or(Ok(()), |key| Err(format!("{place} has the field `{key}`, which nobody knows")))
}

/// A message: whether the model said it, and its blocks.
type Spoken<'a> = (bool, Vec<Block<'a>>);

fn messages(body: &Fields) -> Result<Vec<Spoken<'_>>, String> {
    let list = body.get("messages").and_then(Value::as_array).ok_or("`messages` is not an array")?;
    let mut messages: Vec<Spoken<'_>> = Vec::new();
    let mut ids = BTreeSet::new();
    for (index, message) in list.iter().enumerate() {
        let place = format!("messages[{index}]");
        let fields = message.as_object().ok_or_else(|| format!("{place} is not an object"))?;
        only(fields, &["role", "content"], &place)?;
        let is_assistant = match non_empty(fields, "role", &place)? {
            "assistant" => true,
            "user" => false,
            role => return Err(format!("{place} has the unknown role `{role}`")),
        };
        if messages.last().map_or(is_assistant, |(last, _)| *last == is_assistant) {
            return Err(format!("{place} does not alternate: a conversation begins with `user`"));
        }
        let blocks = block::read(fields.get("content").unwrap_or(&Value::Null), &place)?;
        if let Some(block) = blocks.iter().find(|block| !block.kind.fits(is_assistant)) {
            return Err(format!("{place} has a block `{}` that its role cannot have", block.word));
        }
        for block in blocks.iter().filter(|block| block.kind == Kind::Call) {
            if !ids.insert(block.id) {
                return Err(format!("{place} has the id `{}` of another call", block.id));
            }
        }
        answered(messages.last(), &blocks, &place)?;
        messages.push((is_assistant, blocks));
    }
    match messages.last() {
        None => return Err("`messages` is empty".to_owned()),
        // Only a turn that was paused is taken up where it ended.
        Some((true, blocks)) if !blocks.iter().any(|block| block.kind == Kind::Hosted) => {
            return Err("the last message is of the model".to_owned());
        }
        Some(_) => answered(messages.last(), &[], "the end")?,
    }
    Ok(messages)
}

/// The calls of one message are answered in the next, all of them, first of all, and nothing else is.
fn answered(before: Option<&Spoken<'_>>, blocks: &[Block<'_>], place: &str) -> Result<(), String> {
    let asked = before.map(|(_, blocks)| blocks.as_slice()).unwrap_or_default();
    let mut open: BTreeSet<&str> =
        asked.iter().filter(|block| block.kind == Kind::Call).map(|block| block.id).collect();
    let mut is_past_results = false;
    for block in blocks {
        if block.kind != Kind::Result {
            is_past_results = true;
        } else if is_past_results && !open.is_empty() {
            return Err(format!("{place} has a result behind something else"));
        } else if !open.remove(block.id) {
            return Err(format!("{place} answers the call `{}`, which is not open here", block.id));
        }
    }
    open.first().map_or(Ok(()), |id| Err(format!("the call `{id}` has no answer in {place}")))
}

/// What a turn had besides text and calls must stand before its calls again, unchanged.
fn returned(messages: &[Spoken<'_>], said: &[Turn]) -> Result<(), String> {
    for turn in said.iter().filter(|turn| !turn.parts.is_empty()) {
        let Some(id) = turn.calls.first().map(|call| call.id.as_str()) else { continue };
        let is_it = |block: &Block<'_>| block.kind == Kind::Call && block.id == id;
        let Some((_, blocks)) = messages.iter().find(|(_, blocks)| blocks.iter().any(is_it)) else { continue };
        let mut blocks = blocks.iter().take_while(|block| !is_it(block));
        if let Some(part) = turn.parts.iter().find(|part| !blocks.any(|block| block.value == *part)) {
            return Err(format!("the turn of the call `{id}` came back without its `{part}`"));
        }
    }
    Ok(())
}

fn tools(body: &Fields) -> Result<BTreeSet<&str>, String> {
    let Some(tools) = body.get("tools") else { return Ok(BTreeSet::new()) };
    let tools = tools.as_array().ok_or("`tools` is not an array")?;
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = format!("tools[{index}]");
        let fields = tool.as_object().ok_or_else(|| format!("{place} is not an object"))?;
        // The provider's own tools have a type with a date, and fields of their own.
        let is_ours = fields.get("type").is_none_or(|kind| kind == "custom");
        if is_ours {
            only(fields, &TOOL_FIELDS, &place)?;
            schema(fields, &place)?;
        }
        let name = name(fields, &place)?;
        if !names.insert(name) {
            return Err(format!("{place} has the name `{name}` of another tool"));
        }
    }
    Ok(names)
}

fn schema(tool: &Fields, place: &str) -> Result<(), String> {
    let schema = tool.get("input_schema").and_then(Value::as_object);
    let schema = schema.ok_or_else(|| format!("{place} has no `input_schema`"))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(format!("{place} has an `input_schema` that is not of the type `object`"));
    }
    if let Some(key) = ["anyOf", "oneOf", "allOf"].into_iter().find(|key| schema.contains_key(*key)) {
        return Err(format!("{place} has `{key}` at the root of its `input_schema`"));
    }
    let is_strict = tool.get("strict") == Some(&Value::Bool(true));
    if is_strict && schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Err(format!("{place} is strict without `additionalProperties: false`"));
    }
    Ok(())
}

fn tool_choice(body: &Fields, names: &BTreeSet<&str>) -> Result<(), String> {
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    let choice = choice.as_object().ok_or("`tool_choice` is not an object")?;
    if names.is_empty() {
        return Err("`tool_choice` stands without `tools`".to_owned());
    }
    let known: &[&str] = match non_empty(choice, "type", "`tool_choice`")? {
        "none" => &["type"],
        "auto" | "any" => &["type", "disable_parallel_tool_use"],
        "tool" => {
            let name = name(choice, "`tool_choice`")?;
            if !names.contains(name) {
                return Err(format!("`tool_choice` names `{name}`, which is no tool here"));
            }
            &["type", "name", "disable_parallel_tool_use"]
        }
        kind => return Err(format!("`tool_choice` has the unknown type `{kind}`")),
    };
    only(choice, known, "`tool_choice`")
}
