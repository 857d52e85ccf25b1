//! Every way to fail, crossed with what can be said of a tool.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tollgate_types::{Clock, Risk};

use super::double::{Deeds, Fault, double, on_error, plain_ladder, world};
use crate::world::Setup;

struct Setting {
    name: &'static str,
    risk: Risk,
    execution: Value,
    on_error: Value,
}

fn settings() -> [Setting; 6] {
    let fail = || json!({"default": "fail"});
    let mut with_fallback = plain_ladder();
    with_fallback["default"] = json!({"fallback": {"tool": "other"}});
    let mut patient = plain_ladder();
    patient["timeout"] = json!({"retry": {"max": 9, "pause_ms": 0}});
    let setting = |name, risk, execution, on_error| Setting { name, risk, execution, on_error };
    [
        setting("read", Risk::Read, json!({"timeout_ms": 1000}), plain_ladder()),
        setting("fail", Risk::Read, json!({"timeout_ms": 1000}), fail()),
        setting("idle", Risk::Read, json!({"timeout_ms": 1000, "idle_timeout_ms": 300}), fail()),
        setting("total", Risk::Read, json!({"timeout_ms": 1000, "total_timeout_ms": 2500}), patient),
        setting("fallback", Risk::Read, json!({"timeout_ms": 1000}), with_fallback.clone()),
        setting("write", Risk::Write, json!({"timeout_ms": 1000}), with_fallback),
    ]
}

/// How a call ends, after how many tries and how many simulated milliseconds.
async fn told(fault: Fault, setting: &Setting) -> String {
    let (deeds, others) = (Arc::new(Deeds::default()), Arc::new(Deeds::default()));
    let tool = double("look", setting.risk, [fault], &deeds).define(|d| {
        d.source.kind = tollgate_types::SourceKind::Builtin;
        d.execution = serde_json::from_value(setting.execution.clone()).unwrap();
        d.on_error = on_error(setting.on_error.clone());
    });
    let other = double("other", Risk::Write, [Fault::Answer], &others)
        .define(|d| d.source.kind = tollgate_types::SourceKind::Builtin);
    let (world, clock) = world(Setup { tools: vec![tool.arc(), other.arc()], ..Setup::default() });
    let began = clock.monotonic();
    let outcome = world.call("look", json!({})).await;
    let took = (clock.monotonic() - began).as_millis();
    let end = outcome.code().map_or("done", |code| code.as_str());
    let is_to_repeat = outcome.end.error().is_some_and(|error| error.retryable);
    assert!(!is_to_repeat || setting.risk == Risk::Read || !fault.acts(), "{fault:?}: it may have happened");
    let by = if others.count() > 0 { " by other" } else { "" };
    assert_eq!(deeds.alive.load(Ordering::SeqCst), 0, "{fault:?} {}", setting.name);
    let record = world.record(&outcome, "finished");
    assert_eq!(record["retries"].as_u64().unwrap_or(0) as usize, deeds.count() - 1, "{fault:?} {}", setting.name);
    format!("{end}{by} {} {took}", deeds.count())
}

/// By fault: `read`, `fail`, `idle`, `total`, `fallback`, `write`.
const WANTED: [[&str; 6]; 14] = [
    ["done 1 0"; 6],
    ["done 1 400", "done 1 400", "timeout 1 400", "done 1 400", "done 1 400", "done 1 400"],
    ["timeout 2 2000", "timeout 1 1000", "timeout 1 300", "timeout 3 2500", "done by other 2 2000", "timeout 1 1000"],
    ["timeout 2 3500", "timeout 1 1750", "timeout 1 1050", "timeout 2 3250", "done by other 2 3500", "timeout 1 1750"],
    ["timeout 2 2000", "timeout 1 1000", "timeout 1 1000", "timeout 3 2500", "done by other 2 2000", "timeout 1 1000"],
    [
        "upstream_error 4 7200",
        "upstream_error 1 50",
        "upstream_error 1 50",
        "upstream_error 2 1100",
        "done by other 4 7200",
        "upstream_error 1 50",
    ],
    [
        "upstream_error 4 7000",
        "upstream_error 1 0",
        "upstream_error 1 0",
        "upstream_error 2 1000",
        "done by other 4 7000",
        "done by other 4 7000",
    ],
    [
        "upstream_error 4 7000",
        "upstream_error 1 0",
        "upstream_error 1 0",
        "upstream_error 2 1000",
        "done by other 4 7000",
        "upstream_error 1 0",
    ],
    ["done 1 0"; 6],
    ["tool_error 1 0", "tool_error 1 0", "tool_error 1 0", "tool_error 1 0", "done by other 1 0", "tool_error 1 0"],
    ["invalid_output 1 0"; 6],
    [
        "upstream_error 4 7500",
        "upstream_error 1 0",
        "upstream_error 1 0",
        "upstream_error 2 1500",
        "done by other 4 7500",
        "done by other 4 7500",
    ],
    [
        "upstream_error 1 0",
        "upstream_error 1 0",
        "upstream_error 1 0",
        "upstream_error 1 0",
        "done by other 1 0",
        "done by other 1 0",
    ],
    ["internal 1 0"; 6],
];

#[tokio::test(start_paused = true)]
async fn every_fault_with_every_setting() {
    for (fault, wanted) in Fault::ALL.into_iter().zip(WANTED) {
        for (setting, wanted) in settings().iter().zip(wanted) {
            assert_eq!(told(fault, setting).await, wanted, "{fault:?} with {}", setting.name);
        }
    }
}
