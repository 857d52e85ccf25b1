//! Run: recorded as started before it starts; stopped when its time is up or nobody waits any more.

use std::sync::Arc;
use std::time::Duration;

use tollgate_types::{Code, Cx, ErrorObject, HandedKey, Risk, ToolError, ToolOutput, limits};

use super::approve::{Cleared, Yes};
use super::{Stop, budget, cancelled, ledger_unavailable, presentable, replay, store_unavailable};
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
/// What a tool has to end by itself: a program's own grace, and a little.
const GRACE: Duration = Duration::from_millis(limits::PROGRAM_GRACE_MS + 250);

pub(crate) async fn run(trip: Trip<'_>, cleared: Cleared) -> Result<Ran, Stop> {
    let executor = Arc::clone(cleared.executor());
    let wait = cleared.cx().deadline;
    let _turn = tokio::select! {
        turn = tokio::time::timeout(wait, executor.turnstile.turn(&trip.attempt.caller.subject)) => match turn {
            Ok(turn) => turn,
            Err(_) => {
                let error = ErrorObject::new(Code::Unavailable, "the tool is busy: its earlier calls have not ended");
                return Err(Stop::Error(error.with_hint("ask again later")));
            }
        },
        () = trip.cancellation.cancelled() => return Err(cancelled("cancelled before it started")),
    };
    let gate = trip.gate.inner();
    budget::hold(trip, &cleared).await?; // first: it can be given back, a yes that is used up cannot
    replay::reserve(trip, &cleared).await?; // before the yes, which is not for an answer that stands already
    use_up(trip, &cleared).await?;
    let handed = replay::handed(trip, &cleared)?;
    let risk = cleared.entry().definition.risk;
    trip.attempt.started(gate, risk).await.map_err(|error| ledger_unavailable(&error))?;
    let mut tries = 0;
    loop {
        let ended = once(trip, &cleared, handed.clone()).await;
        let definition = &cleared.entry().definition;
        gate.heard(&trip.attempt.caller, definition, cleared.arguments(), &ended);
        match ended {
            Ok(output) => {
                trip.attempt.came_to(definition.came_to(output.structured.as_ref()));
                return Ok(Ran { cleared, output });
            }
            Err(error) if tries < retries_allowed(trip, &cleared, &error) => {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_PAUSE * 2_u32.saturating_pow(tries)) => {}
                    () = trip.cancellation.cancelled() => return Err(cancelled("cancelled between two tries")),
                }
                tries += 1;
                trip.attempt.retried();
            }
            Err(error) => {
                if error.nothing_happened {
                    trip.attempt.nothing_happened();
                }
                return Err(Stop::Error(presentable(gate, error.into())));
            }
        }
    }
}

/// Uses up the yes that the call runs under. When another call was first, a human must be asked again.
async fn use_up(trip: Trip<'_>, cleared: &Cleared) -> Result<(), Stop> {
    let Some(yes) = cleared.yes() else { return Ok(()) };
    let gate = trip.gate.inner();
    let used = match yes {
        Yes::Call(approval) => gate.store.consume(approval.clone(), gate.clock.now()).await,
        Yes::Session(grant) => gate.store.use_grant(grant.clone(), gate.clock.now()).await,
    };
    match used {
        Ok(true) => Ok(()),
        Ok(false) => {
            let error = ErrorObject::new(Code::Conflict, "the approval was used up or taken back at the same moment");
            Err(Stop::Error(error.with_hint("ask again: a human must approve once more")))
        }
        Err(error) => Err(store_unavailable(&error)),
    }
}

/// One try. A tool whose time is up, or that nobody waits for any more, is told so, and has a moment to end by itself
/// before it is dropped.
async fn once(trip: Trip<'_>, cleared: &Cleared, handed_key: Option<HandedKey>) -> Result<ToolOutput, ToolError> {
    let cx = Cx { handed_key, ..cleared.cx().clone() };
    let (limit, stop) = (cx.deadline, cx.cancellation.clone());
    let mut running = cleared.executor().tool.call(cleared.arguments().clone(), cx);
    let error = tokio::select! {
        // What came back counts, even when the asker left at the same moment.
        biased;
        ended = &mut running => return ended,
        () = trip.cancellation.cancelled() => ToolError::with_code(Code::Cancelled, "cancelled while it ran"),
        () = tokio::time::sleep(limit) => {
            let message = format!("the tool did not finish within {} ms", limit.as_millis());
            ToolError::with_code(Code::Timeout, message)
        }
    };
    stop.cancel();
    // Its last words do not make the call a success: it was broken off.
    let _ = tokio::time::timeout(GRACE, running).await;
    Err(halved(error, cleared.entry().definition.risk))
}

/// A change that was broken off may have happened in part.
fn halved(error: ToolError, risk: Risk) -> ToolError {
    if risk == Risk::Read {
        return error;
    }
    let mut error = error.with_hint(MAY_HAVE_HAPPENED);
    error.retryable = false;
    error
}

/// What must be said of a change that did not end well.
pub(crate) const MAY_HAVE_HAPPENED: &str = "it may have happened in part: check before asking again";

/// Only what may happen twice is tried twice. An idempotency key says nothing of that: the tool does not know it.
fn retries_allowed(trip: Trip<'_>, cleared: &Cleared, error: &ToolError) -> u32 {
    let definition = &cleared.entry().definition;
    let is_repeatable = definition.risk == Risk::Read || definition.annotations.idempotent == Some(true);
    let is_listed = definition
        .execution
        .retryable_errors
        .iter()
        .any(|name| name == error.code.as_str() || Some(name) == error.tool_code.as_ref());
    if is_repeatable && is_listed && !trip.cancellation.is_cancelled() { definition.execution.max_retries } else { 0 }
}
