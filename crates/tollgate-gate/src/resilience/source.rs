//! The sources that tools ask: each with its breaker, its places, its retry budget and its counts. A tool that asks no server
//! is a source of its own, with neither breaker nor places.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_types::{
    Clock, OnError, Resilience, RetryBudget, SourceKind, SourceRules, ToolDefinition, ToolError, limits,
};

use super::budget::Budget;
use super::failure::Failure;
use super::places::Places;
use super::report::SourceReport;
use super::{Breaker, Entered, Health};

/// Every source, and what is said of them.
#[derive(Debug)]
pub(crate) struct Sources {
    rules: Resilience,
    known: Mutex<BTreeMap<Key, Arc<Source>>>,
}

/// A server, or a tool that asks none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Server(String),
    Tool(String),
}

impl Key {
    fn of(definition: &ToolDefinition) -> Self {
        match (&definition.source.server, definition.source.kind) {
            (Some(server), _) => Self::Server(server.clone()),
            (None, SourceKind::Http) => Self::Server(definition.name.clone()),
            (
                None,
                SourceKind::Builtin | SourceKind::Native | SourceKind::Program | SourceKind::Mcp | SourceKind::Provider,
            ) => Self::Tool(definition.name.clone()),
        }
    }
}

impl Sources {
    pub(crate) fn new(rules: Resilience) -> Self {
        Self { rules, known: Mutex::default() }
    }

    /// The source of a tool.
    pub(crate) fn of(&self, definition: &ToolDefinition) -> Arc<Source> {
        let key = Key::of(definition);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(key).or_insert_with_key(|key| Arc::new(self.made(key))))
    }

    fn made(&self, key: &Key) -> Source {
        let (house, none) = (&self.rules, SourceRules::default());
        let (name, is_server) = match key {
            Key::Server(name) => (name, true),
            Key::Tool(name) => (name, false),
        };
        let own = house.sources.get(name).filter(|_| is_server).unwrap_or(&none);
        let running = own.max_concurrent.or(house.max_concurrent).unwrap_or(limits::SOURCE_CONCURRENT_MAX);
        let waiting = own.max_waiting.or(house.max_waiting).unwrap_or(limits::SOURCE_WAITING_MAX);
        let budget: RetryBudget = own.retry_budget.or(house.retry_budget).unwrap_or_default();
        Source {
            name: name.clone(),
            breaker: is_server.then(|| Breaker::new(own.breaker.or(house.breaker).unwrap_or_default())),
            places: is_server.then(|| Places::new(running, waiting)),
            running_max: running,
            budget: Budget::new(budget),
            budget_rule: budget,
            counts: Counts::default(),
        }
    }

    /// What is said of failures beyond the tool: by its source, then by the house.
    pub(crate) fn on_error(&self, definition: &ToolDefinition) -> (OnError, OnError) {
        let own = match Key::of(definition) {
            Key::Server(name) => self.rules.sources.get(&name).map(|rules| rules.on_error.clone()),
            Key::Tool(_) => None,
        };
        (own.unwrap_or_default(), self.rules.on_error.clone())
    }

    /// Every source that a tool was registered of.
    pub(crate) fn report(&self, now: Duration) -> Vec<SourceReport> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|source| source.report(now)).collect()
    }
}

/// One source.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    breaker: Option<Breaker>,
    pub(crate) places: Option<Places>,
    running_max: u32,
    pub(crate) budget: Budget,
    budget_rule: RetryBudget,
    pub(crate) counts: Counts,
}

/// What happened at one source since the start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) retries: AtomicU64,
    pub(crate) fallbacks: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    /// Calls that were refused because the breaker was open.
    pub(crate) refused: AtomicU64,
    /// Calls that were refused because too many ran or waited.
    pub(crate) busy: AtomicU64,
    /// How often the breaker opened.
    pub(crate) opened: AtomicU64,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Source {
    /// Lets a try through, or says when to come back.
    pub(crate) fn enter<'a>(&'a self, clock: &'a dyn Clock) -> Result<Pass<'a>, Duration> {
        let Some(breaker) = &self.breaker else { return Ok(Pass { source: self, breaker: None, clock }) };
        let entered = breaker.enter(clock.monotonic()).inspect_err(|_| count(&self.counts.refused))?;
        Ok(Pass { source: self, breaker: Some((breaker, entered)), clock })
    }

    fn report(&self, now: Duration) -> SourceReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        SourceReport {
            source: self.name.clone(),
            breaker: self.breaker.as_ref().map(|breaker| breaker.phase(now)),
            breaker_rule: self.breaker.as_ref().map(Breaker::rule),
            max_concurrent: self.places.as_ref().map(|_| self.running_max),
            waiting: self.places.as_ref().map_or(0, Places::waiting),
            retry_budget: self.budget_rule,
            retries: count(&counts.retries),
            fallbacks: count(&counts.fallbacks),
            timeouts: count(&counts.timeouts),
            refused: count(&counts.refused),
            busy: count(&counts.busy),
            opened: count(&counts.opened),
        }
    }

    pub(crate) fn reported(&self, clock: &dyn Clock) -> SourceReport {
        self.report(clock.monotonic())
    }
}

/// A try that was let through. Dropped without a word it says nothing of the source.
pub(crate) struct Pass<'a> {
    source: &'a Source,
    breaker: Option<(&'a Breaker, Entered)>,
    clock: &'a dyn Clock,
}

impl Pass<'_> {
    /// It is over.
    pub(crate) fn ended(mut self, failure: Option<&ToolError>) {
        let health = match failure.map(Failure::of) {
            Some(failure) if failure.is_of_source() => Health::Broken,
            Some(failure) if failure.error.code == tollgate_types::Code::Cancelled => Health::Nothing,
            Some(failure) if failure.error.nothing_happened => Health::Nothing,
            _ => Health::Works,
        };
        self.leave(health);
    }

    fn leave(&mut self, health: Health) {
        let Some((breaker, entered)) = self.breaker.take() else { return };
        if breaker.left(entered, health, self.clock.monotonic()) {
            count(&self.source.counts.opened);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.leave(Health::Nothing);
    }
}
