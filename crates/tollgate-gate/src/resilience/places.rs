//! A bulkhead: so many calls of a source run at once, so many more wait, and the next is refused at once. One slow source
//! must not hold every place of the house.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one source.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    waiting: AtomicU32,
    waiting_max: u32,
}

/// As many run and wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Places {
    pub(crate) fn new(running_max: u32, waiting_max: u32) -> Self {
        let permits = usize::try_from(running_max).unwrap_or(Semaphore::MAX_PERMITS).clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(permits)), waiting: AtomicU32::new(0), waiting_max }
    }

    /// Waits for a place, which is given back when it is dropped.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit, Full> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(place);
        }
        let _waiting = Waiting::new(self)?;
        // INVARIANT: the semaphore is never closed.
        Arc::clone(&self.free).acquire_owned().await.map_err(|_| Full)
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }
}

struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(places: &'a Places) -> Result<Self, Full> {
        // Each counts itself before it looks, so that of those who come at once never too many wait.
        let before = places.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Self(&places.waiting);
        if before < places.waiting_max { Ok(waiting) } else { Err(Full) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn one_too_many_is_refused_at_once_and_who_gives_up_leaves_room() {
        let places = Places::new(1, 1);
        let held = places.take().now_or_never().unwrap().unwrap();
        let mut second = Box::pin(places.take());
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(places.take().now_or_never().unwrap().unwrap_err(), Full);
        drop(second);
        assert_eq!(places.waiting(), 0);
        let mut third = Box::pin(places.take());
        assert!(third.as_mut().now_or_never().is_none());
        drop(held);
        assert!(third.now_or_never().unwrap().is_ok());
        assert_eq!(places.waiting(), 0);
    }
}
