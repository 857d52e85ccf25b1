//! What the Chat Completions protocol asks of a request, as the strictest server would check it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use serde_json::{Map, Value};
use tollgate_types::limits::TOOL_NAME_CHARS_MAX;

pub(super) type Fields = Map<String, Value>;

/// Says what is wrong with a request's body first.
pub(super) fn check(body: &Value) -> Result<(), String> {
    let body = body.as_object().ok_or("the body is not an object")?;
    non_empty(body, "model", "the body")?;
    if let Some(stream) = body.get("stream") {
        stream.as_bool().ok_or("`stream` is not a boolean")?;
    }
    if body.contains_key("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return Err("`stream_options` stands without `stream: true`".to_owned());
    }
    messages(body)?;
    let names = tools(body)?;
    tool_choice(body, names.as_ref())
}

fn messages(body: &Fields) -> Result<(), String> {
    let messages = body.get("messages").and_then(Value::as_array).ok_or("`messages` is not an array")?;
    if messages.is_empty() {
        return Err("`messages` is empty".to_owned());
    }
    // The ids of the assistant's calls that are not answered yet, in order.
    let mut open = VecDeque::new();
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        let message = message.as_object().ok_or_else(|| format!("{place} is not an object"))?;
        let role = non_empty(message, "role", &place)?;
        if role == "tool" {
            answered(message, &place, &mut open)?;
            continue;
        }
        if let Some(id) = open.front() {
            return Err(format!("{place} has the role `{role}` while the call `{id}` has no answer"));
        }
        match role {
            "system" | "user" => content(message, &place)?,
            "assistant" => open = assistant(message, &place)?,
            _ => return Err(format!("{place} has the unknown role `{role}`")),
        }
    }
    open.front().map_or(Ok(()), |id| Err(format!("the call `{id}` has no answer")))
}

fn content(message: &Fields, place: &str) -> Result<(), String> {
    match message.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            let is_typed = parts.iter().all(|part| part.get("type").is_some_and(Value::is_string));
            if is_typed { Ok(()) } else { Err(format!("{place} has a content part without `type`")) }
        }
        _ => Err(format!("{place} has no content")),
    }
}

fn answered(message: &Fields, place: &str, open: &mut VecDeque<String>) -> Result<(), String> {
    if !message.get("content").is_some_and(Value::is_string) {
        return Err(format!("{place} is a tool message whose content is not a string"));
    }
    let id = non_empty(message, "tool_call_id", place)?;
    match open.front() {
        Some(next) if next == id => {
            open.pop_front();
            Ok(())
        }
        Some(next) if open.iter().any(|other| other == id) => {
            Err(format!("{place} answers the call `{id}` before `{next}`"))
        }
        _ => Err(format!("{place} answers the call `{id}`, which is not open here")),
    }
}

fn assistant(message: &Fields, place: &str) -> Result<VecDeque<String>, String> {
    let calls = match message.get("tool_calls") {
        None => {
            content(message, place)?;
            return Ok(VecDeque::new());
        }
        Some(calls) => calls.as_array().filter(|calls| !calls.is_empty()),
    };
    let calls = calls.ok_or_else(|| format!("{place} has `tool_calls` that are not an array with calls"))?;
    if message.get("content").is_some_and(|content| !content.is_null()) {
        content(message, place)?;
    }
    let mut ids = VecDeque::new();
    for (index, call) in calls.iter().enumerate() {
        let place = format!("{place}.tool_calls[{index}]");
        let id = tool_call(call, &place)?;
        if ids.contains(&id) {
            return Err(format!("{place} has the id `{id}` of another call"));
        }
        ids.push_back(id);
    }
    Ok(ids)
}

fn tool_call(call: &Value, place: &str) -> Result<String, String> {
    let call = call.as_object().ok_or_else(|| format!("{place} is not an object"))?;
    let function = function(call, place)?;
    name(function, place)?;
    let arguments = function.get("arguments").and_then(Value::as_str);
    let arguments = arguments.ok_or_else(|| format!("{place} has arguments that are not a string"))?;
    serde_json::from_str::<Fields>(arguments)
        .map_err(|error| format!("{place} has arguments that are not a JSON object: {error}"))?;
    Ok(non_empty(call, "id", place)?.to_owned())
}

fn tools(body: &Fields) -> Result<Option<BTreeSet<&str>>, String> {
    let Some(tools) = body.get("tools") else { return Ok(None) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("`tools` is not an array with tools")?;
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = format!("tools[{index}]");
        let tool = tool.as_object().ok_or_else(|| format!("{place} is not an object"))?;
        let function = function(tool, &place)?;
        let name = name(function, &place)?;
        if !names.insert(name) {
            return Err(format!("{place} has the name `{name}` of another tool"));
        }
        non_empty(function, "description", &place)?;
        let parameters = function.get("parameters").and_then(Value::as_object);
        let is_object = parameters.is_some_and(|schema| {
            schema.get("type").and_then(Value::as_str) == Some("object")
                && schema.get("properties").is_some_and(Value::is_object)
        });
        if !is_object {
            return Err(format!("{place} has parameters that are not an object schema with `properties`"));
        }
    }
    Ok(Some(names))
}

fn tool_choice(body: &Fields, names: Option<&BTreeSet<&str>>) -> Result<(), String> {
    let Some(names) = names else {
        let lonely = ["tool_choice", "parallel_tool_calls"].into_iter().find(|key| body.contains_key(*key));
        return lonely.map_or(Ok(()), |key| Err(format!("`{key}` stands without `tools`")));
    };
    match body.get("tool_choice") {
        None => Ok(()),
        Some(Value::String(mode)) if ["none", "auto", "required"].contains(&mode.as_str()) => Ok(()),
        Some(Value::Object(choice)) => {
            let name = name(function(choice, "`tool_choice`")?, "`tool_choice`")?;
            if names.contains(name) {
                Ok(())
            } else {
                Err(format!("`tool_choice` names `{name}`, which is no tool here"))
            }
        }
        Some(other) => Err(format!("`tool_choice` is `{other}`")),
    }
}

/// The `function` of a tool, a call or a choice, whose `type` must say that it is one.
fn function<'a>(of: &'a Fields, place: &str) -> Result<&'a Fields, String> {
    if of.get("type").and_then(Value::as_str) != Some("function") {
        return Err(format!("{place} is not of the type `function`"));
    }
    of.get("function").and_then(Value::as_object).ok_or_else(|| format!("{place} has no `function` object"))
}

pub(super) fn name<'a>(function: &'a Fields, place: &str) -> Result<&'a str, String> {
    let name = non_empty(function, "name", place)?;
    let is_fit = name.len() <= TOOL_NAME_CHARS_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_fit { Ok(name) } else { Err(format!("{place} has the name `{name}`, which is not ^[a-zA-Z0-9_-]{{1,64}}$")) }
}

pub(super) fn non_empty<'a>(of: &'a Fields, key: &str, place: &str) -> Result<&'a str, String> {
    let text = of.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("{place} has no `{key}`"))
}
