//! Soundness: every call has exactly one result, right behind the message that asks for it and in call order, under an id
//! of its own. It is made on load, after a cancelled run and before trimming. A call is never taken out to get there: it
//! may have changed something, and the conversation is what the model knows of that.

use std::collections::{HashMap, HashSet};
use std::mem;

use serde_json::Value;
use tollgate_types::{Code, ErrorObject};

use super::{History, Message};

/// A call, by message and place.
type Place = (usize, usize);

impl History {
    /// Makes the conversation sound, in both directions: a call without a result gets one that says so, a result without
    /// a call goes, of two results the first that knows something stays, results move behind their calls, and ids that
    /// are empty or shared are replaced.
    ///
    /// Returns what was done, as short codes: `missing_result_filled`, `orphan_result_dropped`,
    /// `duplicate_result_dropped`, `id_replaced`.
    pub fn repair(&mut self) -> Vec<&'static str> {
        let message = "the run was interrupted before the result of this call was kept";
        let hint = "check whether it happened before you call again";
        self.settle(&ErrorObject::new(Code::OutcomeUnknown, message).with_hint(hint))
    }

    /// [`History::repair`] with another result for calls that have none.
    pub fn settle(&mut self, missing: &ErrorObject) -> Vec<&'static str> {
        let mut pairs = Pairs::default();
        let messages = mem::take(&mut self.messages);
        let spoken: Vec<Message> = messages.into_iter().filter_map(|message| pairs.take(message)).collect();
        let Pairs { mut answers, early, mut notes, .. } = pairs;
        note_if(&mut notes, !early.is_empty(), "orphan_result_dropped");
        let mut ids = Ids::default();
        for (at, mut message) in spoken.into_iter().enumerate() {
            let mut results = Vec::new();
            if let Message::Assistant { calls, .. } = &mut message {
                for (position, call) in calls.iter_mut().enumerate() {
                    let id = ids.fresh(&call.id);
                    note_if(&mut notes, id != call.id, "id_replaced");
                    let answer = answers.remove(&(at, position));
                    note_if(&mut notes, answer.is_none(), "missing_result_filled");
                    let mut answer = answer
                        .unwrap_or_else(|| Message::tool("", serde_json::to_string(missing).unwrap_or_default(), true));
                    if let Message::Tool { call_id, .. } = &mut answer {
                        call_id.clone_from(&id);
                    }
                    call.id = id;
                    results.push(answer);
                }
            }
            self.messages.push(message);
            self.messages.append(&mut results);
        }
        notes
    }

    /// The parts that can only stay or go as a whole, oldest first: a message that calls together with its results, every
    /// other message alone.
    pub fn units(&self) -> impl Iterator<Item = &[Message]> {
        let mut rest = self.messages.as_slice();
        std::iter::from_fn(move || {
            let (unit, tail) = rest.split_at_checked(unit_length(rest))?;
            rest = tail;
            (!unit.is_empty()).then_some(unit)
        })
    }

    /// Takes out the units that need not be kept, after a repair; see [`History::units`]. What the model is told to be
    /// always stays. Returns how many messages went.
    ///
    /// What a unit did stays done: whoever trims keeps those that changed something, or says elsewhere what they did.
    pub fn trim(&mut self, mut keep: impl FnMut(&[Message]) -> bool) -> usize {
        self.repair();
        let fates: Vec<(usize, bool)> =
            self.units().map(|unit| (unit.len(), matches!(unit, [Message::System(_)]) || keep(unit))).collect();
        let mut messages = mem::take(&mut self.messages).into_iter();
        let mut gone = 0;
        for (length, is_kept) in fates {
            let unit = messages.by_ref().take(length);
            if is_kept {
                self.messages.extend(unit);
            } else {
                gone += unit.count();
            }
        }
        gone
    }
}

fn unit_length(messages: &[Message]) -> usize {
    let is_result = |message: &&Message| matches!(message, Message::Tool { .. });
    match messages {
        [] => 0,
        [Message::Assistant { .. } | Message::Tool { .. }, rest @ ..] => 1 + rest.iter().take_while(is_result).count(),
        [Message::System(_) | Message::User(_), ..] => 1,
    }
}

/// Which result answers which call. Ids may repeat, so each result takes the first call without one in the latest message
/// that has its id.
#[derive(Default)]
struct Pairs {
    /// The messages that are no results, so far.
    spoken: usize,
    /// Calls without a result, by id.
    open: HashMap<String, Vec<Place>>,
    /// The last call of an id that got one.
    answered: HashMap<String, Place>,
    answers: HashMap<Place, Message>,
    /// Results of an id that nobody used before. They belong to the message right behind them, or to none.
    early: Vec<Message>,
    notes: Vec<&'static str>,
}

impl Pairs {
    /// Keeps a result; everything else is handed back.
    fn take(&mut self, message: Message) -> Option<Message> {
        match &message {
            Message::Tool { call_id, content, .. } => {
                let (id, knows) = (call_id.clone(), !says_unknown(&content.text()));
                self.take_result(id, knows, message);
                return None;
            }
            Message::Assistant { calls, .. } => {
                let mut early = mem::take(&mut self.early);
                for (position, call) in calls.iter().enumerate() {
                    let place = (self.spoken, position);
                    self.open.entry(call.id.clone()).or_default().push(place);
                    if let Some(found) = early.iter().position(|result| is_result_of(result, &call.id)) {
                        self.answers.insert(place, early.remove(found));
                    }
                }
                note_if(&mut self.notes, !early.is_empty(), "orphan_result_dropped");
            }
            Message::System(_) | Message::User(_) => {
                let early = mem::take(&mut self.early);
                note_if(&mut self.notes, !early.is_empty(), "orphan_result_dropped");
            }
        }
        self.spoken += 1;
        Some(message)
    }

    fn take_result(&mut self, id: String, knows: bool, result: Message) {
        let Some(places) = self.open.get_mut(&id) else {
            if id.is_empty() {
                note_if(&mut self.notes, true, "orphan_result_dropped");
            } else {
                self.early.push(result);
            }
            return;
        };
        if let Some(latest) = places.last().map(|place| place.0) {
            let first = places.iter().position(|place| place.0 == latest).unwrap_or_default();
            let place = places.remove(first);
            self.answered.insert(id, place);
            if knows || !self.answers.contains_key(&place) {
                self.answers.insert(place, result);
            }
            return;
        }
        note_if(&mut self.notes, true, "duplicate_result_dropped");
        // What filled a gap gives way to what really came.
        let first = self.answered.get(&id).and_then(|place| self.answers.get_mut(place));
        if let Some(first) = first
            .filter(|first| knows && matches!(first, Message::Tool { content, .. } if says_unknown(&content.text())))
        {
            *first = result;
        }
    }
}

fn is_result_of(message: &Message, id: &str) -> bool {
    matches!(message, Message::Tool { call_id, .. } if call_id == id)
}

/// Whether a result only says that nobody knows it.
fn says_unknown(text: &str) -> bool {
    text.contains(Code::OutcomeUnknown.as_str())
        && serde_json::from_str::<Value>(text)
            .is_ok_and(|value| value.get("error").and_then(Value::as_str) == Some(Code::OutcomeUnknown.as_str()))
}

fn note_if(notes: &mut Vec<&'static str>, is_so: bool, code: &'static str) {
    if is_so && !notes.contains(&code) {
        notes.push(code);
    }
}

/// Ids that are taken.
#[derive(Default)]
pub(super) struct Ids {
    taken: HashSet<String>,
    /// The number that the next made id of a base may have, so that many equal ids cost no more than others.
    next: HashMap<String, u32>,
}

impl Ids {
    pub(super) fn of<'a>(taken: impl Iterator<Item = &'a str>) -> Self {
        Self { taken: taken.map(str::to_owned).collect(), next: HashMap::new() }
    }

    /// An id that nobody has, as near to the given one as can be; it is taken afterwards.
    pub(super) fn fresh(&mut self, id: &str) -> String {
        if !id.is_empty() && self.taken.insert(id.to_owned()) {
            return id.to_owned();
        }
        let base = if id.is_empty() { "call" } else { id };
        let next = self.next.entry(base.to_owned()).or_insert(1);
        loop {
            let candidate = format!("{base}_{next}");
            *next += 1;
            if self.taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}
