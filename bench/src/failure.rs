//! What protection costs: of calls that do not fail, a tool whose source has a breaker and places beside one that has neither;
//! and what an open breaker takes to answer.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::gate::{Breaker, Health};
use tollgate::{
    BoxFuture, BreakerRule, Call, Caller, Clock, Cx, Permission, Risk, Surface, SystemClock, Tollgate, Tool,
    ToolDefinition, ToolError, ToolOutput,
};

use crate::stats::{Aim, Row, median_us};

const CALLS: usize = 20_000;
/// Answers of a breaker that are timed together: one is shorter than what the clock can tell.
const TOGETHER: u32 = 1_000;

struct Plain(ToolDefinition);

impl Tool for Plain {
    fn definition(&self) -> ToolDefinition {
        self.0.clone()
    }

    fn call(&self, arguments: Value, _: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Ok(ToolOutput::structured(arguments))))
    }
}

fn plain(name: &str, server: Option<&str>) -> Plain {
    let mut definition = ToolDefinition::new(name, "Gives its arguments back.");
    (definition.risk, definition.permission) = (Risk::Read, Permission::Read);
    definition.source.server = server.map(str::to_owned);
    Plain(definition)
}

/// Calls in turn, one with protection and one without, so that whatever else happens happens to both.
pub(crate) async fn measure(folder: &Path) -> Result<Vec<Row>, Box<dyn Error + Send + Sync>> {
    let builder = Tollgate::builder().workspace(folder).data_dir(folder.join("data"));
    let house = builder.tool(plain("bare_echo", None)).tool(plain("safe_echo", Some("crm"))).build().await?;
    let (clock, caller) = (SystemClock::new(), Caller::new("bench", "developer", Surface::Library));
    let (mut bare, mut safe) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
    for round in 0..CALLS + CALLS / 10 {
        for (name, times) in [("bare_echo", &mut bare), ("safe_echo", &mut safe)] {
            let began = clock.monotonic();
            let outcome = house.call(&caller, Call::tool(name, json!({ "text": "some words" }))).await;
            let took = clock.monotonic() - began;
            if outcome.result().is_none() {
                return Err(format!("a call failed: {:?}", outcome.end).into());
            }
            if round >= CALLS / 10 {
                times.push(took);
            }
        }
    }
    let against = format!("a tool without a source, p50 of {CALLS}");
    let added = median_us(safe) - median_us(bare);
    let what = "breaker, places and retry budget, added".to_owned();
    Ok(vec![Row { what, value: added, unit: "µs", aim: Aim::AtMost(2.0), against }, open(&clock)])
}

fn open(clock: &SystemClock) -> Row {
    let breaker = Breaker::new(BreakerRule { failures: 1, open_ms: 3_600_000, probes: 1 });
    if let Ok(entered) = breaker.enter(clock.monotonic()) {
        breaker.left(entered, Health::Broken, clock.monotonic());
    }
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..TOGETHER {
        let began = clock.monotonic();
        for _ in 0..TOGETHER {
            let _ = std::hint::black_box(breaker.enter(clock.monotonic()));
        }
        times.push((clock.monotonic() - began) / TOGETHER);
    }
    let against = format!("nothing, p50 of {TOGETHER} × {TOGETHER}");
    Row {
        what: "open breaker, answer".to_owned(), value: median_us(times), unit: "µs", aim: Aim::AtMost(5.0), against
    }
}
