//! The items of a request: each call has its answer, what the model thought comes back unchanged, and nothing is told twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Fields, name, non_empty};
use crate::model::step::Turn;

/// What answers a shell call that the server handed back.
const SHELL_OUTPUT: &str = "shell_call_output";
const CALL_ID_CHARS_MAX: usize = 64;

/// What was read of a request's items.
#[derive(Default)]
pub(super) struct Items<'a> {
    /// The kind of each call by its id, and whether it has its answer.
    calls: BTreeMap<&'a str, (&'static str, bool)>,
    /// The items that the model wrote and that are neither calls nor what it says.
    parts: Vec<&'a Value>,
    is_kept: bool,
}

impl<'a> Items<'a> {
    pub(super) fn check(
        body: &'a Fields,
        previous: Option<&'a Turn>,
        said: &[Turn],
        is_kept: bool,
    ) -> Result<(), String> {
        let mut items = Self { is_kept, ..Self::default() };
        for call in previous.into_iter().flat_map(|turn| &turn.calls) {
            // Which kind it was, the answer says.
            items.calls.insert(&call.id, ("", false));
        }
        for part in previous.into_iter().flat_map(|turn| &turn.parts).filter_map(Value::as_object) {
            if let Some(id) = shell_call(part) {
                items.calls.insert(id, (SHELL_OUTPUT, false));
            }
        }
        match body.get("input") {
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(Value::Array(input)) if !input.is_empty() => {
                for (index, item) in input.iter().enumerate() {
                    let place = format!("input[{index}]");
                    let item = item.as_object().ok_or_else(|| format!("{place} is not an object"))?;
                    items.take(item, input.get(index), input.get(index + 1), previous.is_some(), &place)?;
                }
            }
            _ => return Err("`input` is neither a text nor an array with items".to_owned()),
        }
        if let Some((id, _)) = items.calls.iter().find(|(_, (_, is_answered))| !is_answered) {
            return Err(format!("no tool output found for function call `{id}`"));
        }
        if previous.is_none() { items.came_back(said) } else { Ok(()) }
    }

    fn take(
        &mut self,
        item: &'a Map<String, Value>,
        whole: Option<&'a Value>,
        next: Option<&Value>,
        goes_on: bool,
        place: &str,
    ) -> Result<(), String> {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
        let is_models = !matches!(kind, "function_call_output" | "custom_tool_call_output" | SHELL_OUTPUT)
            && (kind != "message" || item.get("role").is_some_and(|role| role == "assistant"));
        if goes_on && is_models {
            return Err(format!("{place} is in the reply already that the request goes on from"));
        }
        match kind {
            "message" => self.message(item, place),
            "function_call" => {
                let arguments = item.get("arguments").and_then(Value::as_str);
                let arguments = arguments.ok_or_else(|| format!("{place} has arguments that are not a string"))?;
                serde_json::from_str::<Fields>(arguments)
                    .map_err(|error| format!("{place} has arguments that are not a JSON object: {error}"))?;
                self.call(item, "function_call_output", "fc_", place)
            }
            "custom_tool_call" => {
                item.get("input").and_then(Value::as_str).ok_or_else(|| format!("{place} has no `input`"))?;
                self.call(item, "custom_tool_call_output", "ctc_", place)
            }
            "function_call_output" => self.answer(item, "function_call_output", place),
            "custom_tool_call_output" => self.answer(item, "custom_tool_call_output", place),
            SHELL_OUTPUT => self.answered(call_id(item, place)?, SHELL_OUTPUT, place),
            "reasoning" => {
                let has_content = item.get("encrypted_content").is_some_and(Value::is_string);
                if !self.is_kept && !has_content {
                    return Err(format!("{place}: item not found; items are not persisted when `store` is false"));
                }
                if !item.get("summary").is_some_and(Value::is_array) || next.is_none() {
                    return Err(format!("{place} is reasoning without `summary` or without its following item"));
                }
                self.parts.extend(whole);
                Ok(())
            }
            _ => {
                if let Some(id) = shell_call(item) {
                    self.calls.insert(id, (SHELL_OUTPUT, false));
                }
                self.parts.extend(whole);
                Ok(())
            }
        }
    }

    fn message(&self, item: &Fields, place: &str) -> Result<(), String> {
        let role = non_empty(item, "role", place)?;
        if !matches!(role, "user" | "assistant" | "system" | "developer") {
            return Err(format!("{place} has the unknown role `{role}`"));
        }
        if item.contains_key("id") && !self.is_kept {
            return Err(format!("{place}: item not found; items are not persisted when `store` is false"));
        }
        let parts = match item.get("content") {
            Some(Value::String(_)) => return Ok(()),
            Some(Value::Array(parts)) if !parts.is_empty() => parts,
            _ => return Err(format!("{place} has no content")),
        };
        let known = if role == "assistant" { ["output_text", "refusal"] } else { ["input_text", "input_image"] };
        for part in parts {
            let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
            if !known.contains(&kind) {
                return Err(format!("{place} has a part of the type `{kind}`; supported are {known:?}"));
            }
        }
        if role == "assistant" && !(item.contains_key("id") && item.contains_key("status")) {
            return Err(format!("{place} has output parts without `id` and `status`"));
        }
        Ok(())
    }

    fn call(&mut self, item: &'a Fields, answer: &'static str, prefix: &str, place: &str) -> Result<(), String> {
        name(item, place)?;
        let id = call_id(item, place)?;
        if self.calls.insert(id, (answer, false)).is_some() {
            return Err(format!("{place} has the `call_id` `{id}` of another call"));
        }
        match item.get("id") {
            Some(_) if !self.is_kept => {
                Err(format!("{place}: item not found; items are not persisted when `store` is false"))
            }
            Some(own) if !own.as_str().is_some_and(|own| own.starts_with(prefix)) => {
                Err(format!("{place} has the id {own}, which does not begin with `{prefix}`"))
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, item: &Fields, kind: &str, place: &str) -> Result<(), String> {
        let id = call_id(item, place)?;
        let is_fit = match item.get("output") {
            Some(Value::String(_)) => true,
            Some(Value::Array(parts)) => !parts.is_empty() && parts.iter().all(is_output),
            _ => false,
        };
        if !is_fit {
            return Err(format!("{place} has an output that is neither a text nor texts and images"));
        }
        self.answered(id, kind, place)
    }

    fn answered(&mut self, id: &str, kind: &str, place: &str) -> Result<(), String> {
        match self.calls.get_mut(id) {
            Some((_, is_answered)) if *is_answered => Err(format!("{place} answers the call `{id}` again")),
            Some((known, is_answered)) if known.is_empty() || *known == kind => {
                *is_answered = true;
                Ok(())
            }
            Some((known, _)) => Err(format!("{place} answers the call `{id}` with `{kind}`, not `{known}`")),
            None => Err(format!("no tool call found for function call output with call_id `{id}` ({place})")),
        }
    }

    /// What the model said beside text and calls is there again, unchanged and in order, for the calls that are.
    fn came_back(&self, said: &[Turn]) -> Result<(), String> {
        let mut parts = self.parts.iter();
        for turn in said {
            let is_there = turn.calls.iter().any(|call| self.calls.contains_key(call.id.as_str()));
            for part in turn.parts.iter().filter(|_| is_there) {
                let is_lost = !self.is_kept && part.get("encrypted_content").is_none();
                if !is_lost && !parts.any(|given| *given == part) {
                    return Err(format!("the item {part} did not come back as it was"));
                }
            }
        }
        Ok(())
    }
}

fn call_id<'a>(item: &'a Fields, place: &str) -> Result<&'a str, String> {
    let id = non_empty(item, "call_id", place)?;
    if id.chars().count() > CALL_ID_CHARS_MAX {
        return Err(format!("{place} has a `call_id` of more than {CALL_ID_CHARS_MAX} characters"));
    }
    Ok(id)
}

fn is_output(part: &Value) -> bool {
    let text = |key: &str| part.get(key).and_then(Value::as_str);
    match text("type") {
        Some("input_text") => text("text").is_some(),
        Some("input_image") => {
            text("image_url").is_some_and(|url| url.starts_with("data:image/") || url.starts_with("http"))
        }
        _ => false,
    }
}

/// The id of a shell call, if that is what the item is.
fn shell_call(item: &Fields) -> Option<&str> {
    item.get("type").filter(|kind| *kind == "shell_call").and(item.get("call_id")).and_then(Value::as_str)
}
