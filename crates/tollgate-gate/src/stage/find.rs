//! Find: a name means one tool or none.

use std::sync::Arc;

use tollgate_catalog::Entry;

use super::{Stop, admit};
use crate::executors::Executor;
use crate::gate::Trip;

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

pub(crate) fn find(trip: Trip<'_>) -> Result<Found, Stop> {
    let executor = trip.gate.inner().executors.get(&trip.call.name).ok_or_else(|| admit::unknown(trip))?;
    trip.attempt.found(&executor.entry);
    Ok(Found { executor })
}
