//! Which traces are kept. The answer is the same for every process that asks about one trace.

use tollgate_types::{TraceContext, TraceId};

/// The random bits of a trace id (W3C Trace Context, level 2): its last 56.
const RANDOM_BITS: u32 = 56;

/// Which traces are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// How many of those that begin here, from 0 to 1.
    pub ratio: f64,
    /// Whether who began a trace elsewhere decides for all of it.
    pub follows_asker: bool,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { ratio: 1.0, follows_asker: true }
    }
}

impl Sampler {
    /// Whether the trace of a call is kept, whose asker said `asked`.
    pub(crate) fn keeps(self, trace: TraceId, asked: Option<&TraceContext>) -> bool {
        match asked {
            Some(asked) if self.follows_asker => asked.is_sampled,
            _ => self.draws(trace),
        }
    }

    fn draws(self, trace: TraceId) -> bool {
        let all = 1_u64 << RANDOM_BITS;
        let [_, _, _, _, _, _, _, _, half @ ..] = trace.0;
        let drawn = u64::from_be_bytes(half) % all;
        // Both fit a float's 53 bits well enough; 0 and 1 are exact.
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 2^56"
        )]
        let kept = (self.ratio.clamp(0.0, 1.0) * all as f64) as u64;
        drawn >= all - kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_kept_and_the_asker_decides_where_that_is_wanted() {
        let traces = (0..1_000_u64).map(|n| {
            let mut id = [1; 16];
            id[9..].copy_from_slice(&(n * ((1 << 56) / 1_000)).to_be_bytes()[1..]);
            TraceId(id)
        });
        for (ratio, kept) in [(0.0, 0), (0.25, 250), (1.0, 1_000), (7.0, 1_000), (-1.0, 0)] {
            let sampler = Sampler { ratio, follows_asker: true };
            let count = traces.clone().filter(|trace| sampler.keeps(*trace, None)).count();
            assert!(count.abs_diff(kept) <= 1, "{ratio}: {count}");
        }
        let said = |flag: u8| {
            let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-0{flag}");
            TraceContext::read([parent.as_str()], []).unwrap()
        };
        for (ratio, follows_asker, flag, is_kept) in
            [(0.0, true, 1, true), (1.0, true, 0, false), (0.0, false, 1, false), (1.0, false, 0, true)]
        {
            let asked = said(flag);
            assert_eq!(Sampler { ratio, follows_asker }.keeps(asked.trace, Some(&asked)), is_kept);
        }
    }
}
