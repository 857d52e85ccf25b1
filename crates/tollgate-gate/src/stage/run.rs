//! Run: takes a turn, is recorded as started before it starts, and is stopped when its time is up or nobody waits any more.
//! What fails is tried again as its ladder says, and goes on to [`super::descend`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tollgate_types::{
    Code, Content, Cx, HandedKey, MAY_HAVE_HAPPENED, SourceKind, ToolDefinition, ToolError, ToolOutput, limits,
};

use super::approve::{Cleared, Yes};
use super::{Stop, budget, cancelled, descend, ledger_unavailable, replay, shape, store_unavailable, undo};
use crate::client::Patience;
use crate::executors::Executor;
use crate::gate::Trip;
use crate::resilience::failure::{Class, Failure};
use crate::resilience::ladder::Standing;
use crate::resilience::source::{Pass, count};
use crate::seat::Place;

/// What a tool returned.
pub(crate) struct Ran {
    cleared: Cleared,
    output: ToolOutput,
}

impl Ran {
    pub(super) fn cleared(&self) -> &Cleared {
        &self.cleared
    }

    pub(super) fn output(&self) -> &ToolOutput {
        &self.output
    }

    pub(super) fn into_parts(self) -> (Cleared, ToolOutput) {
        (self.cleared, self.output)
    }
}

/// What a tool has to end by itself: a program's own grace, and a little.
pub(crate) const GRACE: Duration = Duration::from_millis(limits::PROGRAM_GRACE_MS + 250);

pub(crate) async fn run(trip: Trip<'_>, cleared: Cleared) -> Result<Ran, Stop> {
    let executor = Arc::clone(cleared.executor());
    let mut time = Time::of(trip, &cleared.entry().definition);
    let mut may_have_happened = false;
    let ended = match executor.source.enter(&*trip.gate.inner().clock) {
        Err(wait) => Err(left_alone(&executor.source.name, wait)),
        Ok(pass) => {
            let taken = turn(trip, &executor).await?;
            time = time.begun();
            match taken {
                Err(busy) => Err(busy),
                Ok(place) => {
                    let _seated = trip.patience.seat.sit(&executor, &trip.attempt.caller, place);
                    let handed = begin(trip, &cleared).await?;
                    executor.source.budget.pay_in();
                    let call = Try { trip, cleared: &cleared, handed, time };
                    let ended = tries(&call, pass).await?;
                    may_have_happened = ended.as_ref().is_err_and(|error| call.may_have_happened(error));
                    ended
                }
            }
        }
    };
    match ended {
        Ok(output) => Ok(Ran { cleared, output }),
        // Its turn is over by now: what is called instead may ask the same source.
        Err(error) => Err(descend::descend(trip, &cleared, time, error, may_have_happened).await),
    }
}

/// The time of one call.
#[derive(Clone, Copy)]
pub(super) struct Time<'a> {
    trip: Trip<'a>,
    began: Duration,
    total: Option<Duration>,
}

impl<'a> Time<'a> {
    fn of(trip: Trip<'a>, definition: &ToolDefinition) -> Self {
        let total = definition.execution.total_timeout_ms.map(Duration::from_millis);
        Self { trip, began: trip.gate.inner().clock.monotonic(), total }
    }

    /// The same, begun only now: waiting for a turn does not count.
    fn begun(self) -> Self {
        Self { began: self.trip.gate.inner().clock.monotonic(), ..self }
    }

    /// What is left, where it is limited.
    pub(super) fn left(&self) -> Option<Duration> {
        let passed = self.trip.gate.inner().clock.monotonic().saturating_sub(self.began);
        self.total.map(|total| total.saturating_sub(passed))
    }
}

fn left_alone(source: &str, wait: Duration) -> ToolError {
    let message = format!("`{source}` failed again and again, and is left alone for a while");
    let error = ToolError::with_code(Code::Unavailable, message).nothing_happened().retry_after(Some(wait));
    error.with_hint(format!("ask again in {} s, or use another tool", wait.as_secs_f64().ceil()))
}

/// Waits for a place, in time that is not the tool's.
async fn turn(trip: Trip<'_>, executor: &Executor) -> Result<Result<Place, ToolError>, Stop> {
    let began = trip.gate.inner().clock.monotonic();
    let taken = tokio::select! {
        biased;
        taken = executor.place(&trip.attempt.caller.subject) => taken,
        () = trip.cancellation.cancelled() => return Err(cancelled("cancelled before it started")),
    };
    trip.attempt.queued(trip.gate.inner().clock.monotonic().saturating_sub(began));
    Ok(taken)
}

/// Everything that must stand before the tool starts.
async fn begin(trip: Trip<'_>, cleared: &Cleared) -> Result<Option<HandedKey>, Stop> {
    budget::hold(trip, cleared).await?; // first: it can be given back, a yes that is used up cannot
    replay::reserve(trip, cleared).await?; // before the yes, which is not for an answer that stands already
    undo::claim(trip).await?; // nor for an undo that another one has done
    use_up(trip, cleared).await?;
    let handed = replay::handed(trip, cleared)?;
    let risk = cleared.entry().definition.risk;
    trip.attempt.started(trip.gate.inner(), risk).await.map_err(|error| ledger_unavailable(&error))?;
    Ok(handed)
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
        Ok(false) => Err(Stop::Error(tollgate_types::Text::YesTaken.error(&[]))),
        Err(error) => Err(store_unavailable(&error)),
    }
}

/// A call that has its turn.
struct Try<'a> {
    trip: Trip<'a>,
    cleared: &'a Cleared,
    handed: Option<HandedKey>,
    time: Time<'a>,
}

impl Try<'_> {
    /// Whether doing it twice is doing it once: the operator says so, or the system behind it knows the key.
    fn is_repeatable(&self) -> bool {
        self.handed.is_some() || self.cleared.entry().definition.may_happen_twice()
    }

    /// Whether the tool itself says that it did nothing and may be asked again. An MCP server's word is not enough.
    fn says_again(&self, error: &ToolError) -> bool {
        let is_believed = self.cleared.entry().definition.source.kind != SourceKind::Mcp;
        is_believed && error.code == Code::ToolError && error.retryable
    }

    /// Whether nobody knows that nothing came of it, and doing it twice is not doing it once.
    fn may_have_happened(&self, error: &ToolError) -> bool {
        error.retryable && !error.nothing_happened && !self.is_repeatable() && !self.says_again(error)
    }

    fn standing(&self, error: &ToolError, retries: u32) -> Standing {
        let mut chance = DefaultHasher::new();
        (self.trip.attempt.id.as_str(), retries).hash(&mut chance);
        let left = self.time.left();
        let is_repeatable = self.is_repeatable() || self.says_again(error);
        Standing { is_repeatable, retries, left, chance: chance.finish() }
    }
}

/// As many tries as the ladder, the time, the source and the asker allow.
async fn tries(call: &Try<'_>, mut pass: Pass<'_>) -> Result<Result<ToolOutput, ToolError>, Stop> {
    let (trip, executor) = (call.trip, call.cleared.executor());
    let gate = trip.gate.inner();
    let mut retries = 0;
    loop {
        let ended = once(call).await;
        gate.heard(&trip.attempt.caller, &call.cleared.entry().definition, call.cleared.arguments(), &ended);
        let ended = ended.and_then(|output| judged(trip, call.cleared, output));
        pass.ended(ended.as_ref().err());
        let error = match ended {
            Ok(output) => return Ok(Ok(output)),
            Err(error) => error,
        };
        let failure = Failure::of(&error);
        if failure.class == Class::Timeout {
            count(&executor.source.counts.timeouts);
        }
        let pause = executor.ladder.again(&failure, call.standing(&error, retries));
        let Some(pause) = pause.filter(|_| !trip.cancellation.is_cancelled() && executor.source.budget.take()) else {
            return Ok(Err(error));
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = trip.cancellation.cancelled() => return Err(cancelled("cancelled between two tries")),
        }
        pass = match executor.source.enter(&*gate.clock) {
            Ok(pass) => pass,
            // The failure says more than that others failed too.
            Err(_open) => return Ok(Err(error)),
        };
        retries += 1;
        count(&executor.source.counts.retries);
        trip.attempt.retried();
    }
}

/// What a tool returned is a failure where it says so itself.
fn judged(trip: Trip<'_>, cleared: &Cleared, output: ToolOutput) -> Result<ToolOutput, ToolError> {
    trip.attempt.came_to(cleared.entry().definition.came_to(output.structured.as_ref()));
    let kind = cleared.entry().definition.source.kind;
    match shape::own_failure(&output) {
        // What the house's own functions say is the house's.
        Some(error) if matches!(kind, SourceKind::Native | SourceKind::Builtin) => Err(error),
        Some(error) => Err(error.from_outside()),
        None => Ok(output),
    }
}

/// One try. A tool whose time is up, that was silent for too long, or that nobody waits for any more, is told so, and has a
/// moment to end by itself before it is dropped.
async fn once(call: &Try<'_>) -> Result<ToolOutput, ToolError> {
    let (trip, cleared) = (call.trip, call.cleared);
    let execution = &cleared.entry().definition.execution;
    let whole = cleared.cx().deadline;
    let limit = call.time.left().map_or(whole, |left| left.min(whole));
    let idle = execution.idle_timeout_ms.map(Duration::from_millis);
    let heard = idle.map(|_| Arc::new(Notify::new()));
    let mut cx = Cx { handed_key: call.handed.clone(), deadline: limit, ..cleared.cx().clone() };
    // Each try has its own stop: the last one's must not end this one.
    cx.cancellation = trip.cancellation.child_token();
    if let Some(heard) = &heard {
        let heard = Arc::clone(heard);
        cx.progress = cx.progress.with_alive(move || heard.notify_one());
    }
    let stop = cx.cancellation.clone();
    let mut running = cleared.executor().tool.call(cleared.arguments().clone(), cx);
    let error = tokio::select! {
        // What came back counts, even when the asker left at the same moment.
        biased;
        ended = &mut running => return ended.and_then(shallow),
        () = trip.cancellation.cancelled() => ToolError::with_code(Code::Cancelled, "cancelled while it ran"),
        () = trip.patience.outlast(limit, &*trip.gate.inner().clock) => late("did not finish", limit),
        silent = silence(idle.zip(heard.as_deref()), trip.patience) => late("said nothing", silent),
    };
    stop.cancel();
    // Its last words do not make the call a success: it was broken off.
    let _ = tokio::time::timeout(GRACE, running).await;
    Err(if call.is_repeatable() { error } else { halved(error) })
}

fn late(what: &str, limit: Duration) -> ToolError {
    ToolError::with_code(Code::Timeout, format!("the tool {what} within {} ms", limit.as_millis()))
}

/// Returns once nothing was heard for so long.
async fn silence(listening: Option<(Duration, &Notify)>, patience: &Patience) -> Duration {
    let Some((idle, heard)) = listening else { return std::future::pending().await };
    while tokio::time::timeout(idle, heard.notified()).await.is_ok() || patience.is_waiting() {}
    idle
}

/// A result that is nested too deeply ends here: everything behind walks through it.
fn shallow(output: ToolOutput) -> Result<ToolOutput, ToolError> {
    let is_deep = |value: &Value| tollgate_shape::is_deeper(value, limits::RESULT_DEPTH_MAX);
    let is_deep_part = |part: &Content| matches!(part, Content::Other(value) if is_deep(value));
    if !output.content.iter().any(is_deep_part) && !output.structured.as_ref().is_some_and(is_deep) {
        return Ok(output);
    }
    for part in output.content {
        if let Content::Other(value) = part {
            tollgate_shape::dismantle(value);
        }
    }
    output.structured.into_iter().for_each(tollgate_shape::dismantle);
    let message = format!("the tool's result is nested deeper than {} levels", limits::RESULT_DEPTH_MAX);
    let hint = "the call ran, but its result cannot be shown: do not repeat it; tell the user";
    Err(ToolError::with_code(Code::InvalidOutput, message).with_hint(hint))
}

/// A change that was broken off may have happened in part.
pub(super) fn halved(error: ToolError) -> ToolError {
    ToolError { retryable: false, retry_after_ms: None, ..error.with_hint(MAY_HAVE_HAPPENED) }
}
