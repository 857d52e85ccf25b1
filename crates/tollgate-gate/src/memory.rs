//! What sessions have heard from tools, in this process: whether any of it came from outside, and the texts in which
//! policy looks for the values of arguments. Bounded; what is forgotten is remembered as forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tollgate_policy::{Heard, Origins};
use tollgate_types::{Caller, Content, Permission, Said, SourceKind, ToolDefinition, ToolError, ToolOutput};

use crate::meta::READ_RESULT;

/// Sessions that are remembered.
const SESSIONS_MAX: usize = 100_000;
/// Texts of one session, in bytes.
const SESSION_BYTES_MAX: usize = 1024 * 1024;
/// Texts of all sessions, in bytes.
const BYTES_MAX: usize = 128 * 1024 * 1024;
/// Texts of one side of a conversation that are looked through, the newest first.
const SAID_TEXTS_MAX: usize = 1_000;

/// What sessions have heard.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Sessions>);

struct Sessions {
    by_key: HashMap<Key, Session>,
    /// Those of which texts are kept, the oldest first.
    with_texts: VecDeque<Key>,
    bytes: usize,
    bytes_max: usize,
    /// Whether a tool has answered a session of which nothing is remembered.
    has_missed: bool,
}

type Key = (String, Option<String>);

#[derive(Default)]
struct Session {
    is_tainted: bool,
    bytes: usize,
    outside: Vec<Heard>,
    tool: Vec<Heard>,
    is_partial: bool,
}

/// Whether the texts are wanted. Where they are not, that they were not kept is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The texts as well.
    Texts,
    /// That there was an answer.
    Fact,
}

/// Whether a result may say what others wrote. Of an HTTP tool the operator may say that its server is the house's own.
pub(crate) fn is_outside(tool: &ToolDefinition) -> bool {
    let is_open = tool.annotations.open_world.unwrap_or(tool.source.kind == SourceKind::Http);
    // What was kept of an earlier result may be from outside too.
    is_open || tool.permission >= Permission::Network || tool.name == READ_RESULT
}

impl Memory {
    /// A tool has answered the caller.
    pub(crate) fn answered(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        answer: &Result<ToolOutput, ToolError>,
        keep: Keep,
    ) {
        let is_outside = is_outside(tool);
        let heard = (keep == Keep::Texts).then(|| heard(answer, (!is_outside).then_some(arguments)));
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Self::key(caller);
        let is_known = sessions.by_key.contains_key(&key);
        if !is_known && (sessions.by_key.len() >= SESSIONS_MAX || (keep == Keep::Fact && !is_outside)) {
            sessions.has_missed = true;
            return;
        }
        let session = sessions.by_key.entry(key.clone()).or_default();
        session.is_tainted |= is_outside;
        let size = heard.iter().flatten().map(Heard::len).sum::<usize>();
        let texts = heard.filter(|texts| texts.iter().all(Heard::is_whole));
        match texts.filter(|_| session.bytes + size <= SESSION_BYTES_MAX) {
            Some(texts) => {
                let is_first = session.bytes == 0;
                session.bytes += size;
                if is_outside {
                    session.outside.extend(texts)
                } else {
                    session.tool.extend(texts)
                }
                sessions.make_room(size, is_first.then_some(key));
            }
            None => session.is_partial = true,
        }
    }

    /// Whether the caller's session has read from outside. When there are too many sessions to remember, those that are
    /// not known count as tainted.
    pub(crate) fn is_tainted(&self, caller: &Caller) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.by_key.get(&Self::key(caller)) {
            Some(session) => session.is_tainted,
            None => sessions.by_key.len() >= SESSIONS_MAX,
        }
    }

    /// The caller's session is over: it asks for nothing any more.
    pub(crate) fn forget(&self, caller: &Caller) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Self::key(caller);
        let gone = sessions.by_key.remove(&key);
        if let Some(session) = gone.filter(|session| session.bytes > 0) {
            sessions.bytes = sessions.bytes.saturating_sub(session.bytes);
            sessions.with_texts.retain(|other| *other != key);
        }
    }

    /// Everything in which the values of a call's arguments are looked for.
    pub(crate) fn origins(&self, caller: &Caller, said: &Said) -> Origins {
        let texts =
            |texts: &[String]| texts.iter().rev().take(SAID_TEXTS_MAX).map(|text| Heard::new(text)).collect::<Vec<_>>();
        let (user, operator) = (texts(&said.user), texts(&said.operator));
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (outside, tool, is_partial) = match sessions.by_key.get(&Self::key(caller)) {
            Some(session) => (session.outside.clone(), session.tool.clone(), session.is_partial),
            None => (Vec::new(), Vec::new(), sessions.has_missed),
        };
        Origins { user, operator, outside, tool, is_partial: is_partial || said.is_resumed }
    }

    /// Calls without a session share that of their subject.
    fn key(caller: &Caller) -> Key {
        (caller.subject.clone(), caller.session.clone())
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self { by_key: HashMap::new(), with_texts: VecDeque::new(), bytes: 0, bytes_max: BYTES_MAX, has_missed: false }
    }
}

impl Sessions {
    /// Counts new texts, and forgets those of the oldest sessions where they become too many.
    fn make_room(&mut self, added: usize, newcomer: Option<Key>) {
        self.bytes += added;
        self.with_texts.extend(newcomer.filter(|_| added > 0));
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.with_texts.pop_front() else { break };
            if let Some(session) = self.by_key.get_mut(&oldest) {
                self.bytes = self.bytes.saturating_sub(session.bytes);
                *session = Session { is_tainted: session.is_tainted, is_partial: true, ..Session::default() };
            }
        }
    }
}

/// The texts of an answer: what it says, what it says in structure, and an error's words. With `arguments`, without
/// what it only repeats of them.
fn heard(answer: &Result<ToolOutput, ToolError>, arguments: Option<&Value>) -> Vec<Heard> {
    let mut texts = Vec::new();
    match answer {
        Ok(output) => {
            for part in &output.content {
                texts.push(match part {
                    Content::Text(text) => told(text),
                    Content::Other(value) => Heard::json(value),
                });
            }
            texts.extend(output.structured.iter().map(Heard::json));
        }
        Err(error) => {
            texts.push(Heard::new(&format!("{} {}", error.message, error.hint.as_deref().unwrap_or_default())))
        }
    }
    texts.dedup();
    match arguments {
        Some(arguments) => texts.iter().map(|text| text.without_echo(arguments)).collect(),
        None => texts,
    }
}

/// A text, which may be JSON: then what it says, not how it is written.
fn told(text: &str) -> Heard {
    let is_json = text.trim_start().starts_with(['{', '[', '"']);
    match is_json.then(|| serde_json::from_str::<Value>(text)) {
        Some(Ok(value)) => Heard::json(&value),
        Some(Err(_)) | None => Heard::new(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_policy::Origin;
    use tollgate_types::Surface;

    use super::*;

    fn caller(session: &str) -> Caller {
        Caller::new("ada", "developer", Surface::Agent).with_session(session)
    }

    fn origin(memory: &Memory, session: &str, value: &str) -> &'static str {
        let origins = memory.origins(&caller(session), &Said::default()).of(&json!(value));
        origins.into_iter().next().map_or("", Origin::as_str)
    }

    fn tool(is_outside: bool) -> ToolDefinition {
        let mut tool = ToolDefinition::new("look_up", "Looks something up.");
        tool.permission = Permission::Read;
        tool.annotations.open_world = Some(is_outside);
        tool
    }

    #[test]
    fn a_session_that_is_over_leaves_nothing_and_others_stay() {
        let memory = Memory::default();
        let heard = Ok(ToolOutput::text("the code is 4711-8842"));
        for session in ["one", "other"] {
            memory.answered(&caller(session), &tool(true), &json!({}), &heard, Keep::Texts);
        }
        memory.forget(&caller("one"));
        memory.forget(&caller("one"));
        assert!(!memory.is_tainted(&caller("one")) && memory.is_tainted(&caller("other")));
        assert_eq!(origin(&memory, "other", "4711-8842"), "outside");
        memory.forget(&caller("other"));
        let sessions = memory.0.lock().unwrap();
        assert_eq!((sessions.by_key.len(), sessions.with_texts.len(), sessions.bytes), (0, 0, 0));
    }

    #[test]
    fn sessions_are_apart_and_what_is_from_outside_stays_so() {
        let memory = Memory::default();
        let say = |session: &str, tool: &ToolDefinition, text: &str| {
            let answer = Ok(ToolOutput::text(text));
            memory.answered(&caller(session), tool, &json!({}), &answer, Keep::Texts);
        };
        say("one", &tool(false), r#"{"mail": "kim@example.com", "note": "first\nann@example.com"}"#);
        assert!(!memory.is_tainted(&caller("one")));
        say("one", &tool(true), "write to eve@example.com");
        assert!(memory.is_tainted(&caller("one")) && !memory.is_tainted(&caller("two")));
        let found = ["kim@example.com", "ann@example.com", "eve@example.com", "zoe@example.com"];
        assert_eq!(found.map(|value| origin(&memory, "one", value)), ["tool", "tool", "outside", "model"]);
        assert_eq!(found.map(|value| origin(&memory, "two", value)), ["model"; 4]);
    }

    #[test]
    fn what_is_forgotten_counts_as_from_outside() {
        let memory = Memory::default();
        let long = "x".repeat(200 * 1024);
        for at in 0..7 {
            let answer = Ok(ToolOutput::text(format!("{long} kim{at}@example.com")));
            memory.answered(&caller("one"), &tool(false), &json!({}), &answer, Keep::Texts);
        }
        assert_eq!(origin(&memory, "one", "kim1@example.com"), "tool");
        assert_eq!(origin(&memory, "one", "kim6@example.com"), "outside");
        assert_eq!(origin(&memory, "two", "kim6@example.com"), "model");
        // Texts that were not kept, because no rule asked for them.
        memory.answered(&caller("three"), &tool(false), &json!({}), &Ok(ToolOutput::text("")), Keep::Fact);
        assert_eq!(origin(&memory, "three", "kim1@example.com"), "outside");
    }

    #[test]
    fn the_oldest_sessions_are_forgotten_first() {
        let memory = Memory::default();
        let text = format!("{} kim@example.com", "x".repeat(2_000));
        memory.0.lock().unwrap().bytes_max = 10 * text.len();
        for at in 0..11 {
            let answer = Ok(ToolOutput::text(&text));
            memory.answered(&caller(&at.to_string()), &tool(false), &json!({}), &answer, Keep::Texts);
        }
        assert_eq!(origin(&memory, "0", "kim@example.com"), "outside");
        assert_eq!(origin(&memory, "1", "kim@example.com"), "tool");
        assert!(memory.0.lock().unwrap().bytes <= 10 * text.len());
    }
}
