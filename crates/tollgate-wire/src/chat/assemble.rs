//! Puts a turn together from fragments. Servers differ in how they number and name the fragments of a call; the rules
//! of [`Assembler::place`] tell which call a fragment belongs to, and where that cannot be known nothing runs.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_types::{Repair, RepairRule, limits};

use super::delta::{CallDelta, Chunk, Delta, REASONING, Unescape, integer, kept, scalar_text};
use crate::calls::{CALLS_HELD_MAX, Draft, Notes, looks_like_a_call, seal, text_arguments};
use crate::fault::WireFault;
use crate::lower::Names;
use crate::repair::{self, Extent};
use crate::stream::{Assemble, error_text, said_error};
use crate::turn::{Finish, Turn, Usage};

/// Collects chunks into a turn.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    text_pieces: Unescape,
    thoughts: [Thought; REASONING.len()],
    /// The other fields of the message.
    more: Map<String, Value>,
    calls: Vec<Building>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    notes: Notes,
    has_choice: bool,
}

/// What a model thinks, under one name; `""` is not the same as nothing.
#[derive(Debug, Default)]
struct Thought {
    text: Option<String>,
    pieces: Unescape,
}

#[derive(Debug, Default)]
struct Building {
    index: i64,
    /// Whether it came in pieces: a whole message may say it again.
    in_pieces: bool,
    wire_id: String,
    name: String,
    /// What else came as its name before any argument did: more of the name, the whole of it, or another call.
    more_names: Vec<String>,
    arguments: String,
    is_text: bool,
    extent: Extent,
    pieces: Unescape,
    provider_meta: Map<String, Value>,
    repairs: Vec<Repair>,
    broken: Option<&'static str>,
}

/// Where a fragment belongs.
enum Place {
    Call(usize),
    New,
    /// It says again what is there already.
    Repeat,
    /// It names no call.
    Orphan,
}

impl Assembler {
    /// Takes one chunk, or a whole reply.
    fn push(&mut self, json: &str) -> Result<(), WireFault> {
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
        if let Some(error) = chunk.error {
            return Err(WireFault::Server { message: error_text(error) });
        }
        if let Some(usage) = chunk.usage {
            self.usage = serde_json::from_str(usage.get()).ok().and_then(|usage| Usage::of(&usage)).or(self.usage);
        }
        if chunk.choices.is_none() {
            if let Some(message) = said_error(json) {
                return Err(WireFault::Server { message });
            }
            if chunk.usage.is_none() {
                self.notes.add("event_ignored");
            }
        }
        for (place, choice) in chunk.choices.unwrap_or_default().into_iter().enumerate() {
            if integer(choice.index).map_or(place != 0, |index| index != 0) {
                self.notes.add("other_choice_ignored");
                continue;
            }
            if let Some(error) = choice.error.filter(|error| error.get() != "null") {
                return Err(WireFault::Server { message: error_text(error) });
            }
            self.has_choice = true;
            if let Some(delta) = choice.delta {
                self.take(Delta::of(delta), Whole::No, json)?;
            }
            if let Some(message) = choice.message {
                self.take_whole(Delta::of(message), json)?;
            }
            match scalar_text(choice.finish_reason) {
                word if word.is_empty() => {}
                word => self.finish = Some(Finish::then(self.finish.take(), Finish::from(word.into_owned()))),
            }
        }
        Ok(())
    }

    /// A whole message; after pieces it says them again.
    fn take_whole(&mut self, mut message: Delta<'_>, json: &str) -> Result<(), WireFault> {
        if !self.text.is_empty() {
            message.content = None;
        }
        if !self.thoughts.iter().all(|thought| thought.text.is_none()) {
            message.reasoning = Default::default();
        }
        self.take(message, Whole::Yes, json)
    }

    fn take(&mut self, delta: Delta<'_>, whole: Whole, json: &str) -> Result<(), WireFault> {
        if let Some(content) = delta.content {
            self.take_content(content);
        }
        if let Some(refusal) = delta.refusal {
            self.notes.add("refusal");
            self.take_content(refusal);
        }
        for (thought, piece) in self.thoughts.iter_mut().zip(delta.reasoning) {
            if let Some(piece) = piece.filter(|piece| piece.get().starts_with('"')) {
                thought.text.get_or_insert_default().push_str(&thought.pieces.piece(piece));
            }
        }
        let calls = delta.call_deltas().map_err(|e| WireFault::malformed(e, json))?;
        for (position, call) in calls.into_iter().enumerate() {
            self.take_call(i64::try_from(position).unwrap_or(i64::MAX), call, whole);
            if self.calls.len() > CALLS_HELD_MAX {
                return Err(WireFault::TooLarge { limit: CALLS_HELD_MAX, unit: "calls" });
            }
        }
        delta.more.into_values().for_each(|(name, value)| grow(&mut self.more, name, value));
        Ok(())
    }

    /// Text, or a list of parts of which the texts count.
    fn take_content(&mut self, content: &RawValue) {
        if content.get().starts_with('"') {
            self.text.push_str(&self.text_pieces.piece(content));
            return;
        }
        let parts: Vec<Value> = serde_json::from_str(content.get()).unwrap_or_default();
        for part in &parts {
            match part.get("text").and_then(Value::as_str) {
                Some(text) => self.text.push_str(text),
                None => self.notes.add("content_part_ignored"),
            }
        }
    }

    fn take_call(&mut self, position: i64, delta: CallDelta<'_>, whole: Whole) {
        let explicit = integer(delta.index);
        let index = explicit.unwrap_or(position);
        let id = scalar_text(delta.id);
        let (name, fragment) = delta.function.map_or((None, None), |function| (function.name, function.arguments));
        let name = scalar_text(name);
        let place = match whole {
            Whole::Yes if self.is_known(&id, &name, fragment) => Place::Repeat,
            Whole::Yes => Place::New,
            Whole::No => self.place(explicit, index, &id, &name, fragment),
        };
        let at = match place {
            Place::Call(at) => at,
            Place::Repeat => return self.notes.add("repeated_call_ignored"),
            Place::Orphan => match self.adopt(index, fragment) {
                Some(at) => at,
                None => return,
            },
            Place::New => {
                if matches!(whole, Whole::No) && self.calls.iter().any(|call| call.index == index) {
                    self.notes.add("index_reused");
                }
                let in_pieces = matches!(whole, Whole::No);
                self.calls.push(Building { index, in_pieces, ..Building::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else { return };
        if call.wire_id.is_empty() {
            call.wire_id = id.into_owned();
        }
        if call.name.is_empty() {
            call.name = name.into_owned();
        } else if !name.is_empty() && name != call.name && call.arguments.is_empty() {
            call.more_names.push(name.into_owned());
        }
        call.provider_meta.extend(delta.more);
        call.is_text |= delta.is_text;
        if let Some(code) = fragment.and_then(|fragment| call.append(fragment)) {
            self.notes.add(code);
        }
    }

    /// Whether a whole call came in pieces before.
    fn is_known(&self, id: &str, name: &str, fragment: Option<&RawValue>) -> bool {
        let arguments = fragment.map(|raw| Unescape::default().piece(raw).into_owned()).unwrap_or_default();
        let is_same = |call: &Building| {
            call.in_pieces && call.wire_id == id && call.name == name && repair::is_same(&call.arguments, &arguments)
        };
        self.calls.iter().any(is_same)
    }

    /// Which call a fragment belongs to, by its id, then its index, then what the call still lacks.
    fn place(&self, explicit: Option<i64>, index: i64, id: &str, name: &str, fragment: Option<&RawValue>) -> Place {
        let brings_text = fragment.is_some_and(|raw| !is_blank(raw));
        let last = |fits: &dyn Fn(&Building) -> bool| self.calls.iter().rposition(fits);
        let at = |found: usize| self.calls.get(found);
        if !id.is_empty() {
            let same = last(&|call| call.wire_id == id && (explicit.is_none() || call.index == index));
            if let Some((found, call)) = same.and_then(|found| Some((found, at(found)?))) {
                let is_other = call.is_another(name);
                let is_again = !name.is_empty() && call.extent.has_ended() && brings_text && call.arguments != "{}";
                return match fragment.filter(|_| is_again) {
                    Some(raw) if Unescape::default().piece(raw).trim_ascii() == call.arguments.trim_ascii() => {
                        Place::Repeat
                    }
                    None if !is_other => Place::Call(found),
                    Some(_) | None => Place::New,
                };
            }
            // The same call under another index: a fragment without a name begins nothing.
            if let Some(found) = last(&|call| call.wire_id == id).filter(|_| name.is_empty()) {
                return Place::Call(found);
            }
        }
        let Some((found, call)) = last(&|call| call.index == index).and_then(|found| Some((found, at(found)?))) else {
            return if id.is_empty() && name.is_empty() { Place::Orphan } else { Place::New };
        };
        let is_other_id = !id.is_empty() && !call.wire_id.is_empty();
        let has_ended = call.extent.has_ended();
        let begins = if name.is_empty() {
            is_other_id && (has_ended || !brings_text)
        } else {
            is_other_id
                || call.is_another(name)
                || (!call.name.is_empty() && has_ended && (brings_text || !id.is_empty()))
        };
        if begins { Place::New } else { Place::Call(found) }
    }

    /// A fragment that names no call belongs to the only one that is still open. With several, none of them may run.
    fn adopt(&mut self, index: i64, fragment: Option<&RawValue>) -> Option<usize> {
        fragment.filter(|raw| !is_blank(raw))?;
        let is_open = |call: &Building| !call.extent.has_ended();
        if self.calls.iter().filter(|call| is_open(call)).count() != 1 {
            self.notes.add("orphan_fragment_dropped");
            for call in self.calls.iter_mut().filter(|call| is_open(call)) {
                call.broken = Some("a piece of its arguments could belong to several calls");
            }
            return None;
        }
        let at = self.calls.iter().position(is_open)?;
        self.notes.add("orphan_fragment_reattached");
        self.calls.get_mut(at)?.index = index;
        Some(at)
    }

    fn into_turn(mut self, names: &Names) -> Result<Turn, WireFault> {
        let finish = match self.finish.take() {
            Some(finish) => finish,
            None if self.calls.is_empty() => Finish::Stop,
            None => Finish::ToolCalls,
        };
        if self.text_pieces.has_lost() || self.thoughts.iter().any(|thought| thought.pieces.has_lost()) {
            self.notes.add("half_a_surrogate_pair");
        }
        let buildings = std::mem::take(&mut self.calls).into_iter().flat_map(|building| building.by_name(names));
        let mut drafts = Vec::new();
        for building in buildings {
            let split = if building.extent.has_more() { repair::objects(&building.arguments) } else { None };
            let Some(parts) = split else {
                drafts.push(building.into_draft(names));
                continue;
            };
            self.notes.add("joined_arguments_split");
            let parts: Vec<String> = parts.into_iter().map(str::to_owned).collect();
            let draft = building.into_draft(names);
            drafts.extend(parts.into_iter().map(|arguments| {
                let mut one = Draft { arguments, ..draft.clone() };
                one.repairs.push(Repair::new("", RepairRule::JoinedArguments));
                one
            }));
        }
        let calls = seal(drafts, names, &finish, &mut self.notes);
        if calls.is_empty() && looks_like_a_call(&self.text, names) {
            self.notes.add("text_tool_call_suspected");
        }
        // Only within a round of calls does a server want it back.
        let thoughts = REASONING.into_iter().zip(self.thoughts).filter(|_| !calls.is_empty());
        let provider_meta = thoughts.filter_map(|(name, thought)| Some((name.to_owned(), thought.text?.into())));
        let provider_meta = provider_meta.chain(kept(self.more)).collect();
        let diagnostics = self.notes.into_codes();
        Ok(Turn { text: self.text, calls, provider_meta, finish, usage: self.usage, diagnostics, ..Turn::default() })
    }
}

/// Whether fragments of a call can follow.
#[derive(Clone, Copy)]
enum Whole {
    Yes,
    No,
}

impl Assemble for Assembler {
    fn event(&mut self, json: &str) -> Result<(), WireFault> {
        self.push(json)
    }

    fn reply(&mut self, json: &str) -> Result<(), WireFault> {
        self.push(json)?;
        if self.has_choice { Ok(()) } else { Err(WireFault::malformed("it has no `choices`", json)) }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(self: Box<Self>, names: &Names) -> Result<Turn, WireFault> {
        self.into_turn(names)
    }
}

impl Building {
    /// Adds a piece of the arguments; says what was odd about it.
    fn append(&mut self, fragment: &RawValue) -> Option<&'static str> {
        if self.is_text {
            let piece = self.pieces.piece(fragment).into_owned();
            return self.grow(&piece);
        }
        let mut odd = (!fragment.get().starts_with('"')).then_some("args_not_string");
        if fragment.get().starts_with('{') && self.repairs.is_empty() {
            self.repairs.push(Repair::new("", RepairRule::ObjectArguments));
        }
        let piece = self.pieces.piece(fragment).into_owned();
        if self.extent.has_ended() && self.arguments.trim_ascii() == "{}" && piece.trim_ascii_start().starts_with('{') {
            // Some servers open a call with `{}` and send the arguments after.
            self.arguments.clear();
            self.extent = Extent::default();
            odd = Some("placeholder_replaced");
        }
        self.extent.feed(&piece);
        self.grow(&piece).or(odd)
    }

    fn grow(&mut self, piece: &str) -> Option<&'static str> {
        if self.arguments.len() + piece.len() > limits::ARGUMENTS_BYTES_MAX {
            self.broken = Some("its arguments are larger than the limit");
            return Some("args_too_large");
        }
        self.arguments.push_str(piece);
        None
    }

    /// Whether a fragment of this name begins another call. While no argument has come, it may be more of this one's.
    fn is_another(&self, name: &str) -> bool {
        !name.is_empty() && !self.name.is_empty() && name != self.name && !self.arguments.is_empty()
    }

    /// Puts a name together that came in pieces: joined or grown to a name that is offered; else each piece that is one
    /// was a call without arguments.
    fn by_name(mut self, names: &Names) -> Vec<Self> {
        let more = std::mem::take(&mut self.more_names);
        let Some(last) = more.last().cloned() else { return vec![self] };
        let joined = format!("{}{}", self.name, more.concat());
        let has_grown =
            more.iter().try_fold(&self.name, |shorter, name| name.starts_with(shorter.as_str()).then_some(name));
        if names.is_offered(&joined) {
            self.name = joined;
        } else if has_grown.is_some() {
            self.name = last;
        } else if names.is_offered(&self.name) && more.iter().all(|name| names.is_offered(name)) {
            let earlier = std::mem::replace(&mut self.name, last);
            let without = |name: String| Self { index: self.index, name, ..Self::default() };
            let mut calls: Vec<Self> = more.iter().rev().skip(1).rev().cloned().map(without).collect();
            let first = Self { wire_id: std::mem::take(&mut self.wire_id), ..without(earlier) };
            calls.insert(0, first);
            calls.push(self);
            return calls;
        } else {
            self.name = joined;
        }
        vec![self]
    }

    fn into_draft(self, names: &Names) -> Draft {
        let broken = if self.pieces.has_lost() { Some("it holds half of a surrogate pair") } else { self.broken };
        let Self { wire_id, name, arguments, is_text, provider_meta, repairs, .. } = self;
        let arguments = if is_text { text_arguments(names, &name, arguments) } else { arguments };
        let provider_meta = (!provider_meta.is_empty()).then_some(Value::Object(provider_meta));
        Draft { wire_id, name, arguments, provider_meta, repairs, broken }
    }
}

/// Adds to what a provider wants back: text and lists grow, of anything else the last counts.
fn grow(kept: &mut Map<String, Value>, name: String, value: Value) {
    match (kept.get_mut(&name), value) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (_, value) => drop(kept.insert(name, value)),
    }
}

fn is_blank(raw: &RawValue) -> bool {
    matches!(raw.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')), Some(inner) if inner.trim_ascii().is_empty())
}
