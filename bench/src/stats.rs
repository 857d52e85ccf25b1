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
    /// What it must be.
    pub(crate) aim: Aim,
    /// What it was compared with, in the same run.
    pub(crate) against: String,
}

/// A limit, in the figure's unit.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aim {
    /// The figure must not be above this.
    AtMost(f64),
    /// The figure must not be below this.
    AtLeast(f64),
}

impl Row {
    pub(crate) fn is_met(&self) -> bool {
        match self.aim {
            Aim::AtMost(limit) => self.value <= limit,
            Aim::AtLeast(limit) => self.value >= limit,
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let Self { what, value, unit, aim, against } = self;
        let (sign, limit) = match aim {
            Aim::AtMost(limit) => ("≤", limit),
            Aim::AtLeast(limit) => ("≥", limit),
        };
        let decimals = if *unit == "×" { 2 } else { 1 };
        let limit = (limit * 100.0).round() / 100.0;
        format!("| {what} | {value:.decimals$} {unit} | {sign} {limit} {unit} | {against} |")
    }
}

/// The middle one, in microseconds.
pub(crate) fn median_us(times: Vec<Duration>) -> f64 {
    median(times.into_iter().map(|time| time.as_secs_f64() * 1e6).collect())
}

/// The middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
