//! Messages of Anthropic: ours in a row with the same role are one there, results first.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::mark_last;
use crate::dialect::Dialect;
use crate::history::{Content, Image, Message, Piece, replayable};
use crate::ids::WireIds;
use crate::lower::Names;
use crate::turn::{Kept, ModelCall, Part};

type Block = Box<RawValue>;

/// The kinds of images that servers take.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// The fields of a call that are ours to write.
pub(super) const CALL_FIELDS: [&str; 4] = ["type", "id", "name", "input"];

/// A conversation on the wire.
#[derive(Default)]
pub(super) struct Conversation {
    system: Vec<Block>,
    messages: Vec<Spoken>,
}

/// One message of it.
#[derive(Serialize)]
pub(super) struct Spoken {
    role: Role,
    content: Vec<Block>,
    /// How many of the blocks are results; they come first.
    #[serde(skip)]
    results: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

/// With what a conversation is printed.
#[derive(Clone, Copy)]
pub(super) struct Wire<'a> {
    pub(super) names: &'a Names,
    pub(super) ids: &'a WireIds<'a>,
}

impl Wire<'_> {
    pub(super) fn conversation(self, messages: &[Message]) -> Result<Conversation, serde_json::Error> {
        let mut conversation = Conversation::default();
        for message in messages {
            match message {
                Message::System(text) if conversation.messages.is_empty() => {
                    conversation.system.extend(text_block(text)?);
                }
                // Only the newest models take another system message later on.
                Message::System(text) => conversation.say(Role::User, text_block(text)?.into_iter().collect()),
                Message::User(content) => conversation.say(Role::User, blocks(content)?),
                Message::Assistant { text, calls, kept, .. } => {
                    conversation.say(Role::Assistant, self.turn(text, calls, kept.as_deref())?);
                }
                Message::Tool { call_id, content, is_error } => {
                    conversation.answer(result(self.ids.on_wire(call_id), content, *is_error)?);
                }
            }
        }
        Ok(conversation)
    }

    /// What a model said: as it was where it said so here, else from text and calls.
    pub(super) fn turn(
        self,
        text: &str,
        calls: &[ModelCall],
        kept: Option<&Kept>,
    ) -> Result<Vec<Block>, serde_json::Error> {
        let Some(kept) = kept.filter(|kept| kept.dialect == Dialect::Anthropic) else {
            let calls = calls.iter().map(|call| to_raw_value(&Asked { call, wire: self, meta: None }));
            return text_block(text).transpose().into_iter().chain(calls).collect();
        };
        let block = |part: &Part| match part {
            Part::Text(text) => text_block(text).transpose(),
            Part::Call(at) => {
                let call = calls.get(*at)?;
                Some(to_raw_value(&Asked { call, wire: self, meta: call.provider_meta.as_ref() }))
            }
            Part::Raw(json) => Some(RawValue::from_string(json.clone())),
        };
        kept.parts.iter().filter_map(block).collect()
    }
}

impl Conversation {
    /// What the model is told to be.
    pub(super) fn system(&self) -> Option<&[Block]> {
        (!self.system.is_empty()).then_some(&self.system)
    }

    /// Everything else.
    pub(super) fn messages(&self) -> &[Spoken] {
        &self.messages
    }

    /// Lets the server keep the conversation up to the last thing that it is told.
    pub(super) fn mark_for_cache(&mut self) -> Result<(), serde_json::Error> {
        let last = self.messages.iter_mut().rfind(|message| message.role == Role::User);
        mark_last(last.map(|message| &mut message.content))
    }

    fn say(&mut self, role: Role, blocks: Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        if role == Role::User
            && let Some(last) = self.messages.last_mut().filter(|last| last.role == Role::Assistant)
        {
            last.forget_unanswered();
            if last.content.is_empty() {
                self.messages.pop();
            }
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => self.messages.push(Spoken { role, content: blocks, results: 0 }),
        }
    }

    fn answer(&mut self, block: Block) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => {
                last.content.insert(last.results, block);
                last.results += 1;
            }
            _ => self.messages.push(Spoken { role: Role::User, content: vec![block], results: 1 }),
        }
    }
}

impl Spoken {
    /// A turn that was paused and never went on leaves calls of the provider's own without results. It would not take
    /// them back in the middle of a conversation.
    fn forget_unanswered(&mut self) {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            #[serde(borrow, default)]
            id: Cow<'a, str>,
            #[serde(borrow, default)]
            tool_use_id: Cow<'a, str>,
        }
        let head = |block: &Block| -> Option<(bool, String)> {
            let head: Head<'_> = serde_json::from_str(block.get()).ok()?;
            let is_call = head.r#type.ends_with("_tool_use");
            Some((is_call, if is_call { head.id } else { head.tool_use_id }.into_owned()))
        };
        let answered: HashSet<String> =
            self.content.iter().filter_map(head).filter(|(is_call, _)| !is_call).map(|(_, id)| id).collect();
        self.content.retain(|block| head(block).is_none_or(|(is_call, id)| !is_call || answered.contains(&id)));
    }
}

/// Text with something to read; servers refuse other text.
fn told(text: &str) -> Option<&str> {
    text.contains(|c: char| !c.is_whitespace()).then_some(text)
}

fn text_block(text: &str) -> Result<Option<Block>, serde_json::Error> {
    told(text).map(|text| to_raw_value(&json!({ "type": "text", "text": text }))).transpose()
}

fn blocks(content: &Content) -> Result<Vec<Block>, serde_json::Error> {
    let block = |piece: &Piece| match piece {
        Piece::Text(text) => text_block(text).transpose(),
        Piece::Image(image) => Some(to_raw_value(&image_block(image))),
    };
    content.pieces().iter().filter_map(block).collect()
}

fn image_block(image: &Image) -> Value {
    let source = match image {
        Image::Data { mime_type, base64 } if IMAGES.contains(&mime_type.as_str()) => {
            json!({ "type": "base64", "media_type": mime_type, "data": base64 })
        }
        Image::Data { mime_type, .. } => {
            let text = format!("[an image of the type `{mime_type}`, which this model cannot be shown]");
            return json!({ "type": "text", "text": text });
        }
        Image::Url(url) => json!({ "type": "url", "url": url }),
    };
    json!({ "type": "image", "source": source })
}

/// A call of the model.
struct Asked<'a> {
    call: &'a ModelCall,
    wire: Wire<'a>,
    meta: Option<&'a Value>,
}

impl Serialize for Asked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let replayed = replayable(&self.call.arguments);
        let arguments = replayed.as_deref().unwrap_or(&self.call.arguments);
        let input: &RawValue = serde_json::from_str(arguments).map_err(serde::ser::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "tool_use")?;
        map.serialize_entry("id", self.wire.ids.on_wire(&self.call.id))?;
        map.serialize_entry("name", &self.wire.names.on_wire(&self.call.name))?;
        map.serialize_entry("input", input)?;
        for (name, value) in self.meta.and_then(Value::as_object).into_iter().flatten() {
            if !CALL_FIELDS.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// What a call brought. Of an error only the text is taken.
fn result(call_id: &str, content: &Content, is_error: bool) -> Result<Block, serde_json::Error> {
    #[derive(Serialize)]
    struct Told<'a> {
        r#type: &'static str,
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Block>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    }
    let content = match content.pieces() {
        [Piece::Text(text)] => told(text).map(to_raw_value).transpose()?,
        _ if is_error => told(&content.text_without_images()).map(to_raw_value).transpose()?,
        _ => Some(blocks(content)?)
            .filter(|blocks| !blocks.is_empty())
            .map(|blocks| to_raw_value(&blocks))
            .transpose()?,
    };
    to_raw_value(&Told { r#type: "tool_result", tool_use_id: call_id, content, is_error })
}
