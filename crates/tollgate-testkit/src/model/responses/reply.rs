//! Turns as Responses says them: items whole, and as events.

use serde_json::{Value, json};

use crate::model::reply::{Asked, arguments, deltas, printed};
use crate::model::step::{Asked as Wanted, Turn};

/// A turn as one object.
pub(in crate::model) fn response(turn: &Turn, asked: &Asked) -> Value {
    let reason = match turn.finish.as_deref() {
        Some("length") => Some("max_output_tokens"),
        Some("content_filter") => Some("content_filter"),
        _ => None,
    };
    let mut body = head(asked, if reason.is_some() { "incomplete" } else { "completed" }, items(turn, asked));
    let usage = json!({
        "input_tokens": 20, "input_tokens_details": { "cached_tokens": 8 },
        "output_tokens": 10, "output_tokens_details": { "reasoning_tokens": 4 }, "total_tokens": 30,
    });
    if let Some(fields) = body.as_object_mut() {
        fields.insert("incomplete_details".to_owned(), json!(reason.map(|reason| json!({ "reason": reason }))));
        fields.insert("usage".to_owned(), usage);
    }
    body
}

fn head(asked: &Asked, status: &str, output: Vec<Value>) -> Value {
    json!({
        "id": format!("resp_{}", asked.number), "object": "response", "created_at": 1_767_323_045, "status": status,
        "error": null, "incomplete_details": null, "model": asked.model, "output": output, "parallel_tool_calls": true,
        "tool_choice": "auto", "tools": [],
    })
}

fn items(turn: &Turn, asked: &Asked) -> Vec<Value> {
    let text = turn.text.iter().map(|text| message(text, asked));
    let calls = turn.calls.iter().map(|call| call_item(call, asked, &arguments(call), "completed"));
    turn.parts.iter().cloned().chain(text).chain(calls).collect()
}

fn message(text: &str, asked: &Asked) -> Value {
    let content: &[Value] = &[json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })];
    let content = if text.is_empty() { &[] } else { content };
    json!({
        "type": "message", "id": format!("msg_{}", asked.number), "status": "completed", "role": "assistant",
        "content": content,
    })
}

fn call_item(call: &Wanted, asked: &Asked, input: &str, status: &str) -> Value {
    if asked.custom_tools.contains(&call.name) {
        let id = format!("ctc_{}", call.id);
        return json!({ "type": "custom_tool_call", "id": id, "call_id": call.id, "name": call.name, "input": input });
    }
    json!({
        "type": "function_call", "id": format!("fc_{}", call.id), "call_id": call.id, "name": call.name,
        "arguments": input, "status": status,
    })
}

/// A turn as the data of the events of a stream.
pub(in crate::model) fn events(turn: &Turn, asked: &Asked) -> Vec<String> {
    let mut events = vec![
        json!({ "type": "response.created", "response": head(asked, "in_progress", Vec::new()) }),
        json!({ "type": "response.in_progress", "response": head(asked, "in_progress", Vec::new()) }),
    ];
    let items = items(turn, asked);
    let first_call = turn.parts.len() + usize::from(turn.text.is_some());
    for (index, item) in items.iter().enumerate() {
        let call = index.checked_sub(first_call).and_then(|at| turn.calls.get(at));
        events.extend(match call {
            Some(call) => call_events(call, asked, index),
            None if item.get("type").is_some_and(|kind| kind == "message") => {
                text_events(turn.text.as_deref().unwrap_or_default(), asked, index)
            }
            None => vec![json!({ "type": "response.output_item.added", "output_index": index, "item": item })],
        });
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    let whole = response(turn, asked);
    let status = whole.get("status").and_then(Value::as_str).unwrap_or("completed");
    events.push(json!({ "type": format!("response.{status}"), "response": whole }));
    for (number, event) in events.iter_mut().enumerate() {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("sequence_number".to_owned(), json!(number));
        }
    }
    printed(&events)
}

fn text_events(text: &str, asked: &Asked, index: usize) -> Vec<Value> {
    let id = format!("msg_{}", asked.number);
    let event = |kind: &str, key: &str, value: Value| json!({ "type": format!("response.{kind}"), "item_id": id, "output_index": index, "content_index": 0, key: value });
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let mut events = vec![
        json!({ "type": "response.output_item.added", "output_index": index, "item": message("", asked) }),
        event("content_part.added", "part", part("")),
    ];
    events.extend(deltas(text).into_iter().map(|delta| event("output_text.delta", "delta", json!(delta))));
    events.push(event("output_text.done", "text", json!(text)));
    events.push(event("content_part.done", "part", part(text)));
    events
}

fn call_events(call: &Wanted, asked: &Asked, index: usize) -> Vec<Value> {
    let begun = call_item(call, asked, "", "in_progress");
    let id = begun.get("id").cloned().unwrap_or_default();
    let is_custom = asked.custom_tools.contains(&call.name);
    let (kind, key) =
        if is_custom { ("custom_tool_call_input", "input") } else { ("function_call_arguments", "arguments") };
    let input = arguments(call);
    let mut events = vec![json!({ "type": "response.output_item.added", "output_index": index, "item": begun })];
    for delta in deltas(&input) {
        let kind = format!("response.{kind}.delta");
        events.push(json!({ "type": kind, "item_id": id, "output_index": index, "delta": delta }));
    }
    let kind = format!("response.{kind}.done");
    events.push(json!({ "type": kind, "item_id": id, "output_index": index, "name": call.name, key: input }));
    events
}
