//! What every dialect does with the calls of a turn that is over: our ids, the tools' own names, and a refusal for what did
//! not arrive whole.

use std::collections::HashSet;

use serde_json::{Value, json};
use tollgate_types::{Code, ErrorObject, Repair, limits};

use crate::lower::Names;
use crate::repair;
use crate::turn::{Finish, ModelCall};

/// Calls that are held of one turn before the reply counts as broken. The loop answers fewer.
pub(crate) const CALLS_HELD_MAX: usize = 8 * limits::CALLS_PER_TURN_MAX;

/// What was odd about a reply, each code once.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<String>);

impl Notes {
    pub(crate) fn add(&mut self, code: &str) {
        if !self.0.iter().any(|known| known == code) {
            self.0.push(code.to_owned());
        }
    }

    pub(crate) fn into_codes(self) -> Vec<String> {
        self.0
    }
}

/// A call as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) wire_id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) provider_meta: Option<Value>,
    /// What was mended to get at its arguments.
    pub(crate) repairs: Vec<Repair>,
    /// Why it is not whole.
    pub(crate) broken: Option<&'static str>,
}

const AGAIN: &str = "it says again what another call of its id says, which counts once";

/// The calls, in their order.
pub(crate) fn seal(drafts: Vec<Draft>, names: &Names, finish: &Finish, notes: &mut Notes) -> Vec<ModelCall> {
    let mut calls = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let is_again = |earlier: &ModelCall| {
            let is_same_id = !draft.wire_id.is_empty() && earlier.wire_id == draft.wire_id;
            is_same_id && repair::is_same(&earlier.arguments, &draft.arguments)
        };
        if draft.broken.is_none() && calls.iter().any(is_again) {
            notes.add("repeated_call_refused");
            draft.broken = Some(AGAIN);
        }
        let (name, code) = names.resolve(&draft.name);
        if let Some(code) = code {
            notes.add(code);
            draft.repairs.push(Repair::new("", code));
        }
        calls.push(ModelCall {
            id: String::new(),
            name: name.to_owned(),
            refusal: refusal(draft.broken, finish),
            wire_id: draft.wire_id,
            arguments: draft.arguments,
            provider_meta: draft.provider_meta,
            repairs: draft.repairs,
        });
    }
    if name_ids(&mut calls) {
        notes.add("id_replaced");
    }
    calls
}

/// The arguments that the free text of a call makes, where its tool takes free text.
pub(crate) fn text_arguments(names: &Names, name: &str, text: String) -> String {
    names.text_property(name).map_or(text.clone(), |property| json!({ property: text }).to_string())
}

/// The free text of a call, where its tool goes out as one of free text and this is all that it says.
pub(crate) fn text_of(names: &Names, call: &ModelCall) -> Option<String> {
    let property = names.text_property(&call.name)?;
    match serde_json::from_str(&call.arguments).ok()? {
        Value::Object(mut arguments) if arguments.len() == 1 => match arguments.remove(property)? {
            Value::String(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn refusal(broken: Option<&str>, finish: &Finish) -> Option<ErrorObject> {
    if finish.is_cut() {
        let message =
            format!("the reply was cut (`{}`) before this call was complete, so it did not run", finish.as_str());
        let hint = "possibly truncated: call again with less in one call, or in several smaller calls";
        return Some(ErrorObject::new(Code::InvalidJson, message).with_hint(hint));
    }
    let message = format!("the call did not arrive whole: {}", broken?);
    Some(ErrorObject::new(Code::InvalidJson, message).with_hint("call again"))
}

/// Gives each call an id of its own: the wire's where it is the first to use it, else one made from its place.
fn name_ids(calls: &mut [ModelCall]) -> bool {
    let mut taken: HashSet<String> = HashSet::new();
    for call in calls.iter_mut().filter(|call| !call.wire_id.is_empty()) {
        if taken.insert(call.wire_id.clone()) {
            call.id.clone_from(&call.wire_id);
        }
    }
    let mut has_replaced = false;
    for (position, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
        has_replaced = true;
        let mut id = format!("call_{}", position + 1);
        while !taken.insert(id.clone()) {
            id.push('_');
        }
        call.id = id;
    }
    has_replaced
}

const CALL_MARKS: &[&str] = &[
    "<tool_call>",
    "<function=",
    "<function_call",
    "<invoke name=",
    "<|tool_call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "<｜tool▁call",
];

/// Whether a text looks like a call that the server failed to read as one. Such a text is never run.
pub(crate) fn looks_like_a_call(text: &str, names: &Names) -> bool {
    if CALL_MARKS.iter().any(|mark| text.contains(mark)) {
        return true;
    }
    let text = text.trim_ascii();
    if !text.starts_with('{') || !text.ends_with('}') {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let has_arguments = value.get("arguments").or_else(|| value.get("parameters")).is_some();
    has_arguments && value.get("name").and_then(Value::as_str).is_some_and(|name| names.is_offered(name))
}
