//! How soon the same call is made again.

use std::time::Duration;

use tollgate_types::Retry;

/// The pause before the next try, where so many were made again already. `chance` shortens it, to the half at most.
pub(crate) fn pause(retry: &Retry, retries: u32, chance: u64) -> Duration {
    let doubled = retry.pause_ms.saturating_mul(2_u64.saturating_pow(retries)).min(retry.pause_ms_max);
    let shortened = if retry.jitter { doubled - chance % (doubled / 2 + 1) } else { doubled };
    Duration::from_millis(shortened)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = Retry { max: 9, pause_ms: 1_000, pause_ms_max: 5_000, jitter: false };
        let pauses: Vec<u64> = (0..4).map(|retries| pause(&retry, retries, 0).as_millis() as u64).collect();
        assert_eq!(pauses, [1_000, 2_000, 4_000, 5_000]);
        assert_eq!(pause(&Retry { pause_ms: 0, jitter: true, ..retry }, 3, 7), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn chance_shortens_to_the_half_at_most(
            pause_ms in 0_u64..=u64::MAX, most in 0_u64..=u64::MAX, retries in 0_u32..=u32::MAX, chance: u64,
        ) {
            let plain = Retry { max: 1, pause_ms, pause_ms_max: most, jitter: false };
            let whole = pause(&plain, retries, chance);
            let shortened = pause(&Retry { jitter: true, ..plain }, retries, chance);
            prop_assert!(shortened <= whole && whole <= Duration::from_millis(most));
            prop_assert!(shortened.as_millis() * 2 + 1 >= whole.as_millis());
        }
    }
}
