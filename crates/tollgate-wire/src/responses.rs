//! OpenAI Responses: the body of a request, items, and replies.

mod assemble;
mod event;
mod handed;
mod history;
mod item;
mod received;
mod reply;

use serde_json::{Value, json};

use crate::carry::{Carry, Feature};
use crate::dialect::Dialect;
use crate::history::Message;
use crate::lower::Names;
use crate::request::{Fields, Request, ToolChoice};

pub(crate) use assemble::Assembler;
pub(crate) use received::read_request;
pub(crate) use reply::write_reply;

/// What asks for thoughts in a form that can be sent back to a server that keeps nothing.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// The body for `POST /responses`.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let names = request.tools.names();
    let known = request.previous.map_or(0, |id| known_messages(request.messages, id));
    let mut fields = Fields::default();
    fields.put("model", request.model)?;
    fields.put_some("previous_response_id", request.previous)?;
    // What a server keeps of a conversation does not hold its instructions.
    let instructions = match request.messages {
        [Message::System(text), ..] => Some(text),
        _ => None,
    };
    fields.put_some("instructions", instructions)?;
    fields.put("input", &history::items(request, known.max(instructions.iter().len()))?)?;
    // A choice without tools is refused, so both go or neither.
    if let Some(tools) = request.all_tools()? {
        fields.put("tools", &tools)?;
        fields.put("tool_choice", &choice(request.tool_choice, names))?;
        fields.put_some("parallel_tool_calls", request.parallel)?;
    }
    fields.put_some("max_output_tokens", request.max_tokens)?;
    fields.put_some("temperature", request.temperature)?;
    fields.put("stream", &request.stream)?;
    fields.put_some("store", request.store)?;
    fields.put_some("include", include(request))?;
    fields.into_body(request.extra)
}

/// How many messages the server has with a reply; none where that reply is not among them.
fn known_messages(messages: &[Message], previous: &str) -> usize {
    let is_it = |message: &Message| match message {
        Message::Assistant { kept: Some(kept), .. } => {
            kept.dialect == Dialect::Responses && kept.response_id.as_deref() == Some(previous)
        }
        Message::System(_) | Message::User(_) | Message::Assistant { .. } | Message::Tool { .. } => false,
    };
    messages.iter().rposition(is_it).map_or(0, |at| at + 1)
}

fn choice(choice: &ToolChoice, names: &Names) -> Value {
    let tool = |name: &str| {
        let kind = if names.text_property(name).is_some() { "custom" } else { "function" };
        json!({ "type": kind, "name": names.on_wire(name) })
    };
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => tool(name),
        ToolChoice::Allowed { required, tools } => {
            let mode = if *required { "required" } else { "auto" };
            let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
            json!({ "type": "allowed_tools", "mode": mode, "tools": tools })
        }
    }
}

/// What the operator wants included, and from a server that keeps nothing the thoughts.
fn include(request: &Request<'_>) -> Option<Vec<Value>> {
    if request.store != Some(false) {
        return None;
    }
    let theirs = request.extra.and_then(|extra| extra.get("include")).and_then(Value::as_array);
    let mut include = theirs.cloned().unwrap_or_default();
    if !include.iter().any(|word| word == ENCRYPTED) {
        include.push(ENCRYPTED.into());
    }
    Some(include)
}

/// What this dialect carries.
pub(crate) fn carries(feature: Feature) -> Carry {
    match feature {
        Feature::ResultErrors => Carry::Not("the text of the result says so"),
        Feature::MessageMeta => Carry::Not("left out: what this dialect has of them are parts of their own"),
        Feature::LaterSystem
        | Feature::UserImages
        | Feature::ResultImages
        | Feature::ResultOrder
        | Feature::CallIds
        | Feature::CallMeta
        | Feature::RawParts
        | Feature::PartOrder
        | Feature::CustomTools
        | Feature::Strict
        | Feature::HostedTools
        | Feature::ChoiceNone
        | Feature::ChoiceNamed
        | Feature::ChoiceAllowed
        | Feature::Parallel
        | Feature::Store
        | Feature::Previous
        | Feature::CachedTokens
        | Feature::ReasoningTokens => Carry::Whole,
    }
}

#[cfg(test)]
mod tests;
