//! What a model said in one turn, whatever dialect it came in.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_types::ErrorObject;

use crate::lower::Names;

/// One turn of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The text; empty when there is none.
    #[serde(default)]
    pub text: String,
    /// The calls, in the order in which the model asked.
    #[serde(default)]
    pub calls: Vec<ModelCall>,
    /// What the provider wants back unchanged with the calls: `reasoning_content` or `reasoning`. Never part of the text.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub provider_meta: Map<String, Value>,
    /// Why the server stopped. It does not decide whether there are calls: the calls do.
    #[serde(default)]
    pub finish: Finish,
    /// The tokens, where the server says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What was odd about the wire, as short codes such as `index_reused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<String>,
}

/// One call that a model asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Our id: never empty, unique within the turn, the same each time the same bytes are read.
    pub id: String,
    /// The id on the wire; may be empty or shared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wire_id: String,
    /// The tool's own name where it was offered, else the name as asked.
    pub name: String,
    /// The raw text of the arguments.
    #[serde(default)]
    pub arguments: String,
    /// What the provider wants back unchanged, such as a thought signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_meta: Option<Value>,
    /// Set when the call did not arrive whole. It must be answered with this and must not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<ErrorObject>,
}

/// Why a server stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Finish {
    /// It was done.
    #[default]
    Stop,
    /// It wants calls answered.
    ToolCalls,
    /// The token limit.
    Length,
    /// A filter cut it.
    ContentFilter,
    /// Something else, in the server's words.
    Other(String),
}

impl Finish {
    /// Whether the turn is not whole, so that nothing in it may run.
    pub fn is_cut(&self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls => false,
            Self::Length | Self::ContentFilter => true,
            Self::Other(word) => word == "error",
        }
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Finish {
    fn from(word: String) -> Self {
        match word.as_str() {
            "stop" => Self::Stop,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "length" | "max_tokens" | "MAX_TOKENS" => Self::Length,
            "content_filter" => Self::ContentFilter,
            _ => Self::Other(word),
        }
    }
}

impl From<Finish> for String {
    fn from(finish: Finish) -> Self {
        finish.as_str().to_owned()
    }
}

/// Tokens of one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model.
    #[serde(alias = "prompt_tokens", default)]
    pub input_tokens: u64,
    /// Written by the model.
    #[serde(alias = "completion_tokens", default)]
    pub output_tokens: u64,
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
