//! Replies of Gemini, written.

use serde::Serialize;
use serde_json::{Value, json};

use super::contents::{Content, turn};
use super::end::word;
use crate::reply::Heading;
use crate::turn::{Turn, Usage};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    candidates: [Candidate<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Value>,
    model_version: &'a str,
    response_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    content: Content,
    finish_reason: &'a str,
    index: u8,
}

pub(crate) fn write_reply(said: &Turn, heading: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    let candidate = Candidate { content: turn(said, heading.names)?, finish_reason: word(&said.finish), index: 0 };
    serde_json::to_vec(&Reply {
        candidates: [candidate],
        usage_metadata: said.usage.as_ref().map(usage),
        model_version: heading.model,
        response_id: heading.id,
    })
}

fn usage(usage: &Usage) -> Value {
    json!({
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cached_input_tokens,
        "candidatesTokenCount": usage.output_tokens.saturating_sub(usage.reasoning_tokens),
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens.saturating_add(usage.output_tokens),
    })
}
