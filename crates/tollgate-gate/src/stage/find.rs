//! Find: a name means one tool or none.

use std::sync::Arc;

use tollgate_catalog::Entry;

use super::{Stop, admit};
use crate::executors::Executor;
use crate::gate::Trip;

/// A tool that exists.
pub(crate) struct Found {
    entry: Arc<Entry>,
    executor: Arc<Executor>,
}

impl Found {
    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(super) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }
}

pub(crate) fn find(trip: Trip<'_>) -> Result<Found, Stop> {
    let gate = trip.gate.inner();
    let entry = gate.catalog.get(&trip.call.name);
    let executor = gate.executors.get(&trip.call.name);
    match (entry, executor) {
        (Some(entry), Some(executor)) => {
            trip.attempt.found(&entry);
            Ok(Found { entry, executor })
        }
        _ => Err(admit::unknown(trip)),
    }
}
