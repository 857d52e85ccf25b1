//! One server and its life: started when it is needed, asked what it can do, asked again when it says that this changed,
//! and started again when it ends, more slowly each time.

mod follow;
mod lists;
mod open;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tollgate_guard::client::Client;
use tollgate_types::{CancellationToken, Clock, Code, Owner, Tool, ToolError};

use super::config::{Asks, Limits, Rule, Start, UpstreamConfig};
use super::entry::UpstreamEntry;
use super::fault::Fault;
use super::handshake::{self, Memory};
use super::heard::{Heard, Tell};
use super::introduction::Introduction;
use super::link::Link;
use super::message::{Ask, Lists};
use super::name;
use super::outcome;
use super::pool::Pool;
use super::status::{Quarantined, Trouble, UpstreamState, UpstreamStatus};
use super::tool::UpstreamTool;
use super::traces::Traces;
use super::upstreams::OnChange;
use crate::server::Revision;
use follow::Followed;

const REASON_CHARS_MAX: usize = 1_000;

/// One server.
pub(super) struct Server {
    config: UpstreamConfig,
    rules: Vec<Rule>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    client: Client,
    on_change: OnChange,
    phase: watch::Sender<Phase>,
    wanted: Notify,
    heard: Arc<Heard>,
    followed: Followed,
    traces: Arc<Traces>,
    facts: Mutex<Facts>,
    pool: Option<Pool>,
}

#[derive(Debug, Clone)]
enum Phase {
    Idle,
    Starting,
    Ready(Arc<Link>),
    Down { reason: Arc<str>, until: Duration },
    Stopped,
}

#[derive(Debug, Default)]
struct Facts {
    tools: Vec<Arc<UpstreamTool>>,
    entries: BTreeMap<Lists, Vec<Arc<UpstreamEntry>>>,
    quarantined: BTreeMap<Lists, Vec<Quarantined>>,
    agreed: Option<Revision>,
    memory: Option<Memory>,
    introduction: Introduction,
    trouble: Option<Trouble>,
    /// Why streamable HTTP was given up.
    refusal: Option<String>,
    last_error: Option<String>,
    restarts: u64,
    ready_at: Option<Duration>,
}

/// Why a connection is over.
enum End {
    /// We were told to stop.
    Told,
    /// It must be tried again at once: the server ended at a question that it does not know.
    Again,
    /// It fell: why, and the same in a word.
    Fell(String, Trouble),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fell(fault.to_string(), fault.trouble())
    }
}

impl Facts {
    fn names(&self, list: Lists) -> impl Iterator<Item = String> {
        self.entries.get(&list).into_iter().flatten().map(|entry| entry.known.definition.name.clone())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.config.name).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(
        config: UpstreamConfig,
        rules: Vec<Rule>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        client: Client,
        on_change: OnChange,
    ) -> Self {
        let (phase, _) = watch::channel(Phase::Idle);
        let (wanted, heard, followed) = (Notify::new(), Arc::new(Heard::default()), Followed::default());
        let (traces, facts) = (Arc::new(Traces::kept_in(config.log.clone())), Mutex::new(Facts::default()));
        let pool = None;
        Self { config, rules, limits, clock, client, on_change, phase, wanted, heard, followed, traces, facts, pool }
    }

    /// The same server, with a connection for each caller.
    pub(super) fn with_pool(mut self) -> Self {
        let (config, limits) = (self.config.clone(), self.limits);
        let (clock, client) = (Arc::clone(&self.clock), self.client.clone());
        let make = move || {
            // Its tools are those that were listed here.
            let config = UpstreamConfig { start: Start::Lazy, ..config.clone() };
            let nobody: OnChange = Arc::new(|_: &str| ());
            Arc::new(Self::new(config, Vec::new(), limits, Arc::clone(&clock), client.clone(), nobody))
        };
        self.pool = Some(Pool::new(Box::new(make), Arc::clone(&self.clock), limits.callers_max, limits.idle));
        self
    }

    /// The connections of single callers, where each has its own.
    pub(super) fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref()
    }

    /// Lets go of the tools, which hold the server.
    pub(super) fn forget_tools(&self) {
        let mut facts = self.facts();
        facts.tools.clear();
        facts.entries.clear();
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn asks(&self) -> Asks {
        self.config.asks
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that can be called: tools, resources, templates and prompts.
    pub(super) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let facts = self.facts();
        let tools = facts.tools.iter().map(|tool| Arc::clone(tool) as Arc<dyn Tool>);
        let entries = facts.entries.values().flatten().map(|entry| Arc::clone(entry) as Arc<dyn Tool>);
        tools.chain(entries).collect()
    }

    /// Who is told of resources that change, of this connection and of those of single callers.
    pub(super) fn tell(&self, tell: &Tell) {
        self.tell_of(tell, None);
        if let Some(pool) = &self.pool {
            pool.tell(tell);
        }
    }

    /// The same of a connection that is `owner`'s.
    pub(super) fn tell_of(&self, tell: &Tell, owner: Option<Owner>) {
        let (server, tell) = (self.config.name.clone(), Arc::clone(tell));
        self.heard.tell(Arc::new(move |uri: &str| tell(&name::entry(&server, "resources", uri), owner.as_ref())));
    }

    pub(super) fn status(&self) -> UpstreamStatus {
        let (state, until) = match &*self.phase.borrow() {
            Phase::Idle => (UpstreamState::Idle, None),
            Phase::Starting => (UpstreamState::Starting, None),
            Phase::Ready(_) => (UpstreamState::Ready, None),
            Phase::Down { until, .. } => (UpstreamState::Down, Some(*until)),
            Phase::Stopped => (UpstreamState::Stopped, None),
        };
        let facts = self.facts();
        UpstreamStatus {
            name: self.config.name.clone(),
            state,
            era: facts.agreed.map(Revision::as_str),
            tools: facts.tools.iter().map(|tool| tool.known.definition.name.clone()).collect(),
            resources: [Lists::Resources, Lists::Templates].into_iter().flat_map(|list| facts.names(list)).collect(),
            prompts: facts.names(Lists::Prompts).collect(),
            quarantined: facts.quarantined.values().flatten().cloned().collect(),
            introduction: facts.introduction.clone(),
            trouble: facts.trouble,
            last_error: facts.last_error.clone(),
            retry_in_ms: until.map(|until| self.ms_until(until)),
            stderr_tail: self.traces.stderr_tail(),
            restarts: facts.restarts,
            noise: self.traces.noise(),
        }
    }

    fn ms_until(&self, until: Duration) -> u64 {
        // Rounded up: at zero it may be started.
        let left = until.saturating_sub(self.clock.monotonic());
        u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }

    /// The connection, for a call. A server that nobody needed yet, or that may be started again, is started; one that
    /// is down refuses at once.
    pub(super) async fn link(&self) -> Result<Arc<Link>, ToolError> {
        let mut phase = self.phase.subscribe();
        let now = phase.borrow_and_update().clone();
        match now {
            Phase::Ready(link) => return Ok(link),
            Phase::Down { reason, until } if self.clock.monotonic() < until => return Err(self.down(&reason)),
            Phase::Stopped => return Err(self.down("it was stopped")),
            Phase::Starting => {}
            Phase::Idle | Phase::Down { .. } => self.wanted.notify_one(),
        }
        loop {
            if phase.changed().await.is_err() {
                return Err(self.down("it was stopped"));
            }
            match phase.borrow_and_update().clone() {
                Phase::Ready(link) => return Ok(link),
                Phase::Down { reason, .. } => return Err(self.down(&reason)),
                Phase::Stopped => return Err(self.down("it was stopped")),
                Phase::Idle | Phase::Starting => {}
            }
        }
    }

    fn down(&self, reason: &str) -> ToolError {
        let message = format!("the server `{}` is down: {reason}", self.config.name);
        ToolError::with_code(Code::Unavailable, message)
            .nothing_happened()
            .with_hint("ask again later, or use another tool")
    }

    /// Starts the server, if nobody needed it yet, and waits until its tools are known or it fell.
    pub(super) async fn settled(&self) {
        let _ = self.link().await;
    }

    /// How long it takes to answer whether it is there.
    pub(super) async fn ping(&self) -> Result<Duration, ToolError> {
        let link = self.link().await?;
        let is_stateless = link.agreed().is_some_and(Revision::is_stateless);
        let began = self.clock.monotonic();
        // The stateless era has no `ping`.
        let answered = link.ask_within(self.limits.list, if is_stateless { Ask::Discover } else { Ask::Ping }).await;
        answered.map_err(|fault| outcome::explain(&self.config.name, &fault))?;
        Ok(self.clock.monotonic().saturating_sub(began))
    }

    /// Its tools may be others than it said.
    pub(super) fn list_again(&self) {
        self.heard.add([Lists::Tools]);
    }

    /// Keeps the server alive until told to stop.
    pub(super) async fn supervise(self: Arc<Self>, stop: CancellationToken) {
        let mut falls = 0_u32;
        let mut waits = self.config.start == Start::Lazy;
        loop {
            if waits {
                tokio::select! {
                    () = self.wanted.notified() => {}
                    () = stop.cancelled() => break,
                }
            }
            self.phase.send_replace(Phase::Starting);
            self.facts().ready_at = None;
            let (reason, trouble) = match Arc::clone(&self).live(&stop).await {
                End::Told => break,
                End::Again => {
                    waits = false;
                    continue;
                }
                End::Fell(reason, trouble) => (reason, trouble),
            };
            let is_sustained = {
                let up = self.facts().ready_at.map(|since| self.clock.monotonic().saturating_sub(since));
                up.is_some_and(|up| up >= self.limits.sustained)
            };
            falls = if is_sustained { 1 } else { falls.saturating_add(1) };
            let pause = self.fell(&reason, trouble, falls);
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => break,
            }
            // Who follows its resources cannot know that it has to be started.
            waits = self.config.start == Start::Lazy && !self.is_followed();
        }
        self.phase.send_replace(Phase::Stopped);
    }

    /// Notes a fall, and says how long to wait.
    fn fell(&self, reason: &str, trouble: Trouble, falls: u32) -> Duration {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        tracing::warn!(server = self.config.name, reason, falls, "an MCP server is down");
        let doubled = self.limits.pause_min.saturating_mul(2_u32.saturating_pow(falls.saturating_sub(1)));
        let pause = doubled.min(self.limits.pause_max);
        {
            let mut facts = self.facts();
            facts.last_error = Some(reason.clone());
            facts.trouble = Some(if facts.ready_at.is_some() { trouble } else { self.better_said(trouble) });
            facts.restarts += 1;
        }
        let until = self.clock.monotonic().saturating_add(pause);
        self.phase.send_replace(Phase::Down { reason: reason.into(), until });
        pause
    }

    /// What printed instead of answering is told by that.
    fn better_said(&self, trouble: Trouble) -> Trouble {
        let is_silent = matches!(trouble, Trouble::TooSlow | Trouble::Ended | Trouble::Refuses);
        if is_silent && self.traces.noise().lines > 0 {
            return Trouble::PrintsOnStdout;
        }
        trouble
    }

    /// One connection from start to end.
    async fn live(self: Arc<Self>, stop: &CancellationToken) -> End {
        let opened = tokio::select! {
            opened = self.open() => opened,
            () = stop.cancelled() => return End::Told,
        };
        let (link, mut driver) = match opened {
            Ok(opened) => opened,
            Err(fault) => return self.not_opened(&fault),
        };
        let mut session = pin!(self.session(&link));
        let end = tokio::select! {
            end = &mut session => end,
            () = stop.cancelled() => End::Told,
            why = &mut driver => {
                if !link.is_stdio() {
                    // It may be another one now.
                    self.facts().memory = None;
                }
                // Whoever waited for an answer knows by now that none comes; the session may know what that means.
                return match timeout(Duration::ZERO, session).await {
                    Ok(End::Again) => End::Again,
                    _ => End::Fell(why.unwrap_or_else(|| "it was stopped".to_owned()), Trouble::Ended),
                };
            }
        };
        link.close();
        // The driver saw the server end, and knows better how.
        match (end, driver.await) {
            (End::Fell(_, trouble), Some(why)) => End::Fell(why, trouble),
            (end, _) => end,
        }
    }

    /// What happens on a connection. Ends only when it must be given up.
    async fn session(self: &Arc<Self>, link: &Arc<Link>) -> End {
        let memory = self.facts().memory;
        let introduction = match handshake::greet(link, memory, &self.limits).await {
            Ok(introduction) => introduction,
            Err(fault) => return self.not_greeted(link, memory, fault),
        };
        link.offered(&introduction.capabilities);
        if let Err(fault) = self.first_list(link).await {
            return End::Fell(format!("its tools could not be listed: {fault}"), fault.trouble());
        }
        let agreed = link.agreed();
        {
            let mut facts = self.facts();
            let is_stateless = agreed.is_some_and(Revision::is_stateless);
            facts.memory = Some(match memory {
                Some(Memory::Stream) => Memory::Stream,
                Some(Memory::Stateless | Memory::Handshake) | None if is_stateless => Memory::Stateless,
                Some(Memory::Stateless | Memory::Handshake) | None => Memory::Handshake,
            });
            facts.agreed = agreed;
            facts.introduction = introduction;
            facts.trouble = None;
            facts.ready_at = Some(self.clock.monotonic());
        }
        self.followed.begin_anew().await;
        self.phase.send_replace(Phase::Ready(Arc::clone(link)));
        tokio::select! {
            () = self.relist(link) => {}
            () = self.listen(link) => {}
        }
        End::Told
    }

    /// The handshake failed: what that means for the next.
    fn not_greeted(&self, link: &Link, memory: Option<Memory>, fault: Fault) -> End {
        let fell_at_probe = matches!(fault, Fault::Closed(_)) && link.is_stdio() && memory.is_none();
        if fell_at_probe {
            self.facts().memory = Some(Memory::Handshake);
            return End::Again;
        }
        let mut facts = self.facts();
        if !link.is_stdio() && handshake::may_be_older(&fault) {
            (facts.memory, facts.refusal) = (Some(Memory::Stream), Some(fault.to_string()));
            return End::Again;
        }
        // What was learned may be what was wrong.
        facts.memory = None;
        fault.into()
    }
}
