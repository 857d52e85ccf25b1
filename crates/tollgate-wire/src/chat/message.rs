//! Messages of Chat Completions: printed and read.

use std::fmt;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::delta::{CallDelta, REASONING, arguments_text, scalar_text};
use crate::dialect::Dialect;
use crate::history::{Content, Image, Message, Piece, replayable};
use crate::lower::Names;
use crate::request::EmptyContent;
use crate::turn::ModelCall;

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
            Message::User(content) => {
                map.serialize_entry("role", "user")?;
                map.serialize_entry("content", &Pieces(content))?;
            }
            // An image has no place in a result of this dialect.
            Message::Tool { call_id, content, .. } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", call_id)?;
                map.serialize_entry("content", &content.text_without_images())?;
            }
            Message::Assistant { text, calls, provider_meta, kept } => {
                let is_ours = kept.as_ref().is_none_or(|kept| kept.dialect == Dialect::Chat);
                map.serialize_entry("role", "assistant")?;
                match self.empty_content {
                    _ if calls.is_empty() || !text.is_empty() => map.serialize_entry("content", text)?,
                    EmptyContent::Null => map.serialize_entry("content", &())?,
                    EmptyContent::Text => map.serialize_entry("content", "")?,
                    EmptyContent::Omitted => {}
                }
                // Who sends what a model thought with its calls wants it back, in later prompts too.
                for (name, value) in provider_meta.iter().filter(|_| is_ours) {
                    map.serialize_entry(name, value)?;
                }
                if !calls.is_empty() {
                    let calls: Result<Vec<_>, _> =
                        calls.iter().map(|call| print_call(call, self.names, is_ours)).collect();
                    map.serialize_entry("tool_calls", &calls.map_err(S::Error::custom)?)?;
                }
            }
        }
        map.end()
    }
}

/// A text alone, or parts.
struct Pieces<'a>(&'a Content);

impl Serialize for Pieces<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pieces = self.0.pieces();
        if pieces.iter().all(|piece| piece.as_text().is_some()) {
            return serializer.serialize_str(&self.0.text());
        }
        serializer.collect_seq(pieces.iter().map(|piece| match piece {
            Piece::Text(text) => json!({ "type": "text", "text": text }),
            Piece::Image(image) => json!({ "type": "image_url", "image_url": { "url": image.to_url() } }),
        }))
    }
}

fn print_call(call: &ModelCall, names: &Names, is_ours: bool) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        id: &'a str,
        r#type: &'static str,
        function: Function<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        extra_content: Option<&'a Value>,
    }
    #[derive(Serialize)]
    struct Function<'a> {
        name: &'a str,
        arguments: &'a str,
    }
    let name = names.on_wire(&call.name);
    let replayed = replayable(&call.arguments);
    let function = Function { name: &name, arguments: replayed.as_deref().unwrap_or(&call.arguments) };
    let wire = Wire {
        id: &call.id,
        r#type: "function",
        function,
        extra_content: call.provider_meta.as_ref().filter(|_| is_ours),
    };
    serde_json::value::to_raw_value(&wire)
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
        let content = content(read.content).map_err(D::Error::custom)?;
        let text = || content.text().into_owned();
        Ok(match read.role.as_str() {
            "system" | "developer" => Self::System(text()),
            "user" => Self::User(content),
            "tool" => Self::tool(read.tool_call_id.unwrap_or_default(), content, false),
            "assistant" => {
                let calls: Vec<_> = read.tool_calls.unwrap_or_default().into_iter().map(read_call).collect();
                let thoughts = REASONING.into_iter().zip([read.reasoning_content, read.reasoning]);
                let thoughts = thoughts.filter_map(|(name, thought)| Some((name.to_owned(), thought?)));
                let provider_meta = thoughts.filter(|(_, thought)| !calls.is_empty() && thought.is_string()).collect();
                Self::Assistant { text: text(), calls, provider_meta, kept: None }
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

/// A text, a list of texts and images, or nothing. A part that is neither cannot be kept, so it is refused.
fn content(content: Option<&RawValue>) -> Result<Content, ContentFault> {
    let Some(content) = content else { return Ok(Content::default()) };
    match serde_json::from_str(content.get()) {
        Ok(Value::String(text)) => Ok(text.into()),
        Ok(Value::Array(parts)) => {
            parts.iter().map(|part| piece(part).ok_or(ContentFault)).collect::<Result<Vec<_>, _>>().map(Content::from)
        }
        _ => Err(ContentFault),
    }
}

fn piece(part: &Value) -> Option<Piece> {
    let url = || part.pointer("/image_url/url").and_then(Value::as_str);
    let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
    text.map(|text| Piece::Text(text.to_owned())).or_else(|| Some(Piece::Image(Image::from_url(url()?))))
}

struct ContentFault;

impl fmt::Display for ContentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the content of a message is text, or a list of texts and images")
    }
}

#[cfg(test)]
mod tests;
