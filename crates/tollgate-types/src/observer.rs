//! The port of those who watch calls from outside: counts, traces. They see what became of a call and change nothing.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::{ApprovalId, AttemptId, CallId, CallKind, Caller, Code, SpanId, Status, ToolDefinition, TraceContext};

/// The stages of a trip, in order; `open` and `close` are its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It is written down that it was asked for.
    Open,
    /// A name means one tool or none.
    Find,
    /// What may not be listed does not exist for this caller.
    Admit,
    /// The arguments are mended and checked.
    Validate,
    /// By the policy of now.
    Judge,
    /// A human, where the policy asks for one.
    Approve,
    /// The tool itself.
    Run,
    /// What the model sees.
    Shape,
    /// The end is written down.
    Close,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Open,
        Self::Find,
        Self::Admit,
        Self::Validate,
        Self::Judge,
        Self::Approve,
        Self::Run,
        Self::Shape,
        Self::Close,
    ];

    /// The name in traces and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Find => "find",
            Self::Admit => "admit",
            Self::Validate => "validate",
            Self::Judge => "judge",
            Self::Approve => "approve",
            Self::Run => "run",
            Self::Shape => "shape",
            Self::Close => "close",
        }
    }

    /// The place in the order, which is also the place of its span below the call's.
    pub fn place(self) -> u8 {
        self as u8
    }
}

/// One stage of one trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// Which.
    pub stage: Stage,
    /// When it began, from the trip's beginning.
    pub began: Duration,
    /// How long it took.
    pub took: Duration,
}

/// A call that ended, as observers see it. What the asker wrote in it is redacted.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The attempt in the ledger.
    pub attempt: AttemptId,
    /// The asker's id for the call.
    pub call_id: CallId,
    /// The attempt on whose behalf it was asked.
    pub parent: Option<AttemptId>,
    /// Who asked.
    pub caller: Arc<Caller>,
    /// What kind of thing was asked for.
    pub kind: CallKind,
    /// The revision of the protocol that the surface spoke, where it has some.
    pub protocol: Option<&'static str>,
    /// The name as asked; the tool's own where it was found.
    pub tool: String,
    /// The tool, where it was found.
    pub definition: Option<Arc<ToolDefinition>>,
    /// Its place in a trace, where one of the observers makes traces.
    pub trace: Option<TraceContext>,
    /// The span above it, of whoever asked.
    pub above: Option<SpanId>,
    /// When it was asked.
    pub began: Timestamp,
    /// From asking to the last record.
    pub took: Duration,
    /// Its stages, in order; the last but `close` is where it ended.
    pub stages: Vec<Staged>,
    /// How it ended.
    pub status: Status,
    /// As the ledger says it, for every end but `done`.
    pub code: Option<Code>,
    /// The tool's own code.
    pub tool_code: Option<String>,
    /// The decision: its effect, and the rule that said so.
    pub decision: Option<(&'static str, String)>,
    /// The approval that it waits for or ran under.
    pub approval: Option<ApprovalId>,
    /// Tries after the first.
    pub retries: u32,
    /// Whether the answer is the stored one of an earlier call.
    pub is_replayed: bool,
    /// The isolation of what ran.
    pub sandbox: &'static str,
    /// The arguments, as the ledger has them, where an observer wants content.
    pub arguments: Option<String>,
    /// The result, likewise.
    pub result: Option<String>,
}

impl Observed {
    /// Where the trip ended, if it did not come through.
    pub fn ended_in(&self) -> Option<Stage> {
        let last = self.stages.iter().map(|staged| staged.stage).rfind(|stage| *stage != Stage::Close);
        last.filter(|_| self.status != Status::Done)
    }
}

/// Whoever watches calls. It is told on the call's own path, and must return at once.
pub trait Observer: Send + Sync {
    /// The place of an attempt in a trace, below what its asker said. None from those who make no traces.
    fn place(&self, attempt: &AttemptId, asked: Option<&TraceContext>) -> Option<TraceContext> {
        let _ = (attempt, asked);
        None
    }

    /// Whether arguments and results are wanted.
    fn wants_content(&self) -> bool {
        false
    }

    /// Takes note of a call that ended.
    fn seen(&self, call: &Arc<Observed>);
}
