//! What one record says, and how it becomes JSON before any lock is taken.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::limits::RECORD_TEXT_CHARS_MAX;
use tollgate_types::{
    ApprovalId, AttemptId, CallId, CallKind, Caller, Code, Digest, Permission, Pin, Repair, Risk, Status,
};

use crate::line::{self, LINE_BYTES_MAX};
use crate::{Erasure, LedgerError};

/// Repairs written out in one record; of more, only the number is said.
const REPAIRS_MAX: usize = 64;
/// What a line holds besides the fields of its entry.
const SEAL_BYTES_MAX: usize = 512;
/// What most records do not exceed.
const RECORD_BYTES_USUAL: usize = 1024;

/// What happened. The list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A call came in. The first record of each attempt.
    Received,
    /// Policy was asked.
    Decided,
    /// The attempt ends by waiting for a human.
    Waiting,
    /// A human said yes.
    Approved,
    /// A human said no.
    Rejected,
    /// Nobody answered in time.
    Expired,
    /// The tool is about to run.
    Started,
    /// The attempt ended.
    Finished,
    /// A provider-hosted call ran elsewhere.
    Observed,
    /// A human said how an unknown attempt ended.
    Settled,
    /// The ledger itself was put in order: what a dead process left, damage that was accepted, what was erased; or a full disk
    /// has space again.
    Recovered,
    /// The disk is full: no call begins.
    Halted,
}

impl Event {
    /// Every event, in the order of the documentation.
    pub const ALL: &[Self] = &[
        Self::Received,
        Self::Decided,
        Self::Waiting,
        Self::Approved,
        Self::Rejected,
        Self::Expired,
        Self::Started,
        Self::Finished,
        Self::Observed,
        Self::Settled,
        Self::Recovered,
        Self::Halted,
    ];

    /// The event of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|event| event.as_str() == name)
    }

    /// The name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Decided => "decided",
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Observed => "observed",
            Self::Settled => "settled",
            Self::Recovered => "recovered",
            Self::Halted => "halted",
        }
    }

    /// By how much it changes the number of attempts under way.
    fn opens(self) -> i64 {
        match self {
            Self::Received => 1,
            Self::Finished | Self::Waiting => -1,
            Self::Decided
            | Self::Approved
            | Self::Rejected
            | Self::Expired
            | Self::Started
            | Self::Observed
            | Self::Settled
            | Self::Recovered
            | Self::Halted => 0,
        }
    }
}

/// One record before it has its place in the chain. What is none or empty is left out. Everything in it must be
/// redacted already.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The trip through the gate.
    #[serde(skip_serializing_if = "is_unnamed")]
    pub attempt: AttemptId,
    /// The asker's id for the call.
    #[serde(skip_serializing_if = "is_uncalled", serialize_with = "short_call_id")]
    pub call_id: CallId,
    /// The attempt on whose behalf this one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AttemptId>,
    /// What happened.
    pub event: Event,
    /// What was erased, in the record that says so. It stands behind the event, where nothing else can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erasure: Option<Erasure>,
    /// Who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<Caller>>,
    /// What was asked of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// What kind of thing was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<CallKind>,
    /// What the tool does to the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// What the tool needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// The hash of the policy that decided, or would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What policy said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionRef>,
    /// The question to a human.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The idempotency key.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_option")]
    pub key: Option<String>,
    /// The arguments, only in `received`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Abridged>,
    /// What was mended in the arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "few_repairs")]
    pub repairs: Vec<Repair>,
    /// The keyed digest of the raw arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hmac: Option<Digest>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeRef>,
    /// The result, only in `finished`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Abridged>,
    /// From asking to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How often it was tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// How long it waited for its turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    /// The isolation it ran under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'static str>,
    /// A word for people.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_option")]
    pub note: Option<String>,
}

impl Entry {
    /// An entry of which only this much is known; the rest is set field by field.
    pub fn new(event: Event, attempt: &AttemptId, call_id: &CallId) -> Self {
        Self {
            attempt: attempt.clone(),
            call_id: call_id.clone(),
            parent: None,
            event,
            erasure: None,
            caller: None,
            tool: None,
            kind: None,
            risk: None,
            permission: None,
            policy: None,
            decision: None,
            approval: None,
            key: None,
            arguments: None,
            repairs: Vec::new(),
            args_hmac: None,
            outcome: None,
            result: None,
            duration_ms: None,
            retries: None,
            queued_ms: None,
            sandbox: None,
            note: None,
        }
    }

    /// An entry about the ledger itself: it belongs to no attempt.
    pub fn of_ledger(event: Event, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..Self::new(event, &AttemptId::new(""), &CallId::new("")) }
    }
}

/// What was asked of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolRef {
    /// The name as asked, or the tool's own once it was found.
    #[serde(serialize_with = "short")]
    pub name: String,
    /// The definition that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// The kind of its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<&'static str>,
}

/// What policy said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionRef {
    /// What follows from it, such as `allow`, `ask` or `deny`.
    pub effect: &'static str,
    /// The rule that decided.
    #[serde(serialize_with = "short")]
    pub rule: String,
    /// Why, for people.
    #[serde(serialize_with = "short")]
    pub reason: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutcomeRef {
    /// The status.
    pub status: Status,
    /// The code, for every status but `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The tool's own code.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "short_option")]
    pub tool_code: Option<String>,
    /// Whether asking again unchanged can work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// JSON that is short enough for a record.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Abridged(Box<RawValue>);

impl Abridged {
    /// The JSON text.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

/// The value as a record shows it: itself, or, where its compact JSON is longer than
/// [`RECORD_TEXT_CHARS_MAX`] characters, `{"length": <characters>, "sha256": "<of its UTF-8 bytes>"}`.
///
/// ```
/// use serde_json::{Value, json};
/// use tollgate_ledger::abridge;
///
/// assert_eq!(abridge(&json!({"city": "北京"})).json(), r#"{"city":"北京"}"#);
/// assert!(abridge(&Value::from("x".repeat(5000))).json().starts_with(r#"{"length":5002,"sha256":"#));
/// ```
pub fn abridge(value: &Value) -> Abridged {
    // A `Value` always has a JSON form: its keys are strings, its numbers finite.
    let raw = serde_json::value::to_raw_value(value).unwrap_or_default();
    abridge_json(raw.get()).unwrap_or(Abridged(raw))
}

/// The same of compact JSON text, if it is too long for a record; none when it is short.
pub fn abridge_json(text: &str) -> Option<Abridged> {
    if is_short(text) {
        return None;
    }
    let digest = Abstract { length: text.chars().count(), sha256: line::hex_of(text.as_bytes()) };
    Some(Abridged(serde_json::value::to_raw_value(&digest).unwrap_or_default()))
}

#[derive(Serialize)]
struct Abstract {
    length: usize,
    sha256: String,
}

/// Entries as JSON members, each beginning with a comma, ready to be put into lines.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// By how much these entries change the number of attempts under way.
    pub(crate) opens: i64,
    /// Whether an attempt begins with one of them.
    pub(crate) has_beginning: bool,
    /// Whether an attempt ends with one of them.
    pub(crate) has_end: bool,
}

impl Batch {
    pub(crate) fn of(entries: &[Entry]) -> Result<Self, LedgerError> {
        let bytes = Vec::with_capacity(entries.len() * RECORD_BYTES_USUAL);
        let mut batch = Self { bytes, ..Self::default() };
        for entry in entries {
            batch.push(entry)?;
        }
        Ok(batch)
    }

    pub(crate) fn push(&mut self, entry: &Entry) -> Result<(), LedgerError> {
        let start = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, entry)
            .map_err(|error| LedgerError::io("encode a record")(error.into()))?;
        // `{…}` becomes `,…`: the members continue a line that has begun.
        self.bytes.pop();
        if let Some(brace) = self.bytes.get_mut(start) {
            *brace = b',';
        }
        let bytes = self.bytes.len() - start + SEAL_BYTES_MAX;
        if bytes > LINE_BYTES_MAX {
            return Err(LedgerError::TooLarge { bytes });
        }
        self.ends.push(self.bytes.len());
        let opens = entry.event.opens();
        self.opens += opens;
        self.has_beginning |= opens > 0;
        self.has_end |= opens < 0;
        Ok(())
    }

    /// Puts the entries of another batch behind these.
    pub(crate) fn extend(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| start + end));
        self.opens += other.opens;
        self.has_beginning |= other.has_beginning;
        self.has_end |= other.has_end;
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How long they are together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        (self.opens, self.has_beginning, self.has_end) = (0, false, false);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| self.bytes.get(std::mem::replace(&mut start, end)..end).unwrap_or_default())
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= RECORD_TEXT_CHARS_MAX || text.chars().nth(RECORD_TEXT_CHARS_MAX).is_none()
}

/// A text from outside, cut to what a record holds.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if is_short(text) {
        return Cow::Borrowed(text);
    }
    let head: String = text.chars().take(RECORD_TEXT_CHARS_MAX).collect();
    Cow::Owned(format!("{head}… ({} characters)", text.chars().count()))
}

fn short<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&cut(text))
}

// serde hands over the field itself.
#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn short_option<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    text.as_deref().map(cut).serialize(serializer)
}

fn short_call_id<S: Serializer>(id: &CallId, serializer: S) -> Result<S::Ok, S::Error> {
    short(id.as_str(), serializer)
}

fn few_repairs<S: Serializer>(repairs: &[Repair], serializer: S) -> Result<S::Ok, S::Error> {
    let more = repairs.len().saturating_sub(REPAIRS_MAX);
    let rest = (more > 0).then(|| Repair::new("", format!("and {more} more")));
    let shown = repairs.iter().take(REPAIRS_MAX).map(|repair| Repair::new(cut(&repair.path), cut(&repair.rule)));
    serializer.collect_seq(shown.chain(rest))
}

fn is_unnamed(attempt: &AttemptId) -> bool {
    attempt.as_str().is_empty()
}

fn is_uncalled(call_id: &CallId) -> bool {
    call_id.as_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(entries: &[Entry]) -> Vec<String> {
        Batch::of(entries).unwrap().entries().map(|entry| String::from_utf8(entry.to_vec()).unwrap()).collect()
    }

    #[test]
    fn absent_members_are_left_out_and_each_entry_stands_alone() {
        let received = Entry::new(Event::Received, &AttemptId::new("a"), &CallId::new("c"));
        let recovered = Entry::of_ledger(Event::Recovered, "boot `b`");
        assert_eq!(
            lines(&[received, recovered]),
            [r#","attempt":"a","call_id":"c","event":"received""#, r#","event":"recovered","note":"boot `b`""#]
        );
    }

    #[test]
    fn text_from_outside_cannot_make_a_record_too_long() {
        let huge = "界".repeat(3_000_000);
        let mut entry = Entry::new(Event::Received, &AttemptId::new("a"), &CallId::new(huge.as_str()));
        entry.tool = Some(ToolRef { name: huge.clone(), pin: None, source: None });
        entry.arguments = Some(abridge(&Value::from(huge.as_str())));
        entry.key = Some(huge.clone());
        entry.note = Some("\u{1}".repeat(10_000));
        entry.repairs = vec![Repair::new("/\u{1}".repeat(3000), "string_to_integer"); 5000];
        let line = lines(std::slice::from_ref(&entry)).remove(0);
        assert!(line.contains("… (3000000 characters)"), "says how long it was");
        assert!(line.contains(r#""arguments":{"length":3000002,"sha256":""#));
        assert!(line.contains("and 4936 more"));
        assert!(!line.contains('\n'));

        entry.policy = Some("p".repeat(LINE_BYTES_MAX));
        assert!(matches!(Batch::of(&[entry]), Err(LedgerError::TooLarge { .. })));
    }

    #[test]
    fn the_limit_counts_characters() {
        // Two quotation marks belong to the JSON of a text.
        let fits = Value::from("界".repeat(RECORD_TEXT_CHARS_MAX - 2));
        assert_eq!(abridge(&fits).json(), fits.to_string());
        let over = Value::from("界".repeat(RECORD_TEXT_CHARS_MAX - 1));
        let json: Value = serde_json::from_str(abridge(&over).json()).unwrap();
        assert_eq!(json["length"], 2001);
        assert_eq!(json["sha256"], line::hex_of(over.to_string().as_bytes()));
    }
}
