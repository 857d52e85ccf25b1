//! OpenAI Chat Completions: the body of a request, and a reply that came whole. Streams are read in [`crate::stream`].

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::history::{Message, Printed};
use crate::lower::{Lowered, Names};
use crate::stream::Assembler;
use crate::turn::Turn;

/// Whether the model may, must or must not call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call something.
    Required,
    /// It must call this tool.
    Named(String),
}

impl From<&str> for ToolChoice {
    /// `auto`, `none` and `required` are themselves; anything else is a tool's name.
    fn from(word: &str) -> Self {
        match word {
            "auto" => Self::Auto,
            "none" => Self::None,
            "required" => Self::Required,
            name => Self::Named(name.to_owned()),
        }
    }
}

/// How an assistant message with calls and no text is written. No encoding works with every server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptyContent {
    /// `"content": null`, as OpenAI specifies.
    #[default]
    Null,
    /// `"content": ""`, for servers that insist on a string.
    Text,
    /// No `content` at all, for servers that refuse both.
    Omitted,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct ChatRequest<'a> {
    /// The model's name at the server.
    pub model: &'a str,
    /// The conversation. It must be sound; see [`crate::History::repair`].
    pub messages: &'a [Message],
    /// The tools.
    pub tools: &'a Lowered,
    /// Whether it may call.
    pub tool_choice: &'a ToolChoice,
    /// The most tokens it may write.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether to ask for a stream.
    pub stream: bool,
    /// How empty content is written.
    pub empty_content: EmptyContent,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
}

struct Messages<'a> {
    messages: &'a [Message],
    names: &'a Names,
    empty_content: EmptyContent,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.messages.len()))?;
        for message in self.messages {
            let (names, empty_content) = (self.names, self.empty_content);
            seq.serialize_element(&Printed { message, names, empty_content })?;
        }
        seq.end()
    }
}

impl ChatRequest<'_> {
    /// The body for `POST /chat/completions`.
    ///
    /// # Errors
    /// Only when a number in the request cannot be written as JSON.
    pub fn to_body(&self) -> Result<Vec<u8>, serde_json::Error> {
        // A choice without tools is refused by servers, so both go or neither.
        let (tools, tool_choice) = if self.tools.is_empty() {
            (None, None)
        } else {
            let choice = match self.tool_choice {
                ToolChoice::Auto => json!("auto"),
                ToolChoice::None => json!("none"),
                ToolChoice::Required => json!("required"),
                ToolChoice::Named(name) => {
                    json!({ "type": "function", "function": { "name": self.tools.names().on_wire(name) } })
                }
            };
            (Some(self.tools.tools()), Some(choice))
        };
        serde_json::to_vec(&Body {
            model: self.model,
            messages: Messages {
                messages: self.messages,
                names: self.tools.names(),
                empty_content: self.empty_content,
            },
            tools,
            tool_choice,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            stream: self.stream,
            stream_options: self.stream.then(|| json!({ "include_usage": true })),
        })
    }
}

/// What a fault keeps of a server's words: far more than is shown, so that secrets can be hidden before the cut.
pub(crate) const FAULT_CHARS_MAX: usize = 16 * 1024;
const EXCERPT_CHARS_MAX: usize = 120;
const WORDS_CHARS_MAX: usize = 500;

/// Why a reply cannot be used. Shown as text, the server's words are cut; the fields hold more of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// It is not the JSON of this dialect.
    #[error("the reply is not a chat completion: {}, in `{}`", Cut(reason, WORDS_CHARS_MAX), Escaped(excerpt))]
    Malformed {
        /// What the JSON reader says.
        reason: String,
        /// The beginning of it.
        excerpt: String,
    },
    /// The server reported an error inside of a reply.
    #[error("the server reports: {}", Cut(message, WORDS_CHARS_MAX))]
    Server {
        /// Its words.
        message: String,
    },
    /// It is larger than may be kept.
    #[error("the reply exceeds the limit of {limit} {unit}")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The stream ended before the turn did.
    #[error("the stream ended before the reply was complete")]
    Closed,
}

impl WireFault {
    pub(crate) fn malformed(reason: impl ToString, text: &str) -> Self {
        let kept = |text: &str| text.chars().take(FAULT_CHARS_MAX).collect();
        Self::Malformed { reason: kept(&reason.to_string()), excerpt: kept(text) }
    }
}

struct Cut<'a>(&'a str, usize);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.1, self.0)
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(EXCERPT_CHARS_MAX).try_for_each(|c| write!(f, "{}", c.escape_debug()))
    }
}

/// Reads a reply that came whole.
///
/// # Errors
/// When it is no chat completion, or an error object.
pub fn read_reply(body: &[u8], names: &Names) -> Result<Turn, WireFault> {
    let text = std::str::from_utf8(body).map_err(|e| WireFault::malformed(e, &String::from_utf8_lossy(body)))?;
    let mut assembler = Assembler::default();
    assembler.push(text)?;
    if !assembler.has_choice() {
        return Err(WireFault::malformed("it has no `choices`", text));
    }
    assembler.finish(names)
}
