//! A conversation. What the model wrote as arguments is replayed as JSON that every server accepts; the raw text stays in
//! the message. That every call has exactly one result is the business of `sound`.

mod sound;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tollgate_types::RepairLevel;

use crate::repair;
use crate::turn::{Kept, ModelCall, Turn};
use sound::Ids;

/// One message. It deserializes from the text of a Chat Completions message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// What the model is told to be.
    System(String),
    /// What a person says.
    User(Content),
    /// What the model says.
    Assistant {
        /// The text; empty when there is none.
        text: String,
        /// The calls it asks for.
        calls: Vec<ModelCall>,
        /// What the provider wants back with the calls; see [`Turn::provider_meta`].
        provider_meta: Map<String, Value>,
        /// The parts as the provider wrote them; see [`Turn::kept`].
        kept: Option<Box<Kept>>,
    },
    /// The result of one call.
    Tool {
        /// The call's id.
        call_id: String,
        /// What the model reads.
        content: Content,
        /// Whether it is an error.
        is_error: bool,
    },
}

/// What a person says, or what a call brought: text and images in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content(Vec<Piece>);

/// A piece of content.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Image {
    /// Its bytes.
    Data {
        /// Such as `image/png`.
        mime_type: String,
        /// In base64.
        base64: String,
    },
    /// Where it lies.
    Url(String),
}

impl Image {
    /// An image by its address, which may hold its bytes (RFC 2397).
    pub fn from_url(url: &str) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        data.map_or_else(
            || Self::Url(url.to_owned()),
            |(mime_type, base64)| Self::Data { mime_type: mime_type.to_owned(), base64: base64.to_owned() },
        )
    }

    /// Its address.
    pub fn to_url(&self) -> Cow<'_, str> {
        match self {
            Self::Data { mime_type, base64 } => format!("data:{mime_type};base64,{base64}").into(),
            Self::Url(url) => url.into(),
        }
    }
}

impl Content {
    /// The pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The texts, to be changed in place.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.0.iter_mut().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            Piece::Image(_) => None,
        })
    }

    /// All text, joined.
    pub fn text(&self) -> Cow<'_, str> {
        match self.0.as_slice() {
            [] => Cow::Borrowed(""),
            [Piece::Text(text)] => Cow::Borrowed(text),
            pieces => pieces.iter().filter_map(Piece::as_text).collect(),
        }
    }

    /// All text, and that there were images, for a place that has none.
    pub(crate) fn text_without_images(&self) -> Cow<'_, str> {
        let images = self.0.iter().filter(|piece| piece.as_text().is_none()).count();
        match images {
            0 => self.text(),
            1 => format!("{}[an image, which this model cannot be shown]", self.text()).into(),
            count => format!("{}[{count} images, which this model cannot be shown]", self.text()).into(),
        }
    }
}

impl Piece {
    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }
}

impl From<Vec<Piece>> for Content {
    fn from(pieces: Vec<Piece>) -> Self {
        Self(pieces)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self(if text.is_empty() { Vec::new() } else { vec![Piece::Text(text)] })
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Message {
    /// What a person says.
    pub fn user(text: impl Into<Content>) -> Self {
        Self::User(text.into())
    }

    /// What a model said.
    pub fn assistant(turn: &Turn) -> Self {
        let Turn { text, calls, provider_meta, kept, .. } = turn.clone();
        Self::Assistant { text, calls, provider_meta, kept }
    }

    /// The result of a call.
    pub fn tool(call_id: impl Into<String>, content: impl Into<Content>, is_error: bool) -> Self {
        Self::Tool { call_id: call_id.into(), content: content.into(), is_error }
    }
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
        self.messages.push(Message::assistant(turn));
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

/// What to replay instead of the raw arguments; nothing when they are a valid object already.
pub(crate) fn replayable(arguments: &str) -> Option<String> {
    if matches!(repair::strict(arguments), Ok(Value::Object(_))) {
        return None;
    }
    Some(match repair::arguments(arguments, RepairLevel::default()) {
        Ok(parsed) => parsed.value.to_string(),
        Err(_) => json!({ "_raw": arguments }).to_string(),
    })
}

#[cfg(test)]
pub(crate) mod tests;
