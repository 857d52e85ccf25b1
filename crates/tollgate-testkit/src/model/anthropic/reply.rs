//! A turn as Anthropic says it: parts, text and calls, in blocks.

use serde_json::{Value, json};

use crate::model::reply::{Asked, arguments, deltas, printed};
use crate::model::step::Turn;

/// A turn as one message.
pub(in crate::model) fn message(turn: &Turn, asked: &Asked) -> Value {
    let mut content = turn.parts.clone();
    content.extend(turn.text.as_ref().map(|text| json!({ "type": "text", "text": text })));
    for call in &turn.calls {
        content.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments }));
    }
    envelope(asked, content, stop_reason(turn))
}

fn envelope(asked: &Asked, content: Vec<Value>, stop_reason: Option<&str>) -> Value {
    json!({
        "id": "msg_testkit", "type": "message", "role": "assistant", "model": asked.model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": { "input_tokens": 15, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 10 },
    })
}

fn stop_reason(turn: &Turn) -> Option<&str> {
    let usual = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    Some(turn.finish.as_deref().unwrap_or(usual))
}

/// A turn as the data of events.
pub(in crate::model) fn events(turn: &Turn, asked: &Asked) -> Vec<String> {
    let mut events = vec![json!({ "type": "message_start", "message": envelope(asked, Vec::new(), None) })];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
        events.extend(
            deltas.into_iter().map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })),
        );
        events.push(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    for part in &turn.parts {
        let (start, deltas) = part_in_pieces(part);
        block(start, deltas);
    }
    if let Some(text) = &turn.text {
        let pieces = deltas(text).into_iter().map(|text| json!({ "type": "text_delta", "text": text }));
        block(json!({ "type": "text", "text": "" }), pieces.collect());
    }
    for call in &turn.calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        block(start, input_deltas(&arguments(call)));
    }
    let delta = json!({ "stop_reason": stop_reason(turn), "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 10 } }));
    events.push(json!({ "type": "message_stop" }));
    printed(&events)
}

fn input_deltas(input: &str) -> Vec<Value> {
    let pieces = std::iter::once(String::new()).chain(deltas(input));
    pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })).collect()
}

/// How a part begins, and its pieces. What is no thought and no call comes whole.
fn part_in_pieces(part: &Value) -> (Value, Vec<Value>) {
    let text = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut start = part.clone();
    let kind = text("type");
    let pieces = if kind == "thinking" {
        let thoughts = deltas(text("thinking")).into_iter();
        let thoughts = thoughts.map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
        thoughts.chain([json!({ "type": "signature_delta", "signature": text("signature") })]).collect()
    } else if kind.ends_with("_tool_use") {
        input_deltas(&part.get("input").unwrap_or(&json!({})).to_string())
    } else {
        Vec::new()
    };
    if let (Some(start), false) = (start.as_object_mut(), pieces.is_empty()) {
        for (name, empty) in [("thinking", json!("")), ("signature", json!("")), ("input", json!({}))] {
            if let Some(value) = start.get_mut(name) {
                *value = empty;
            }
        }
    }
    (start, pieces)
}
