//! The place that a running call has at its tool and at its source. While it waits for its client, and nothing of it is under
//! way, the place is another's: clients take their time, and some never come back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_types::{Caller, ToolError};

use crate::executors::Executor;
use crate::turnstile::Turn;

/// A place at a tool's turnstile, and at its source. Both are given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) _own: Option<Turn>,
    pub(crate) _source: Option<Turn>,
}

/// Where one call sits.
#[derive(Debug, Default)]
pub(crate) struct Seat(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sitting: Option<Sitting>,
    /// Questions that the place was left for.
    away: usize,
}

struct Sitting {
    executor: Arc<Executor>,
    caller: Arc<Caller>,
    place: Option<Place>,
}

impl std::fmt::Debug for Sitting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sitting").field("place", &self.place).finish_non_exhaustive()
    }
}

/// A call that sits, until this is dropped.
pub(crate) struct Seated<'a>(&'a Seat);

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        let over = self.0.state().sitting.take();
        drop(over);
    }
}

/// A question that its call left its place for.
pub(crate) struct Away<'a>(&'a Seat);

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.0.state().away -= 1;
    }
}

impl Seat {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place that was got there.
    pub(crate) fn sit(&self, executor: &Arc<Executor>, caller: &Arc<Caller>, place: Place) -> Seated<'_> {
        let (executor, caller) = (Arc::clone(executor), Arc::clone(caller));
        self.state().sitting = Some(Sitting { executor, caller, place: Some(place) });
        Seated(self)
    }

    /// Gives the place to whoever is next.
    pub(crate) fn leave(&self) -> Away<'_> {
        let mut state = self.state();
        state.away += 1;
        let left = state.sitting.as_mut().and_then(|sitting| sitting.place.take());
        drop(state);
        drop(left);
        Away(self)
    }
}

impl Away<'_> {
    /// Waits for a place again, unless other questions are open still.
    ///
    /// # Errors
    /// That none came free in time.
    pub(crate) async fn back(self) -> Result<(), ToolError> {
        let seat = self.0;
        drop(self);
        let wanted = {
            let state = seat.state();
            let without = state.sitting.as_ref().filter(|sitting| state.away == 0 && sitting.place.is_none());
            without.map(|sitting| (Arc::clone(&sitting.executor), Arc::clone(&sitting.caller)))
        };
        let Some((executor, caller)) = wanted else { return Ok(()) };
        let place = executor.place(&caller.subject).await?;
        if let Some(sitting) = seat.state().sitting.as_mut() {
            sitting.place = Some(place);
        }
        Ok(())
    }
}
