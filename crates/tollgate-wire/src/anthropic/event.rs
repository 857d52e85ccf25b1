//! The JSON of an event or a whole reply, read with tolerance: unknown fields, nulls and wrong kinds do no harm.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::turn::{Finish, Usage};

/// An event of a stream, or a whole reply.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// What is new of a block, or of the message.
#[derive(Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) partial_json: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_details: Option<&'a RawValue>,
}

/// How a block begins.
#[derive(Default, Deserialize)]
pub(super) struct Start<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) citations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) is_error: Option<&'a RawValue>,
}

/// What stands there, or nothing where it is of another kind.
pub(super) fn read<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Why a server stopped.
pub(super) fn finish(word: String) -> Finish {
    match word.as_str() {
        "end_turn" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "refusal" => Finish::ContentFilter,
        "model_context_window_exceeded" => Finish::Length,
        _ => Finish::from(word),
    }
}

/// Tokens as this wire counts them. Each number that comes again is the sum so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    cache_creation: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl Counts {
    pub(super) fn take(&mut self, usage: Option<&RawValue>) {
        let usage: Value = read(usage);
        let count = |pointer: &str, known: Option<u64>| usage.pointer(pointer).and_then(Value::as_u64).or(known);
        self.input = count("/input_tokens", self.input);
        self.cache_creation = count("/cache_creation_input_tokens", self.cache_creation);
        self.cache_read = count("/cache_read_input_tokens", self.cache_read);
        self.output = count("/output_tokens", self.output);
        self.thinking = count("/output_tokens_details/thinking_tokens", self.thinking);
    }

    /// What was read from the cache or written to it is no part of `input_tokens` here, and is with us.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.input.or(self.output)?;
        let parts = [self.input, self.cache_creation, self.cache_read];
        Some(Usage {
            input_tokens: parts.into_iter().flatten().fold(0, u64::saturating_add),
            output_tokens: self.output.unwrap_or_default(),
            cached_input_tokens: self.cache_read.unwrap_or_default(),
            reasoning_tokens: self.thinking.unwrap_or_default(),
        })
    }
}
