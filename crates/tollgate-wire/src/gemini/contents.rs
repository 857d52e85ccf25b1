//! A conversation as Gemini's `contents`. What a turn says stands in one content, and the results of its calls in the next,
//! as many as there are calls and in their order.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::history::{Content as Said, Image, Message, Piece, replayable};
use crate::lower::Names;
use crate::turn::{Kept, ModelCall, Part, Turn};

/// The fields of a call that are ours to write. Whatever else it has stands in its `provider_meta`, beside `functionCall`
/// or, in `functionCall`, inside of it.
pub(super) const CALL: &str = "functionCall";

type Printed = Result<Box<RawValue>, serde_json::Error>;

/// One content.
#[derive(Debug, Serialize)]
pub(super) struct Content {
    role: &'static str,
    parts: Vec<Box<RawValue>>,
    #[serde(skip)]
    speaker: Speaker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Model,
    Tools,
}

/// What the model is told to be, a part for each message that says so.
pub(super) fn system(messages: &[Message]) -> Option<Value> {
    let text = |message: &Message| match message {
        Message::System(text) if !text.is_empty() => Some(json!({ "text": text })),
        Message::System(_) | Message::User(_) | Message::Assistant { .. } | Message::Tool { .. } => None,
    };
    let parts: Vec<Value> = messages.iter().filter_map(text).collect();
    (!parts.is_empty()).then(|| json!({ "parts": parts }))
}

/// The rest of the conversation. A message that says nothing has no place: the server refuses a content without parts.
pub(super) fn print(messages: &[Message], names: &Names) -> Result<Vec<Content>, serde_json::Error> {
    let mut contents: Vec<Content> = Vec::new();
    let mut asked = Asked { calls: &[], is_ours: false };
    for message in messages {
        let (speaker, parts) = match message {
            Message::System(_) => continue,
            Message::User(said) => (Speaker::User, user(said)?),
            Message::Assistant { text, calls, kept, .. } => {
                let kept = kept.as_deref().filter(|kept| kept.dialect == Dialect::Gemini);
                asked = Asked { calls, is_ours: kept.is_some() };
                (Speaker::Model, model(text, calls, kept, names, &|call| asked.has_id(call))?)
            }
            Message::Tool { call_id, content, is_error } => {
                (Speaker::Tools, vec![asked.result(call_id, content, *is_error, names)?])
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            // The model speaks once at a time, and results stand together.
            Some(last) if last.speaker == speaker && speaker != Speaker::User => last.parts.extend(parts),
            Some(_) | None => contents.push(Content { role: speaker.role(), parts, speaker }),
        }
    }
    Ok(contents)
}

/// A turn as the content of a reply. Whoever asked is told every id, and may leave them out again.
pub(super) fn turn(said: &Turn, names: &Names) -> Result<Content, serde_json::Error> {
    let kept = said.kept.as_deref().filter(|kept| kept.dialect == Dialect::Gemini);
    let parts = model(&said.text, &said.calls, kept, names, &|_| true)?;
    Ok(Content { role: Speaker::Model.role(), parts, speaker: Speaker::Model })
}

impl Speaker {
    fn role(self) -> &'static str {
        match self {
            Self::User | Self::Tools => "user",
            Self::Model => "model",
        }
    }
}

fn user(said: &Said) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    let part = |piece: &Piece| match piece {
        Piece::Text(text) => to_raw_value(&json!({ "text": text })),
        Piece::Image(image) => to_raw_value(&blob(image)),
    };
    said.pieces().iter().filter(|piece| piece.as_text() != Some("")).map(part).collect()
}

/// A turn of the model: what it wrote, as it wrote it, where that is known; else its text and its calls.
fn model(
    text: &str,
    calls: &[ModelCall],
    kept: Option<&Kept>,
    names: &Names,
    has_id: &dyn Fn(&ModelCall) -> bool,
) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    let call_part = |call: &ModelCall| call_part(call, names, kept.is_some(), has_id(call));
    let plain = |text: &str| (!text.is_empty()).then(|| to_raw_value(&json!({ "text": text })));
    let Some(kept) = kept else {
        return plain(text).into_iter().chain(calls.iter().map(call_part)).collect();
    };
    let part = |part: &Part| match part {
        Part::Text(text) => plain(text),
        Part::Call(at) => calls.get(*at).map(call_part),
        Part::Raw(json) => Some(RawValue::from_string(json.clone())),
    };
    kept.parts.iter().filter_map(part).collect()
}

fn call_part(call: &ModelCall, names: &Names, is_ours: bool, has_id: bool) -> Printed {
    let meta = call.provider_meta.as_ref().filter(|_| is_ours).and_then(Value::as_object);
    let args = replayable(&call.arguments).unwrap_or_else(|| call.arguments.clone());
    let mut function = Pairs::default();
    if has_id {
        function.put("id", &call.id)?;
    }
    function.put("name", &names.on_wire(&call.name))?;
    // The text as it is: a number in it may have more digits than any type here.
    function.put("args", &RawValue::from_string(args)?)?;
    for (name, value) in meta.and_then(|meta| meta.get(CALL)?.as_object()).into_iter().flatten() {
        function.put(name, value)?;
    }
    let mut part = Pairs::default();
    part.put(CALL, &function)?;
    for (name, value) in meta.into_iter().flatten().filter(|(name, _)| *name != CALL) {
        part.put(name, value)?;
    }
    to_raw_value(&part)
}

/// The calls that the next results answer.
struct Asked<'a> {
    calls: &'a [ModelCall],
    is_ours: bool,
}

impl Asked<'_> {
    /// A server that gave no id goes by the order, and one that never saw the call knows no id of it.
    fn has_id(&self, call: &ModelCall) -> bool {
        self.is_ours && !call.wire_id.is_empty()
    }

    fn result(&self, call_id: &str, content: &Said, is_error: bool, names: &Names) -> Printed {
        let call = self.calls.iter().find(|call| call.id == call_id);
        let mut function = Pairs::default();
        if let Some(call) = call.filter(|call| self.has_id(call)) {
            function.put("id", &call.id)?;
        }
        function.put("name", &call.map_or(Cow::Borrowed(call_id), |call| names.on_wire(&call.name)))?;
        function.put("response", &json!({ if is_error { "error" } else { "output" }: content.text() }))?;
        let images: Vec<Value> = content.pieces().iter().filter_map(as_image).map(blob).collect();
        if !images.is_empty() {
            function.put("parts", &images)?;
        }
        let mut part = Pairs::default();
        part.put("functionResponse", &function)?;
        to_raw_value(&part)
    }
}

fn as_image(piece: &Piece) -> Option<&Image> {
    match piece {
        Piece::Image(image) => Some(image),
        Piece::Text(_) => None,
    }
}

fn blob(image: &Image) -> Value {
    match image {
        Image::Data { mime_type, base64 } => json!({ "inlineData": { "mimeType": mime_type, "data": base64 } }),
        Image::Url(url) => json!({ "fileData": { "mimeType": mime_type(url), "fileUri": url } }),
    }
}

/// What an address promises by its ending; the server wants to know it.
fn mime_type(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("png") => "image/png",
        Some("webp") => "image/webp",
        Some("gif") => "image/gif",
        Some("heic") => "image/heic",
        Some("heif") => "image/heif",
        _ => "image/jpeg",
    }
}

/// An object whose fields keep their text and their order.
#[derive(Debug, Default)]
struct Pairs<'a>(Vec<(&'a str, Box<RawValue>)>);

impl<'a> Pairs<'a> {
    fn put<T: Serialize + ?Sized>(&mut self, name: &'a str, value: &T) -> Result<(), serde_json::Error> {
        self.0.push((name, to_raw_value(value)?));
        Ok(())
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
