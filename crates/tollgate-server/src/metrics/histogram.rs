//! How long things take, in the text format of Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

/// Counts by upper bounds in seconds.
#[derive(Clone, Copy)]
pub(super) struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    buckets: [u64; N],
    count: u64,
    sum_seconds: f64,
}

impl<const N: usize> Histogram<N> {
    pub(super) fn new(bounds: &'static [f64; N]) -> Self {
        Self { bounds, buckets: [0; N], count: 0, sum_seconds: 0.0 }
    }

    pub(super) fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (count, bound) in self.buckets.iter_mut().zip(self.bounds) {
            *count += u64::from(seconds <= *bound);
        }
        self.count += 1;
        self.sum_seconds += seconds;
    }

    /// The lines of one series; `label` is `name="value"`, escaped.
    pub(super) fn write(&self, out: &mut String, name: &str, label: &str) -> std::fmt::Result {
        for (bound, count) in self.bounds.iter().zip(self.buckets) {
            writeln!(out, "{name}_bucket{{{label},le=\"{bound}\"}} {count}")?;
        }
        writeln!(out, "{name}_bucket{{{label},le=\"+Inf\"}} {}", self.count)?;
        writeln!(out, "{name}_sum{{{label}}} {}", self.sum_seconds)?;
        writeln!(out, "{name}_count{{{label}}} {}", self.count)
    }
}
