//! One process of a story: a gate on a runtime of its own, which goes on only while the teller waits for it.

use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tollgate_gate::{Gate, Operator};
use tollgate_ledger::{Checkpointing, Ledger, Options};
use tollgate_testkit::TestClock;
use tollgate_types::{Call, CancellationToken, Cx, Outcome, Risk, SourceKind, Tool, ToolError, ToolOutput};

use super::mortal::{Killed, Mortal};
use super::story::{Asked, Ending, Hold, Story, TOOLS};
use crate::idempotency::{caller, free};
use crate::world::{Setup, open_with_ledger, tool};

/// So long a step may take before it is said to hang. Real time, for a machine with much else to do.
const HANGS: Duration = Duration::from_secs(240);
/// So many of its own steps a call makes at most between two waits.
const ROUNDS: usize = 32;

/// What the tools do, and did.
#[derive(Default)]
pub(crate) struct World {
    seed: u64,
    counts_both: bool,
    /// Where the next call that reaches a tool waits, and how it ends.
    plan: Mutex<Option<Plan>>,
    /// What happened to the world: by which attempt.
    pub(crate) effects: Mutex<Vec<String>>,
    /// What ran without a `started` on record.
    pub(crate) unrecorded: Mutex<Vec<String>>,
    /// Whether a call went on beside the teller, who cannot see how far it is: the system's threads have a word in that.
    pub(crate) is_loose: AtomicBool,
    /// Calls under a key of which nobody heard how they ended: an equal one may wait for them.
    unheard: Mutex<Vec<Asked>>,
}

#[derive(Clone)]
struct Plan {
    hold: Hold,
    ending: Ending,
    reached: Arc<Notify>,
    go_on: Arc<Notify>,
}

impl Plan {
    async fn wait(&self, here: Hold) {
        if self.hold == here {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
    }
}

/// A call that has no outcome yet.
pub(crate) struct UnderWay {
    asked: Asked,
    outcome: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    /// Lets its tool go on, which waits; none where the call waits for something else.
    go_on: Option<Arc<Notify>>,
}

pub(crate) struct Process {
    // Fields are dropped in this order: the tasks, and then the gate.
    under_way: Vec<UnderWay>,
    runtime: Option<Runtime>,
    awake: Option<mpsc::Sender<()>>,
    gate: Gate,
    pub(crate) operator: Operator,
    ledger: Arc<Ledger>,
    clock: Arc<Mortal>,
    world: Arc<World>,
}

impl World {
    pub(crate) fn of(story: &Story) -> Arc<Self> {
        Arc::new(Self { seed: story.seed, counts_both: story.counts_both, ..Self::default() })
    }

    /// Notes that a call goes on beside the teller.
    fn loosened_if(&self, goes_on: bool) {
        self.is_loose.fetch_or(goes_on, Ordering::SeqCst);
    }

    /// Whether an equal call may be under way, here or where nobody lives any more. From now on this one is.
    fn may_wait(&self, asked: &Asked) -> bool {
        let mut unheard = self.unheard.lock().unwrap();
        let may_wait = unheard.iter().any(|other| other.has_key_of(asked));
        unheard.push(asked.clone());
        // A tool takes only so many at once.
        may_wait || unheard.iter().filter(|other| other.tool == asked.tool).count() > 5
    }
}

fn tools(world: &Arc<World>, folder: &Path) -> Vec<Arc<dyn Tool>> {
    let one = |name: &str| {
        let (world, folder) = (Arc::clone(world), folder.to_owned());
        let risk = match name {
            "look" => Risk::Read,
            "pay" => Risk::Dangerous,
            _ => Risk::Write,
        };
        let made = tool(name, risk, move |_, cx| run(Arc::clone(&world), folder.clone(), cx)).define(|definition| {
            definition.source.kind = SourceKind::Program;
            definition.annotations.idempotent = (name == "set").then_some(true);
            definition.security.requires_confirmation = name == "pay";
        });
        made.arc()
    };
    TOOLS.map(one).into()
}

async fn run(world: Arc<World>, folder: std::path::PathBuf, cx: Cx) -> Result<ToolOutput, ToolError> {
    let attempt = cx.attempt.to_string();
    if !has_started(&folder, &attempt) {
        world.unrecorded.lock().unwrap().push(attempt.clone());
    }
    let plan = world.plan.lock().unwrap().take();
    let ending = plan.as_ref().map_or(Ending::Done, |plan| plan.ending);
    if let Some(plan) = &plan {
        plan.wait(Hold::BeforeItsEffect).await;
    }
    if ending == Ending::NothingHappened {
        return Err(ToolError { nothing_happened: true, ..ToolError::new("not now") });
    }
    world.effects.lock().unwrap().push(attempt.clone());
    if let Some(plan) = &plan {
        plan.wait(Hold::AfterItsEffect).await;
    }
    match ending {
        Ending::Fails => Err(ToolError::new("half done")),
        Ending::Panics => std::panic::resume_unwind(Box::new("a tool that panics")),
        Ending::Done | Ending::NothingHappened => Ok(ToolOutput::text(format!("by {attempt}"))),
    }
}

fn has_started(folder: &Path, attempt: &str) -> bool {
    let started = r#""event":"started""#;
    std::fs::read_dir(folder.join("audit"))
        .unwrap()
        .filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok())
        .any(|text| text.lines().any(|line| line.contains(started) && line.contains(attempt)))
}

/// What `work` gives; none where the process died in it.
fn alive<T>(work: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(panic) if panic.is::<Killed>() => None,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Process {
    /// Opens the folder; none where it dies over that.
    pub(crate) fn open(
        folder: &Path,
        time: &Arc<TestClock>,
        world: &Arc<World>,
        segment_bytes_max: u64,
        reads_left: Option<u32>,
    ) -> Option<Self> {
        let clock = Mortal::new(time, reads_left, world.counts_both);
        // Signed at the end only: what signs is a thread of its own.
        let checkpointing =
            Checkpointing { every_ms: 1 << 50, every_records: 1 << 50, idle_ms: 1 << 50, ..Checkpointing::default() };
        let options = Options { segment_bytes_max, checkpointing, ..Options::default() };
        let setup = Setup {
            roles: vec![free()],
            tools: tools(world, folder),
            clock: Some(Arc::<Mortal>::clone(&clock)),
            options,
            ..Setup::default()
        };
        let (gate, operator, ledger) = alive(|| open_with_ledger(folder, setup))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            // One that holds the time, and one that does the store's work, one piece after the other.
            .max_blocking_threads(2)
            .build()
            .unwrap();
        let (awake, asleep) = mpsc::channel::<()>();
        // A paused clock goes on by itself once nothing is left to do, unless something blocks.
        let seed = world.seed;
        runtime.spawn_blocking(move || {
            if asleep.recv_timeout(HANGS) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = writeln!(std::io::stderr(), "seed {seed} hangs: TOLLGATE_SEED={seed}");
                std::process::abort();
            }
        });
        let (runtime, awake, under_way) = (Some(runtime), Some(awake), Vec::new());
        Some(Self { under_way, runtime, awake, gate, operator, ledger, clock, world: Arc::clone(world) })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.clock.is_dead()
    }

    pub(crate) fn clock(&self) -> &Mortal {
        &self.clock
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Goes on until `work` is done; none where the process dies over it.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let runtime = self.runtime.as_ref().filter(|_| !self.is_dead())?;
        alive(|| runtime.block_on(work)).filter(|_| !self.is_dead())
    }

    /// Makes a call, until it ends or waits for something.
    pub(crate) fn call(&mut self, asked: &Asked, hold: Hold, ending: Ending) -> Option<Outcome> {
        let plan = Plan { hold, ending, reached: Arc::default(), go_on: Arc::default() };
        let mut call = Call::tool(asked.tool, json!({"item": asked.item}));
        call.idempotency_key = asked.key.map(|key| format!("k{key}"));
        *self.world.plan.lock().unwrap() = Some(plan.clone());
        let who = caller(asked.subject);
        let may_wait = self.world.may_wait(asked);
        self.world.loosened_if(may_wait);
        let (under_way, ended) = self.block_on(async {
            let mut outcome = self.gate.call_until(&who, call, CancellationToken::new()).boxed();
            let (ended, go_on) = tokio::select! {
                biased;
                ended = &mut outcome => (Some(ended), None),
                () = plan.reached.notified() => (None, Some(plan.go_on)),
                () = self.rounds(), if may_wait => (None, None),
            };
            (UnderWay { asked: asked.clone(), outcome, go_on }, ended)
        })?;
        // What did not come to a tool leaves no plan for the next one.
        self.world.plan.lock().unwrap().take();
        self.heard(under_way, ended)
    }

    /// Keeps a call that has no outcome yet.
    fn heard(&mut self, one: UnderWay, ended: Option<Outcome>) -> Option<Outcome> {
        match ended {
            Some(_) => self.world.unheard.lock().unwrap().retain(|asked| *asked != one.asked),
            None => self.under_way.push(one),
        }
        ended
    }

    /// Lets a tool that waits go on.
    pub(crate) fn release(&mut self, which: usize) -> Option<Outcome> {
        let place = which.checked_rem(self.under_way.len())?;
        self.under_way[place].go_on.take()?.notify_one();
        let mut one = self.under_way.remove(place);
        let ended = Some(self.block_on(&mut one.outcome)?);
        self.heard(one, ended)
    }

    /// The asker of a call leaves.
    pub(crate) fn leave(&mut self, which: usize) -> Option<()> {
        let place = which.checked_rem(self.under_way.len())?;
        drop(self.under_way.remove(place));
        self.world.loosened_if(true);
        self.block_on(self.rounds())
    }

    /// Lets time pass. What ended by that.
    pub(crate) fn pass(&mut self, ms: u64) -> Vec<Outcome> {
        let mut under_way = std::mem::take(&mut self.under_way);
        self.world.loosened_if(!under_way.is_empty());
        let ended = self.block_on(async {
            let mut ended = Vec::new();
            // A tool whose time is up has a moment to end by itself.
            for ms in [ms, 5_000] {
                tokio::time::advance(Duration::from_millis(ms)).await;
                self.rounds().await;
                let mut rest = Vec::new();
                for mut one in under_way.drain(..) {
                    match (&mut one.outcome).now_or_never() {
                        Some(outcome) => ended.push(outcome),
                        None => rest.push(one),
                    }
                }
                under_way = rest;
            }
            ended
        });
        self.under_way = under_way;
        ended.unwrap_or_default()
    }

    /// As long as whoever is under way needs to come to its next wait: each round goes through the store's queue and the
    /// ledger's, behind whatever stands there. What they say does not matter.
    async fn rounds(&self) {
        for _ in 0..ROUNDS {
            let _ = tokio::task::spawn_blocking(|| ()).await;
            let _ = self.ledger.checkpoint_now().await;
        }
    }

    /// Ends in good order: who waits is sent away, tools come to their end. What ended by that.
    pub(crate) fn stop(mut self) -> Vec<Outcome> {
        let mut ended = Vec::new();
        while !self.under_way.is_empty() && !self.is_dead() {
            let before = self.under_way.len();
            ended.extend(self.release(0));
            if self.under_way.len() == before {
                self.leave(0);
            }
        }
        self.pass(5_000);
        self.block_on(self.gate.drain());
        if !self.is_dead() {
            self.clock.spare();
        }
        self.end();
        ended
    }

    /// Ends as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.clock.kill();
        self.end();
    }

    fn end(&mut self) {
        self.under_way.clear();
        self.awake = None;
        self.runtime = None;
    }
}
