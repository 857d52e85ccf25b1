//! Descend: what is left of the ladder once a call failed for good: another tool, which passes the whole gate as a call of its
//! own, then a human, then the caller is told.

use std::sync::Arc;
use std::time::Duration;

use tollgate_store::StandIn;
use tollgate_types::{
    Call, CallResult, Code, Content, End, ErrorObject, Fallback, Mismatch, Outcome, Risk, Status, ToolError, ToolOutput,
};

use super::approve::Cleared;
use super::run::{Time, halved};
use super::{Stop, admit, intervene, presentable, replay, shape};
use crate::gate::Trip;
use crate::nested::Nested;
use crate::resilience::failure::Failure;
use crate::resilience::ladder::Said;
use crate::resilience::mapping;
use crate::resilience::source::count;

/// How a failed call ends.
pub(super) async fn descend(
    trip: Trip<'_>,
    cleared: &Cleared,
    time: Time<'_>,
    error: ToolError,
    may_have_happened: bool,
) -> Stop {
    if error.nothing_happened {
        trip.attempt.nothing_happened();
    }
    let steps = cleared.executor().ladder.steps(&Failure::of(&error));
    let asks_human = steps.asks_human();
    let said = if may_have_happened { halved(error.clone()) } else { error.clone() };
    let mut told = presentable(trip.gate.inner(), said.into());
    if let Some(fallback) = steps.fallback
        && is_safe(trip, cleared, fallback, &error)
        && !trip.cancellation.is_cancelled()
    {
        match instead(trip, cleared, time, fallback.what, &told).await {
            Ok(stop) => return stop,
            Err(also) => told = also,
        }
    }
    if asks_human { intervene::ask(trip, cleared, told).await } else { Stop::Error(told) }
}

/// What may have happened must not happen once more by another way: then only a tool that reads is called instead. Where the
/// tool itself says that it failed, the operator's word on that very code is enough.
fn is_safe(trip: Trip<'_>, cleared: &Cleared, fallback: Said<&Fallback>, error: &ToolError) -> bool {
    let is_read = cleared.entry().definition.risk == Risk::Read;
    let is_said = error.code == Code::ToolError && fallback.is_named;
    error.nothing_happened || is_read || is_said || reads(trip, fallback.what)
}

/// Whether the caller may know of the other tool.
fn is_shown(trip: Trip<'_>, fallback: &Fallback) -> bool {
    let gate = trip.gate.inner();
    let other = gate.catalog.get(&fallback.tool);
    other
        .is_some_and(|other| admit::hidden(gate, &trip.attempt.caller, &gate.policy.now(), &other.definition).is_none())
}

/// Whether the other tool is known to change nothing.
fn reads(trip: Trip<'_>, fallback: &Fallback) -> bool {
    trip.gate.inner().catalog.get(&fallback.tool).is_some_and(|other| other.definition.risk == Risk::Read)
}

/// Calls the other tool. An error is what the caller is told where that brought no answer either.
async fn instead(
    trip: Trip<'_>,
    cleared: &Cleared,
    time: Time<'_>,
    fallback: &Fallback,
    told: &ErrorObject,
) -> Result<Stop, ErrorObject> {
    let is_shown = is_shown(trip, fallback);
    let also = |why: String| {
        let mut error = told.clone();
        if !is_shown {
            // A tool that this caller may not call does not exist for it, here neither.
            return error;
        }
        let hint = told.hint.as_ref().map(|hint| format!("{hint}; ")).unwrap_or_default();
        error.hint = Some(format!("{hint}instead `{}` was asked: {why}", fallback.tool));
        presentable(trip.gate.inner(), error)
    };
    let arguments = mapping::apply(fallback, cleared.arguments()).map_err(also)?;
    if !trip.attempt.has_started() {
        // What the other tool does must not be done again under the same key.
        if let Err(stop) = replay::reserve(trip, cleared).await {
            return Ok(stop);
        }
    }
    count(&cleared.executor().source.counts.fallbacks);
    let (outcome, is_late) = asked(trip, time, fallback, arguments).await;
    let has_acted = !reads(trip, fallback) && !matches!(outcome.status(), Status::Refused | Status::Waiting);
    trip.attempt.fell_back(outcome.attempt.clone(), has_acted);
    if has_acted {
        stands_in(trip, &outcome).await;
    }
    match outcome.end {
        End::Done(mut result) => {
            let ended = |result| Ok(Stop::Ended(Box::new(End::Done(marked(result, told, &outcome.tool)))));
            match misfit(cleared, &result) {
                None => ended(result),
                Some(misfit) if is_warned_of(trip, cleared) => {
                    result.warnings.push(presentable(trip.gate.inner(), misfit).message);
                    ended(result)
                }
                Some(misfit) => {
                    let why = format!("{}: {}", misfit.error, misfit.message);
                    Err(ErrorObject { retryable: told.retryable && !has_acted, ..also(why) })
                }
            }
        }
        // Something is under way or was, and nobody knows how it ended.
        End::Unknown(error) => Ok(Stop::Ended(Box::new(End::Unknown(error)))),
        End::Refused(error) | End::Failed(error) | End::Waiting(_, error) => {
            let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            let mut both = also(match is_late {
                true => "the time for both was up before it ended".to_owned(),
                false => format!("{}: {}{hint}", error.error, error.message),
            });
            both.retryable &= error.retryable || !has_acted;
            both.outside |= error.outside;
            Err(both)
        }
    }
}

/// Notes that the other attempt is the one to undo. Without the note the call stands all the same.
async fn stands_in(trip: Trip<'_>, outcome: &Outcome) {
    let (Some(attempt), gate) = (outcome.attempt.clone(), trip.gate.inner()) else { return };
    let other = StandIn { attempt, tool: outcome.tool.clone() };
    if let Err(error) = gate.store.stands_in(trip.attempt.id.clone(), other, gate.clock.now()).await {
        tracing::warn!("attempt {} cannot be undone later: {error}", trip.attempt.id);
    }
}

/// The other call, for the same caller in the same conversation. It ends with this one. And whether it was ended because the
/// time was up.
async fn asked(trip: Trip<'_>, time: Time<'_>, fallback: &Fallback, arguments: serde_json::Value) -> (Outcome, bool) {
    let mut call = Call::tool(&fallback.tool, arguments);
    call.idempotency_key.clone_from(&trip.call.idempotency_key);
    call.progress = trip.call.progress.clone();
    call.client = trip.call.client;
    call.said = Arc::clone(&trip.call.said);
    let door = Nested::of(trip);
    let stop = trip.cancellation.child_token();
    let mut asking = std::pin::pin!(door.enter(&trip.attempt.caller, call, stop.clone()));
    tokio::select! {
        biased;
        outcome = &mut asking => return (outcome, false),
        () = over(time.left()) => stop.cancel(),
    }
    (asking.await, true)
}

async fn over(left: Option<Duration>) {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Why the other tool's result is none of this one's: a caller relies on the schema of what it asked for.
fn misfit(cleared: &Cleared, result: &CallResult) -> Option<ErrorObject> {
    let output = ToolOutput { structured: result.structured.clone(), ..ToolOutput::default() };
    shape::misfit(cleared.entry(), &output)
}

/// Whether such a result goes to this caller all the same, with a warning.
fn is_warned_of(trip: Trip<'_>, cleared: &Cleared) -> bool {
    cleared.entry().definition.output.mismatch_for(&trip.attempt.caller.role) == Mismatch::Warn
}

/// The result, with a word on where it is from.
fn marked(mut result: CallResult, told: &ErrorObject, tool: &str) -> CallResult {
    let why = told.tool_code.clone().unwrap_or_else(|| told.error.to_string());
    result.raw = None;
    result
        .content
        .push(Content::Text(format!("[the tool that was asked for failed ({why}); this is what `{tool}` says]")));
    result
}
