//! Puts a turn together. Each event is a response of its own with new parts, so that a call is one part; only where the
//! operator asked for it do arguments come in pieces.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_types::limits;

use super::contents::CALL;
use super::end::{End, blocked, end};
use super::hosted::Hosted;
use super::partial::Pieces;
use crate::calls::{CALLS_HELD_MAX, Draft, Notes, looks_like_a_call, seal};
use crate::chat::delta::{Unescape, arguments_text, integer, scalar_text};
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::lower::Names;
use crate::stream::{Assemble, error_text};
use crate::turn::{Finish, Kept, ModelCall, Part, Turn, Usage};

/// The fields of an object whose values keep their text.
pub(super) type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The fields of an object; nothing for any other value.
pub(super) fn fields_of(raw: &RawValue) -> Option<Fields<'_>> {
    serde_json::from_str(raw.get()).ok()
}

/// Collects responses into a turn.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    text: String,
    text_pieces: Unescape,
    parts: Vec<Part>,
    calls: Vec<Building>,
    hosted: Hosted,
    response_id: Option<String>,
    /// The word and what else was said, where the model stopped.
    finish: Option<(String, String)>,
    /// The same, where the prompt was refused.
    blocked: Option<(String, String)>,
    usage: Option<Usage>,
    notes: Notes,
    has_candidate: bool,
}

#[derive(Debug, Default)]
struct Building {
    draft: Draft,
    /// Arguments in pieces.
    pieces: Option<Pieces>,
    /// Whether more of it was announced.
    is_open: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow, default)]
    prompt_feedback: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    url_context_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

impl Assembler {
    /// Takes one response.
    fn push(&mut self, json: &str) -> Result<(), WireFault> {
        let chunk: Chunk<'_> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
        if let Some(error) = chunk.error {
            return Err(WireFault::Server { message: error_text(error) });
        }
        self.usage = chunk.usage_metadata.and_then(usage).or(self.usage);
        if let Some(id) = chunk.response_id.map(|raw| scalar_text(Some(raw))).filter(|id| !id.is_empty()) {
            self.response_id = Some(id.into_owned());
        }
        if let Some(feedback) = chunk.prompt_feedback.and_then(fields_of) {
            let text = |name: &str| scalar_text(feedback.get(name).copied()).into_owned();
            let reason = text("blockReason");
            self.blocked = (!reason.is_empty()).then(|| (reason, text("blockReasonMessage"))).or(self.blocked.take());
        }
        if chunk.candidates.is_none() && chunk.prompt_feedback.is_none() && chunk.usage_metadata.is_none() {
            self.notes.add("event_ignored");
        }
        chunk.candidates.unwrap_or_default().into_iter().try_for_each(|candidate| self.take(candidate))
    }

    fn take(&mut self, candidate: Candidate<'_>) -> Result<(), WireFault> {
        if integer(candidate.index).unwrap_or(0) != 0 {
            self.notes.add("other_choice_ignored");
            return Ok(());
        }
        self.has_candidate = true;
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.take_part(part);
            if self.calls.len().max(self.hosted.len()) > CALLS_HELD_MAX {
                return Err(WireFault::TooLarge { limit: CALLS_HELD_MAX, unit: "calls" });
            }
        }
        self.hosted.take_metadata(candidate.grounding_metadata, candidate.url_context_metadata);
        match scalar_text(candidate.finish_reason) {
            // What the protocol says where nothing is said.
            word if word.is_empty() || word == "FINISH_REASON_UNSPECIFIED" => {}
            // A turn that was cut stays so.
            _ if self.finish.as_ref().is_some_and(|(word, _)| word != "STOP") => {}
            word => self.finish = Some((word.into_owned(), scalar_text(candidate.finish_message).into_owned())),
        }
        Ok(())
    }

    /// Text with nothing else to it is text; everything else goes back as it came.
    fn take_part(&mut self, raw: &RawValue) {
        let Some(part) = fields_of(raw) else { return self.notes.add("content_part_ignored") };
        if let Some(call) = part.get(CALL).and_then(|call| fields_of(call)) {
            return self.take_call(&call, &part);
        }
        let is_thought = part.get("thought").is_some_and(|thought| thought.get() == "true");
        if let Some(text) = part.get("text").filter(|text| !is_thought && text.get().starts_with('"')) {
            let piece = self.text_pieces.piece(text);
            self.text.push_str(&piece);
            if part.len() == 1 {
                match self.parts.last_mut() {
                    Some(Part::Text(text)) => text.push_str(&piece),
                    _ if piece.is_empty() => {}
                    Some(_) | None => self.parts.push(Part::Text(piece.into_owned())),
                }
                return;
            }
        }
        self.hosted.take_part(&part);
        self.parts.push(Part::Raw(raw.get().to_owned()));
    }

    fn take_call(&mut self, call: &Fields<'_>, part: &Fields<'_>) {
        let (name, id) = (scalar_text(call.get("name").copied()), scalar_text(call.get("id").copied()));
        let is_more = |building: &Building| {
            let same = |known: &str, said: &str| said.is_empty() || known == said;
            building.is_open && same(&building.draft.name, &name) && same(&building.draft.wire_id, &id)
        };
        let at = match self.calls.iter().rposition(is_more) {
            Some(at) => at,
            None if call.is_empty() && part.len() == 1 => return self.notes.add("orphan_fragment_dropped"),
            None => {
                let draft = Draft { name: name.into_owned(), wire_id: id.into_owned(), ..Draft::default() };
                self.calls.push(Building { draft, ..Building::default() });
                self.parts.push(Part::Call(self.calls.len() - 1));
                self.calls.len() - 1
            }
        };
        let Some(building) = self.calls.get_mut(at) else { return };
        if let Some(code) = building.take(call, part) {
            self.notes.add(code);
        }
    }

    fn into_turn(mut self, names: &Names) -> Result<Turn, WireFault> {
        if let Some((reason, message)) = self.blocked {
            return Err(blocked(&reason, &message));
        }
        let (word, message) = self.finish.unwrap_or_else(|| ("STOP".to_owned(), String::new()));
        let finish = match end(&word) {
            End::Fault { hint, is_retryable } => return Err(WireFault::ended(&word, &message, hint, is_retryable)),
            End::Turn(Finish::Stop) if !self.calls.is_empty() => Finish::ToolCalls,
            End::Turn(finish) => finish,
            End::Filtered => {
                self.notes.add(&word.to_ascii_lowercase());
                Finish::ContentFilter
            }
        };
        if self.text_pieces.has_lost() {
            self.notes.add("half_a_surrogate_pair");
        }
        let is_whole = !matches!(finish, Finish::Other(_));
        let drafts = self.calls.into_iter().map(|building| building.into_draft(is_whole)).collect();
        let calls = seal(drafts, names, &finish, &mut self.notes);
        if calls.is_empty() && looks_like_a_call(&self.text, names) {
            self.notes.add("text_tool_call_suspected");
        }
        Ok(Turn {
            text: self.text,
            kept: kept(self.response_id, self.parts, &calls),
            calls,
            hosted: self.hosted.into_calls(),
            finish,
            usage: self.usage,
            diagnostics: self.notes.into_codes(),
            ..Turn::default()
        })
    }
}

/// What a content of the model says: its text, its calls and its parts.
pub(super) fn said(parts: &[&RawValue]) -> (String, Vec<Draft>, Vec<Part>) {
    let mut assembler = Assembler::default();
    parts.iter().for_each(|part| assembler.take_part(part));
    let drafts = assembler.calls.into_iter().map(|building| building.into_draft(true)).collect();
    (assembler.text, drafts, assembler.parts)
}

/// The parts, where text alone does not say them.
pub(super) fn kept(response_id: Option<String>, parts: Vec<Part>, calls: &[ModelCall]) -> Option<Box<Kept>> {
    let is_plain = calls.is_empty() && parts.iter().all(|part| matches!(part, Part::Text(_)));
    (!is_plain).then(|| Box::new(Kept { dialect: Dialect::Gemini, response_id, parts }))
}

impl Assemble for Assembler {
    fn event(&mut self, json: &str) -> Result<(), WireFault> {
        self.push(json)
    }

    /// One response, or the list of them that a stream is without `alt=sse`.
    fn reply(&mut self, json: &str) -> Result<(), WireFault> {
        if json.trim_ascii_start().starts_with('[') {
            let chunks: Vec<&RawValue> = serde_json::from_str(json).map_err(|e| WireFault::malformed(e, json))?;
            chunks.into_iter().try_for_each(|chunk| self.push(chunk.get()))?;
        } else {
            self.push(json)?;
        }
        let is_reply = self.has_candidate || self.blocked.is_some();
        if is_reply { Ok(()) } else { Err(WireFault::malformed("it has no `candidates`", json)) }
    }

    fn text(&self) -> &str {
        &self.text
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some() || self.blocked.is_some()
    }

    fn finish(self: Box<Self>, names: &Names) -> Result<Turn, WireFault> {
        self.into_turn(names)
    }
}

impl Building {
    /// Takes a part of the call, most often the only one; says what was odd about it.
    fn take(&mut self, call: &Fields<'_>, part: &Fields<'_>) -> Option<&'static str> {
        self.is_open = call.get("willContinue").is_some_and(|raw| raw.get() == "true");
        self.keep(call, part);
        let args = call.get("args").copied().filter(|args| args.get() != "null");
        if let Some(args) = args {
            self.draft.arguments = arguments_text(Some(args));
        }
        if self.draft.arguments.len() > limits::ARGUMENTS_BYTES_MAX {
            self.draft.arguments.clear();
            self.draft.broken = Some("its arguments are larger than the limit");
            return Some("args_too_large");
        }
        let pieces = call.get("partialArgs").and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        for piece in pieces.into_iter().flatten() {
            if let Err(why) = self.pieces.get_or_insert_default().take(piece) {
                self.draft.broken = Some(why);
                return Some("piece_dropped");
            }
        }
        args.filter(|args| !args.get().starts_with('{')).map(|_| "args_not_object")
    }

    /// Keeps what the provider wants back with the call.
    fn keep(&mut self, call: &Fields<'_>, part: &Fields<'_>) {
        let ours = ["id", "name", "args", "partialArgs", "willContinue"];
        let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        let inside = call.iter().filter(|(name, _)| !ours.contains(&name.as_str()));
        let inside: Map<String, Value> = inside.filter_map(|(name, raw)| Some((name.clone(), value(raw)?))).collect();
        let beside = part.iter().filter(|(name, _)| *name != CALL);
        let mut kept: Map<String, Value> = beside.filter_map(|(name, raw)| Some((name.clone(), value(raw)?))).collect();
        if !inside.is_empty() {
            kept.insert(CALL.to_owned(), Value::Object(inside));
        }
        match (&mut self.draft.provider_meta, kept.is_empty()) {
            (_, true) => {}
            (Some(Value::Object(known)), false) => known.append(&mut kept),
            (meta, false) => *meta = Some(Value::Object(kept)),
        }
    }

    fn into_draft(self, is_whole: bool) -> Draft {
        let Self { mut draft, pieces, is_open } = self;
        if let Some(pieces) = pieces {
            match pieces.into_text() {
                Ok(text) => draft.arguments = text,
                Err(why) => draft.broken = draft.broken.or(Some(why)),
            }
        } else if draft.arguments.is_empty() {
            // A call without arguments has no `args` on this wire.
            draft.arguments = "{}".to_owned();
        }
        let early = (is_open || !is_whole).then_some("the server stopped before it was complete");
        draft.broken = draft.broken.or(early);
        draft
    }
}

fn usage(raw: &RawValue) -> Option<Usage> {
    let fields = fields_of(raw)?;
    let count = |name: &str| integer(fields.get(name).copied()).and_then(|count| u64::try_from(count).ok());
    let sum = |names: [&str; 2]| names.into_iter().filter_map(count).fold(0, u64::saturating_add);
    Some(Usage {
        input_tokens: sum(["promptTokenCount", "toolUsePromptTokenCount"]),
        output_tokens: sum(["candidatesTokenCount", "thoughtsTokenCount"]),
        cached_input_tokens: count("cachedContentTokenCount").unwrap_or(0),
        reasoning_tokens: count("thoughtsTokenCount").unwrap_or(0),
    })
}
