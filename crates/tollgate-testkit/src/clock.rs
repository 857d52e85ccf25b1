//! A clock that stands still until a test moves it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tollgate_types::Clock;

/// A clock that stands still until it is moved.
///
/// ```
/// use std::time::Duration;
/// use tollgate_testkit::TestClock;
/// use tollgate_types::Clock;
///
/// let clock = TestClock::default();
/// clock.advance(Duration::from_millis(1500));
/// assert_eq!(clock.now().to_string(), "2026-01-02T03:04:06.5Z");
/// assert_eq!(clock.monotonic(), Duration::from_millis(1500));
/// ```
#[derive(Debug)]
pub struct TestClock(Mutex<Hands>);

#[derive(Debug)]
struct Hands {
    wall: Timestamp,
    monotonic: Duration,
}

impl TestClock {
    /// A clock whose wall shows `wall` and whose monotonic side starts at zero.
    pub fn new(wall: Timestamp) -> Self {
        Self(Mutex::new(Hands { wall, monotonic: Duration::ZERO }))
    }

    /// Lets time pass on both sides. The wall stops at the last timestamp there is.
    pub fn advance(&self, by: Duration) {
        let mut hands = self.hands();
        hands.wall = hands.wall.checked_add(by).unwrap_or(Timestamp::MAX);
        hands.monotonic = hands.monotonic.saturating_add(by);
    }

    /// Sets the wall, backwards too, as an operator or a time server does. The monotonic side does not notice.
    pub fn set(&self, wall: Timestamp) {
        self.hands().wall = wall;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    /// Stands at 2026-01-02T03:04:05Z.
    fn default() -> Self {
        Self::new(Timestamp::constant(1_767_323_045, 0))
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.hands().wall
    }

    fn monotonic(&self) -> Duration {
        self.hands().monotonic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_goes_back_leaves_the_monotonic_side_alone() {
        let clock = TestClock::default();
        assert_eq!(clock.now().to_string(), "2026-01-02T03:04:05Z");
        clock.advance(Duration::from_secs(60));
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.monotonic(), Duration::from_secs(60));
        clock.advance(Duration::MAX);
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp::MAX, Duration::MAX));
    }
}
