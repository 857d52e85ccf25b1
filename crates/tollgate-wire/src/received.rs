//! Requests as somebody else wrote them: what a served endpoint is asked, and the proof that nothing is lost on the way out.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::Message;
use crate::object::Object;
use crate::request::ToolChoice;

/// The one argument of a call whose tool takes a text, in a conversation that was read.
pub const TEXT_PROPERTY: &str = "input";

/// A request that was read.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// The model's name; empty where the address says it.
    pub model: String,
    /// The conversation. It need not be sound; see [`crate::History::repair`].
    pub messages: Vec<Message>,
    /// The tools that whoever asks runs.
    pub tools: Vec<Offered>,
    /// The tools that it wants the provider to run, as they stand.
    pub hosted: Vec<Box<RawValue>>,
    /// Whether the model may call.
    pub tool_choice: ToolChoice,
    /// Whether it may ask for several calls at once.
    pub parallel: Option<bool>,
    /// The most tokens it may write.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether a stream is wanted.
    pub stream: bool,
    /// Whether the reply may be kept.
    pub store: Option<bool>,
    /// The reply that this goes on from. `messages` may hold only what came after it.
    pub previous: Option<String>,
    /// The other fields.
    pub rest: Map<String, Value>,
}

/// A tool as whoever asks offers it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// Whether the model must keep to the schema; nothing leaves it to the server.
    pub strict: Option<bool>,
    /// The form of its input, where that is a text and no object: `{"type": "text"}` or a grammar. Its schema then asks
    /// for [`TEXT_PROPERTY`] alone.
    pub custom: Option<Value>,
}

impl Offered {
    /// The schema of a tool that takes a text.
    pub(crate) fn text_schema() -> Value {
        json!({
            "type": "object",
            "properties": { TEXT_PROPERTY: { "type": "string" } },
            "required": [TEXT_PROPERTY],
            "additionalProperties": false,
        })
    }
}

/// Reads the body of a request.
///
/// ```
/// use tollgate_wire::{Dialect, Message, read_request};
///
/// let body = r#"{"model": "m", "messages": [{"role": "user", "content": "你好"}], "seed": 7}"#;
/// let received = read_request(Dialect::Chat, body.as_bytes()).unwrap();
/// assert_eq!(received.messages, [Message::user("你好")]);
/// assert_eq!(received.rest["seed"], 7);
/// ```
///
/// # Errors
/// [`WireFault::Request`] when it is no request of this dialect.
pub fn read_request(dialect: Dialect, body: &[u8]) -> Result<Received, WireFault> {
    let body: Object<'_> =
        serde_json::from_slice(body).map_err(|e| WireFault::request(format!("the body is no JSON object: {e}")))?;
    match dialect {
        Dialect::Chat => crate::chat::read_request(body),
        Dialect::Responses => crate::responses::read_request(body),
        Dialect::Anthropic => crate::anthropic::read_request(body),
        Dialect::Gemini => crate::gemini::read_request(body),
    }
}
