//! What is sent of a conversation that is too long for its model. First old results are shortened to a line that says what
//! was there and how to get it back; then old turns go, each with all its results, those that only read before those that
//! changed something. The instructions, the first and the last prompt, errors and the newest turn stay. The conversation
//! itself is never shortened, and a session keeps all of it.
//!
//! The same conversation and limit give the same every time. More is taken out than has to be, in steps of a quarter of
//! the limit: so the beginning of what is sent stays the same for some rounds, and a provider's cache of it holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use tollgate_wire::{Content, History, Message, ModelCall, Piece, Turn};

use crate::tokens::TokenSource;

/// Calls that changed something, of which is said that they did.
const EFFECTS_MAX: usize = 20;
/// What is said of one of them.
const EFFECT_CHARS_MAX: usize = 120;

/// A handle of a whole result, as results of which a part is shown name it.
static HANDLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("res_[0-9a-f]{32}").ok());

/// What may be taken out of what is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compaction {
    /// Nothing.
    Off,
    /// Old results are shortened.
    Results,
    /// Old results are shortened, then old turns go.
    #[default]
    Turns,
}

/// How much a model can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Tokens from which on the conversation is compacted: fewer than the model can read, because it writes as well.
    pub tokens_max: u64,
    /// What may be taken out.
    pub compaction: Compaction,
}

/// What was taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// How many results were shortened.
    pub results: u32,
    /// How many turns were left out.
    pub turns: u32,
    /// What the whole conversation would have.
    pub tokens_before: u64,
    /// What is sent.
    pub tokens: u64,
    /// What may be sent.
    pub tokens_max: u64,
    /// From where that is known.
    pub source: TokenSource,
    /// Why more is sent than may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How messages are measured, and calls judged.
pub(super) struct Rule<'a> {
    /// The tokens of what is sent beside the messages: the tools.
    pub(super) fixed: u64,
    pub(super) context: Context,
    pub(super) measure: &'a dyn Fn(&Message) -> u64,
    pub(super) source: TokenSource,
    /// Whether calls of a tool change nothing.
    pub(super) reads: &'a dyn Fn(&str) -> bool,
}

impl Rule<'_> {
    fn measured(&self, messages: &[Message]) -> u64 {
        messages.iter().map(self.measure).sum()
    }

    /// What is sent with these messages.
    fn tokens(&self, messages: &[Message]) -> u64 {
        self.fixed + self.measured(messages)
    }
}

/// What is sent, and what it took. Nothing is said where everything fits.
pub(super) struct Fitted<'a> {
    pub(super) messages: Cow<'a, [Message]>,
    pub(super) compacted: Option<Compacted>,
}

impl<'a> Fitted<'a> {
    /// All of it.
    pub(super) fn whole(history: &'a History) -> Self {
        Self { messages: Cow::Borrowed(history.messages()), compacted: None }
    }
}

/// Makes a sound conversation fit.
pub(super) fn fit<'a>(history: &'a History, rule: &Rule<'_>) -> Fitted<'a> {
    let whole = history.messages();
    let before = rule.tokens(whole);
    let max = rule.context.tokens_max;
    if before <= max || rule.context.compaction == Compaction::Off {
        return Fitted::whole(history);
    }
    let step = (max / 4).max(1);
    let goal = before.saturating_sub(((before - max) / step + 1) * step);
    let mut draft = Draft { rule, messages: whole.to_vec(), tokens: before, goal };
    let results = draft.shorten_results();
    let turns = if rule.context.compaction == Compaction::Turns { draft.leave_out_turns() } else { 0 };
    let tokens = draft.tokens;
    let compacted = Compacted {
        results,
        turns,
        tokens_before: before,
        tokens,
        tokens_max: max,
        source: rule.source,
        why: (tokens > max).then(|| why(rule)),
    };
    Fitted { messages: Cow::Owned(draft.messages), compacted: Some(compacted) }
}

fn why(rule: &Rule<'_>) -> String {
    let rest = match rule.context.compaction {
        Compaction::Off | Compaction::Results => "only results are shortened, and old turns stay",
        Compaction::Turns => {
            "the instructions, the first and the last prompt, errors, the newest turn and a word about what went stay"
        }
    };
    format!("{rest}; the tools take {} tokens", rule.fixed)
}

struct Draft<'a> {
    rule: &'a Rule<'a>,
    messages: Vec<Message>,
    tokens: u64,
    goal: u64,
}

impl Draft<'_> {
    fn is_enough(&self) -> bool {
        self.tokens <= self.goal
    }

    /// Where the newest turn begins: the model has not seen its results yet.
    fn newest_turn(&self) -> usize {
        let is_turn = |message: &Message| matches!(message, Message::Assistant { .. });
        self.messages.iter().rposition(is_turn).unwrap_or(self.messages.len())
    }

    fn shorten_results(&mut self) -> u32 {
        let tools = tools(&self.messages);
        let newest = self.newest_turn();
        let mut count = 0;
        for (at, tool) in tools.into_iter().filter(|(at, _)| *at < newest) {
            if self.is_enough() {
                break;
            }
            let Some(message) = self.messages.get_mut(at) else { continue };
            let mut short = message.clone();
            let Message::Tool { content, is_error: false, .. } = &mut short else { continue };
            *content = shortened(content, &tool).into();
            let (long, now) = ((self.rule.measure)(message), (self.rule.measure)(&short));
            if now < long {
                *message = short;
                self.tokens -= long - now;
                count += 1;
            }
        }
        count
    }

    /// Leaves turns out until it is enough, with what is said of them.
    fn leave_out_turns(&mut self) -> u32 {
        let history = History::from(std::mem::take(&mut self.messages));
        let units: Vec<&[Message]> = history.units().collect();
        let (mut goal, mut gone) = (self.goal, None);
        loop {
            let fates = self.fates(&units, self.tokens, goal);
            let messages = sent(&units, &fates, self.rule.reads);
            let (tokens, max) = (self.rule.tokens(&messages), self.rule.context.tokens_max);
            let now = fates.is_kept.iter().filter(|kept| !**kept).count();
            if tokens <= max || gone == Some(now) {
                (self.messages, self.tokens) = (messages, tokens);
                return u32::try_from(fates.turns).unwrap_or(u32::MAX);
            }
            // What is said takes room too.
            (goal, gone) = (fates.tokens.saturating_sub(tokens - max), Some(now));
        }
    }

    /// Which units stay.
    fn fates(&self, units: &[&[Message]], tokens: u64, goal: u64) -> Fates {
        let is_turn = |unit: &[Message]| matches!(unit, [Message::Assistant { .. }, ..]);
        let newest = units.iter().rposition(|unit| is_turn(unit)).unwrap_or_default();
        let mut fates = Fates { is_kept: vec![true; units.len()], tokens, turns: 0 };
        for only_readers in [true, false] {
            for (at, unit) in units.iter().enumerate().take(newest).filter(|(_, unit)| is_turn(unit)) {
                let reads = calls(unit).iter().all(|call| (self.rule.reads)(&call.name));
                if fates.tokens > goal && reads == only_readers && !unit.iter().any(is_error) {
                    fates.leave_out(at, self.rule.measured(unit));
                    fates.turns += 1;
                }
            }
        }
        for at in lone_prompts(units, &fates.is_kept) {
            if let Some(unit) = units.get(at).filter(|_| fates.tokens > goal) {
                fates.leave_out(at, self.rule.measured(unit));
            }
        }
        fates
    }
}

/// Which units stay, and what those that do have.
struct Fates {
    is_kept: Vec<bool>,
    tokens: u64,
    turns: usize,
}

impl Fates {
    fn leave_out(&mut self, at: usize, tokens: u64) {
        if let Some(kept) = self.is_kept.get_mut(at) {
            *kept = false;
            self.tokens -= tokens;
        }
    }
}

/// What is left of the units, and what is said of the others.
fn sent(units: &[&[Message]], fates: &Fates, reads: &dyn Fn(&str) -> bool) -> Vec<Message> {
    let (mut kept, mut gone) = (Vec::new(), Vec::new());
    for (unit, is_kept) in units.iter().zip(&fates.is_kept) {
        if *is_kept { kept.extend_from_slice(unit) } else { gone.push(*unit) }
    }
    if gone.is_empty() {
        return kept;
    }
    say(&mut kept, left_out(&gone, fates.turns, reads));
    part_prompts(kept)
}

/// Says it behind the first prompt, or in front where there is none.
fn say(messages: &mut Vec<Message>, note: String) {
    let first = messages.iter_mut().find_map(|message| match message {
        Message::User(content) => Some(content),
        Message::System(_) | Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    if let Some(content) = first {
        let mut pieces = content.pieces().to_vec();
        pieces.push(Piece::Text(format!("\n\n{note}")));
        *content = pieces.into();
    } else {
        let behind = messages.iter().take_while(|one| matches!(one, Message::System(_))).count();
        messages.insert(behind, Message::user(note));
    }
}

/// Templates of many models take no two prompts side by side.
fn part_prompts(messages: Vec<Message>) -> Vec<Message> {
    let mut parted: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        if matches!((parted.last(), &message), (Some(Message::User(_)), Message::User(_))) {
            parted.push(Message::assistant(&Turn { text: "[left out]".to_owned(), ..Turn::default() }));
        }
        parted.push(message);
    }
    parted
}

/// Prompts all of whose turns are gone, but for the first and the last.
fn lone_prompts(units: &[&[Message]], is_kept: &[bool]) -> Vec<usize> {
    let prompts: Vec<usize> =
        units.iter().enumerate().filter(|(_, unit)| matches!(unit, [Message::User(_)])).map(|(at, _)| at).collect();
    let is_alone = |from: usize, to: usize| is_kept.get(from + 1..to).is_some_and(|turns| !turns.contains(&true));
    let pairs = prompts.iter().zip(prompts.iter().skip(1)).skip(1);
    pairs.filter(|(from, to)| is_alone(**from, **to)).map(|(from, _)| *from).collect()
}

fn calls(unit: &[Message]) -> &[ModelCall] {
    match unit {
        [Message::Assistant { calls, .. }, ..] => calls,
        _ => &[],
    }
}

/// The results with their tools, by place.
fn tools(messages: &[Message]) -> Vec<(usize, String)> {
    let mut asked: Vec<&ModelCall> = Vec::new();
    let mut tools = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant { calls, .. } => asked = calls.iter().collect(),
            Message::Tool { call_id, .. } => {
                let call = asked.iter().find(|call| call.id == *call_id);
                tools.push((at, call.map_or_else(String::new, |call| call.name.clone())));
            }
            Message::System(_) | Message::User(_) => {}
        }
    }
    tools
}

/// Whether the result says why there is none.
fn is_error(message: &Message) -> bool {
    matches!(message, Message::Tool { is_error: true, .. })
}

/// The line in the place of a result.
fn shortened(content: &Content, tool: &str) -> String {
    let text = content.text();
    let handle = HANDLE.as_ref().and_then(|pattern| pattern.find_iter(&text).last()).map(|found| found.as_str());
    let back = match handle {
        Some(handle) => format!("the whole: read_result with handle \"{handle}\""),
        None => "call again if you need it and that changes nothing".to_owned(),
    };
    let images = match content.pieces().iter().filter(|piece| piece.as_text().is_none()).count() {
        0 => String::new(),
        count => format!(" and {count} images"),
    };
    let chars = text.chars().count();
    format!("[the result of {tool}, {chars} characters{images}, was left out to save room; {back}]")
}

/// What is said of the turns that are gone.
fn left_out(gone: &[&[Message]], turns: usize, reads: &dyn Fn(&str) -> bool) -> String {
    let mut tools: BTreeMap<&str, u32> = BTreeMap::new();
    let mut effects = Vec::new();
    for unit in gone {
        for call in calls(unit) {
            *tools.entry(&call.name).or_default() += 1;
            if !reads(&call.name) {
                let line = format!("{} {}", call.name, call.arguments);
                let mut cut: String = line.chars().take(EFFECT_CHARS_MAX).collect();
                if cut.len() < line.len() {
                    cut.push('…');
                }
                effects.push(cut);
            }
        }
    }
    let mut note = format!("[{turns} earlier turns were left out here to save room");
    if !tools.is_empty() {
        let counts: Vec<String> = tools.iter().map(|(tool, count)| format!("{tool} ×{count}")).collect();
        note.push_str(&format!(", with calls of {}", counts.join(", ")));
    }
    let more = effects.len().saturating_sub(EFFECTS_MAX);
    effects.truncate(EFFECTS_MAX);
    if !effects.is_empty() {
        note.push_str(&format!(". These were done already: {}", effects.join("; ")));
    }
    if more > 0 {
        note.push_str(&format!("; and {more} more"));
    }
    note.push(']');
    note
}

#[cfg(test)]
mod tests;
