//! OpenAI Responses: what its server asks of a request, as strictly as the strictest would.

mod item;
mod reply;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::protocol::non_empty;
use super::step::Turn;
use item::Items;
pub(super) use reply::{events, response};

type Fields = Map<String, Value>;

const TOOL_NAME_CHARS_MAX: usize = 128;
const OUTPUT_TOKENS_MIN: u64 = 16;
/// Fields of Chat Completions that this server does not know.
const UNKNOWN: [&str; 6] = ["messages", "functions", "function_call", "max_tokens", "max_completion_tokens", "n"];
const INCLUDES: [&str; 3] =
    ["reasoning.encrypted_content", "web_search_call.action.sources", "file_search_call.results"];

/// Says what is wrong with a request first. `said` are the turns of this server; the reply of the first is `resp_1`.
pub(super) fn check(body: &Value, said: &[Turn]) -> Result<(), String> {
    let body = body.as_object().ok_or("the body is not an object")?;
    non_empty(body, "model", "the body")?;
    if let Some(unknown) = UNKNOWN.iter().find(|name| body.contains_key(**name)) {
        return Err(format!("`{unknown}` is no parameter here"));
    }
    for (name, is_fit) in [
        ("stream", Value::is_boolean as fn(&Value) -> bool),
        ("store", Value::is_boolean),
        ("parallel_tool_calls", Value::is_boolean),
        ("instructions", Value::is_string),
        ("max_output_tokens", |value| value.as_u64().is_some_and(|tokens| tokens >= OUTPUT_TOKENS_MIN)),
        ("include", |value| value.as_array().is_some_and(|words| words.iter().all(is_include))),
    ] {
        if body.get(name).is_some_and(|value| !is_fit(value)) {
            return Err(format!("`{name}` cannot be {}", body.get(name).unwrap_or(&Value::Null)));
        }
    }
    let is_kept = body.get("store") != Some(&Value::Bool(false));
    Items::check(body, previous(body, said)?, said, is_kept)?;
    let names = tools(body)?;
    tool_choice(body, names.as_ref())
}

fn is_include(word: &Value) -> bool {
    word.as_str().is_some_and(|word| INCLUDES.contains(&word))
}

/// The turn that a request goes on from.
fn previous<'a>(body: &Fields, said: &'a [Turn]) -> Result<Option<&'a Turn>, String> {
    let Some(id) = body.get("previous_response_id") else { return Ok(None) };
    let number = id.as_str().and_then(|id| id.strip_prefix("resp_")?.parse::<usize>().ok());
    let turn = number.and_then(|number| said.get(number.checked_sub(1)?));
    turn.map(Some).ok_or_else(|| format!("`previous_response_id` is {id}, which is no reply of this server"))
}

fn tools(body: &Fields) -> Result<Option<BTreeSet<(&str, &str)>>, String> {
    let Some(tools) = body.get("tools") else { return Ok(None) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("`tools` is not an array with tools")?;
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let place = format!("tools[{index}]");
        let tool = tool.as_object().ok_or_else(|| format!("{place} is not an object"))?;
        let kind = non_empty(tool, "type", &place)?;
        if !matches!(kind, "function" | "custom") {
            continue;
        }
        let name = name(tool, &place)?;
        if names.iter().any(|(_, known)| *known == name) {
            return Err(format!("{place} has the name `{name}` of another tool"));
        }
        names.insert((kind, name));
        if kind == "function" {
            let parameters = tool.get("parameters").and_then(Value::as_object);
            let is_object = parameters.is_some_and(|schema| {
                schema.get("type").and_then(Value::as_str) == Some("object")
                    && schema.get("properties").is_some_and(Value::is_object)
            });
            if !is_object || !tool.get("strict").is_some_and(Value::is_boolean) {
                return Err(format!("{place} has no object schema with `properties`, or does not say `strict`"));
            }
        }
    }
    Ok(Some(names))
}

fn tool_choice(body: &Fields, names: Option<&BTreeSet<(&str, &str)>>) -> Result<(), String> {
    let Some(names) = names else {
        let lonely = ["tool_choice", "parallel_tool_calls"].into_iter().find(|key| body.contains_key(*key));
        return lonely.map_or(Ok(()), |key| Err(format!("`{key}` stands without `tools`")));
    };
    let is_tool = |choice: &Value| {
        let text = |key: &str| choice.get(key).and_then(Value::as_str).unwrap_or_default();
        names.contains(&(text("type"), text("name")))
    };
    let is_fit = match body.get("tool_choice") {
        None => true,
        Some(Value::String(mode)) => ["none", "auto", "required"].contains(&mode.as_str()),
        Some(choice) if choice.get("type").is_some_and(|kind| kind == "allowed_tools") => {
            let is_mode = choice.get("mode").is_some_and(|mode| mode == "auto" || mode == "required");
            let tools = choice.get("tools").and_then(Value::as_array);
            is_mode && tools.is_some_and(|tools| !tools.is_empty() && tools.iter().all(is_tool))
        }
        Some(choice) => is_tool(choice),
    };
    if is_fit { Ok(()) } else { Err(format!("`tool_choice` is `{}`", body.get("tool_choice").unwrap_or(&Value::Null))) }
}

fn name<'a>(of: &'a Fields, place: &str) -> Result<&'a str, String> {
    let name = non_empty(of, "name", place)?;
    let is_fit = name.len() <= TOOL_NAME_CHARS_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_fit { Ok(name) } else { Err(format!("{place} has the name `{name}`, which is not ^[a-zA-Z0-9_-]{{1,128}}$")) }
}
