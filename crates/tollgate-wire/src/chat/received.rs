//! Requests of Chat Completions, read.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::legacy;
use crate::fault::WireFault;
use crate::history::Message;
use crate::object::Object;
use crate::received::{Offered, Received};
use crate::request::ToolChoice;

pub(crate) fn read_request(mut body: Object<'_>) -> Result<Received, WireFault> {
    let mut received = Received {
        model: body.read("model")?.unwrap_or_default(),
        messages: messages(&mut body)?,
        parallel: body.read("parallel_tool_calls")?,
        max_tokens: body.read("max_completion_tokens")?.or(body.read("max_tokens")?),
        temperature: body.read("temperature")?,
        stream: body.read("stream")?.unwrap_or_default(),
        ..Received::default()
    };
    for tool in body.list("tools")?.unwrap_or_default() {
        match offered(tool) {
            Some(tool) => received.tools.push(tool),
            None => received.hosted.push(tool.to_owned()),
        }
    }
    let functions = body.read::<Vec<Value>>("functions")?.unwrap_or_default();
    received.tools.extend(functions.iter().filter_map(function));
    let choice: Value = match body.read("tool_choice")? {
        Some(choice) => choice,
        None => body.read("function_call")?.unwrap_or_default(),
    };
    received.rest = body.into_map();
    match tool_choice(&choice) {
        Some(choice) => received.tool_choice = choice,
        None => drop(received.rest.insert("tool_choice".to_owned(), choice)),
    }
    Ok(received)
}

fn messages(body: &mut Object<'_>) -> Result<Vec<Message>, WireFault> {
    let raw = body.list("messages")?.ok_or_else(|| WireFault::request("`messages` is missing"))?;
    let read = |(at, raw): (usize, &RawValue)| {
        serde_json::from_str(raw.get()).map_err(|e| WireFault::request(format!("`messages[{at}]`: {e}")))
    };
    let mut messages = raw.into_iter().enumerate().map(read).collect::<Result<Vec<Message>, _>>()?;
    legacy::name_calls(&mut messages);
    Ok(messages)
}

fn offered(tool: &RawValue) -> Option<Offered> {
    let tool: Value = serde_json::from_str(tool.get()).ok()?;
    match tool.get("type").and_then(Value::as_str) {
        Some("function") => function(tool.get("function")?),
        Some("custom") => {
            let custom = tool.get("custom")?;
            let form = custom.get("format").cloned().unwrap_or_else(|| json!({ "type": "text" }));
            Some(Offered { custom: Some(form), input_schema: Offered::text_schema(), ..function(custom)? })
        }
        _ => None,
    }
}

fn function(function: &Value) -> Option<Offered> {
    let text = |name| function.get(name).and_then(Value::as_str).map(str::to_owned);
    let nothing = || json!({ "type": "object", "properties": {} });
    Some(Offered {
        name: text("name")?,
        description: text("description"),
        input_schema: function.get("parameters").filter(|schema| schema.is_object()).cloned().unwrap_or_else(nothing),
        strict: function.get("strict").and_then(Value::as_bool),
        custom: None,
    })
}

/// The choice, in the words of either form.
fn tool_choice(choice: &Value) -> Option<ToolChoice> {
    let name = |of: &Value| {
        let name = ["/function/name", "/custom/name", "/name"].into_iter().find_map(|pointer| of.pointer(pointer));
        name.and_then(Value::as_str).map(str::to_owned)
    };
    match choice {
        Value::Null => Some(ToolChoice::Auto),
        Value::String(word) if word == "any" => Some(ToolChoice::Required),
        Value::String(word) => matches!(word.as_str(), "auto" | "none" | "required").then(|| word.as_str().into()),
        _ => match choice.get("allowed_tools") {
            Some(allowed) => Some(ToolChoice::Allowed {
                required: allowed.get("mode").and_then(Value::as_str) == Some("required"),
                tools: allowed.get("tools")?.as_array()?.iter().filter_map(name).collect(),
            }),
            None => name(choice).map(ToolChoice::Named),
        },
    }
}
