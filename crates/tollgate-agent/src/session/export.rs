//! Sessions for other programs: as a recording, as the messages of a chat, and with everything that is kept of them.

use serde::Serialize;
use serde_json::Value;
use tollgate_store::{SessionMeta, Step};
use tollgate_types::{ApprovalId, Caller};
use tollgate_wire::{Dialect, History, Lowered, Message, Request, Turn};

use super::SessionError;
use super::show::{read, results};
use crate::record::{Header, Line, ResultRecord, VERSION};

/// The version of [`ExportForm::Record`]; it stands in it.
const RECORD_VERSION: u32 = 1;

/// What an export is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExportForm {
    /// The lines of a recording, which [`Replay`](crate::Replay) reads.
    #[default]
    Recording,
    /// The messages of Chat Completions, one a line. A call without an outcome has a result that says so.
    Messages,
    /// Everything that is kept, as one JSON object.
    Record,
}

/// Everything that is kept.
#[derive(Serialize)]
struct Record<'a> {
    tollgate_session: u32,
    id: &'a str,
    name: Option<&'a str>,
    caller: &'a Caller,
    model: &'a str,
    system: Option<&'a str>,
    created: String,
    updated: String,
    forked_from: Option<&'a str>,
    steps: Vec<RecordStep>,
}

#[derive(Serialize)]
struct RecordStep {
    seq: u32,
    #[serde(flatten)]
    line: Line,
    outcomes: Vec<RecordOutcome>,
}

/// What came of one call of a turn, in call order.
#[derive(Serialize)]
struct RecordOutcome {
    idempotency_key: Option<String>,
    approval: Option<ApprovalId>,
    result: Option<ResultRecord>,
}

/// The lines of an export.
pub(super) fn lines(meta: &SessionMeta, steps: &[Step], form: ExportForm) -> Result<Vec<String>, SessionError> {
    match form {
        ExportForm::Recording => recording(&meta.id, steps),
        ExportForm::Messages => messages(meta, steps),
        ExportForm::Record => record(meta, steps).map(|record| vec![record]),
    }
}

/// What a turn adds to a conversation.
pub(super) fn turn_messages(turn: &Turn, results: &[Option<ResultRecord>]) -> Vec<Message> {
    let told = turn.calls.iter().zip(results).filter_map(|(call, result)| Some(result.as_ref()?.message(&call.id)));
    std::iter::once(Message::assistant(turn)).chain(told).collect()
}

fn text(value: &impl Serialize) -> Result<String, SessionError> {
    serde_json::to_string(value).map_err(|error| SessionError::Unwritable(error.to_string()))
}

/// A call without an outcome has no line.
fn recording(session: &str, steps: &[Step]) -> Result<Vec<String>, SessionError> {
    let mut lines = vec![text(&Header { tollgate_recording: VERSION })?];
    for step in steps {
        let line = read(session, step)?;
        lines.push(text(&line)?);
        let Line::Turn { turn, .. } = line else { continue };
        if turn.calls.is_empty() {
            lines.push(text(&Line::Answer { text: turn.text })?);
            continue;
        }
        for (call, result) in turn.calls.into_iter().zip(results(session, step)?) {
            if let Some(result) = result {
                lines.push(text(&Line::Result { call_id: call.id, tool: call.name, result })?);
            }
        }
    }
    Ok(lines)
}

fn messages(meta: &SessionMeta, steps: &[Step]) -> Result<Vec<String>, SessionError> {
    let mut messages: Vec<Message> = meta.system.iter().cloned().map(Message::System).collect();
    for step in steps {
        match read(&meta.id, step)? {
            Line::Run { prompt, .. } => messages.push(Message::user(prompt)),
            Line::Turn { turn, .. } => messages.extend(turn_messages(&turn, &results(&meta.id, step)?)),
            Line::Result { .. } | Line::Answer { .. } => {}
        }
    }
    let mut history = History::from(messages);
    history.repair();
    let tools = Lowered::default();
    let body = Request::new(&meta.model, history.messages(), &tools).to_body(Dialect::Chat);
    let body = body.and_then(|body| serde_json::from_slice::<Value>(&body));
    let body = body.map_err(|error| SessionError::Unwritable(error.to_string()))?;
    body.get("messages").and_then(Value::as_array).into_iter().flatten().map(text).collect()
}

fn record(meta: &SessionMeta, steps: &[Step]) -> Result<String, SessionError> {
    let step = |step: &Step| {
        let outcome = |(call, result): (&tollgate_store::StoredCall, Option<ResultRecord>)| RecordOutcome {
            idempotency_key: call.new.key.clone(),
            approval: call.approval.clone(),
            result,
        };
        let results = results(&meta.id, step)?;
        let outcomes = step.calls.iter().zip(results).map(outcome).collect();
        Ok(RecordStep { seq: step.seq, line: read(&meta.id, step)?, outcomes })
    };
    text(&Record {
        tollgate_session: RECORD_VERSION,
        id: &meta.id,
        name: meta.name.as_deref(),
        caller: &meta.caller,
        model: &meta.model,
        system: meta.system.as_deref(),
        created: meta.created.to_string(),
        updated: meta.updated.to_string(),
        forked_from: meta.forked_from.as_deref(),
        steps: steps.iter().map(step).collect::<Result<_, SessionError>>()?,
    })
}
