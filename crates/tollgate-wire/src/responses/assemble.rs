//! Puts a turn together from items and their pieces. A piece finds its item by place and id; what an item says when it is
//! done counts more than the pieces that came before, and nothing that comes after counts.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::limits;

use super::event::{Event, Response, fault, text_of};
use super::handed::{self, Handed};
use super::item::{Call, Item};
use crate::calls::{CALLS_HELD_MAX, Draft, Notes, looks_like_a_call, seal, text_arguments};
use crate::chat::delta::{Unescape, integer};
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::lower::Names;
use crate::object::Object;
use crate::stream::{Assemble, said_error};
use crate::turn::{Finish, HostedCall, Kept, Part, Turn, Usage};

/// Collects events into a turn.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    items: Vec<Building>,
    by_index: HashMap<i64, usize>,
    by_id: HashMap<String, usize>,
    response_id: Option<String>,
    /// How it ended; `Stop` where nobody said that it is not whole.
    end: Option<Finish>,
    usage: Option<Usage>,
    notes: Notes,
}

/// An item that comes in pieces.
#[derive(Debug, Default)]
struct Building {
    index: Option<i64>,
    id: String,
    /// The item as the server last wrote it, and whether that is all of it.
    item: Option<(String, Item)>,
    is_done: bool,
    text: String,
    pieces: Unescape,
    /// The parts of a message that are over.
    done_parts: Vec<i64>,
    name: String,
    input: String,
    is_input_done: bool,
    is_text_call: bool,
    broken: Option<&'static str>,
}

impl Assembler {
    fn take(&mut self, event: &Event<'_>, json: &str) -> Result<(), WireFault> {
        let kind = text_of(event.kind);
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => {
                if kind == "response.refusal.delta" {
                    self.notes.add("refusal");
                }
                self.take_text(event)
            }
            "response.output_text.done" | "response.refusal.done" => {
                let part = integer(event.content_index);
                let at = self.item(event)?;
                let Some(item) = self.items.get_mut(at) else { return Ok(()) };
                // Where no piece of it came, this is the text.
                if let Some(text) = event.text.filter(|_| item.text.is_empty() && !item.is_done) {
                    let text = Unescape::default().piece(text).into_owned();
                    item.text.push_str(&text);
                    self.text.push_str(&text);
                }
                item.done_parts.extend(part);
                Ok(())
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.take_input(event, kind.starts_with("response.custom"))
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.end_input(event, kind.starts_with("response.custom"))
            }
            "response.output_item.added" | "response.output_item.done" => {
                let Some(item) = event.item else { return self.odd("event_ignored") };
                self.take_item(integer(event.output_index), item, kind.ends_with("done"))
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let Some(response) = event.response else { return self.over(&kind, String::new()) };
                let response = serde_json::from_str(response.get()).map_err(|e| WireFault::malformed(e, json))?;
                self.take_response(response, kind.trim_start_matches("response."))
            }
            "error" => match event.error {
                Some(error) => Err(fault(error)),
                None => Err(fault(&raw(json)?)),
            },
            "" => match (event.error, said_error(json)) {
                (Some(error), _) => Err(fault(error)),
                (None, Some(message)) => Err(WireFault::Server { message }),
                (None, None) => self.odd("event_ignored"),
            },
            _ => {
                self.take_id(event);
                Ok(())
            }
        }
    }

    fn odd(&mut self, code: &str) -> Result<(), WireFault> {
        self.notes.add(code);
        Ok(())
    }

    /// The id of the reply is told with its first events.
    fn take_id(&mut self, event: &Event<'_>) {
        if let Some(response) = event.response.filter(|_| self.response_id.is_none()) {
            let fields: Object<'_> = serde_json::from_str(response.get()).unwrap_or_default();
            self.response_id = fields.text("id").map(|id| id.into_owned());
        }
    }

    /// The item that an event belongs to.
    fn item(&mut self, event: &Event<'_>) -> Result<usize, WireFault> {
        let (index, id) = (integer(event.output_index), text_of(event.item_id));
        let is_open = |item: &Building| item.is_anonymous() && !item.is_input_done;
        let open = || self.items.iter().rposition(is_open).filter(|_| index.is_none() && id.is_empty());
        match self.find(index, &id).or_else(open) {
            Some(at) => Ok(at),
            None => self.begin(index, id),
        }
    }

    /// By its place, unless another place is known to have its id. Servers that make up an id for each event exist.
    fn find(&self, index: Option<i64>, id: &str) -> Option<usize> {
        let by_index = index.and_then(|index| self.by_index.get(&index).copied());
        let by_id = || self.by_id.get(id).copied().filter(|_| !id.is_empty());
        match by_index.and_then(|at| self.items.get(at)) {
            Some(item) if item.id == id => by_index,
            _ => by_id().or(by_index),
        }
    }

    fn begin(&mut self, index: Option<i64>, id: String) -> Result<usize, WireFault> {
        if self.items.len() == CALLS_HELD_MAX {
            return Err(WireFault::TooLarge { limit: CALLS_HELD_MAX, unit: "items" });
        }
        let at = self.items.len();
        if let Some(index) = index
            && self.by_index.insert(index, at).is_some()
        {
            self.notes.add("index_reused");
        }
        if !id.is_empty() {
            self.by_id.insert(id.clone(), at);
        }
        self.items.push(Building { index, id, ..Building::default() });
        Ok(at)
    }

    fn take_text(&mut self, event: &Event<'_>) -> Result<(), WireFault> {
        let at = self.item(event)?;
        let (Some(item), Some(delta)) = (self.items.get_mut(at), event.delta) else { return Ok(()) };
        let is_over = integer(event.content_index).is_some_and(|part| item.done_parts.contains(&part));
        if item.is_done || is_over {
            return self.odd("delta_after_done_ignored");
        }
        let piece = item.pieces.piece(delta);
        item.text.push_str(&piece);
        self.text.push_str(&piece);
        Ok(())
    }

    fn take_input(&mut self, event: &Event<'_>, is_text: bool) -> Result<(), WireFault> {
        let at = self.item(event)?;
        let (Some(item), Some(delta)) = (self.items.get_mut(at), event.delta) else { return Ok(()) };
        if item.is_done || item.is_input_done {
            return self.odd("delta_after_done_ignored");
        }
        item.is_text_call |= is_text;
        let piece = item.pieces.piece(delta);
        if item.input.len() + piece.len() > limits::ARGUMENTS_BYTES_MAX {
            item.broken = Some(TOO_LARGE);
            return self.odd("args_too_large");
        }
        item.input.push_str(&piece);
        Ok(())
    }

    fn end_input(&mut self, event: &Event<'_>, is_text: bool) -> Result<(), WireFault> {
        let at = self.item(event)?;
        let Some(item) = self.items.get_mut(at) else { return Ok(()) };
        item.is_text_call |= is_text;
        item.is_input_done = true;
        item.name = text_of(event.name);
        if let Some(whole) = event.arguments.or(event.input) {
            item.pieces = Unescape::default();
            item.input = item.pieces.piece(whole).into_owned();
            item.broken = None;
        }
        Ok(())
    }

    /// An item that begins, or all of one.
    fn take_item(&mut self, index: Option<i64>, raw: &RawValue, is_done: bool) -> Result<(), WireFault> {
        let (Ok(item), Ok(fields)) = (Item::of(raw), serde_json::from_str::<Object<'_>>(raw.get())) else {
            return self.odd("event_ignored");
        };
        let id = fields.text("id").unwrap_or_default().into_owned();
        let found = self.find(index, &id).filter(|at| {
            // Under a place that is taken, another one begins.
            is_done || self.items.get(*at).is_none_or(|known| known.item.is_none())
        });
        // Its pieces may have come without a word on what they belong to.
        let is_its = |known: &Building| known.is_anonymous() && known.is_like(&item);
        let at = match found.or_else(|| self.items.iter().position(is_its).filter(|_| is_done)) {
            Some(at) => at,
            None => self.begin(index, id)?,
        };
        let Some(building) = self.items.get_mut(at) else { return Ok(()) };
        if is_done && let Item::Text(text) | Item::Message { text, .. } = &item {
            match text.strip_prefix(building.text.as_str()) {
                Some(rest) => {
                    building.text.push_str(rest);
                    self.text.push_str(rest);
                }
                None => self.notes.add("text_differs"),
            }
        }
        if matches!(item, Item::Message { is_refusal: true, .. }) {
            self.notes.add("refusal");
        }
        building.is_done |= is_done;
        building.item = Some((raw.get().to_owned(), item));
        Ok(())
    }

    fn take_response(&mut self, response: Response<'_>, kind: &str) -> Result<(), WireFault> {
        let status = text_of(response.status);
        let status = if status.is_empty() { kind } else { &status };
        let id = text_of(response.id);
        if !id.is_empty() {
            self.response_id = Some(id);
        }
        if let Some(usage) = response.usage {
            self.usage = serde_json::from_str(usage.get()).ok().and_then(|usage| Usage::of(&usage));
        }
        if let Some(error) = response.error {
            return Err(fault(error));
        }
        let reason = response.reason();
        for (place, item) in response.output.unwrap_or_default().into_iter().enumerate() {
            let index = i64::try_from(place).ok();
            let known = index.and_then(|index| self.items.get(*self.by_index.get(&index)?));
            if known.is_none_or(|known| !known.is_done) {
                self.take_item(index, item, true)?;
            }
        }
        if self.items.is_empty()
            && let Some(text) = response.output_text
        {
            self.text.push_str(&Unescape::default().piece(text));
        }
        self.over(status, reason)
    }

    /// The reply is over.
    fn over(&mut self, status: &str, reason: String) -> Result<(), WireFault> {
        let status = status.trim_start_matches("response.");
        self.end = Some(match status {
            "completed" | "" => Finish::Stop,
            "incomplete" => match reason.as_str() {
                "max_output_tokens" => Finish::Length,
                "content_filter" => Finish::ContentFilter,
                _ => Finish::Other("incomplete".to_owned()),
            },
            other => return Err(WireFault::Server { message: format!("the reply is `{other}`") }),
        });
        Ok(())
    }

    fn into_turn(mut self, names: &Names) -> Turn {
        self.items.sort_by_key(|item| item.index.unwrap_or(i64::MAX));
        let mut said = Said::default();
        for item in std::mem::take(&mut self.items) {
            item.tell(&mut said, names, &mut self.notes);
        }
        let Said { mut drafts, parts, mut hosted } = said;
        if self.end.is_none() {
            // Nobody said that the reply is whole: then only what was said to be done is.
            drafts.iter_mut().filter(|(_, is_done)| !is_done).for_each(|(draft, _)| {
                draft.broken.get_or_insert("its end never came");
            });
        }
        let drafts: Vec<Draft> = drafts.into_iter().map(|(draft, _)| draft).collect();
        let raw = || parts.iter().filter_map(Part::as_raw);
        let handed = handed::among(raw(), raw());
        hosted.extend(handed.iter().map(Handed::told));
        let finish = match self.end.take() {
            None | Some(Finish::Stop) if !drafts.is_empty() => Finish::ToolCalls,
            // It goes on when it has the refusals.
            None | Some(Finish::Stop) if handed.iter().any(Handed::is_back) => Finish::Paused,
            end => end.unwrap_or_default(),
        };
        let calls = seal(drafts, names, &finish, &mut self.notes);
        if calls.is_empty() && looks_like_a_call(&self.text, names) {
            self.notes.add("text_tool_call_suspected");
        }
        let kept = Kept { dialect: Dialect::Responses, response_id: self.response_id, parts };
        Turn {
            text: self.text,
            calls,
            kept: Some(Box::new(kept)),
            hosted,
            finish,
            usage: self.usage,
            diagnostics: self.notes.into_codes(),
            ..Turn::default()
        }
    }
}

const TOO_LARGE: &str = "its arguments are larger than the limit";

fn raw(json: &str) -> Result<Box<RawValue>, WireFault> {
    RawValue::from_string(json.to_owned()).map_err(|e| WireFault::malformed(e, json))
}

/// What the items of a turn say, in their order.
#[derive(Default)]
struct Said {
    /// The calls, and whether each was said to be done.
    drafts: Vec<(Draft, bool)>,
    parts: Vec<Part>,
    hosted: Vec<HostedCall>,
}

impl Building {
    /// Whether it is not over, and nothing says which it is.
    fn is_anonymous(&self) -> bool {
        self.index.is_none() && self.id.is_empty() && !self.is_done
    }

    /// Whether its pieces can be those of the item.
    fn is_like(&self, item: &Item) -> bool {
        match item {
            Item::Text(_) | Item::Message { .. } => !self.text.is_empty(),
            Item::Call(_) => self.is_input_done || !self.input.is_empty(),
            Item::Hosted(_) | Item::Other => false,
        }
    }

    fn tell(self, said: &mut Said, names: &Names, notes: &mut Notes) {
        if self.pieces.has_lost() {
            notes.add("half_a_surrogate_pair");
        }
        let is_call = self.is_input_done || !self.input.is_empty();
        match self.item {
            Some((_, Item::Call(ref call))) => {
                let (call, is_done) = (call.clone(), self.is_done || self.is_input_done);
                said.call(self.draft(call, names), is_done);
            }
            None if is_call => {
                let (call, is_done) = (Call { is_text: self.is_text_call, ..Call::default() }, self.is_input_done);
                said.call(self.draft(call, names), is_done);
            }
            Some((raw, Item::Message { .. } | Item::Other)) if self.is_done => said.parts.push(Part::Raw(raw)),
            Some((raw, Item::Hosted(call))) if self.is_done => {
                said.hosted.push(call);
                said.parts.push(Part::Raw(raw));
            }
            Some((_, Item::Text(_) | Item::Message { .. })) | None if !self.text.is_empty() => {
                said.parts.push(Part::Text(self.text));
            }
            Some((_, Item::Hosted(_) | Item::Other)) => notes.add("item_incomplete"),
            Some((_, Item::Text(_) | Item::Message { .. })) | None => {}
        }
    }

    /// What an item says when it is done counts, then what its arguments said when they were, then the pieces.
    fn draft(self, call: Call, names: &Names) -> Draft {
        let is_item = self.is_done && !call.input.is_empty() || self.input.is_empty();
        let arguments = if is_item { call.input } else { self.input };
        let is_lossy = if is_item { call.is_lossy } else { self.pieces.has_lost() };
        let name = if call.name.is_empty() { self.name } else { call.name };
        let broken = match () {
            () if call.is_cut => Some("the server says that it is incomplete"),
            () if name.is_empty() => Some("its name never came"),
            () if is_lossy => Some("it holds half of a surrogate pair"),
            () if arguments.len() > limits::ARGUMENTS_BYTES_MAX => Some(TOO_LARGE),
            () => self.broken,
        };
        Draft {
            wire_id: call.wire_id,
            arguments: if call.is_text { text_arguments(names, &name, arguments) } else { arguments },
            name,
            provider_meta: (!call.more.is_empty()).then_some(Value::Object(call.more)),
            broken,
            ..Draft::default()
        }
    }
}

impl Said {
    fn call(&mut self, draft: Draft, is_done: bool) {
        self.parts.push(Part::Call(self.drafts.len()));
        self.drafts.push((draft, is_done));
    }
}

impl Assemble for Assembler {
    fn event(&mut self, json: &str) -> Result<(), WireFault> {
        let event: Event<'_> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
        // After its end there is nothing more to a reply.
        if self.end.is_some() { Ok(()) } else { self.take(&event, json) }
    }

    fn reply(&mut self, json: &str) -> Result<(), WireFault> {
        let response: Response<'_> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
        if response.error.is_none() && response.output.is_none() && response.output_text.is_none() {
            return Err(WireFault::malformed("it has no `output`", json));
        }
        self.take_response(response, "completed")
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn is_complete(&self) -> bool {
        self.end.is_some()
    }

    fn finish(self: Box<Self>, names: &Names) -> Result<Turn, WireFault> {
        Ok(self.into_turn(names))
    }
}
