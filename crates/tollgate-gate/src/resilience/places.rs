//! A bulkhead: so many calls of a source run at once, so many more wait, and the next is refused at once. One slow source
//! must not hold every place of the house, and one caller not every place of a source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::turnstile::{Turn, Turnstile};

/// The places of one source.
#[derive(Debug)]
pub(crate) struct Places {
    free: Arc<Turnstile>,
    waiting: AtomicU32,
    waiting_max: u32,
}

/// As many run and wait as may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

impl Places {
    pub(crate) fn new(running_max: u32, waiting_max: u32) -> Self {
        let places = usize::try_from(running_max).unwrap_or(usize::MAX).max(1);
        Self { free: Turnstile::new(places), waiting: AtomicU32::new(0), waiting_max }
    }

    /// Waits for a place, which is given back when it is dropped. Callers take turns.
    pub(crate) async fn take(&self, caller: &str) -> Result<Turn, Full> {
        if let Some(place) = self.free.now() {
            return Ok(place);
        }
        let _waiting = Waiting::new(self)?;
        Ok(self.free.turn(caller).await)
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
        let held = places.take("ann").now_or_never().unwrap().unwrap();
        let mut second = Box::pin(places.take("ann"));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(places.take("ann").now_or_never().unwrap().is_err_and(|full| full == Full));
        drop(second);
        assert_eq!(places.waiting(), 0);
        let mut third = Box::pin(places.take("ann"));
        assert!(third.as_mut().now_or_never().is_none());
        drop(held);
        assert!(third.now_or_never().unwrap().is_ok());
        assert_eq!(places.waiting(), 0);
    }
}
