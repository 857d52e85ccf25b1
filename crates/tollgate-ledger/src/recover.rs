//! What dead processes left: which of their attempts never ended, and the records that end them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_types::{AttemptId, CallId, Caller, Code, Pin, SourceKind, Status};

use crate::boot::DeadBoot;
use crate::entry::Batch;
use crate::line::{Head, LINE_BYTES_MAX};
use crate::lines::Lines;
use crate::segment::Folder;
use crate::{Entry, Event, LedgerError, OutcomeRef, ToolRef};

/// What was put in order when the ledger was opened.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// Bytes of unfinished records that were moved into a `.torn` file.
    pub torn_bytes: u64,
    /// Attempts that were started and never ended: they may have happened. Recorded as `outcome_unknown`.
    pub unknown: Vec<OpenAttempt>,
    /// How many attempts ended before they were started: nothing happened. Recorded as `cancelled`.
    pub never_started: Vec<AttemptId>,
}

/// An attempt of a dead process.
#[derive(Debug, Clone)]
pub struct OpenAttempt {
    /// Its id.
    pub attempt: AttemptId,
    /// The asker's id for the call.
    pub call_id: CallId,
    /// The tool's name.
    pub tool: Option<String>,
    /// When it was received, RFC 3339.
    pub time: String,
    /// Who asked.
    pub caller: Option<Arc<Caller>>,
}

/// What the scan reads of a record.
#[derive(Deserialize)]
struct Trace<'a> {
    time: &'a str,
    boot: &'a str,
    #[serde(borrow)]
    attempt: Option<Cow<'a, str>>,
    #[serde(borrow)]
    call_id: Option<Cow<'a, str>>,
    // An event of a later version neither opens nor ends an attempt.
    #[serde(borrow)]
    event: Cow<'a, str>,
    caller: Option<Value>,
    tool: Option<TracedTool>,
    kind: Option<Value>,
    risk: Option<Value>,
    permission: Option<Value>,
}

#[derive(Deserialize)]
struct TracedTool {
    name: String,
    pin: Option<Pin>,
    source: Option<Value>,
}

/// A member that only describes the attempt. What a later version wrote there must not keep this one from opening.
fn known<T: DeserializeOwned>(member: Option<Value>) -> Option<T> {
    serde_json::from_value(member?).ok()
}

impl From<TracedTool> for ToolRef {
    fn from(TracedTool { name, pin, source }: TracedTool) -> Self {
        Self { name, pin, source: known(source).map(SourceKind::as_str) }
    }
}

/// An attempt without an end, as the entry that will end it.
struct Open {
    entry: Entry,
    time: String,
    has_started: bool,
}

/// Whose attempts are to be ended.
pub(crate) struct Dead<'a> {
    /// Processes that left a mark.
    pub(crate) boots: &'a [DeadBoot],
    /// Where records stand that dead processes alone wrote, also one whose mark never reached the disk: segments and offsets.
    pub(crate) unmarked: Range<(u64, u64)>,
}

impl Dead<'_> {
    /// From where on their records stand; none when there are none.
    fn start(&self) -> Option<(u64, u64)> {
        let unmarked = (!self.unmarked.is_empty()).then_some(self.unmarked.start);
        self.boots.iter().map(|boot| boot.start).chain(unmarked).min()
    }

    fn wrote(&self, boot: &str, place: (u64, u64)) -> bool {
        self.unmarked.contains(&place) || self.boots.iter().any(|dead| dead.id.as_str() == boot)
    }
}

/// Finds the attempts of dead processes that never ended, and makes the records that end them.
pub(crate) fn recover(
    folder: &Folder,
    dead: &Dead<'_>,
    sandbox: Option<&'static str>,
) -> Result<(Batch, Recovery), LedgerError> {
    let open = scan(folder, dead)?;
    let mut batch = Batch::default();
    let mut recovery = Recovery::default();
    for Open { mut entry, time, has_started } in open.into_values() {
        entry.sandbox = sandbox;
        let code = if has_started { Code::OutcomeUnknown } else { Code::Cancelled };
        let status = if has_started { Status::Unknown } else { Status::Failed };
        entry.outcome =
            Some(OutcomeRef { status, code: Some(code), tool_code: None, retryable: Some(code.is_retryable()) });
        if has_started {
            entry.note = Some("the process ended while the call ran: check whether it happened".to_owned());
            recovery.unknown.push(OpenAttempt {
                attempt: entry.attempt.clone(),
                call_id: entry.call_id.clone(),
                tool: entry.tool.as_ref().map(|tool| tool.name.clone()),
                time,
                caller: entry.caller.clone(),
            });
        } else {
            entry.note = Some("the process ended before the call was started".to_owned());
            recovery.never_started.push(entry.attempt.clone());
        }
        batch.push(&entry)?;
    }
    for boot in dead.boots {
        let mut entry = Entry::of_ledger(Event::Recovered, format!("boot `{}` ended without closing", boot.id));
        entry.sandbox = sandbox;
        batch.push(&entry)?;
    }
    // They end attempts of others, not of this process.
    batch.opens = 0;
    Ok((batch, recovery))
}

fn scan(folder: &Folder, dead: &Dead<'_>) -> Result<BTreeMap<String, Open>, LedgerError> {
    let mut open = BTreeMap::new();
    let Some((first, offset)) = dead.start() else { return Ok(open) };
    let reading = || LedgerError::io("read what a dead process left");
    let mut head = None;
    for number in folder.segments().map_err(reading())?.into_iter().filter(|&number| number >= first) {
        let segment = folder.open(number).map_err(reading())?;
        let from = if number == first { offset } else { 0 };
        let len = segment.len().map_err(reading())?;
        let mut lines = Lines::new(segment.file.as_ref(), from, len);
        while let Some(line) = lines.next().map_err(reading())? {
            let seq = head.map_or(0, |head: Head| head.seq) + 1;
            match line.link() {
                // Others may write meanwhile; a dead process does not.
                Err(_) if !line.is_whole && line.bytes.len() <= LINE_BYTES_MAX => break,
                Err(flaw) => return Err(segment.damaged(line.start, seq, flaw.message())),
                Ok(link) if head.is_some_and(|head| !link.follows(&head)) => {
                    return Err(segment.damaged(line.start, seq, "the line does not continue the chain"));
                }
                Ok(link) => head = Some(link.head),
            }
            let trace = serde_json::from_slice::<Trace<'_>>(line.bytes);
            let trace = trace.map_err(|_| segment.damaged(line.start, seq, "the record is not readable"))?;
            let is_dead = dead.wrote(trace.boot, (number, line.start));
            note(&mut open, is_dead, trace);
        }
    }
    Ok(open)
}

fn note(open: &mut BTreeMap<String, Open>, is_dead: bool, trace: Trace<'_>) {
    let Some(attempt) = trace.attempt.as_deref() else { return };
    match trace.event.as_ref() {
        "received" if is_dead => {
            let call_id = CallId::new(trace.call_id.unwrap_or_default());
            let mut entry = Entry::new(Event::Finished, &AttemptId::new(attempt), &call_id);
            entry.caller = known::<Caller>(trace.caller).map(Arc::new);
            entry.tool = trace.tool.map(ToolRef::from);
            entry.kind = known(trace.kind);
            (entry.risk, entry.permission) = (known(trace.risk), known(trace.permission));
            let key = attempt.to_owned();
            open.insert(key, Open { entry, time: trace.time.to_owned(), has_started: false });
        }
        "started" => {
            if let Some(open) = open.get_mut(attempt) {
                open.has_started = true;
                // By now the tool was found; `received` only knew the name as asked.
                if let Some(tool) = trace.tool {
                    open.entry.tool = Some(tool.into());
                }
                (open.entry.risk, open.entry.permission) = (known(trace.risk), known(trace.permission));
            }
        }
        "finished" | "waiting" => {
            open.remove(attempt);
        }
        _ => {}
    }
}
