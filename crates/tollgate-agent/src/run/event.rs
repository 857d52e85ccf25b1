//! What a run tells while it goes on, and how it ends.

use std::fmt;

use serde::Serialize;
use tollgate_types::{ApprovalId, Code, ErrorObject, Outcome};
use tollgate_wire::{Finish, Turn, Usage};

use super::compact::Compacted;
use super::spent::{Exceeded, Spent};
use crate::model::ModelError;
use crate::record::{RecordError, ResultRecord};
use crate::session::SessionError;

/// One thing that happened. As JSON, `type` says which.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A prompt is taken up.
    RunStarted {
        /// The prompt.
        prompt: String,
        /// The model's name.
        model: String,
        /// The names of the tools that are offered.
        tools: Vec<String>,
        /// The id of the session, where the run is kept in one.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A session goes on where its answers were missing.
    RunResumed {
        /// The session's id.
        session: String,
        /// The model's name.
        model: String,
        /// The names of the tools that are offered.
        tools: Vec<String>,
        /// How many calls are asked for again.
        open_calls: usize,
    },
    /// New text of the model.
    TextDelta {
        /// The text.
        text: String,
    },
    /// A whole turn of the model.
    Turn {
        /// Which round, from one.
        round: u32,
        /// The turn.
        #[serde(flatten)]
        turn: Turn,
    },
    /// A call goes to the door.
    CallStarted {
        /// The call's id.
        call_id: String,
        /// The tool's name.
        tool: String,
        /// The raw arguments.
        arguments: String,
    },
    /// A call has its outcome. A call that did not arrive whole has one without having started.
    CallFinished {
        /// The outcome.
        outcome: Outcome,
    },
    /// The provider of the model ran a call itself.
    Observed {
        /// The tool, as policy and the ledger name it.
        tool: String,
        /// The record.
        attempt: String,
        /// Whether the tool was offered.
        is_offered: bool,
        /// Whether it failed.
        is_error: bool,
    },
    /// The conversation is too long for the model: of what is sent something is left out. It is said again when that
    /// changes.
    Compacted(Compacted),
    /// What the run spent so far: after each turn, after its calls, and before the end of the run.
    Spent(Spent),
    /// The run is over.
    Answer {
        /// What the model says.
        text: String,
        /// How many rounds it took.
        rounds: u32,
        /// Why the model stopped: `length` means that the text is cut.
        finish: Finish,
        /// The tokens of all rounds.
        usage: Usage,
    },
    /// A call brought something else than when it was recorded.
    Difference(Difference),
    /// The run ends here, and goes on when its session is resumed after a human has answered.
    Paused {
        /// What `tollgate run --resume` takes.
        session: String,
        /// What is waited for.
        waiting: Vec<OpenQuestion>,
    },
    /// The run ended without an answer.
    Error {
        /// Why.
        error: ErrorObject,
    },
}

/// A question that a call waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// What `tollgate approvals approve` takes.
    pub approval: ApprovalId,
    /// When the question closes by itself, RFC 3339.
    pub expires: String,
}

/// Where reality differs from a recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The call's id.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// What it brought then.
    pub recorded: ResultRecord,
    /// What it brought now.
    pub actual: ResultRecord,
}

/// What a run brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What the model says.
    pub text: String,
    /// How many rounds it took.
    pub rounds: u32,
    /// Why the model stopped.
    pub finish: Finish,
    /// The tokens of all rounds.
    pub usage: Usage,
    /// Where reality differed from the recording that was replayed.
    pub differences: Vec<Difference>,
}

impl Answer {
    pub(super) fn event(&self) -> Event {
        Event::Answer { text: self.text.clone(), rounds: self.rounds, finish: self.finish.clone(), usage: self.usage }
    }
}

/// Why a run ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The recording cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The session cannot be kept or gone on with.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Calls wait for a human.
    #[error("{} wait{} for a human", Calls(waiting.len()), if waiting.len() == 1 { "s" } else { "" })]
    Waiting {
        /// What `tollgate run --resume` takes.
        session: String,
        /// What is waited for.
        waiting: Vec<OpenQuestion>,
    },
    /// A call of an earlier process may have happened, and what came of it is not to be had now.
    #[error("what came of the call of `{tool}` cannot be said now: {}", error.message)]
    Later {
        /// The tool.
        tool: String,
        /// What the door says.
        error: Box<ErrorObject>,
    },
    /// The provider of the model ran a call that the ledger could not be told of.
    #[error("a call of `{tool}` that the model's provider ran cannot be recorded: {}", error.message)]
    Unrecorded {
        /// The tool.
        tool: String,
        /// What the door says.
        error: Box<ErrorObject>,
    },
    /// Tools were asked for that this caller does not have.
    #[error("no tool is named `{}`", names.join("`, `"))]
    UnknownTools {
        /// Their names.
        names: Vec<String>,
    },
    /// The same call brought the same result again and again.
    #[error("the model goes in circles: `{tool}` with the same arguments brought the same result again and again")]
    NoProgress {
        /// The tool.
        tool: String,
    },
    /// What the run may spend is spent.
    #[error("{what}; spent: {spent}")]
    BudgetExceeded {
        /// The limit that is reached.
        what: Exceeded,
        /// What was spent.
        spent: Box<Spent>,
        /// What `tollgate run --resume` takes, where the run is kept in a session.
        session: Option<String>,
    },
    /// It was stopped from outside.
    #[error("the run was stopped")]
    Cancelled,
}

impl RunError {
    /// The code.
    pub fn code(&self) -> Code {
        ErrorObject::from(self).error
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        ErrorObject::from(self).hint
    }
}

impl From<&RunError> for ErrorObject {
    fn from(error: &RunError) -> Self {
        let (code, hint) = match error {
            RunError::Model(error) => return error.clone().into(),
            RunError::Record(error) => (Code::Internal, error.hint()),
            RunError::Session(source) => return Self::new(source.code(), error.to_string()).with_hint(source.hint()),
            RunError::Waiting { session, waiting } => {
                let ids: Vec<_> =
                    waiting.iter().map(|one| format!("`tollgate approvals approve {}`", one.approval)).collect();
                let hint = format!("{}, then `tollgate run --resume {session}`", ids.join(", "));
                return Self::new(Code::ApprovalRequired, error.to_string()).with_hint(hint);
            }
            RunError::Later { error: why, .. } => {
                return Self { message: error.to_string(), ..(**why).clone() }.with_hint("resume the session later");
            }
            RunError::Unrecorded { error: why, .. } => return Self { message: error.to_string(), ..(**why).clone() },
            RunError::UnknownTools { .. } => {
                (Code::UnknownTool, "see which tools there are for this role: `tollgate tools list`")
            }
            RunError::NoProgress { .. } => {
                (Code::NoProgress, "ask in other words, or see in the record why the call does not help")
            }
            RunError::BudgetExceeded { what, session, .. } => {
                let option = what.option();
                let hint = match session {
                    Some(session) => {
                        format!("`tollgate run --resume {session}` goes on with as much again; `{option}` allows more")
                    }
                    None => format!("go on with another prompt, or allow more with `{option}`"),
                };
                return Self::new(Code::BudgetExceeded, error.to_string()).with_hint(hint);
            }
            RunError::Cancelled => return Self::new(Code::Cancelled, error.to_string()),
        };
        Self::new(code, error.to_string()).with_hint(hint)
    }
}

struct Calls(usize);

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} call{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}
