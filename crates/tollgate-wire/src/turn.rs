//! What a model said in one turn, whatever dialect it came in.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_types::{ErrorObject, Repair};

use crate::dialect::Dialect;

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
    /// The parts as the provider wrote them, where it wants them back unchanged: thoughts and their signatures, calls that
    /// it ran itself. Chat Completions has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<Kept>>,
    /// The calls that the provider ran itself. They are over, so that nobody is asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<HostedCall>,
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

/// A turn part by part, in the order of the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Who wrote it, and may have it back.
    pub dialect: Dialect,
    /// The server's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The parts.
    pub parts: Vec<Part>,
}

/// One part of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text with nothing else to it.
    Text(String),
    /// The call at this place in [`Turn::calls`].
    Call(usize),
    /// JSON that goes back byte for byte.
    Raw(String),
}

impl Part {
    /// The JSON that goes back byte for byte.
    pub(crate) fn as_raw(&self) -> Option<&str> {
        match self {
            Self::Raw(json) => Some(json),
            Self::Text(_) | Self::Call(_) => None,
        }
    }
}

/// One call that a provider ran itself, such as a search on the web.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedCall {
    /// The provider's id.
    pub id: String,
    /// The tool, as the provider names it.
    pub name: String,
    /// The JSON of what it was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// The JSON of what came of it, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
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
    /// What was mended to get at the name and the text of the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
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
    /// The provider paused a long turn, and goes on when it gets what it said back unchanged.
    Paused,
    /// Something else, in the server's words.
    Other(String),
}

/// Words of servers for a turn that is whole, beside those of [`Finish`].
const WHOLE: [&str; 9] =
    ["eos", "eos_token", "stop_sequence", "end_turn", "tool_use", "tool_call", "complete", "completed", "done"];

impl Finish {
    /// What a later word makes of an earlier one: a turn that was cut stays so.
    pub(crate) fn then(earlier: Option<Self>, later: Self) -> Self {
        earlier.filter(Self::is_cut).unwrap_or(later)
    }

    /// Whether the turn is not whole, so that nothing in it may run.
    pub fn is_cut(&self) -> bool {
        match self {
            Self::Stop | Self::ToolCalls | Self::Paused => false,
            Self::Length | Self::ContentFilter => true,
            // What nobody knows may be a fault: then nothing says that the calls are whole.
            Self::Other(word) => !WHOLE.iter().any(|known| word.eq_ignore_ascii_case(known)),
        }
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Paused => "pause_turn",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for Finish {
    fn from(word: String) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "stop" => Self::Stop,
            "tool_calls" | "function_call" => Self::ToolCalls,
            "length" | "max_tokens" => Self::Length,
            "content_filter" => Self::ContentFilter,
            "pause_turn" => Self::Paused,
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
    /// Of those read, how many the provider had read before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Of those written, how many were thoughts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// What OpenAI's dialects say, under the names of either.
    pub(crate) fn of(said: &Value) -> Option<Self> {
        let count = |pointers: [&str; 2]| pointers.into_iter().find_map(|pointer| said.pointer(pointer)?.as_u64());
        let input = count(["/prompt_tokens", "/input_tokens"]);
        let output = count(["/completion_tokens", "/output_tokens"]);
        input.or(output)?;
        Some(Self {
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
            cached_input_tokens: count(["/prompt_tokens_details/cached_tokens", "/input_tokens_details/cached_tokens"])
                .or_else(|| said.get("prompt_cache_hit_tokens")?.as_u64())
                .unwrap_or_default(),
            reasoning_tokens: count([
                "/completion_tokens_details/reasoning_tokens",
                "/output_tokens_details/reasoning_tokens",
            ])
            .unwrap_or_default(),
        })
    }
}

/// Servers may say any number.
impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
