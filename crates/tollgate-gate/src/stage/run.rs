//! Run: recorded as started before it starts; stopped when its time is up or nobody waits any more.

use std::time::Duration;

use tollgate_types::{Code, ErrorObject, Risk, ToolError, ToolOutput};

use super::approve::Cleared;
use super::{Stop, cancelled, ledger_unavailable, replay};
use crate::gate::Trip;

/// What a tool returned.
pub(crate) struct Ran {
    cleared: Cleared,
    output: ToolOutput,
}

impl Ran {
    pub(super) fn into_parts(self) -> (Cleared, ToolOutput) {
        (self.cleared, self.output)
    }
}

/// Between two tries of a retryable failure, doubled each time.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn run(trip: Trip<'_>, cleared: Cleared) -> Result<Ran, Stop> {
    let executor = std::sync::Arc::clone(cleared.executor());
    let wait = cleared.cx().deadline;
    let _turn = tokio::select! {
        turn = tokio::time::timeout(wait, executor.turnstile.acquire()) => match turn {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) | Err(_) => return Err(Stop::new(Code::Unavailable, "the tool is busy: its earlier calls have not ended")),
        },
        () = trip.cancellation.cancelled() => return Err(cancelled("cancelled before it started")),
    };
    let gate = trip.gate.inner();
    replay::reserve(trip, &cleared).await?;
    let risk = cleared.entry().definition.risk;
    trip.attempt.started(gate, risk).await.map_err(|error| ledger_unavailable(&error))?;
    let mut tries = 0;
    loop {
        match once(trip, &cleared).await {
            Ok(output) => return Ok(Ran { cleared, output }),
            Err(error) if tries < retries_allowed(trip, &cleared, &error) => {
                tokio::time::sleep(RETRY_PAUSE * 2_u32.saturating_pow(tries)).await;
                tries += 1;
                trip.attempt.retried();
            }
            Err(error) => return Err(Stop::Error(redacted(trip, error.into()))),
        }
    }
}

async fn once(trip: Trip<'_>, cleared: &Cleared) -> Result<ToolOutput, ToolError> {
    let cx = cleared.cx().clone();
    let (limit, stop) = (cx.deadline, cx.cancellation.clone());
    let tool = &cleared.executor().tool;
    let is_read = cleared.entry().definition.risk == Risk::Read;
    let ended = tokio::select! {
        // What came back counts, even when the asker left at the same moment.
        biased;
        ended = tokio::time::timeout(limit, tool.call(cleared.arguments().clone(), cx)) => ended,
        () = trip.cancellation.cancelled() => {
            return Err(halved(ToolError::with_code(Code::Cancelled, "cancelled while it ran"), is_read));
        }
    };
    ended.unwrap_or_else(|_| {
        stop.cancel();
        let message = format!("the tool did not finish within {} ms", limit.as_millis());
        Err(halved(ToolError::with_code(Code::Timeout, message), is_read))
    })
}

/// A change that was broken off may have happened in part.
fn halved(error: ToolError, is_read: bool) -> ToolError {
    if is_read {
        return error;
    }
    let mut error = error.with_hint("it may have happened in part: check before asking again");
    error.retryable = false;
    error
}

/// Only what may happen twice is tried twice.
fn retries_allowed(trip: Trip<'_>, cleared: &Cleared, error: &ToolError) -> u32 {
    let definition = &cleared.entry().definition;
    let is_repeatable = definition.risk == Risk::Read
        || definition.annotations.idempotent == Some(true)
        || trip.call.idempotency_key.is_some();
    let is_listed = definition
        .execution
        .retryable_errors
        .iter()
        .any(|name| name == error.code.as_str() || Some(name) == error.tool_code.as_ref());
    if is_repeatable && is_listed && !trip.cancellation.is_cancelled() { definition.execution.max_retries } else { 0 }
}

fn redacted(trip: Trip<'_>, mut error: ErrorObject) -> ErrorObject {
    let redactor = &trip.gate.inner().redactor;
    error.message = redactor.text(&error.message).into_owned();
    error.hint = error.hint.map(|hint| redactor.text(&hint).into_owned());
    for detail in &mut error.details {
        detail.message = redactor.text(&detail.message).into_owned();
    }
    error
}
