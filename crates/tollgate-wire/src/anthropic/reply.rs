//! Replies of Anthropic Messages, written.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Wire;
use crate::ids::WireIds;
use crate::reply::Heading;
use crate::turn::{Finish, Turn, Usage};

pub(crate) fn write_reply(turn: &Turn, heading: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let wire = Wire { names: heading.names, ids: &WireIds::default() };
    let content = wire.turn(&turn.text, &turn.calls, turn.kept.as_deref())?;
    serde_json::to_vec(&Reply {
        id: heading.id,
        r#type: "message",
        role: "assistant",
        model: heading.model,
        content,
        stop_reason: stop_reason(turn),
        stop_sequence: (),
        usage: usage_of(turn.usage.unwrap_or_default()),
    })
}

#[derive(Serialize)]
struct Reply<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Box<RawValue>>,
    stop_reason: &'a str,
    stop_sequence: (),
    usage: Value,
}

fn stop_reason(turn: &Turn) -> &str {
    match &turn.finish {
        Finish::Length => "max_tokens",
        Finish::ContentFilter => "refusal",
        Finish::Paused => "pause_turn",
        Finish::Other(word) if word == "stop_sequence" => word,
        _ if turn.calls.is_empty() => "end_turn",
        Finish::Stop | Finish::ToolCalls | Finish::Other(_) => "tool_use",
    }
}

/// What was read before is no part of `input_tokens` here.
fn usage_of(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_input_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": { "thinking_tokens": usage.reasoning_tokens },
    })
}
