//! A circuit breaker: after failures in a row a source is left alone for a while, then few calls try it, and their success
//! opens the way again. It is told the time and keeps none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_types::BreakerRule;

/// When to come back while others try the source.
const PROBED_WAIT: Duration = Duration::from_secs(1);

/// The breaker of one source.
#[derive(Debug)]
pub struct Breaker {
    rule: BreakerRule,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// How often it opened; a probe of an earlier time says nothing of now.
    opened: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed { failures: u32 },
    Open { until: Duration },
    Probing { under_way: u32, succeeded: u32 },
}

/// How a call was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// As any.
    Freely,
    /// To try the source, after it opened for this time.
    Probing(u64),
}

/// What a call says of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It answered.
    Works,
    /// It is broken or too slow.
    Broken,
    /// Nothing: the call was broken off, or never reached it.
    Nothing,
}

impl Breaker {
    /// A closed one; with 0 failures it never opens.
    pub fn new(rule: BreakerRule) -> Self {
        Self { rule, state: Mutex::new(State { phase: Phase::Closed { failures: 0 }, opened: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call through, or says when to come back. Who was let through must say how it went, by [`Breaker::left`].
    ///
    /// # Errors
    /// How long the source is left alone still.
    pub fn enter(&self, now: Duration) -> Result<Entered, Duration> {
        let mut state = self.state();
        match &mut state.phase {
            Phase::Closed { .. } => Ok(Entered::Freely),
            Phase::Open { until } if now < *until => Err(until.saturating_sub(now)),
            Phase::Open { .. } => {
                state.phase = Phase::Probing { under_way: 1, succeeded: 0 };
                Ok(Entered::Probing(state.opened))
            }
            Phase::Probing { under_way, succeeded } if *under_way + *succeeded < self.rule.probes => {
                *under_way += 1;
                Ok(Entered::Probing(state.opened))
            }
            Phase::Probing { .. } => Err(PROBED_WAIT),
        }
    }

    /// A call that was let through is over. True when it opened the breaker.
    pub fn left(&self, entered: Entered, health: Health, now: Duration) -> bool {
        let mut state = self.state();
        let next = match (state.phase, entered) {
            (Phase::Closed { failures }, Entered::Freely) => match health {
                Health::Works => Phase::Closed { failures: 0 },
                Health::Broken if failures + 1 == self.rule.failures => self.open(now),
                Health::Broken => Phase::Closed { failures: failures.saturating_add(1) },
                Health::Nothing => return false,
            },
            (Phase::Probing { under_way, succeeded }, Entered::Probing(time)) if time == state.opened => match health {
                Health::Works if succeeded + 1 >= self.rule.probes => Phase::Closed { failures: 0 },
                Health::Works => Phase::Probing { under_way: under_way - 1, succeeded: succeeded + 1 },
                Health::Broken => self.open(now),
                Health::Nothing => Phase::Probing { under_way: under_way - 1, succeeded },
            },
            // It began when things were otherwise.
            _ => return false,
        };
        state.phase = next;
        let has_opened = matches!(next, Phase::Open { .. });
        state.opened += u64::from(has_opened);
        has_opened
    }

    fn open(&self, now: Duration) -> Phase {
        Phase::Open { until: now.saturating_add(Duration::from_millis(self.rule.open_ms)) }
    }

    /// `closed`, `open` or `half_open`.
    pub fn phase(&self, now: Duration) -> &'static str {
        match self.state().phase {
            Phase::Closed { .. } => "closed",
            Phase::Open { until } if now < until => "open",
            Phase::Open { .. } | Phase::Probing { .. } => "half_open",
        }
    }

    /// What was said of it.
    pub fn rule(&self) -> BreakerRule {
        self.rule
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: BreakerRule = BreakerRule { failures: 3, open_ms: 1_000, probes: 2 };
    const NOW: Duration = Duration::from_secs(7);

    fn fail(breaker: &Breaker, now: Duration) -> bool {
        let entered = breaker.enter(now).unwrap();
        breaker.left(entered, Health::Broken, now)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_its_probes() {
        let breaker = Breaker::new(RULE);
        let opened: Vec<bool> = (0..3).map(|_| fail(&breaker, NOW)).collect();
        assert_eq!(opened, [false, false, true]);
        assert_eq!(breaker.enter(NOW + Duration::from_millis(400)), Err(Duration::from_millis(600)));
        let later = NOW + Duration::from_secs(1);
        let (first, second) = (breaker.enter(later).unwrap(), breaker.enter(later).unwrap());
        assert_eq!(breaker.enter(later), Err(PROBED_WAIT), "two probes and no more");
        breaker.left(first, Health::Works, later);
        assert_eq!(breaker.enter(later), Err(PROBED_WAIT));
        breaker.left(second, Health::Works, later);
        assert_eq!((breaker.enter(later), breaker.phase(later)), (Ok(Entered::Freely), "closed"));
    }

    #[test]
    fn a_probe_that_fails_opens_it_again_and_one_that_gives_up_makes_room() {
        let breaker = Breaker::new(BreakerRule { probes: 1, ..RULE });
        assert_eq!((0..3).filter(|_| fail(&breaker, NOW)).count(), 1);
        let later = NOW + Duration::from_secs(1);
        let probe = breaker.enter(later).unwrap();
        breaker.left(probe, Health::Nothing, later);
        assert!(fail(&breaker, later));
        assert_eq!(breaker.enter(later), Err(Duration::from_secs(1)));
        // What began before the failures ends after them, and changes nothing.
        breaker.left(Entered::Freely, Health::Works, later);
        breaker.left(probe, Health::Works, later);
        assert_eq!(breaker.phase(later), "open");
    }

    #[test]
    fn success_forgets_failures_and_zero_never_opens() {
        let breaker = Breaker::new(RULE);
        for _ in 0..20 {
            fail(&breaker, NOW);
            fail(&breaker, NOW);
            let entered = breaker.enter(NOW).unwrap();
            breaker.left(entered, Health::Works, NOW);
        }
        let never = Breaker::new(BreakerRule { failures: 0, ..RULE });
        assert!((0..1_000).all(|_| !fail(&never, NOW)));
    }

    proptest! {
        /// Whatever happens in whatever order: never more probes at once than may be, and nobody is let through while it is open.
        #[test]
        fn it_holds(
            (failures, probes, open_ms) in (1_u32..4, 1_u32..4, 1_u64..50),
            steps in prop::collection::vec((0_u8..4, 0_usize..8, 0_u64..40), 1..200),
        ) {
            let breaker = Breaker::new(BreakerRule { failures, open_ms, probes });
            let (mut now, mut inside, mut opened_at) = (Duration::ZERO, Vec::new(), None::<Duration>);
            for (step, which, wait_ms) in steps {
                if step == 0 {
                    now += Duration::from_millis(wait_ms);
                    continue;
                }
                if step == 1 || inside.is_empty() {
                    if let Ok(entered) = breaker.enter(now) {
                        let is_over = opened_at.is_none_or(|at| now >= at + Duration::from_millis(open_ms));
                        prop_assert!(is_over || entered != Entered::Freely);
                        prop_assert!(opened_at.is_none_or(|at| now >= at + Duration::from_millis(open_ms)));
                        if entered == Entered::Freely { opened_at = None; }
                        inside.push(entered);
                    }
                    let newest = inside.iter().filter_map(|e| match e { Entered::Probing(n) => Some(*n), Entered::Freely => None }).max();
                    let probing = inside.iter().filter(|e| newest.is_some_and(|n| **e == Entered::Probing(n))).count();
                    prop_assert!(probing <= probes as usize);
                } else {
                    let entered = inside.remove(which % inside.len());
                    let health = [Health::Works, Health::Broken, Health::Nothing][wait_ms as usize % 3];
                    if breaker.left(entered, health, now) { opened_at = Some(now); }
                }
            }
        }
    }
}
