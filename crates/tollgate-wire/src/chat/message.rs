//! Messages of Chat Completions: printed and read.

use std::fmt;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::delta::{CallDelta, Delta, REASONING, arguments_text, kept, scalar_text};
use crate::calls::text_of;
use crate::dialect::Dialect;
use crate::history::{Content, Image, Message, Piece, replayable};
use crate::ids::WireIds;
use crate::lower::Names;
use crate::object::Object;
use crate::received::TEXT_PROPERTY;
use crate::request::EmptyContent;
use crate::turn::ModelCall;

/// A message on the wire.
pub(super) struct Printed<'a> {
    pub(super) message: &'a Message,
    pub(super) names: &'a Names,
    pub(super) ids: &'a WireIds<'a>,
    pub(super) empty_content: EmptyContent,
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
                map.serialize_entry("tool_call_id", self.ids.on_wire(call_id))?;
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
                        calls.iter().map(|call| print_call(call, self.names, self.ids, is_ours)).collect();
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

/// A call. What else there is of it goes back where it came from here.
fn print_call(
    call: &ModelCall,
    names: &Names,
    ids: &WireIds<'_>,
    is_ours: bool,
) -> Result<Box<RawValue>, serde_json::Error> {
    #[derive(Serialize)]
    #[serde(tag = "type", rename_all = "lowercase")]
    enum Kind<'a> {
        Function { function: Function<'a> },
        Custom { custom: Custom<'a> },
    }
    #[derive(Serialize)]
    struct Custom<'a> {
        name: &'a str,
        input: &'a str,
    }
    #[derive(Serialize)]
    struct Wire<'a> {
        id: &'a str,
        #[serde(flatten)]
        kind: Kind<'a>,
        #[serde(flatten)]
        more: Option<&'a Map<String, Value>>,
    }
    let more = call.provider_meta.as_ref().filter(|_| is_ours).and_then(Value::as_object);
    let id = ids.on_wire(&call.id);
    if let Some(input) = text_of(names, call) {
        let custom = Custom { name: &names.on_wire(&call.name), input: &input };
        return to_raw_value(&Wire { id, kind: Kind::Custom { custom }, more });
    }
    Function::with(call, names, |function| to_raw_value(&Wire { id, kind: Kind::Function { function }, more }))
}

/// What a call asks for.
#[derive(Serialize)]
pub(super) struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl Function<'_> {
    /// Hands the function of a call on, with arguments that every server accepts.
    pub(super) fn with<T>(call: &ModelCall, names: &Names, then: impl FnOnce(Function<'_>) -> T) -> T {
        let (name, replayed) = (names.on_wire(&call.name), replayable(&call.arguments));
        then(Function { name: &name, arguments: replayed.as_deref().unwrap_or(&call.arguments) })
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Object::deserialize(deserializer)?;
        let role = scalar_text(fields.take("role"));
        if role == "assistant" {
            return read_assistant(fields).map_err(D::Error::custom);
        }
        let content = content(fields.take("content")).map_err(D::Error::custom)?;
        let call_id = |fields: &mut Object<'_>| scalar_text(fields.take("tool_call_id")).into_owned();
        Ok(match &*role {
            "system" | "developer" => Self::System(content.text().into_owned()),
            "user" => Self::User(content),
            // The older form names the function alone; see `legacy::name_calls`.
            "tool" | "function" => Self::tool(call_id(&mut fields), content, false),
            role => return Err(D::Error::custom(format!("`{role}` is no role of a message"))),
        })
    }
}

fn read_assistant(fields: Object<'_>) -> Result<Message, String> {
    let delta = Delta::of(fields);
    let content = content(delta.content.or(delta.refusal)).map_err(|fault| fault.to_string())?;
    let calls = delta.call_deltas().map_err(|fault| fault.to_string())?;
    let calls: Vec<_> = calls.into_iter().map(read_call).collect();
    let thoughts = REASONING.into_iter().zip(delta.reasoning).filter(|_| !calls.is_empty());
    let thoughts = thoughts.filter_map(|(name, raw)| {
        let thought: Value = serde_json::from_str(raw?.get()).ok()?;
        thought.is_string().then(|| (name.to_owned(), thought))
    });
    let provider_meta = thoughts.chain(kept(delta.more.into_map())).collect();
    Ok(Message::Assistant { text: content.text().into_owned(), calls, provider_meta, kept: None })
}

fn read_call(delta: CallDelta<'_>) -> ModelCall {
    let id = scalar_text(delta.id).into_owned();
    let (name, arguments) = delta.function.map_or((None, None), |function| (function.name, function.arguments));
    let arguments = arguments_text(arguments);
    ModelCall {
        wire_id: id.clone(),
        id,
        name: scalar_text(name).into_owned(),
        arguments: if delta.is_text { json!({ TEXT_PROPERTY: arguments }).to_string() } else { arguments },
        provider_meta: (!delta.more.is_empty()).then_some(Value::Object(delta.more)),
        ..ModelCall::default()
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
