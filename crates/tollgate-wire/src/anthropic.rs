//! Anthropic Messages: the body of a request, messages, and replies.

mod assemble;
mod block;
mod event;
mod message;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::limits;

use crate::carry::{Carry, Feature};
use crate::fault::WireFault;
use crate::object::Object;
use crate::received::Received;
use crate::reply::Heading;
use crate::request::{Fields, Request, ToolChoice};
use crate::turn::Turn;

pub(crate) use assemble::Assembler;

/// The body for `POST /messages`.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let mut conversation = message::print(request.messages, request.tools.names())?;
    let mut tools = tools(request)?;
    if request.cache {
        conversation.mark_for_cache()?;
        mark_last(tools.as_mut())?;
    }
    let mut fields = Fields::default();
    fields.put("model", request.model)?;
    fields.put("max_tokens", &max_tokens(request))?;
    fields.put_some("system", conversation.system())?;
    fields.put("messages", conversation.messages())?;
    // A choice without tools is refused, so both go or neither.
    if let Some(tools) = tools.filter(|tools| !tools.is_empty()) {
        fields.put("tools", &tools)?;
        fields.put("tool_choice", &choice(request))?;
    }
    fields.put_some("temperature", request.temperature)?;
    fields.put("stream", &request.stream)?;
    fields.into_body(request.extra)
}

/// This wire wants a number, and one above what the operator lets the model think.
fn max_tokens(request: &Request<'_>) -> u64 {
    let thinking = request.extra.and_then(|extra| extra.get("thinking")?.get("budget_tokens")?.as_u64());
    let usual = || u64::from(limits::MODEL_TURN_TOKENS).saturating_add(thinking.unwrap_or_default());
    request.max_tokens.map_or_else(usual, u64::from)
}

/// The tools. A set of allowed ones is unknown here, so that the others are not offered.
fn tools(request: &Request<'_>) -> Result<Option<Vec<Box<RawValue>>>, serde_json::Error> {
    let Some(all) = request.all_tools()? else { return Ok(None) };
    let mut tools: Vec<Box<RawValue>> = serde_json::from_str(all.get())?;
    if let ToolChoice::Allowed { tools: allowed, .. } = request.tool_choice {
        let allowed: HashSet<_> = allowed.iter().map(|name| request.tools.names().on_wire(name)).collect();
        tools.retain(|tool| name_of(tool).is_some_and(|name| allowed.contains(&name)));
    }
    Ok(Some(tools))
}

fn name_of(tool: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    serde_json::from_str::<Named<'_>>(tool.get()).ok().map(|named| named.name)
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

fn choice<'a>(request: &Request<'a>) -> Choice<'a> {
    let mut name = None;
    let r#type = match request.tool_choice {
        ToolChoice::None => return Choice { r#type: "none", name: None, disable_parallel_tool_use: None },
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => "auto",
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => "any",
        ToolChoice::Named(tool) => {
            name = Some(request.tools.names().on_wire(tool));
            "tool"
        }
    };
    Choice { r#type, name, disable_parallel_tool_use: request.parallel.map(|parallel| !parallel) }
}

/// Ends the part of a request that the server keeps for the next one with its last block.
fn mark_last(blocks: Option<&mut Vec<Box<RawValue>>>) -> Result<(), serde_json::Error> {
    if let Some(last) = blocks.and_then(|blocks| blocks.last_mut()) {
        *last = with_fields(last, [("cache_control", to_raw_value(&serde_json::json!({ "type": "ephemeral" }))?)])?;
    }
    Ok(())
}

/// The same object with these fields.
fn with_fields<'a>(
    object: &RawValue,
    fields: impl IntoIterator<Item = (&'a str, Box<RawValue>)>,
) -> Result<Box<RawValue>, serde_json::Error> {
    let mut map: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object.get())?;
    map.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    to_raw_value(&map)
}

/// What of an object has another name than these, where there is something.
fn other_fields(object: &RawValue, known: &[&str]) -> Option<Value> {
    let Ok(Value::Object(mut map)) = serde_json::from_str(object.get()) else { return None };
    map.retain(|name, _| !known.contains(&name.as_str()));
    (!map.is_empty()).then_some(Value::Object(map))
}

pub(crate) fn read_request(_: Object<'_>) -> Result<Received, WireFault> {
    Err(WireFault::request("this dialect is not read yet"))
}

pub(crate) fn write_reply(_: &Turn, _: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    Err(serde::de::Error::custom("this dialect is not written yet"))
}

pub(crate) fn carries(_: Feature) -> Carry {
    Carry::Not("not told yet")
}

#[cfg(test)]
mod tests;
