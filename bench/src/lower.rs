//! What it costs to lower the tools of a request: once, and when they were lowered before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate::{Clock, SystemClock, ToolDefinition};
use tollgate_wire::{Dialect, GeminiSchema, Lowerings, Target, lower};

use crate::stats::{Aim, Row, median_us};

const TOOLS: usize = 128;
const ROUNDS: usize = 101;

/// Every figure of this file.
pub(crate) fn measure() -> Vec<Row> {
    let clock = SystemClock::new();
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let mut rows = Vec::new();
    for (name, target) in targets() {
        rows.push(row(&clock, &format!("lowering {TOOLS} tools once, {name}"), Aim::AtMost(1000.0), || {
            lower(&tools, &target).is_ok_and(|lowered| !lowered.is_empty())
        }));
    }
    let lowerings = Lowerings::default();
    rows.push(row(&clock, &format!("lowering {TOOLS} tools again"), Aim::AtMost(10.0), || {
        lowerings.lower(&tools, &Target::default()).is_ok_and(|lowered| !lowered.is_empty())
    }));
    rows
}

fn targets() -> [(&'static str, Target); 5] {
    let (chat, gemini) = (Target::of(Dialect::Chat), Target::of(Dialect::Gemini));
    [
        ("Chat", chat),
        ("Chat strict", chat.strictly()),
        ("Anthropic", Target::of(Dialect::Anthropic)),
        ("Gemini", gemini),
        ("Gemini's older form", Target { gemini: GeminiSchema::OpenApi, ..gemini }),
    ]
}

/// A tool of usual size: a handful of properties, one of them an object, one a list, one a choice.
fn tool(n: usize) -> Arc<ToolDefinition> {
    let mut tool = ToolDefinition::new(format!("search_orders_{n}"), "Finds orders by customer, state and day.");
    tool.when = Some("Use it when the number of an order is not known.".to_owned());
    tool.input_schema = json!({
        "type": "object",
        "properties": {
            "customer": {"type": "string", "description": "The customer's number.", "pattern": "^C[0-9]+$"},
            "state": {"type": "string", "enum": ["open", "paid", "sent", "returned"]},
            "since": {"type": "string", "format": "date", "description": "The first day."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            "sort": {"type": "object", "properties": {"by": {"type": "string"}, "down": {"type": "boolean"}}, "required": ["by"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["customer"],
    });
    Arc::new(tool)
}

fn row(clock: &SystemClock, what: &str, aim: Aim, mut work: impl FnMut() -> bool) -> Row {
    let times = (0..ROUNDS).map(|_| {
        let began = clock.monotonic();
        std::hint::black_box(work());
        clock.monotonic().saturating_sub(began)
    });
    let value = median_us(times.collect::<Vec<Duration>>());
    Row { what: what.to_owned(), value, unit: "µs", aim, against: format!("nothing, p50 of {ROUNDS}") }
}
