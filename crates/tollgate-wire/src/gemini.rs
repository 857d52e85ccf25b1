//! Gemini's `generateContent`: the body of a request, contents, and replies.

mod assemble;
mod contents;
mod end;
mod hosted;
mod partial;
mod receive;
mod reply;

use std::slice;

use serde_json::{Map, Value, json};

use crate::carry::{Carry, Feature};
use crate::lower::Names;
use crate::request::{Fields, Request, ToolChoice};

pub(crate) use assemble::Assembler;
pub(crate) use receive::read_request;
pub(crate) use reply::write_reply;

/// The body for `POST /models/{model}:generateContent`; the address names the model and whether it streams.
pub(crate) fn body(request: &Request<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let names = request.tools.names();
    let extra = |name: &str| request.extra.and_then(|extra| extra.get(name));
    let mut fields = Fields::default();
    fields.put_some("systemInstruction", contents::system(request.messages))?;
    fields.put("contents", &contents::print(request.messages, names)?)?;
    fields.put_some("tools", request.all_tools()?)?;
    // A choice without declarations is refused by the server, so both go or neither.
    let choice = (!request.tools.is_empty()).then(|| choice(request.tool_choice, names));
    fields.put_some("toolConfig", merged(choice, extra("toolConfig")))?;
    fields.put_some("generationConfig", merged(generation(request), extra("generationConfig")))?;
    fields.into_body(request.extra)
}

fn choice(choice: &ToolChoice, names: &Names) -> Value {
    let (mode, allowed) = match choice {
        ToolChoice::Auto => ("AUTO", [].as_slice()),
        ToolChoice::None => ("NONE", [].as_slice()),
        ToolChoice::Required => ("ANY", [].as_slice()),
        ToolChoice::Named(name) => ("ANY", slice::from_ref(name)),
        // No names would mean all of them.
        ToolChoice::Allowed { tools, .. } if tools.is_empty() => ("NONE", [].as_slice()),
        ToolChoice::Allowed { required: true, tools } => ("ANY", tools.as_slice()),
        ToolChoice::Allowed { required: false, tools } => ("VALIDATED", tools.as_slice()),
    };
    let mut config = Map::new();
    config.insert("mode".to_owned(), mode.into());
    if !allowed.is_empty() {
        config.insert("allowedFunctionNames".to_owned(), allowed.iter().map(|name| names.on_wire(name)).collect());
    }
    json!({ "functionCallingConfig": config })
}

fn generation(request: &Request<'_>) -> Option<Value> {
    let mut config = Map::new();
    if let Some(tokens) = request.max_tokens {
        config.insert("maxOutputTokens".to_owned(), tokens.into());
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".to_owned(), temperature.into());
    }
    (!config.is_empty()).then(|| Value::Object(config))
}

/// Two objects as one, field by field. What the operator adds never replaces what stands there.
fn merged(mine: Option<Value>, theirs: Option<&Value>) -> Option<Value> {
    let (mut mine, theirs) = match (mine, theirs) {
        (Some(Value::Object(mine)), Some(Value::Object(theirs))) => (mine, theirs),
        (mine, theirs) => return mine.or_else(|| theirs.cloned()),
    };
    for (name, value) in theirs {
        if let Some(value) = merged(mine.remove(name), Some(value)) {
            mine.insert(name.clone(), value);
        }
    }
    Some(Value::Object(mine))
}

/// What this dialect carries.
pub(crate) fn carries(feature: Feature) -> Carry {
    match feature {
        Feature::LaterSystem => Carry::Not("it stands behind the first, before the conversation"),
        Feature::ResultOrder => Carry::Not("the images stand behind the text"),
        Feature::MessageMeta => Carry::Not("left out: what this dialect has of them are parts"),
        Feature::CustomTools => Carry::Not("offered as functions with one argument"),
        Feature::Strict => Carry::Not("not sent: only a mode of all tools together knows it"),
        Feature::Parallel => Carry::Not("not sent: the model decides"),
        Feature::Store => Carry::Not("not sent: nothing is kept here"),
        Feature::Previous => Carry::Not("the whole conversation is sent"),
        Feature::UserImages
        | Feature::ResultImages
        | Feature::ResultErrors
        | Feature::CallIds
        | Feature::CallMeta
        | Feature::RawParts
        | Feature::PartOrder
        | Feature::HostedTools
        | Feature::ChoiceNone
        | Feature::ChoiceNamed
        | Feature::ChoiceAllowed
        | Feature::CachedTokens
        | Feature::ReasoningTokens => Carry::Whole,
    }
}

#[cfg(test)]
mod tests;
