//! Replies of Chat Completions, written.

use serde_json::json;

use super::message::Printed;
use crate::history::Message;
use crate::ids::WireIds;
use crate::reply::Heading;
use crate::request::EmptyContent;
use crate::turn::{Turn, Usage};

pub(crate) fn write_reply(turn: &Turn, heading: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let message = Message::assistant(turn);
    let ids = WireIds::default();
    let message = Printed { message: &message, names: heading.names, ids: &ids, empty_content: EmptyContent::Null };
    let choice =
        json!({ "index": 0, "message": serde_json::to_value(message)?, "finish_reason": turn.finish.as_str() });
    serde_json::to_vec(&json!({
        "id": heading.id,
        "object": "chat.completion",
        "created": heading.created,
        "model": heading.model,
        "choices": [choice],
        "usage": turn.usage.map(|usage| usage_of(&usage)),
    }))
}

fn usage_of(usage: &Usage) -> serde_json::Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": { "cached_tokens": usage.cached_input_tokens },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning_tokens },
    })
}
