//! Tools that fail as they are told to, and count what they did.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tollgate_types::{Clock, Code, Cx, OnError, ProgressUpdate, Risk, ToolError, ToolOutput};

use crate::world::{Setup, TestTool, World, tool};

/// How one try goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers at once.
    Answer,
    /// It answers after so many milliseconds.
    Delay(u64),
    /// It never answers, and ends when it is told to.
    Hang,
    /// It never answers, and does not listen.
    Deaf,
    /// Every 100 ms it reports progress or shows by turns that it is alive, and never ends.
    Drip,
    /// The connection breaks off after 50 ms.
    Reset,
    /// There is no connection: nothing happened.
    Refused,
    /// Half an answer.
    Half,
    /// Ten thousand steps of progress, then an answer.
    Flood,
    /// It says that it failed, and that it may be asked again.
    Lie,
    /// Its answer does not fit its schema.
    Misfit,
    /// The server wants to be left alone for 1.5 s.
    Busy,
    /// The server does not know us.
    Login,
    /// A bug.
    Panic,
}

impl Fault {
    pub(crate) const ALL: [Self; 14] = [
        Self::Answer,
        Self::Delay(400),
        Self::Hang,
        Self::Deaf,
        Self::Drip,
        Self::Reset,
        Self::Refused,
        Self::Half,
        Self::Flood,
        Self::Lie,
        Self::Misfit,
        Self::Busy,
        Self::Login,
        Self::Panic,
    ];

    /// Whether something happened, whatever was heard of it. A tool that says it did nothing is believed.
    pub(crate) fn acts(self) -> bool {
        !matches!(self, Self::Refused | Self::Busy | Self::Login | Self::Lie)
    }
}

/// What was done, over all tries.
#[derive(Default)]
pub(crate) struct Deeds {
    /// When each try began, in milliseconds.
    pub(crate) tries: Mutex<Vec<u64>>,
    pub(crate) effects: AtomicUsize,
    /// Runs that were neither ended nor dropped.
    pub(crate) alive: AtomicUsize,
    /// The most that there were at once.
    pub(crate) most: AtomicUsize,
    pub(crate) arguments: Mutex<Vec<Value>>,
}

impl Deeds {
    pub(crate) fn count(&self) -> usize {
        self.tries.lock().unwrap().len()
    }
}

struct Alive(Arc<Deeds>);

impl Alive {
    fn new(deeds: &Arc<Deeds>) -> Self {
        deeds.most.fetch_max(deeds.alive.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(Arc::clone(deeds))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A tool whose tries go as `faults` says, the last one for good.
pub(crate) fn double(name: &str, risk: Risk, faults: impl Into<Vec<Fault>>, deeds: &Arc<Deeds>) -> TestTool {
    let (deeds, faults) = (Arc::clone(deeds), faults.into());
    tool(name, risk, move |arguments, cx| {
        let deeds = Arc::clone(&deeds);
        let fault = {
            let mut tries = deeds.tries.lock().unwrap();
            tries.push(cx.clock.monotonic().as_millis() as u64);
            faults[(tries.len() - 1).min(faults.len() - 1)]
        };
        deeds.arguments.lock().unwrap().push(arguments);
        deeds.effects.fetch_add(usize::from(fault.acts()), Ordering::SeqCst);
        let alive = Alive::new(&deeds);
        async move {
            let _alive = alive;
            go(fault, cx).await
        }
    })
    .define(|d| d.output_schema = Some(json!({"type": "object", "properties": {"ok": {"type": "boolean"}}})))
}

async fn go(fault: Fault, cx: Cx) -> Result<ToolOutput, ToolError> {
    let answer = || Ok(ToolOutput::structured(json!({"ok": true})));
    let stopped = || Err(ToolError::with_code(Code::Cancelled, "stopped"));
    let mut is_step = false;
    let step = || cx.progress.report(ProgressUpdate { progress: 1.0, total: None, message: None });
    let upstream = |code: &str| ToolError::with_code(Code::UpstreamError, "the server sneezed").with_tool_code(code);
    match fault {
        Fault::Answer => answer(),
        Fault::Delay(ms) => {
            sleep(Duration::from_millis(ms)).await;
            answer()
        }
        Fault::Hang => {
            cx.cancellation.cancelled().await;
            stopped()
        }
        Fault::Deaf => std::future::pending().await,
        Fault::Drip => loop {
            is_step = !is_step;
            if is_step {
                step()
            } else {
                cx.progress.alive()
            }
            if cx.cancellation.run_until_cancelled(sleep(Duration::from_millis(100))).await.is_none() {
                return stopped();
            }
        },
        Fault::Reset => {
            sleep(Duration::from_millis(50)).await;
            Err(upstream("BROKEN_OFF"))
        }
        Fault::Refused => Err(upstream("UNREACHABLE").nothing_happened()),
        Fault::Half => Err(ToolError::with_code(Code::UpstreamError, "its answer can not be read")),
        Fault::Flood => {
            (0..10_000).for_each(|_| step());
            answer()
        }
        Fault::Lie => Ok(ToolOutput::structured(json!({"ok": false, "error": "rate_limit", "retryable": true}))),
        Fault::Misfit => Ok(ToolOutput::structured(json!({"ok": "yes"}))),
        Fault::Busy => Err(upstream("RATE_LIMITED").nothing_happened().retry_after(Some(Duration::from_millis(1_500)))),
        Fault::Login => Err(upstream("HTTP_401").nothing_happened()),
        Fault::Panic => panic!("on purpose"),
    }
}

/// A clock that shows tokio's time, from whatever thread.
pub(crate) struct TokioClock {
    runtime: Handle,
    origin: Instant,
}

impl TokioClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock of these tests")]
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { runtime: Handle::current(), origin: Instant::now() })
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(1_767_323_045, 0) + self.monotonic()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock of these tests")]
    fn monotonic(&self) -> Duration {
        let _inside = self.runtime.enter();
        Instant::now().saturating_duration_since(self.origin)
    }
}

/// Waits without standing still: paused time goes on only while everything waits.
pub(crate) async fn busy_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

/// A world in simulated time.
pub(crate) fn world(setup: Setup) -> (World, Arc<TokioClock>) {
    let clock = TokioClock::new();
    let shown = Arc::clone(&clock);
    (World::with(Setup { clock: Some(shown), ..setup }), clock)
}

pub(crate) fn on_error(value: Value) -> OnError {
    serde_json::from_value(value).unwrap()
}

/// The built-in ladder, without chance.
pub(crate) fn plain_ladder() -> Value {
    json!({
        "network_error": {"retry": {"max": 3, "pause_ms": 1000, "jitter": false}},
        "timeout": {"retry": {"max": 1, "pause_ms": 0}},
        "default": {},
    })
}
