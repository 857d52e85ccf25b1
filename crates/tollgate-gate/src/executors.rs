//! The private map of what can run. It has no getter: only [`crate::stage::find`] looks into it, and only
//! [`crate::stage::run`] starts what it found.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_catalog::Entry;
use tollgate_types::{Concurrency, Tool};

use crate::turnstile::Turnstile;

/// One executor with its turnstile.
pub(crate) struct Executor {
    /// The definition it was registered with.
    pub(crate) entry: Arc<Entry>,
    /// What runs.
    pub(crate) tool: Arc<dyn Tool>,
    /// How many runs may overlap.
    pub(crate) turnstile: Arc<Turnstile>,
}

/// Executors by name.
#[derive(Default)]
pub(crate) struct Executors(RwLock<HashMap<String, Arc<Executor>>>);

impl Executors {
    pub(crate) fn insert(&self, entry: Arc<Entry>, tool: Arc<dyn Tool>) {
        let definition = &entry.definition;
        let permits = match definition.execution.concurrency {
            Concurrency::Parallel => definition.execution.max_concurrent,
            Concurrency::Sequential => 1,
        };
        let name = definition.name.clone();
        let executor = Executor { entry, tool, turnstile: Turnstile::new(permits) };
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(executor));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Executor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
