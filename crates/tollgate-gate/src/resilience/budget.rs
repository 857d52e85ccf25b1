//! How many calls of a source may be retries: a bucket that each call fills a little and each retry empties by one.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_types::RetryBudget;

/// One retry, in the bucket's unit: each call pays in one hundredth for every percent.
const RETRY: u64 = 100;

/// The bucket.
#[derive(Debug)]
pub(crate) struct Budget {
    percent: u64,
    most: u64,
    saved: AtomicU64,
}

impl Budget {
    pub(crate) fn new(rule: RetryBudget) -> Self {
        let most = u64::from(rule.reserve) * RETRY;
        Self { percent: u64::from(rule.percent), most, saved: AtomicU64::new(most) }
    }

    /// A call is made.
    pub(crate) fn pay_in(&self) {
        // A full bucket is the usual one, and is only looked at.
        if self.saved.load(Ordering::Relaxed) >= self.most {
            return;
        }
        let fill = |saved: u64| Some(saved.saturating_add(self.percent).min(self.most));
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fill);
    }

    /// A retry is asked for; false when there have been too many.
    pub(crate) fn take(&self) -> bool {
        let empty = |saved: u64| saved.checked_sub(RETRY);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, empty).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn retries_stay_within_the_share(percent in 0_u32..=100, reserve in 0_u32..50, steps in prop::collection::vec(any::<bool>(), 0..300)) {
            let budget = Budget::new(RetryBudget { percent, reserve });
            let (mut calls, mut retries) = (0_u64, 0_u64);
            for is_call in steps {
                if is_call {
                    calls += 1;
                    budget.pay_in();
                } else {
                    retries += u64::from(budget.take());
                }
            }
            prop_assert!(retries * 100 <= u64::from(reserve) * 100 + calls * u64::from(percent));
        }
    }
}
