//! The private map of what can run. It has no getter: only [`crate::stage::find`] looks into it, and only
//! [`crate::stage::run`] starts what it found.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::timeout;
use tollgate_catalog::Entry;
use tollgate_shape::Plan;
use tollgate_types::{Code, Concurrency, Execution, Tool, ToolError};

use crate::resilience::ladder::Ladder;
use crate::resilience::source::{Source, count};
use crate::seat::Place;
use crate::turnstile::Turnstile;

/// When to come back to a source whose places are all taken.
const BUSY_WAIT_MS: u64 = 1_000;

/// One executor with its turnstile.
pub(crate) struct Executor {
    /// The definition it was registered with.
    pub(crate) entry: Arc<Entry>,
    /// What runs.
    pub(crate) tool: Arc<dyn Tool>,
    /// What becomes of its values.
    pub(crate) plan: Plan,
    /// How many runs may overlap.
    pub(crate) turnstile: Arc<Turnstile>,
    /// Whom it asks.
    pub(crate) source: Arc<Source>,
    /// What is done about its failures.
    pub(crate) ladder: Ladder,
}

impl Executor {
    pub(crate) fn new(entry: Arc<Entry>, tool: Arc<dyn Tool>, plan: Plan, source: Arc<Source>, ladder: Ladder) -> Self {
        let definition = &entry.definition;
        let permits = match definition.execution.concurrency {
            Concurrency::Parallel => definition.execution.max_concurrent,
            Concurrency::Sequential => 1,
        };
        Self { entry, tool, plan, turnstile: Turnstile::new(permits), source, ladder }
    }

    /// Waits for a place for a call of the caller's. What only asks a client takes none: a call that has one asks by it.
    ///
    /// # Errors
    /// That none came free in time, or that as many wait as may.
    pub(crate) async fn place(&self, caller: &str) -> Result<Place, ToolError> {
        let Execution { queue_timeout_ms, timeout_ms, .. } = self.entry.definition.execution;
        if self.entry.definition.kind.asks_client() {
            return Ok(Place::default());
        }
        let taken = async {
            // The tool's own first: who waits for it holds no place that another tool could have.
            let own = self.turnstile.turn(caller).await;
            let source = match &self.source.places {
                Some(places) => Some(places.take(caller).await.ok()?),
                None => None,
            };
            Some(Place { _own: Some(own), _source: source })
        };
        let wait = Duration::from_millis(queue_timeout_ms.unwrap_or(timeout_ms));
        timeout(wait, taken).await.ok().flatten().ok_or_else(|| {
            count(&self.source.counts.busy);
            let error = ToolError::with_code(Code::Unavailable, "the tool is busy: its earlier calls have not ended");
            let error = error.nothing_happened().retry_after(Some(Duration::from_millis(BUSY_WAIT_MS)));
            error.with_hint("ask again later")
        })
    }
}

/// Executors by name.
#[derive(Default)]
pub(crate) struct Executors(RwLock<HashMap<String, Arc<Executor>>>);

impl Executors {
    pub(crate) fn insert(&self, executor: Executor) {
        let name = executor.entry.definition.name.clone();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(executor));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Executor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The fallbacks that would lead from a tool with this ladder back to it.
    pub(crate) fn circle(&self, name: &str, ladder: &Ladder) -> Option<Vec<String>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashSet::new();
        let first = |next: &str| vec![name.to_owned(), next.to_owned()];
        let mut ways: Vec<Vec<String>> = ladder.fallbacks().map(first).collect();
        while let Some(way) = ways.pop() {
            let Some(last) = way.last() else { continue };
            if last == name {
                return Some(way);
            }
            let next = known.get(last).filter(|_| seen.insert(last.clone()));
            let further = next.into_iter().flat_map(|executor| executor.ladder.fallbacks());
            ways.extend(further.map(|next| way.iter().cloned().chain([next.to_owned()]).collect()));
        }
        None
    }
}
