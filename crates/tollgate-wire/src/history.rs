//! A conversation. What the model wrote as arguments is replayed as JSON that every server accepts; the raw text stays in
//! the message. That every call has exactly one result is the business of `sound`.

mod sound;

use std::fmt;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::chat::EmptyContent;
use crate::lower::Names;
use crate::repair;
use crate::stream::{CallDelta, REASONING, arguments_text, scalar_text};
use crate::turn::{ModelCall, Turn};
use sound::Ids;

/// One message. It deserializes from the text of a Chat Completions message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the model is told to be.
    System(String),
    /// What a person says.
    User(String),
    /// What the model says.
    Assistant {
        /// The text; empty when there is none.
        text: String,
        /// The calls it asks for.
        calls: Vec<ModelCall>,
        /// What the provider wants back with the calls; see [`Turn::provider_meta`].
        provider_meta: Map<String, Value>,
    },
    /// The result of one call.
    Tool {
        /// The call's id.
        call_id: String,
        /// What the model reads.
        text: String,
    },
}

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    messages: Vec<Message>,
}

impl From<Vec<Message>> for History {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages }
    }
}

impl History {
    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Adds what the model said. An id that an earlier turn used already is replaced, in the turn as well.
    pub fn push_turn(&mut self, turn: &mut Turn) {
        if !turn.calls.is_empty() {
            let mut ids = Ids::of(self.calls().map(|call| call.id.as_str()));
            for call in &mut turn.calls {
                call.id = ids.fresh(&call.id);
            }
        }
        let Turn { text, calls, provider_meta, .. } = turn.clone();
        self.messages.push(Message::Assistant { text, calls, provider_meta });
    }

    /// Forgets everything after the first `length` messages.
    pub fn truncate(&mut self, length: usize) {
        self.messages.truncate(length);
    }

    fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.messages.iter().flat_map(|message| match message {
            Message::Assistant { calls, .. } => calls.as_slice(),
            Message::System(_) | Message::User(_) | Message::Tool { .. } => &[],
        })
    }
}

/// A message on the wire.
pub(crate) struct Printed<'a> {
    pub(crate) message: &'a Message,
    pub(crate) names: &'a Names,
    pub(crate) empty_content: EmptyContent,
}

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.message {
            Message::System(text) => {
                map.serialize_entry("role", "system")?;
                map.serialize_entry("content", text)?;
            }
            Message::User(text) => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", text)?;
            }
            Message::Tool { call_id, text } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", call_id)?;
                map.serialize_entry("content", text)?;
            }
            Message::Assistant { text, calls, provider_meta } => {
                map.serialize_entry("role", "assistant")?;
                match self.empty_content {
                    _ if calls.is_empty() || !text.is_empty() => map.serialize_entry("content", text)?,
                    EmptyContent::Null => map.serialize_entry("content", &())?,
                    EmptyContent::Text => map.serialize_entry("content", "")?,
                    EmptyContent::Omitted => {}
                }
                // Who sends what a model thought with its calls wants it back, in later prompts too.
                for (name, value) in provider_meta {
                    map.serialize_entry(name, value)?;
                }
                if !calls.is_empty() {
                    let calls: Result<Vec<_>, _> = calls.iter().map(|call| print_call(call, self.names)).collect();
                    map.serialize_entry("tool_calls", &calls.map_err(S::Error::custom)?)?;
                }
            }
        }
        map.end()
    }
}

fn print_call(call: &ModelCall, names: &Names) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        id: &'a str,
        r#type: &'static str,
        function: Function<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_content: &'a Option<Value>,
    }
    #[derive(Serialize)]
    struct Function<'a> {
        name: &'a str,
        arguments: &'a str,
    }
    let name = names.on_wire(&call.name);
    let replayed = replayable(&call.arguments);
    let function = Function { name: &name, arguments: replayed.as_deref().unwrap_or(&call.arguments) };
    let wire = Wire { id: &call.id, r#type: "function", function, extra_content: &call.provider_meta };
    serde_json::value::to_raw_value(&wire)
}

/// What to replay instead of the raw arguments; nothing when they are a valid object already.
fn replayable(arguments: &str) -> Option<String> {
    if matches!(repair::strict(arguments), Ok(Value::Object(_))) {
        return None;
    }
    Some(match repair::arguments(arguments) {
        Ok(parsed) => parsed.value.to_string(),
        Err(_) => json!({ "_raw": arguments }).to_string(),
    })
}

#[derive(Deserialize)]
struct Read<'a> {
    role: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    reasoning_content: Option<Value>,
    #[serde(default)]
    reasoning: Option<Value>,
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Read::deserialize(deserializer)?;
        let text = content_text(read.content).map_err(D::Error::custom)?;
        Ok(match read.role.as_str() {
            "system" | "developer" => Self::System(text),
            "user" => Self::User(text),
            "tool" => Self::Tool { call_id: read.tool_call_id.unwrap_or_default(), text },
            "assistant" => {
                let calls: Vec<_> = read.tool_calls.unwrap_or_default().into_iter().map(read_call).collect();
                let thoughts = REASONING.into_iter().zip([read.reasoning_content, read.reasoning]);
                let thoughts = thoughts.filter_map(|(name, thought)| Some((name.to_owned(), thought?)));
                let provider_meta = thoughts.filter(|(_, thought)| !calls.is_empty() && thought.is_string()).collect();
                Self::Assistant { text, calls, provider_meta }
            }
            role => return Err(D::Error::custom(format!("`{role}` is no role of a message"))),
        })
    }
}

fn read_call(delta: CallDelta<'_>) -> ModelCall {
    let id = scalar_text(delta.id).into_owned();
    let (name, arguments) = delta.function.map_or((None, None), |function| (function.name, function.arguments));
    ModelCall {
        wire_id: id.clone(),
        id,
        name: scalar_text(name).into_owned(),
        arguments: arguments_text(arguments),
        provider_meta: delta.extra_content,
        refusal: None,
    }
}

/// A text, a list of text parts, or nothing. A part that is no text cannot be kept, so it is refused.
fn content_text(content: Option<&RawValue>) -> Result<String, ContentFault> {
    let Some(content) = content else { return Ok(String::new()) };
    match serde_json::from_str(content.get()) {
        Ok(Value::String(text)) => Ok(text),
        Ok(Value::Array(parts)) => parts
            .iter()
            .map(|part| part.get("text").and_then(Value::as_str).ok_or(ContentFault))
            .collect::<Result<Vec<_>, _>>()
            .map(|texts| texts.concat()),
        _ => Err(ContentFault),
    }
}

struct ContentFault;

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the content of a message is text or a list of text parts")
    }
}

#[cfg(test)]
mod tests;
