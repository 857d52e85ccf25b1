//! Find: a name means one tool or none.

use std::sync::Arc;

use tollgate_catalog::Entry;

use super::{Stop, admit, cancelled};
use crate::executors::Executor;
use crate::gate::Trip;
use crate::undo::is_for_undo;

/// A tool that exists.
pub(crate) struct Found {
    executor: Arc<Executor>,
}

impl Found {
    /// The definition that the executor was registered with: never another of the same name.
    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.executor.entry
    }

    pub(super) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }
}

fn executor(trip: Trip<'_>) -> Option<Arc<Executor>> {
    let executor = trip.gate.inner().executors.get(&trip.call.name)?;
    (trip.undoes.is_some() || !is_for_undo(&executor.entry.definition.name)).then_some(executor)
}

/// Waits for what may still come: a server that has to start first. The call is in the ledger by now.
async fn supplied(trip: Trip<'_>) -> Result<(), Stop> {
    let Some(supply) = trip.gate.inner().supply() else { return Ok(()) };
    tokio::select! {
        () = supply.bring(&trip.call.name) => Ok(()),
        () = trip.cancellation.cancelled() => Err(cancelled("the asker stopped waiting for the tool's server")),
    }
}

pub(crate) async fn find(trip: Trip<'_>) -> Result<Found, Stop> {
    let executor = match executor(trip) {
        Some(executor) => executor,
        None => {
            supplied(trip).await?;
            executor(trip).ok_or_else(|| admit::unknown(trip))?
        }
    };
    trip.attempt.found(&executor.entry);
    Ok(Found { executor })
}
