//! Medians, and a row of the table.

use std::time::Duration;

use serde::Serialize;

/// One figure with its aim.
#[derive(Serialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) what: String,
    /// The figure.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The figure must not be above this.
    pub(crate) aim: f64,
    /// What it was compared with, in the same run.
    pub(crate) against: String,
}

impl Row {
    pub(crate) fn is_met(&self) -> bool {
        self.value <= self.aim
    }

    pub(crate) fn markdown(&self) -> String {
        format!("| {} | {:.1} {} | ≤ {} {} | {} |", self.what, self.value, self.unit, self.aim, self.unit, self.against)
    }
}

/// The middle one, in microseconds.
pub(crate) fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}
