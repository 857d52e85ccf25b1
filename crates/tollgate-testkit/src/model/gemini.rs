//! What Gemini's API asks of a request, as its strictest model would check it, and turns as it says them.

mod part;
mod reply;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::protocol::{Fields, non_empty};
use super::step::Turn;
use part::{Kind, Part, only};
pub(super) use reply::{events, response};

/// The fields of a request. Any other is refused.
const FIELDS: [&str; 9] = [
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "store",
];
const DECLARATION_FIELDS: [&str; 7] =
    ["name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"];
const DECLARATIONS_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 128;

/// Says what is wrong with a request first.
pub(super) fn check(body: &Value, said: &[Turn]) -> Result<(), String> {
    let body = body.as_object().ok_or("the body is not an object")?;
    only(body, &FIELDS, "the body")?;
    if let Some(system) = body.get("systemInstruction") {
        let parts = part::read(system, "systemInstruction")?;
        if parts.iter().any(|part| part.kind != Kind::Text) {
            return Err("`systemInstruction` has a part that is no text".to_owned());
        }
    }
    let contents = contents(body)?;
    signed(&contents)?;
    returned(&contents, said)?;
    let names = tools(body)?;
    tool_config(body, &names)
}

/// A content: whether the model said it, and its parts.
type Spoken<'a> = (bool, Vec<Part<'a>>);

fn contents(body: &Fields) -> Result<Vec<Spoken<'_>>, String> {
    let list = body.get("contents").and_then(Value::as_array).ok_or("`contents` is not an array")?;
    let mut contents: Vec<Spoken<'_>> = Vec::new();
    for (index, content) in list.iter().enumerate() {
        let place = format!("contents[{index}]");
        let role = content.get("role").map_or(Some("user"), Value::as_str);
        let is_model = match role {
            Some("model") => true,
            Some("user") => false,
            _ => return Err(format!("{place} has the unknown role `{}`", role.unwrap_or_default())),
        };
        let parts = part::read(content, &place)?;
        if let Some(part) = parts.iter().find(|part| !part.kind.fits(is_model)) {
            return Err(format!("{place} has a part `{}` that its role cannot have", part.word));
        }
        let calls = parts.iter().any(|part| part.kind == Kind::Call);
        if calls && contents.last().is_none_or(|(is_model, _)| *is_model) {
            return Err(format!("{place} calls, and does not come right behind a turn of the user or results"));
        }
        answered(contents.last(), &parts, &place)?;
        contents.push((is_model, parts));
    }
    match contents.last() {
        None => Err("`contents` is empty".to_owned()),
        Some((true, _)) => Err("the last content is of the model".to_owned()),
        Some((false, _)) => Ok(contents),
    }
}

/// The calls of one content are answered in the next: all of them, in their order, and nothing else stands there.
fn answered(before: Option<&Spoken<'_>>, parts: &[Part<'_>], place: &str) -> Result<(), String> {
    let asked = before.into_iter().flat_map(|(_, parts)| parts).filter(|part| part.kind == Kind::Call);
    let asked: Vec<_> = asked.collect();
    let results: Vec<_> = parts.iter().filter(|part| part.kind == Kind::Result).collect();
    if asked.len() != results.len() {
        return Err(format!("{place} has {} results for {} calls", results.len(), asked.len()));
    }
    if !results.is_empty() && results.len() != parts.len() {
        return Err(format!("{place} has results beside something else"));
    }
    for (call, result) in asked.into_iter().zip(results) {
        if call.field("name") != result.field("name") {
            return Err(format!(
                "{place} answers `{:?}` where `{:?}` was called",
                result.field("name"),
                call.field("name")
            ));
        }
        if call.field("id") != result.field("id") {
            return Err(format!("{place} answers the id `{:?}` of `{:?}`", result.field("id"), call.field("id")));
        }
    }
    Ok(())
}

/// The first call of each step of the current turn carries its signature.
fn signed(contents: &[Spoken<'_>]) -> Result<(), String> {
    let is_prompt = |(is_model, parts): &Spoken<'_>| !is_model && parts.iter().any(|part| part.kind != Kind::Result);
    let begin = contents.iter().rposition(is_prompt).unwrap_or_default();
    for (_, parts) in contents.iter().skip(begin) {
        let first = parts.iter().find(|part| part.kind == Kind::Call);
        if let Some(call) = first.filter(|call| !call.value.contains_key("thoughtSignature")) {
            return Err(format!("the call of `{:?}` has no `thoughtSignature`", call.field("name")));
        }
    }
    Ok(())
}

/// The turns that called come back in their order, part by part as they were said.
fn returned(contents: &[Spoken<'_>], said: &[Turn]) -> Result<(), String> {
    let calling = contents.iter().filter(|(_, parts)| parts.iter().any(|part| part.kind == Kind::Call));
    // What was no JSON cannot come back as it was.
    let is_whole = |turn: &&Turn| !turn.calls.is_empty();
    for ((_, parts), turn) in calling.zip(said.iter().filter(is_whole)) {
        if turn.calls.iter().any(|call| !call.arguments.is_object()) {
            continue;
        }
        let parts: Vec<Value> = parts.iter().map(|part| Value::Object(part.value.clone())).collect();
        let expected = reply::parts(turn);
        if parts != expected {
            return Err(format!("a turn came back as {}, and was {}", Value::Array(parts), Value::Array(expected)));
        }
    }
    Ok(())
}

fn tools(body: &Fields) -> Result<BTreeSet<&str>, String> {
    let Some(tools) = body.get("tools") else { return Ok(BTreeSet::new()) };
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("`tools` is not an array with tools")?;
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let Some(declarations) = tool.get("functionDeclarations") else { continue };
        let declarations = declarations.as_array().filter(|list| !list.is_empty());
        let declarations = declarations.ok_or_else(|| format!("tools[{index}] has no declarations"))?;
        for (at, declaration) in declarations.iter().enumerate() {
            let place = format!("tools[{index}].functionDeclarations[{at}]");
            let fields = declaration.as_object().ok_or_else(|| format!("{place} is not an object"))?;
            only(fields, &DECLARATION_FIELDS, &place)?;
            non_empty(fields, "description", &place)?;
            schema(fields, &place)?;
            if !names.insert(name(fields, &place)?) {
                return Err(format!("{place} has the name of another"));
            }
        }
    }
    if names.len() > DECLARATIONS_MAX {
        return Err(format!("there are {} declarations, and at most {DECLARATIONS_MAX} may be", names.len()));
    }
    Ok(names)
}

fn schema(declaration: &Fields, place: &str) -> Result<(), String> {
    let (older, newer) = (declaration.get("parameters"), declaration.get("parametersJsonSchema"));
    if older.is_some() && newer.is_some() {
        return Err(format!("{place} has both `parameters` and `parametersJsonSchema`"));
    }
    let Some(schema) = older.or(newer) else { return Ok(()) };
    let is_object = schema.get("type").and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("object"));
    let has_properties = schema.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if is_object && has_properties { Ok(()) } else { Err(format!("{place} has no object with properties")) }
}

fn tool_config(body: &Fields, names: &BTreeSet<&str>) -> Result<(), String> {
    let Some(config) = body.get("toolConfig").and_then(|config| config.get("functionCallingConfig")) else {
        return Ok(());
    };
    let config = config.as_object().ok_or("`functionCallingConfig` is not an object")?;
    only(config, &["mode", "allowedFunctionNames", "streamFunctionCallArguments"], "`functionCallingConfig`")?;
    if names.is_empty() {
        return Err("`functionCallingConfig` stands without declarations".to_owned());
    }
    let mode = non_empty(config, "mode", "`functionCallingConfig`")?;
    if !["AUTO", "ANY", "NONE", "VALIDATED"].contains(&mode) {
        return Err(format!("`functionCallingConfig` has the unknown mode `{mode}`"));
    }
    let allowed = config.get("allowedFunctionNames").and_then(Value::as_array);
    if allowed.is_some() && !["ANY", "VALIDATED"].contains(&mode) {
        return Err(format!("`allowedFunctionNames` stands beside the mode `{mode}`"));
    }
    let is_known = |name: &&Value| name.as_str().is_some_and(|name| names.contains(name));
    match allowed.into_iter().flatten().find(|name| !is_known(name)) {
        Some(name) => Err(format!("`allowedFunctionNames` has {name}, which is no tool here")),
        None => Ok(()),
    }
}

/// A name: a letter or `_`, and then what else may be.
fn name<'a>(of: &'a Map<String, Value>, place: &str) -> Result<&'a str, String> {
    let name = non_empty(of, "name", place)?;
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_fit = begins && name.len() <= NAME_CHARS_MAX;
    if is_fit && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte)) {
        return Ok(name);
    }
    Err(format!("{place} has the name `{name}`, which is not ^[a-zA-Z_][a-zA-Z0-9_.:-]{{0,127}}$"))
}
