//! Gemini's `generateContent`: the body of a request, contents, and replies.

mod assemble;
mod contents;
mod end;
mod hosted;
mod partial;

use std::slice;

use serde_json::{Map, Value, json};

use crate::carry::{Carry, Feature};
use crate::fault::WireFault;
use crate::lower::Names;
use crate::object::Object;
use crate::received::Received;
use crate::reply::Heading;
use crate::request::{Fields, Request, ToolChoice};
use crate::turn::Turn;

pub(crate) use assemble::Assembler;

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
