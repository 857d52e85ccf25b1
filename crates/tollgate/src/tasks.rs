//! The tasks of MCP clients: in the store of the data folder, so that what they came to is told after a restart too, and by
//! each process that shares the folder.

use std::sync::Arc;

use jiff::Timestamp;
use tollgate_ledger::Ledger;
use tollgate_mcp::{TaskRules, Tasks};
use tollgate_store::{NewTask, Store, TaskEnd};
use tollgate_types::{AttemptId, BoxFuture, Caller, Clock, KeptTask, TaskShelf};

/// The tasks of one house.
pub(crate) fn kept(rules: TaskRules, store: &Store, ledger: &Arc<Ledger>, clock: &Arc<dyn Clock>) -> Arc<Tasks> {
    Tasks::new(rules, Arc::clone(clock), Arc::new(Shelf { store: store.clone(), ledger: Arc::clone(ledger) }))
}

/// The store, which the ledger tells which processes live.
struct Shelf {
    store: Store,
    ledger: Arc<Ledger>,
}

impl TaskShelf for Shelf {
    fn begin<'a>(&'a self, id: &'a str, caller: &'a Caller, created: Timestamp) -> BoxFuture<'a, Result<bool, String>> {
        let task = NewTask { id: id.to_owned(), caller: caller.clone(), boot: self.ledger.boot().clone() };
        Box::pin(async move { self.store.begin_task(task, created).await.map_err(|error| error.to_string()) })
    }

    fn end<'a>(
        &'a self,
        id: &'a str,
        attempt: Option<AttemptId>,
        (at, text): (Timestamp, String),
        expires: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>> {
        let end = TaskEnd { attempt, at, text, expires };
        Box::pin(async move { self.store.end_task(id.to_owned(), end).await.map_err(|error| error.to_string()) })
    }

    fn find<'a>(
        &'a self,
        id: &'a str,
        caller: &'a Caller,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeptTask>, String>> {
        Box::pin(async move {
            let found = self.store.task(id.to_owned(), caller.clone(), now).await.map_err(|error| error.to_string())?;
            let Some(found) = found else { return Ok(None) };
            let is_alive = found.end.is_none() && self.ledger.lives(&found.boot).map_err(|error| error.to_string())?;
            Ok(Some(KeptTask { created: found.created, end: found.end, expires: found.expires, is_alive }))
        })
    }
}
