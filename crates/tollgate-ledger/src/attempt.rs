//! What the records of one attempt say together: who asked for what, and what became of it. It judges nothing.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Event, Record};

/// The status of an attempt that has not ended.
pub const OPEN: &str = "open";

/// No event has it.
const ERASED_BIT: u16 = 1 << 15;

/// One attempt, as its records tell it. What no record says is empty or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The time of its first record.
    pub time: Timestamp,
    /// Its id; empty for a record about the ledger itself.
    pub attempt: String,
    /// The asker's id for the call.
    pub call_id: String,
    /// The attempt on whose behalf it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What was asked of.
    pub tool: String,
    /// What the tool does to the world, once it was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub risk: String,
    /// What the tool needs, once it was found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub permission: String,
    /// Who asked.
    #[serde(skip_serializing_if = "Asker::is_nobody")]
    pub caller: Asker,
    /// How it ended: `done`, `refused`, `failed`, `waiting`, `unknown`, or [`OPEN`]. A human's word on an unknown one
    /// counts. Empty for a record about the ledger itself.
    pub status: String,
    /// Why it did not end as `done`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// The tool's own code.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool_code: String,
    /// What policy said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Ruling>,
    /// The question to a human that it put, or runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// From asking to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// From the question to a human to the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_ms: Option<u64>,
    /// How often it was tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Whether content of it was erased.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
    /// What happened, each kind once.
    pub events: Events,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    #[serde(skip)]
    asked: Option<Timestamp>,
    #[serde(skip)]
    has_pin: bool,
}

/// Who asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Asker {
    /// The authenticated name.
    pub subject: String,
    /// The role.
    pub role: String,
    /// The tenant, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The way in.
    pub surface: String,
    /// The conversation, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
}

impl Asker {
    fn is_nobody(&self) -> bool {
        *self == Self::default()
    }
}

/// What policy said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ruling {
    /// `allow`, `ask` or `deny`.
    pub effect: String,
    /// The rule that decided.
    pub rule: String,
    /// Why, for people.
    pub reason: String,
}

/// A set of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events(pub(crate) u16);

impl Events {
    /// As the index keeps it, with a bit of its own for what is erased.
    pub(crate) fn bits(self, erased: bool) -> u16 {
        self.0 | if erased { ERASED_BIT } else { 0 }
    }

    pub(crate) fn is_of_erased(self) -> bool {
        self.0 & ERASED_BIT != 0
    }

    /// Whether it happened.
    pub fn has(self, event: Event) -> bool {
        self.0 & Self::bit(event) != 0
    }

    /// Whether one of these happened.
    pub fn has_any(self, events: Self) -> bool {
        self.0 & events.0 != 0
    }

    /// With this one.
    #[must_use]
    pub fn and(self, event: Event) -> Self {
        Self(self.0 | Self::bit(event))
    }

    fn bit(event: Event) -> u16 {
        1 << (event as u16)
    }
}

impl Serialize for Events {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(Event::ALL.iter().filter(|event| self.has(**event)))
    }
}

impl Attempt {
    /// What these records of one attempt, in their order, say together; none when there are none.
    pub fn of(records: &[Record]) -> Option<Self> {
        let mut briefs = records.iter().filter_map(|record| Brief::deserialize(record.as_value()).ok());
        let mut attempt = Self::begin(&briefs.next()?);
        briefs.for_each(|brief| attempt.learn(&brief));
        Some(attempt)
    }

    pub(crate) fn begin(brief: &Brief<'_>) -> Self {
        let id = brief.attempt();
        let mut attempt = Self {
            time: brief.time,
            attempt: id.to_owned(),
            call_id: String::new(),
            parent: None,
            tool: String::new(),
            risk: String::new(),
            permission: String::new(),
            caller: Asker::default(),
            status: if id.is_empty() { String::new() } else { OPEN.to_owned() },
            code: String::new(),
            tool_code: String::new(),
            decision: None,
            approval: None,
            duration_ms: None,
            answer_ms: None,
            retries: None,
            erased: false,
            events: Events::default(),
            ended: None,
            asked: None,
            has_pin: false,
        };
        attempt.learn(brief);
        attempt
    }

    /// What one more record adds.
    pub(crate) fn learn(&mut self, brief: &Brief<'_>) {
        let event = brief.event();
        if let Some(event) = event {
            self.events = self.events.and(event);
        }
        self.erased |= brief.erased.is_some();
        first(&mut self.call_id, brief.call_id.as_ref());
        self.parent = self.parent.take().or_else(|| owned(brief.parent.as_ref()));
        self.approval = self.approval.take().or_else(|| owned(brief.approval.as_ref()));
        if let Some(caller) = brief.caller.as_ref().filter(|_| self.caller.is_nobody()) {
            self.caller = caller.into();
        }
        // The tool's own name stands beside its pin; before it was found there is only the name as asked.
        if let Some(tool) = brief.tool.as_ref().filter(|tool| tool.pin.is_some() || !self.has_pin) {
            tool.name.0.as_ref().clone_into(&mut self.tool);
            self.has_pin |= tool.pin.is_some();
        }
        last(&mut self.risk, brief.risk.as_ref());
        last(&mut self.permission, brief.permission.as_ref());
        if let Some(decision) = &brief.decision {
            self.decision = Some(decision.into());
        }
        match event {
            Some(Event::Waiting) => {
                "waiting".clone_into(&mut self.status);
                self.asked = Some(brief.time);
                self.end(brief);
            }
            Some(Event::Finished | Event::Settled | Event::Observed) => self.end(brief),
            Some(Event::Approved | Event::Rejected | Event::Expired) => {
                let asked = self.asked.map(|asked| brief.time.as_millisecond() - asked.as_millisecond());
                self.answer_ms = asked.and_then(|waited| u64::try_from(waited).ok()).or(self.answer_ms);
            }
            Some(_) | None => {}
        }
    }

    fn end(&mut self, brief: &Brief<'_>) {
        self.ended = Some(brief.time);
        self.duration_ms = brief.duration_ms.or(self.duration_ms);
        self.retries = brief.retries.or(self.retries);
        if let Some(outcome) = &brief.outcome {
            let text = |text: &Option<Text<'_>>| owned(text.as_ref()).unwrap_or_default();
            outcome.status.0.as_ref().clone_into(&mut self.status);
            (self.code, self.tool_code) = (text(&outcome.code), text(&outcome.tool_code));
        }
    }
}

/// A text that is not copied where its JSON holds no escape.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The parts of a record by which it is found. Arguments and results are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Brief<'a> {
    pub(crate) seq: u64,
    pub(crate) time: Timestamp,
    #[serde(default)]
    erased: Option<IgnoredAny>,
    #[serde(borrow, default)]
    attempt: Option<Text<'a>>,
    #[serde(borrow, default)]
    call_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) parent: Option<Text<'a>>,
    #[serde(borrow, default)]
    event: Option<Text<'a>>,
    #[serde(borrow, default)]
    caller: Option<BriefCaller<'a>>,
    #[serde(borrow, default)]
    tool: Option<BriefTool<'a>>,
    #[serde(borrow, default)]
    risk: Option<Text<'a>>,
    #[serde(borrow, default)]
    permission: Option<Text<'a>>,
    #[serde(borrow, default)]
    decision: Option<BriefDecision<'a>>,
    #[serde(borrow, default)]
    pub(crate) approval: Option<Text<'a>>,
    #[serde(borrow, default)]
    outcome: Option<BriefOutcome<'a>>,
    #[serde(default)]
    duration_ms: Option<u64>,
    #[serde(default)]
    retries: Option<u64>,
}

impl Brief<'_> {
    /// The attempt that the record belongs to; empty for a record about the ledger itself.
    pub(crate) fn attempt(&self) -> &str {
        self.attempt.as_ref().map(|id| id.0.as_ref()).unwrap_or_default()
    }

    pub(crate) fn event(&self) -> Option<Event> {
        self.event.as_ref().and_then(|name| Event::named(&name.0))
    }
}

#[derive(Debug, Deserialize)]
struct BriefCaller<'a> {
    #[serde(borrow)]
    subject: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow, default)]
    tenant: Option<Text<'a>>,
    #[serde(borrow)]
    surface: Text<'a>,
    #[serde(borrow, default)]
    session: Option<Text<'a>>,
}

impl From<&BriefCaller<'_>> for Asker {
    fn from(caller: &BriefCaller<'_>) -> Self {
        Self {
            subject: caller.subject.0.as_ref().to_owned(),
            role: caller.role.0.as_ref().to_owned(),
            tenant: owned(caller.tenant.as_ref()).unwrap_or_default(),
            surface: caller.surface.0.as_ref().to_owned(),
            session: owned(caller.session.as_ref()).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct BriefTool<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    pin: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
struct BriefDecision<'a> {
    #[serde(borrow)]
    effect: Text<'a>,
    #[serde(borrow)]
    rule: Text<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
}

impl From<&BriefDecision<'_>> for Ruling {
    fn from(decision: &BriefDecision<'_>) -> Self {
        let [effect, rule, reason] =
            [&decision.effect, &decision.rule, &decision.reason].map(|text| text.0.as_ref().to_owned());
        Self { effect, rule, reason }
    }
}

#[derive(Debug, Deserialize)]
struct BriefOutcome<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow, default)]
    code: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_code: Option<Text<'a>>,
}

fn owned(text: Option<&Text<'_>>) -> Option<String> {
    text.map(|text| text.0.as_ref().to_owned())
}

fn first(known: &mut String, said: Option<&Text<'_>>) {
    if known.is_empty() {
        last(known, said);
    }
}

fn last(known: &mut String, said: Option<&Text<'_>>) {
    if let Some(said) = said {
        said.0.as_ref().clone_into(known);
    }
}
