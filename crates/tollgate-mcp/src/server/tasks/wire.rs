//! Tasks as their clients read them.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::limits;

use crate::jsonrpc::RpcError;

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// How a task ended; this is what the shelf keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended {
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Box<RawValue>>,
}

impl Ended {
    fn of(status: Status) -> Self {
        Self { status, status_message: None, result: None, error: None }
    }

    /// It has not, and this is where it is.
    pub(super) fn not_yet(message: Option<String>) -> Self {
        Self { status_message: message, ..Self::of(Status::Working) }
    }

    /// Somebody wanted it to end.
    pub(super) fn cancelled() -> Self {
        let message = "cancelled: what it did until then stays".to_owned();
        Self { status_message: Some(message), ..Self::of(Status::Cancelled) }
    }

    /// What the request would have been answered: a result, of a tool that failed too, or an error of the protocol.
    pub(super) fn told(answer: Result<Box<RawValue>, RpcError>) -> Self {
        match answer {
            Ok(result) => Self { result: Some(result), ..Self::of(Status::Completed) },
            Err(error) => Self::failed(&error),
        }
    }

    pub(super) fn failed(error: &RpcError) -> Self {
        // Strings, integers and values: writing these to memory can not fail.
        let raw = to_raw_value(error).ok();
        Self { status_message: Some(error.message().to_owned()), error: raw, ..Self::of(Status::Failed) }
    }
}

/// A task (MCP tasks: data types).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::server) struct Task {
    task_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<Box<RawValue>>,
    #[serde(flatten)]
    at: Ended,
    created_at: String,
    last_updated_at: String,
    ttl_ms: u64,
    poll_interval_ms: u64,
}

impl Task {
    pub(super) fn new(id: &str, created: Timestamp, updated: Timestamp, expires: Timestamp, at: Ended) -> Self {
        Self {
            task_id: id.to_owned(),
            input_requests: None,
            at,
            created_at: created.to_string(),
            last_updated_at: updated.to_string(),
            ttl_ms: u64::try_from(expires.duration_since(created).as_millis()).unwrap_or(1).max(1),
            poll_interval_ms: limits::TASK_POLL_MS,
        }
    }

    /// The same, which waits for its client.
    pub(super) fn asking(mut self, requests: Box<RawValue>) -> Self {
        self.at.status = Status::InputRequired;
        self.input_requests = Some(requests);
        self
    }

    /// The same as it is told in the place of a result: what it asks, and came to, is told to those who ask.
    pub(super) fn begun(self) -> Self {
        let at = Ended::not_yet(self.at.status_message);
        Self { input_requests: None, at, ..self }
    }
}

/// `from`, and so long after it.
pub(super) fn after(from: Timestamp, keep: Duration) -> Timestamp {
    from.checked_add(keep).unwrap_or(Timestamp::MAX)
}
