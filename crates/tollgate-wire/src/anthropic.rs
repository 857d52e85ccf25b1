//! Anthropic Messages: the body of a request, messages, and replies.

mod assemble;
mod block;
mod event;
mod message;
mod received;
mod reply;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::limits;

use crate::carry::{Carry, Feature};
use crate::ids::WireIds;
use crate::request::{Fields, Request, ToolChoice};

pub(crate) use assemble::Assembler;
use message::Wire;
pub(crate) use received::read_request;
pub(crate) use reply::write_reply;

/// The body for `POST /messages`.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let ids = WireIds::of(request.messages, is_call_id);
    let wire = Wire { names: request.tools.names(), ids: &ids };
    let mut conversation = wire.conversation(request.messages)?;
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

/// Whether a call may have this id here.
fn is_call_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// What this wire has a place for.
pub(crate) fn carries(feature: Feature) -> Carry {
    Carry::Not(match feature {
        Feature::LaterSystem => "it becomes text in the user's message, because only the newest models take it",
        Feature::MessageMeta => "left out: what this dialect has of them are parts of their own",
        Feature::CustomTools => "offered as functions with one argument",
        Feature::ChoiceAllowed => "only these tools are offered, and the choice is `auto` or `any`",
        Feature::Store => "not sent: nothing is kept here",
        Feature::Previous => "the whole conversation is sent",
        Feature::UserImages
        | Feature::ResultImages
        | Feature::ResultOrder
        | Feature::ResultErrors
        | Feature::CallIds
        | Feature::CallMeta
        | Feature::RawParts
        | Feature::PartOrder
        | Feature::Strict
        | Feature::HostedTools
        | Feature::ChoiceNone
        | Feature::ChoiceNamed
        | Feature::Parallel
        | Feature::CachedTokens
        | Feature::ReasoningTokens => return Carry::Whole,
    })
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

#[cfg(test)]
mod tests;
