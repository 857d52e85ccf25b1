//! A conversation as items. What the server wrote goes back as it stands; what it cannot resolve any more does not.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::handed::{self, Handed};
use super::item::{Item, kind};
use crate::calls::text_of;
use crate::dialect::Dialect;
use crate::history::{Content, Message, Piece, replayable};
use crate::ids::WireIds;
use crate::lower::Names;
use crate::object::Object;
use crate::request::Request;
use crate::turn::{Kept, ModelCall, Part};

/// The longest id of a call that a server takes.
const CALL_ID_CHARS_MAX: usize = 64;

/// The items of the messages from this one on.
pub(super) fn items(request: &Request<'_>, first: usize) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    let calls = request.messages.iter().flat_map(|message| match message {
        Message::Assistant { calls, kept, .. } => calls.iter().map(|call| (call, is_ours(kept.as_deref()))).collect(),
        Message::System(_) | Message::User(_) | Message::Tool { .. } => Vec::new(),
    });
    let mut writer = Writer {
        names: request.tools.names(),
        ids: WireIds::of(request.messages, |id| (1..=CALL_ID_CHARS_MAX).contains(&id.len())),
        calls: calls.map(|(call, is_ours)| (call.id.as_str(), (call, is_ours))).collect(),
        has_ids: request.store != Some(false) && !request.is_forgotten,
        items: Vec::new(),
    };
    let raw = |message| kept_of(message).into_iter().flat_map(|kept| kept.parts.iter().filter_map(Part::as_raw));
    // What it handed back with its last reply the server has, but not the answers.
    for (at, message) in request.messages.iter().enumerate().skip(first.saturating_sub(1)) {
        if at >= first {
            writer.message(message)?;
        }
        let handed = handed::among(raw(message), request.messages.iter().flat_map(raw));
        handed.iter().filter_map(Handed::answer).try_for_each(|answer| writer.put(&answer))?;
    }
    Ok(writer.items)
}

/// The items of what a model said, for a reply.
pub(super) fn output(message: &Message, names: &Names) -> Result<Vec<Box<RawValue>>, serde_json::Error> {
    let ids = WireIds::default();
    let mut writer = Writer { names, ids, calls: HashMap::new(), has_ids: true, items: Vec::new() };
    writer.message(message)?;
    Ok(writer.items)
}

/// What another dialect wants back of its calls is not for this one.
fn is_ours(kept: Option<&Kept>) -> bool {
    kept.is_none_or(|kept| kept.dialect == Dialect::Responses)
}

/// What a turn was on this wire, part by part.
fn kept_of(message: &Message) -> Option<&Kept> {
    match message {
        Message::Assistant { kept, .. } => kept.as_deref().filter(|kept| kept.dialect == Dialect::Responses),
        Message::System(_) | Message::User(_) | Message::Tool { .. } => None,
    }
}

struct Writer<'a> {
    names: &'a Names,
    ids: WireIds<'a>,
    /// The calls by their ids, and whether what else there is of one came from here.
    calls: HashMap<&'a str, (&'a ModelCall, bool)>,
    /// Whether the server knows the ids that it gave.
    has_ids: bool,
    items: Vec<Box<RawValue>>,
}

impl Writer<'_> {
    fn put(&mut self, item: &impl Serialize) -> Result<(), serde_json::Error> {
        self.items.push(to_raw_value(item)?);
        Ok(())
    }

    fn message(&mut self, message: &Message) -> Result<(), serde_json::Error> {
        match message {
            Message::System(text) => self.put(&json!({ "type": "message", "role": "system", "content": text })),
            Message::User(content) => {
                self.put(&json!({ "type": "message", "role": "user", "content": pieces(content) }))
            }
            Message::Tool { call_id, content, .. } => self.result(call_id, content),
            Message::Assistant { text, calls, kept, .. } => match kept_of(message) {
                Some(kept) => self.kept(kept, calls),
                None => {
                    self.text(text)?;
                    calls.iter().try_for_each(|call| self.call(call, is_ours(kept.as_deref())))
                }
            },
        }
    }

    fn text(&mut self, text: &str) -> Result<(), serde_json::Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.put(&json!({ "type": "message", "role": "assistant", "content": text }))
    }

    /// A turn as the server wrote it. No call is left out, or its result would have none.
    fn kept(&mut self, kept: &Kept, calls: &[ModelCall]) -> Result<(), serde_json::Error> {
        let mut is_told = vec![false; calls.len()];
        for part in &kept.parts {
            match part {
                Part::Text(text) => self.text(text)?,
                Part::Raw(json) => self.raw(json)?,
                Part::Call(at) => {
                    if let Some((call, is_told)) = calls.get(*at).zip(is_told.get_mut(*at))
                        && !std::mem::replace(is_told, true)
                    {
                        self.call(call, true)?;
                    }
                }
            }
        }
        let rest = calls.iter().zip(is_told).filter(|(_, is_told)| !is_told);
        rest.map(|(call, _)| call).try_for_each(|call| self.call(call, true))
    }

    /// An item as it stands. Where the server's ids mean nothing, what lives by its id alone is left out.
    fn raw(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let raw = RawValue::from_string(json.to_owned())?;
        if self.has_ids {
            self.items.push(raw);
            return Ok(());
        }
        let mut fields: Object<'_> = serde_json::from_str(json)?;
        match &*kind(&fields) {
            "item_reference" => {}
            "reasoning" if fields.take("encrypted_content").is_none() => {}
            "message" => match Item::of(&raw)? {
                Item::Text(text) | Item::Message { text, .. } => {
                    let mut message = json!({ "type": "message", "role": "assistant", "content": text });
                    if let (Some(phase), Value::Object(message)) = (fields.text("phase"), &mut message) {
                        message.insert("phase".to_owned(), phase.into());
                    }
                    self.put(&message)?;
                }
                Item::Call(_) | Item::Hosted(_) | Item::Other => {}
            },
            _ => self.items.push(raw),
        }
        Ok(())
    }

    fn call(&mut self, call: &ModelCall, is_ours: bool) -> Result<(), serde_json::Error> {
        let name = self.names.on_wire(&call.name);
        let mut item = Map::new();
        let mut put = |name: &str, value: &str| drop(item.insert(name.to_owned(), value.into()));
        let text = text_of(self.names, call);
        put("type", if text.is_some() { "custom_tool_call" } else { "function_call" });
        put("call_id", self.ids.on_wire(&call.id));
        put("name", &name);
        match text {
            Some(text) => put("input", &text),
            None => put("arguments", replayable(&call.arguments).as_deref().unwrap_or(&call.arguments)),
        }
        let more = call.provider_meta.as_ref().and_then(Value::as_object).filter(|_| is_ours);
        let more = more.into_iter().flatten().filter(|(name, _)| self.has_ids || *name != "id");
        for (name, value) in more {
            item.entry(name).or_insert_with(|| value.clone());
        }
        self.put(&item)
    }

    fn result(&mut self, call_id: &str, content: &Content) -> Result<(), serde_json::Error> {
        let call = self.calls.get(call_id).copied();
        let is_text = call.is_some_and(|(call, _)| text_of(self.names, call).is_some());
        let kind = if is_text { "custom_tool_call_output" } else { "function_call_output" };
        let mut item = json!({ "type": kind, "call_id": self.ids.on_wire(call_id), "output": pieces(content) });
        // A program that called gets its answer back, and nobody else.
        let caller =
            call.filter(|(_, is_ours)| *is_ours).and_then(|(call, _)| call.provider_meta.as_ref()?.get("caller"));
        if let (Some(caller @ Value::Object(_)), Value::Object(item)) = (caller, &mut item) {
            item.insert("caller".to_owned(), caller.clone());
        }
        self.put(&item)
    }
}

/// A text alone, or parts.
fn pieces(content: &Content) -> Value {
    let pieces = content.pieces();
    if pieces.iter().all(|piece| piece.as_text().is_some()) {
        return content.text().into();
    }
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => json!({ "type": "input_text", "text": text }),
        Piece::Image(image) => json!({ "type": "input_image", "detail": "auto", "image_url": image.to_url() }),
    };
    pieces.iter().map(piece).collect()
}
