//! OpenAI Chat Completions: the body of a request, messages, and replies.

mod assemble;
pub(crate) mod delta;
mod message;

use serde_json::{Value, json};

use crate::lower::Names;
use crate::request::{Fields, Request, ToolChoice};

pub(crate) use assemble::Assembler;
use message::Printed;

/// The body for `POST /chat/completions`.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let names = request.tools.names();
    let messages: Vec<_> = request
        .messages
        .iter()
        .map(|message| Printed { message, names, empty_content: request.empty_content })
        .collect();
    let mut fields = Fields::default();
    fields.put("model", request.model)?;
    fields.put("messages", &messages)?;
    // A choice without tools is refused by servers, so both go or neither.
    if let Some(tools) = request.all_tools()? {
        fields.put("tools", &tools)?;
        fields.put("tool_choice", &choice(request.tool_choice, names))?;
        fields.put_some("parallel_tool_calls", request.parallel)?;
    }
    fields.put_some("max_tokens", request.max_tokens)?;
    fields.put_some("temperature", request.temperature)?;
    fields.put("stream", &request.stream)?;
    fields.put_some("stream_options", request.stream.then(|| json!({ "include_usage": true })))?;
    fields.into_body(request.extra)
}

fn choice(choice: &ToolChoice, names: &Names) -> Value {
    let function = |name: &str| json!({ "type": "function", "function": { "name": names.on_wire(name) } });
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => function(name),
        ToolChoice::Allowed { required, tools } => {
            let mode = if *required { "required" } else { "auto" };
            let tools: Vec<Value> = tools.iter().map(|name| function(name)).collect();
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } })
        }
    }
}

#[cfg(test)]
mod tests;
