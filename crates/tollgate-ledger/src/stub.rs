//! What is left of a record whose content was erased: its place in the chain, its hash, and what may stay. The hash is that
//! of the record as it was, so chain, tree, checkpoints and proofs hold. That it may be missing is said by a record of the
//! ledger, with a digest over all that the erasure left: nobody else can take content away, or change what was left of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::ErasedRecords;
use crate::line::{self, Flaw};

/// Erasures whose record was not met yet. There are as many as segments were rewritten at once.
const OPEN_MAX: usize = 100_000;
/// Members that hold what was asked and answered.
const CONTENTS: [&str; 5] = ["key", "arguments", "repairs", "args_hmac", "result"];
/// Members that stay when the rest goes: none of them names a person or a tool.
const KEPT: [&str; 3] = ["boot", "attempt", "event"];
/// Of an outcome, these stay.
const KEPT_OF_OUTCOME: [&str; 3] = ["status", "code", "retryable"];

/// How much of a record is erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// What was asked and answered. Who asked for which tool, what was decided and how it ended stays.
    Contents,
    /// All but that there was an attempt, which events it had, when, and how it ended.
    Whole,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contents => "the contents",
            Self::Whole => "the whole",
        })
    }
}

/// What the record of an erasure says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Its id, by which what is left names it.
    pub id: String,
    /// How much of each record.
    pub level: Level,
    /// How many records.
    pub records: u64,
    /// The first of them.
    pub first: u64,
    /// The last of them.
    pub last: u64,
    /// SHA-256 over the SHA-256 of each line that it left, in their order.
    pub digest: String,
    /// By what the records were chosen; not by which name.
    pub chosen: String,
    /// Who erased.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// The member `erased` of what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The erasure's id.
    pub(crate) by: String,
    pub(crate) level: Level,
    /// An earlier erasure, which left a line with this SHA-256 here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) before: Option<Before>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Before {
    by: String,
    sha256: String,
}

/// What a line has to do with erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trace {
    /// It is a record like any other.
    None,
    /// It is what was left of one.
    Stub(Mark, [u8; 32]),
    /// It is the record of an erasure.
    Said(Box<Erasure>),
}

impl Trace {
    /// What a line, which is whole, has to do with erasure.
    pub(crate) fn of(line: &[u8]) -> Result<Self, Flaw> {
        #[derive(Deserialize)]
        struct Stub {
            erased: Mark,
        }
        #[derive(Deserialize)]
        struct Said {
            erasure: Erasure,
        }
        if line::is_stub(line) {
            let stub: Stub = serde_json::from_slice(line).map_err(|_| Flaw::Foreign)?;
            return Ok(Self::Stub(stub.erased, Sha256::digest(line).into()));
        }
        if !is_said(line) {
            return Ok(Self::None);
        }
        let said: Said = serde_json::from_slice(line).map_err(|_| Flaw::Foreign)?;
        Ok(Self::Said(Box::new(said.erasure)))
    }
}

/// Whether a record is about an erasure. Its members stand where a record of an attempt has others.
fn is_said(line: &[u8]) -> bool {
    const BOOT: &[u8] = br#"","boot":""#;
    const ERASURE: &[u8] = br#"","event":"recovered","erasure":{"#;
    let boot = line::parts(line).and_then(|(_, _, members)| members.strip_prefix(BOOT));
    let end = boot.and_then(|boot| boot.iter().position(|byte| *byte == b'"').and_then(|end| boot.get(end..)));
    end.is_some_and(|members| members.starts_with(ERASURE))
}

/// What is left of a line, given without its line break, when the erasure `id` takes content away; none where nothing is to be
/// taken: from records about the ledger itself, and from what is erased already.
pub(crate) fn stub(line: &[u8], level: Level, id: &str) -> Option<Vec<u8>> {
    let Trace::Stub(mark, sha256) = Trace::of(line).ok()? else { return make(line, level, id, None) };
    if mark.level >= level {
        return None;
    }
    make(line, level, id, Some(Before { by: mark.by, sha256: hex(&sha256) }))
}

fn make(line: &[u8], level: Level, id: &str, before: Option<Before>) -> Option<Vec<u8>> {
    let (opening, time, _) = line::parts(line)?;
    let hash = line::hash_said(line)?;
    let Value::Object(members) = serde_json::from_slice(line).ok()? else { return None };
    members.get("attempt")?;
    let mark = serde_json::to_string(&Mark { by: id.to_owned(), level, before }).ok()?;
    let mut stub = [opening, time, br#"","erased":"#, mark.as_bytes()].concat();
    for (key, value) in kept(members, level) {
        stub.extend_from_slice(format!(",{}:{value}", Value::from(key)).as_bytes());
    }
    stub.extend_from_slice(&[br#","hash":""#.as_slice(), &hash, br#""}"#].concat());
    Some(stub)
}

/// The members between `time` and `hash` that stay.
fn kept(members: Map<String, Value>, level: Level) -> Vec<(String, Value)> {
    const SEAL: [&str; 6] = ["v", "seq", "prev", "time", "erased", "hash"];
    let mut kept = Vec::new();
    for (key, mut value) in members.into_iter().filter(|(key, _)| !SEAL.contains(&key.as_str())) {
        let name = key.as_str();
        let is_kept = match level {
            Level::Contents => !CONTENTS.contains(&name),
            Level::Whole => KEPT.contains(&name) || name == "outcome",
        };
        if !is_kept {
            continue;
        }
        match (level, name, value.as_object_mut()) {
            // The reason may quote what was asked.
            (Level::Contents, "decision", Some(decision)) => {
                decision.insert("reason".to_owned(), Value::from("erased"));
            }
            (Level::Whole, "outcome", Some(outcome)) => {
                outcome.retain(|key, _| KEPT_OF_OUTCOME.contains(&key.as_str()));
            }
            _ => {}
        }
        kept.push((key, value));
    }
    kept
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest over lines that an erasure left, as they come.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) records: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    digest: Sha256,
}

impl Left {
    pub(crate) fn push(&mut self, seq: u64, sha256: &[u8]) {
        if self.records == 0 {
            self.first = seq;
        }
        self.last = seq;
        self.records += 1;
        self.digest.update(sha256);
    }

    pub(crate) fn digest(&self) -> String {
        hex(&self.digest.clone().finalize())
    }
}

/// What is left of erased records, until the record of the erasure is met, which must come later.
#[derive(Default)]
pub(crate) struct Erasures {
    open: BTreeMap<String, Left>,
    found: ErasedRecords,
}

impl Erasures {
    /// Takes the next line. Gives the first record that is erased and should not be, and what is wrong.
    pub(crate) fn push(&mut self, seq: u64, trace: &Trace) -> Option<(u64, String)> {
        match trace {
            Trace::None => None,
            Trace::Stub(mark, sha256) => {
                self.found.records += 1;
                self.open.entry(mark.by.clone()).or_default().push(seq, sha256);
                let before = mark.before.as_ref();
                let sha256 = before.and_then(|before| line::bytes_of(&line::hash_text(&before.sha256)?));
                if let Some((before, sha256)) = before.zip(sha256) {
                    self.open.entry(before.by.clone()).or_default().push(seq, &sha256);
                }
                (self.open.len() > OPEN_MAX).then(|| (seq, "it was erased by one of too many erasures".to_owned()))
            }
            Trace::Said(erasure) => {
                self.found.erasures += 1;
                let Some(left) = self.open.remove(&erasure.id) else {
                    // A process died before it did what it said; nothing is missing.
                    self.found.undone += 1;
                    return None;
                };
                let is_right = left.records == erasure.records && left.digest() == erasure.digest;
                let message = || format!("what was erased is not what record {seq} says of the erasure {}", erasure.id);
                (!is_right).then(|| (left.first.min(erasure.first), message()))
            }
        }
    }

    /// What was met, where anything was.
    pub(crate) fn sum(&self) -> Option<ErasedRecords> {
        Some(self.found).filter(|found| *found != ErasedRecords::default())
    }

    /// The first record that was erased without a record that says so.
    pub(crate) fn unsaid(&self) -> Option<(u64, String)> {
        let first = self.open.values().map(|left| left.first).min()?;
        Some((first, format!("record {first} was erased, and no record says so")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Batch;
    use crate::line::Head;
    use crate::{DecisionRef, Entry, Event, abridge};
    use tollgate_types::{AttemptId, CallId};

    fn line_of(entry: &Entry) -> Vec<u8> {
        let batch = Batch::of(std::slice::from_ref(entry)).unwrap();
        let mut out = Vec::new();
        let fields = batch.entries().next().unwrap();
        line::seal(&mut out, &Head::GENESIS, "2026-01-02T03:04:05.000000Z", r#","boot":"b""#, fields);
        out.pop();
        out
    }

    fn received() -> Entry {
        let mut entry = Entry::new(Event::Received, &AttemptId::new("a"), &CallId::new("c"));
        entry.key = Some("k".into());
        entry.arguments = Some(abridge(&serde_json::json!({"name": "王小明"})));
        entry.decision = Some(DecisionRef { effect: "allow", rule: "r".into(), reason: "王小明 may".into() });
        entry.note = Some("n".into());
        entry
    }

    #[test]
    fn a_stub_keeps_its_place_its_hash_and_what_may_stay() {
        let line = line_of(&received());
        let left = stub(&line, Level::Contents, "e-1").unwrap();
        let text = String::from_utf8(left.clone()).unwrap();
        assert!(
            !text.contains("王小明") && text.contains(r#""erased":{"by":"e-1","level":"contents"},"boot":"b""#),
            "{text}"
        );
        assert!(text.contains(r#""rule":"r","reason":"erased"},"note":"n","hash":""#), "{text}");
        assert_eq!(line::parse(&left), line::parse(&line));
        assert_eq!(line::peek(&left), line::peek(&line));
        assert_eq!(stub(&left, Level::Contents, "e-2"), None, "what is gone is gone");

        let whole = String::from_utf8(stub(&left, Level::Whole, "e-2").unwrap()).unwrap();
        let before = format!(r#""before":{{"by":"e-1","sha256":"{}"}}"#, hex(&Sha256::digest(&left)));
        assert!(whole.contains(&before), "{whole}");
        assert!(whole.contains(r#"}},"boot":"b","attempt":"a","event":"received","hash":""#), "{whole}");
    }

    #[test]
    fn what_the_ledger_says_of_itself_is_not_erased() {
        let line = line_of(&Entry::of_ledger(Event::Recovered, "n"));
        assert_eq!(stub(&line, Level::Whole, "e"), None);
        assert_eq!(Trace::of(&line), Ok(Trace::None));
    }

    #[test]
    fn only_the_ledger_itself_says_what_was_erased() {
        let erasure = Erasure {
            id: "e".into(),
            level: Level::Whole,
            records: 1,
            first: 1,
            last: 1,
            digest: "0".repeat(64),
            chosen: "caller".into(),
            by: "bob".into(),
            reason: "asked to".into(),
        };
        let mut entry = Entry::of_ledger(Event::Recovered, "n");
        entry.erasure = Some(erasure.clone());
        assert_eq!(Trace::of(&line_of(&entry)), Ok(Trace::Said(Box::new(erasure))));
        let mut liar = received();
        liar.arguments = Some(abridge(&Value::from(r#"","event":"recovered","erasure":{"#)));
        assert_eq!(Trace::of(&line_of(&liar)), Ok(Trace::None));
    }

    #[test]
    fn what_is_erased_and_what_is_said_must_agree() {
        let line = line_of(&received());
        let stub = stub(&line, Level::Whole, "e").unwrap();
        let trace = Trace::of(&stub).unwrap();
        let mut left = Left::default();
        left.push(1, &Sha256::digest(&stub));
        let said = |records, digest: &str| {
            Trace::Said(Box::new(Erasure {
                id: "e".into(),
                level: Level::Whole,
                records,
                first: 1,
                last: 1,
                digest: digest.into(),
                chosen: String::new(),
                by: String::new(),
                reason: String::new(),
            }))
        };
        for (said, is_right) in
            [(said(1, &left.digest()), true), (said(2, &left.digest()), false), (said(1, &"0".repeat(64)), false)]
        {
            let mut erasures = Erasures::default();
            assert_eq!(erasures.push(1, &trace), None);
            assert!(erasures.unsaid().is_some_and(|(seq, _)| seq == 1));
            assert_eq!(erasures.push(2, &said).is_none(), is_right);
            assert_eq!(erasures.unsaid(), None);
        }
    }
}
