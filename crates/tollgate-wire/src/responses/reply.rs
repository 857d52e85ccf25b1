//! Replies of Responses, written.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::history;
use crate::dialect::Dialect;
use crate::history::Message;
use crate::reply::Heading;
use crate::turn::{Finish, Turn, Usage};

pub(crate) fn write_reply(turn: &Turn, heading: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let (status, reason) = match &turn.finish {
        Finish::Length => ("incomplete", Some("max_output_tokens")),
        Finish::ContentFilter => ("incomplete", Some("content_filter")),
        Finish::Stop | Finish::ToolCalls | Finish::Paused | Finish::Other(_) => ("completed", None),
    };
    #[derive(serde::Serialize)]
    struct Reply<'a> {
        #[serde(flatten)]
        head: Value,
        output: Vec<Box<RawValue>>,
        output_text: &'a str,
        usage: Option<Value>,
    }
    serde_json::to_vec(&Reply {
        head: json!({
            "id": heading.id,
            "object": "response",
            "created_at": heading.created,
            "status": status,
            "incomplete_details": reason.map(|reason| json!({ "reason": reason })),
            "error": null,
            "instructions": null,
            "metadata": {},
            "model": heading.model,
            "parallel_tool_calls": true,
            "temperature": null,
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
        }),
        output: output(turn, heading)?,
        output_text: &turn.text,
        usage: turn.usage.map(|usage| usage_of(&usage)),
    })
}

/// The items: those of the turn itself where it came in this dialect, else its text and its calls.
fn output(turn: &Turn, heading: &Heading<'_>) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    let mut message = Message::assistant(turn);
    let is_ours = turn.kept.as_ref().is_some_and(|kept| kept.dialect == Dialect::Responses);
    let Message::Assistant { text, .. } = &mut message else { return Ok(Vec::new()) };
    let mut output = Vec::new();
    if !is_ours && !std::mem::take(text).is_empty() {
        let content = json!({ "type": "output_text", "text": turn.text, "annotations": [], "logprobs": [] });
        output.push(serde_json::value::to_raw_value(&json!({
            "type": "message",
            "id": format!("msg_{}", heading.id),
            "status": "completed",
            "role": "assistant",
            "content": [content],
        }))?);
    }
    output.extend(history::output(&message, heading.names)?);
    Ok(output)
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": { "cached_tokens": usage.cached_input_tokens, "cache_write_tokens": 0 },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}
