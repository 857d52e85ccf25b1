//! OpenAI Chat Completions: the body of a request, messages, and replies.

mod assemble;
pub(crate) mod delta;
mod legacy;
mod message;
mod received;
mod reply;

use serde_json::{Value, json};

use crate::carry::{Carry, Feature};
use crate::ids::WireIds;
use crate::lower::Names;
use crate::request::{Fields, Request, ToolChoice};

pub(crate) use assemble::Assembler;
use message::Printed;
pub(crate) use received::read_request;
pub(crate) use reply::write_reply;

/// The body for `POST /chat/completions`.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (names, quirks) = (request.tools.names(), request.quirks);
    let ids = WireIds::of(request.messages, |id| quirks.call_ids.fits(id));
    let printed = |message| Printed { message, names, ids: &ids, empty_content: quirks.empty_content };
    let mut fields = Fields::default();
    fields.put("model", request.model)?;
    if quirks.legacy_functions {
        fields.put("messages", &legacy::messages(request, |message| serde_json::to_value(printed(message)))?)?;
        legacy::put_tools(&mut fields, request)?;
    } else {
        fields.put("messages", &request.messages.iter().map(printed).collect::<Vec<_>>())?;
        // A choice without tools is refused by servers, so both go or neither.
        if let Some(tools) = request.all_tools()? {
            fields.put("tools", &tools)?;
            fields.put("tool_choice", &choice(request.tool_choice, names))?;
            fields.put_some("parallel_tool_calls", request.parallel)?;
        }
    }
    let limit = if quirks.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    fields.put_some(limit, request.max_tokens)?;
    fields.put_some("temperature", request.temperature)?;
    fields.put("stream", &request.stream)?;
    fields.put_some("stream_options", request.stream.then(|| json!({ "include_usage": true })))?;
    fields.into_body(request.extra)
}

fn choice(choice: &ToolChoice, names: &Names) -> Value {
    let tool = |name: &str| {
        let kind = if names.text_property(name).is_some() { "custom" } else { "function" };
        json!({ "type": kind, kind: { "name": names.on_wire(name) } })
    };
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => tool(name),
        ToolChoice::Allowed { required, tools } => {
            let mode = if *required { "required" } else { "auto" };
            let tools: Vec<Value> = tools.iter().map(|name| tool(name)).collect();
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } })
        }
    }
}

/// What this dialect carries.
pub(crate) fn carries(feature: Feature) -> Carry {
    match feature {
        Feature::ResultImages | Feature::ResultOrder => Carry::Not("the result says in words that there was an image"),
        Feature::ResultErrors => Carry::Not("the text of the result says so"),
        Feature::RawParts => Carry::Not("left out: what this dialect has of them are fields of the message"),
        Feature::PartOrder => Carry::Not("the text stands before the calls"),
        Feature::Store => Carry::Not("not sent: nothing is kept here"),
        Feature::Previous => Carry::Not("the whole conversation is sent"),
        Feature::LaterSystem
        | Feature::UserImages
        | Feature::CallIds
        | Feature::CallMeta
        | Feature::MessageMeta
        | Feature::CustomTools
        | Feature::Strict
        | Feature::HostedTools
        | Feature::ChoiceNone
        | Feature::ChoiceNamed
        | Feature::ChoiceAllowed
        | Feature::Parallel
        | Feature::CachedTokens
        | Feature::ReasoningTokens => Carry::Whole,
    }
}

#[cfg(test)]
mod tests;
