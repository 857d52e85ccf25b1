//! What the gate says of each call that ended: how long its stages took, and where it ended. Where calls end tells of tools
//! that a client may not know, so that only operators are shown it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tollgate::{Observed, Observer, Stage};

use super::histogram::Histogram;
use super::{Metrics, Shown, head, lock};

/// Most stages take microseconds; a tool's run, or a human's answer, may take minutes.
const BUCKETS_SECONDS: [f64; 10] = [0.000_01, 0.000_05, 0.000_25, 0.001, 0.005, 0.025, 0.1, 1.0, 10.0, 120.0];

/// The counters of the gate's stages.
pub(super) struct Stages(Mutex<Counted>);

struct Counted {
    durations: [Histogram<{ BUCKETS_SECONDS.len() }>; Stage::ALL.len()],
    ends: BTreeMap<(Stage, &'static str), u64>,
}

impl Default for Stages {
    fn default() -> Self {
        let durations = [Histogram::new(&BUCKETS_SECONDS); Stage::ALL.len()];
        Self(Mutex::new(Counted { durations, ends: BTreeMap::new() }))
    }
}

impl Observer for Metrics {
    fn seen(&self, call: &Arc<Observed>) {
        let mut counted = lock(&self.stages.0);
        for staged in &call.stages {
            if let Some(histogram) = counted.durations.get_mut(usize::from(staged.stage.place())) {
                histogram.observe(staged.took);
            }
        }
        if let (Some(stage), Some(code)) = (call.ended_in(), call.code) {
            *counted.ends.entry((stage, code.as_str())).or_default() += 1;
        }
    }
}

impl Stages {
    pub(super) fn write(&self, out: &mut String, shown: &Shown) -> std::fmt::Result {
        if !matches!(shown, Shown::All) {
            return Ok(());
        }
        let counted = lock(&self.0);
        head(out, "stage_duration_seconds", "histogram", "How long calls were in each stage of the gate.")?;
        for (stage, histogram) in Stage::ALL.iter().zip(&counted.durations) {
            let label = format!("stage=\"{}\"", stage.as_str());
            histogram.write(out, "tollgate_stage_duration_seconds", &label)?;
        }
        head(
            out,
            "stage_ended_total",
            "counter",
            "Calls that did not come through, by the stage and code of their end.",
        )?;
        for ((stage, code), count) in &counted.ends {
            let stage = stage.as_str();
            writeln!(out, "tollgate_stage_ended_total{{stage=\"{stage}\",code=\"{code}\"}} {count}")?;
        }
        Ok(())
    }
}
