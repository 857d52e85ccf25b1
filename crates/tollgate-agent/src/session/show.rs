//! Sessions to look at: as a list, and step by step.

use serde::Serialize;
use tollgate_store::{SessionMeta, SessionSummary, Step, StepKind};
use tollgate_types::ApprovalId;
use tollgate_wire::Usage;

use super::SessionError;
use crate::record::{Line, ResultRecord};

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// `new`, `answered`, `waiting` for a human, or `open`: an answer is missing.
    pub status: &'static str,
    /// Who asks in it.
    pub subject: String,
    /// In which role.
    pub role: String,
    /// The model, as it is configured.
    pub model: String,
    /// How many turns of the model it holds.
    pub turns: u32,
    /// How many calls have no outcome.
    pub open_calls: u32,
    /// When it was begun, RFC 3339.
    pub created: String,
    /// When something was stored last, RFC 3339.
    pub updated: String,
    /// How long it is.
    pub bytes: u32,
    /// The session that it was copied from.
    pub forked_from: Option<String>,
    /// The first prompt.
    pub prompt: Option<String>,
}

impl From<SessionSummary> for Listed {
    fn from(summary: SessionSummary) -> Self {
        let SessionSummary { meta, turns, open, waiting, first, last, last_calls } = summary;
        let status = match last {
            _ if waiting > 0 => "waiting",
            _ if open > 0 => "open",
            None => "new",
            Some(StepKind::Turn) if last_calls == 0 => "answered",
            Some(StepKind::Turn | StepKind::Prompt) => "open",
        };
        let prompt = match first.and_then(|body| serde_json::from_str(&body).ok()) {
            Some(Line::Run { prompt, .. }) => Some(prompt),
            _ => None,
        };
        Self {
            id: meta.id,
            name: meta.name,
            status,
            subject: meta.caller.subject,
            role: meta.caller.role,
            model: meta.model,
            turns,
            open_calls: open,
            created: meta.created.to_string(),
            updated: meta.updated.to_string(),
            bytes: meta.bytes,
            forked_from: meta.forked_from,
            prompt,
        }
    }
}

/// A session with its steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Who asks in it.
    pub subject: String,
    /// In which role.
    pub role: String,
    /// The model, as it is configured.
    pub model: String,
    /// What the model is told to be.
    pub system: Option<String>,
    /// The session that it was copied from.
    pub forked_from: Option<String>,
    /// What was said, oldest first.
    pub steps: Vec<ShownStep>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ShownStep {
    /// What a person says.
    Prompt {
        /// The text.
        text: String,
        /// How the answer was looked for.
        strategy: String,
    },
    /// What the model says.
    Turn {
        /// Its number, from one; what `fork` takes.
        turn: u32,
        /// The text.
        text: String,
        /// The calls it asks for.
        calls: Vec<ShownCall>,
        /// Its tokens, where the server said them.
        usage: Option<Usage>,
    },
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShownCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The question that it waits for.
    pub approval: Option<ApprovalId>,
    /// What it brought; none while that is not known.
    pub result: Option<ResultRecord>,
}

impl Shown {
    pub(super) fn new(meta: SessionMeta, steps: Vec<Step>) -> Result<Self, SessionError> {
        let mut shown = Vec::with_capacity(steps.len());
        let mut turns = 0_u32;
        for step in &steps {
            match read(&meta.id, step)? {
                Line::Run { prompt, strategy, .. } => shown.push(ShownStep::Prompt { text: prompt, strategy }),
                Line::Turn { turn, .. } => {
                    turns += 1;
                    let kept = step.calls.iter().zip(results(&meta.id, step)?);
                    let calls = turn.calls.into_iter().zip(kept).map(|(call, (stored, result))| ShownCall {
                        id: call.id,
                        tool: call.name,
                        arguments: call.arguments,
                        approval: stored.approval.clone(),
                        result,
                    });
                    let (calls, usage) = (calls.collect(), turn.usage);
                    shown.push(ShownStep::Turn { turn: turns, text: turn.text, calls, usage });
                }
                Line::Result { .. } | Line::Answer { .. } => {}
            }
        }
        let SessionMeta { id, name, caller, model, system, forked_from, .. } = meta;
        let (subject, role) = (caller.subject, caller.role);
        Ok(Self { id, name, subject, role, model, system, forked_from, steps: shown })
    }
}

/// What a step says. A turn has as many calls as are stored beside it.
pub(super) fn read(session: &str, step: &Step) -> Result<Line, SessionError> {
    let broken = |why: String| SessionError::Broken { session: session.to_owned(), step: step.seq, why };
    let line = serde_json::from_str(&step.body).map_err(|error| broken(error.to_string()))?;
    let asked = match &line {
        Line::Run { .. } => 0,
        Line::Turn { turn, .. } => turn.calls.len(),
        Line::Result { .. } | Line::Answer { .. } => return Err(broken("it is neither a prompt nor a turn".into())),
    };
    if asked != step.calls.len() {
        return Err(broken(format!("it asks for {asked} calls, and {} are stored", step.calls.len())));
    }
    Ok(line)
}

/// What the calls of a step brought.
pub(super) fn results(session: &str, step: &Step) -> Result<Vec<Option<ResultRecord>>, SessionError> {
    let read = |text: &String| serde_json::from_str(text);
    let results = step.calls.iter().map(|call| call.outcome.as_ref().map(read).transpose());
    results.collect::<Result<_, _>>().map_err(|error| SessionError::Broken {
        session: session.to_owned(),
        step: step.seq,
        why: error.to_string(),
    })
}
