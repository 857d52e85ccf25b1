//! What dead processes left, handed on from the ledger to the store: at the start, and while a call waits for one that died.

use std::io;
use std::sync::Arc;

use tollgate_ledger::Recovery;
use tollgate_store::{Store, Unsettled};

use crate::gate::Inner;

/// Started calls wait to be settled, the idempotency keys of others are free again.
///
/// # Errors
/// When the store fails.
pub fn take_over(store: &Store, recovery: &Recovery) -> io::Result<()> {
    let unknown: Vec<Unsettled> = recovery
        .unknown
        .iter()
        .map(|open| Unsettled {
            attempt: open.attempt.clone(),
            call_id: open.call_id.to_string(),
            tool: open.tool.clone().unwrap_or_default(),
            time: open.time.clone(),
            caller: open.caller.as_ref().map(|caller| caller.subject.clone()).unwrap_or_default(),
        })
        .collect();
    store.take_over(&unknown, &recovery.never_started).map_err(io::Error::other)
}

impl Inner {
    /// Looks whether a process died meanwhile that shares the data folder. What cannot be seen now is seen at the next look.
    pub(crate) async fn take_over_dead(&self) {
        let (ledger, store) = (Arc::clone(&self.ledger), self.store.clone());
        let look = move || drop(ledger.recover_dead(|recovery| take_over(&store, recovery)));
        let _ = tokio::task::spawn_blocking(look).await;
    }
}
