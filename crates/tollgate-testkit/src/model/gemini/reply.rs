//! A turn as Gemini says it: parts, text and calls, the first of which is signed; in a stream each event brings new parts.

use serde_json::{Value, json};

use crate::model::reply::{deltas, printed};
use crate::model::step::Turn;

/// A turn as one response.
pub(in crate::model) fn response(turn: &Turn) -> Value {
    last(parts(turn), turn)
}

/// A turn as the data of events.
pub(in crate::model) fn events(turn: &Turn) -> Vec<String> {
    let mut events: Vec<Value> =
        turn.parts.iter().map(|part| json!({ "candidates": [candidate([part.clone()])] })).collect();
    let pieces = turn.text.as_deref().map(deltas).unwrap_or_default();
    events.extend(pieces.into_iter().map(|text| json!({ "candidates": [candidate([json!({ "text": text })])] })));
    let mut calls = calls(turn);
    // Calls come together or apart.
    let rest = calls.split_off(calls.len().min(1));
    events.extend(calls.into_iter().map(|call| json!({ "candidates": [candidate([call])] })));
    events.push(last(rest, turn));
    printed(&events)
}

/// The parts of a turn.
pub(super) fn parts(turn: &Turn) -> Vec<Value> {
    let text = turn.text.iter().map(|text| json!({ "text": text }));
    turn.parts.iter().cloned().chain(text).chain(calls(turn)).collect()
}

/// The calls; an id that is empty is left out.
fn calls(turn: &Turn) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for call in &turn.calls {
        let mut function = json!({ "name": call.name, "args": call.arguments });
        if let (Some(function), false) = (function.as_object_mut(), call.id.is_empty()) {
            function.insert("id".to_owned(), json!(call.id));
        }
        let mut part = json!({ "functionCall": function });
        if let (Some(part), true) = (part.as_object_mut(), parts.is_empty()) {
            let digits: String = call.name.bytes().map(|byte| format!("{byte:02x}")).collect();
            part.insert("thoughtSignature".to_owned(), json!(digits));
        }
        parts.push(part);
    }
    parts
}

fn candidate(parts: impl Into<Vec<Value>>) -> Value {
    let parts: Vec<Value> = parts.into();
    json!({ "content": { "role": "model", "parts": parts }, "index": 0 })
}

fn last(parts: Vec<Value>, turn: &Turn) -> Value {
    let mut candidate = candidate(parts);
    if let Some(candidate) = candidate.as_object_mut() {
        candidate.insert("finishReason".to_owned(), json!(turn.finish.as_deref().unwrap_or("STOP")));
    }
    let usage = json!({
        "promptTokenCount": 20, "cachedContentTokenCount": 3, "candidatesTokenCount": 6, "thoughtsTokenCount": 4,
        "totalTokenCount": 30,
    });
    json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "testkit", "responseId": "resp-testkit" })
}
