//! Calls that go on after their asker was answered (MCP's extension `io.modelcontextprotocol/tasks`): which tools may be called
//! so, and where what becomes of such a call is kept.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AttemptId, BoxFuture, Caller};

/// Whether a call of a tool may go on as a task of MCP's extension, for clients that know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskSupport {
    /// It is waited for, however long it takes.
    Never,
    /// Once it takes longer than `server.task_after`, or waits for a human.
    #[default]
    Allowed,
    /// From its beginning.
    Always,
    /// The same, and clients that do not know tasks may not call it.
    Required,
}

impl TaskSupport {
    /// Whether nobody said otherwise.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a call is a task from its beginning.
    pub fn is_at_once(self) -> bool {
        matches!(self, Self::Always | Self::Required)
    }
}

/// A task that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTask {
    /// When it was made.
    pub created: Timestamp,
    /// When it ended, and how: what was given to [`TaskShelf::end`].
    pub end: Option<(Timestamp, String)>,
    /// Until when it is kept.
    pub expires: Timestamp,
    /// Whether the process that runs it lives.
    pub is_alive: bool,
}

/// Where tasks outlive the process that runs them. Only the subject, role and tenant that made one finds it.
pub trait TaskShelf: Send + Sync {
    /// Keeps that a task began. False where its caller has as many as may be kept.
    ///
    /// # Errors
    /// Why it cannot be kept.
    fn begin<'a>(&'a self, id: &'a str, caller: &'a Caller, created: Timestamp) -> BoxFuture<'a, Result<bool, String>>;

    /// Keeps how it ended, until `expires`. `attempt` is what it was in the ledger.
    ///
    /// # Errors
    /// Why it cannot be kept.
    fn end<'a>(
        &'a self,
        id: &'a str,
        attempt: Option<AttemptId>,
        end: (Timestamp, String),
        expires: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// A task of the caller's that is not expired.
    ///
    /// # Errors
    /// Why it cannot be looked up.
    fn find<'a>(
        &'a self,
        id: &'a str,
        caller: &'a Caller,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeptTask>, String>>;
}
