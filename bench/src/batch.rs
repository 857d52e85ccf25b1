//! What it costs to put a batch of calls into their order.

use serde_json::json;
use tollgate::{Clock, Lanes, Risk, Schedule, SystemClock, ToolDefinition};

use crate::stats::{Aim, Row, median_us};

const ROUNDS: usize = 21;
const CALLS: usize = 10_000;
/// The files that they change.
const FILES: usize = 100;

/// From the arguments of all calls to the end of the last one, without the calls themselves.
pub(crate) fn measure() -> Row {
    let clock = SystemClock::new();
    let mut tool = ToolDefinition::new("write_file", "Writes a file.");
    tool.risk = Risk::Write;
    tool.execution.resources = vec!["/path".to_owned()];
    let arguments: Vec<_> =
        (0..CALLS).map(|n| json!({"path": format!("folder/{}.md", n % FILES), "text": "x"})).collect();
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = clock.monotonic();
        let mut schedule = Schedule::new(arguments.iter().map(|arguments| Lanes::of(&tool, Some(arguments))));
        while let Some(at) = schedule.begin() {
            schedule.end(at);
        }
        took.push(clock.monotonic() - began);
    }
    let against = format!("nothing, p50 of {ROUNDS}");
    Row {
        what: format!("{CALLS} calls, put in order"),
        value: median_us(took) / 1000.0,
        unit: "ms",
        aim: Aim::AtMost(50.0),
        against,
    }
}
