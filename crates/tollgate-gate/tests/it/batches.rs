//! Many calls at once: order where it matters, side by side where it may be, and one outcome for each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_types::limits::BATCH_CALLS_AT_ONCE_MAX;
use tollgate_types::{Call, Code, Concurrency, Risk, SourceKind, Status, ToolError, ToolOutput};

use crate::world::{TestTool, World, developer, tool};

/// What the tools of a test did, in order.
type Log = Arc<Mutex<Vec<(&'static str, i64)>>>;

fn step(name: &'static str, risk: Risk, log: &Log) -> TestTool {
    let log = Arc::clone(log);
    tool(name, risk, move |arguments, _| {
        let log = Arc::clone(&log);
        async move {
            let number = arguments.get("n").and_then(Value::as_i64).unwrap();
            log.lock().unwrap().push(("begin", number));
            // Later ones are faster: without an order they would overtake.
            for _ in number..30 {
                tokio::task::yield_now().await;
            }
            // One that waits for what does not begin runs out of its time.
            if let Some(later) = arguments.get("until").and_then(Value::as_i64) {
                while !log.lock().unwrap().contains(&("begin", later)) {
                    tokio::task::yield_now().await;
                }
            }
            log.lock().unwrap().push(("end", number));
            if arguments.get("fail") == Some(&json!(true)) {
                return Err(ToolError::new("on purpose"));
            }
            Ok(ToolOutput::structured(json!({"n": number})))
        }
    })
    .schema(json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "until": {"type": "integer"}, "on": {"type": "string"}, "fail": {"type": "boolean"}}, "required": ["n"]}))
    .define(|d| {
        d.source.kind = SourceKind::Builtin;
        d.execution.resources = vec!["/on".to_owned()];
        d.execution.max_concurrent = 100;
    })
}

#[tokio::test]
async fn outcomes_stand_in_call_order_and_one_failure_loses_no_other() {
    let log = Log::default();
    let world = World::new([step("write", Risk::Write, &log).arc()]);
    let calls = (0..20).map(|n| Call::tool("write", json!({"n": n, "fail": n % 3 == 0})).with_id(format!("c{n}")));
    let mut calls: Vec<_> = calls.collect();
    calls.insert(7, Call::tool("nothing_like_it", json!({})).with_id("odd"));
    calls.insert(9, Call::raw("write", "{\"n\": ").with_id("broken"));
    let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    let outcomes = world.gate.call_many(&developer(), calls).await;
    assert_eq!(outcomes.iter().map(|outcome| outcome.call_id.clone()).collect::<Vec<_>>(), ids);
    assert_eq!((outcomes[7].code(), outcomes[9].status()), (Some(Code::UnknownTool), Status::Refused));
    let done = outcomes.iter().filter(|outcome| outcome.status() == Status::Done).count();
    let failed = outcomes.iter().filter(|outcome| outcome.code() == Some(Code::ToolError)).count();
    assert_eq!((done, failed), (13, 7));
    assert_eq!(world.records().iter().filter(|record| record["event"] == "finished").count(), 22);
}

#[tokio::test]
async fn what_works_on_the_same_thing_keeps_its_order_and_the_rest_runs_side_by_side() {
    let log = Log::default();
    let world = World::new([step("write", Risk::Write, &log).arc(), step("read", Risk::Read, &log).arc()]);
    let calls = vec![
        Call::tool("write", json!({"n": 1, "on": "a.txt", "until": 5})),
        Call::tool("read", json!({"n": 2, "on": "./a.txt", "until": 3})),
        Call::tool("read", json!({"n": 3, "on": "a.txt"})),
        Call::tool("write", json!({"n": 4, "on": "a.txt"})),
        Call::tool("write", json!({"n": 5, "on": "b.txt"})),
    ];
    let outcomes = world.gate.call_many(&developer(), calls).await;
    assert!(outcomes.iter().all(|outcome| outcome.status() == Status::Done));
    let log = log.lock().unwrap();
    let at = |what, number| log.iter().position(|entry| *entry == (what, number)).unwrap();
    assert!(at("end", 1) < at("begin", 2) && at("end", 1) < at("begin", 3), "{log:?}");
    assert!(at("begin", 3) < at("end", 2), "reads overlap: {log:?}");
    assert!(at("end", 2) < at("begin", 4) && at("end", 3) < at("begin", 4), "{log:?}");
    assert!(at("begin", 5) < at("end", 1), "another file does not wait: {log:?}");
}

#[tokio::test]
async fn a_sequential_tool_runs_in_call_order_and_a_batch_has_so_many_at_once() {
    let log = Log::default();
    let sequential = step("step", Risk::Read, &log).define(|d| d.execution.concurrency = Concurrency::Sequential);
    let world = World::new([sequential.arc()]);
    let calls = (0..10).map(|n| Call::tool("step", json!({"n": n}))).collect();
    world.gate.call_many(&developer(), calls).await;
    let begun: Vec<_> = log.lock().unwrap().iter().filter(|entry| entry.0 == "begin").map(|entry| entry.1).collect();
    assert_eq!(begun, (0..10).collect::<Vec<_>>());

    let log = Log::default();
    let world = World::new([step("read", Risk::Read, &log).arc()]);
    let calls = (0..60).map(|n| Call::tool("read", json!({"n": n}))).collect();
    world.gate.call_many(&developer(), calls).await;
    let (mut inside, mut most) = (0_usize, 0);
    for (what, _) in log.lock().unwrap().iter() {
        inside = if *what == "begin" { inside + 1 } else { inside - 1 };
        most = most.max(inside);
    }
    assert_eq!(most, BATCH_CALLS_AT_ONCE_MAX);
}

#[tokio::test]
async fn a_caller_with_few_calls_does_not_wait_behind_one_with_many() {
    let log = Log::default();
    let one = step("step", Risk::Read, &log).define(|d| d.execution.max_concurrent = 1);
    let world = World::new([one.arc()]);
    let mut quiet = developer();
    quiet.subject = "quiet".to_owned();
    let many = (0..16).map(|n| Call::tool("step", json!({"n": n}))).collect();
    let few = async {
        while log.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        world.gate.call_many(&quiet, vec![Call::tool("step", json!({"n": 99}))]).await
    };
    futures_util::future::join(world.gate.call_many(&developer(), many), few).await;
    let begun: Vec<_> = log.lock().unwrap().iter().filter(|entry| entry.0 == "begin").map(|entry| entry.1).collect();
    assert!(begun.iter().position(|number| *number == 99).unwrap() <= 2, "{begun:?}");
}

#[tokio::test]
async fn a_batch_has_an_end_and_every_call_an_outcome() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let world = World::new([tool("count", Risk::Read, move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("ok")) }
    })
    .arc()]);
    let calls = (0..10_003).map(|_| Call::tool("count", json!({}))).collect();
    let outcomes = world.gate.call_many(&developer(), calls).await;
    assert_eq!((outcomes.len(), ran.load(Ordering::SeqCst)), (10_003, 10_000));
    assert!(outcomes.iter().take(10_000).all(|outcome| outcome.status() == Status::Done));
    assert!(outcomes.iter().skip(10_000).all(|outcome| outcome.code() == Some(Code::RateLimited)));
    assert!(world.gate.call_many(&developer(), Vec::new()).await.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is asked for: one outcome for each call, in call order, and what works on the same thing never overlaps
    /// unless all of it reads.
    #[test]
    fn order_and_grouping(calls in prop::collection::vec((any::<bool>(), 0_u8..3, any::<bool>()), 0..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let log = Log::default();
            let world = World::new([step("write", Risk::Write, &log).arc(), step("read", Risk::Read, &log).arc()]);
            let asked = calls.iter().enumerate().map(|(n, (is_read, on, fails))| {
                let arguments = json!({"n": n, "on": on.to_string(), "fail": fails});
                Call::tool(if *is_read { "read" } else { "write" }, arguments).with_id(n.to_string())
            });
            let outcomes = world.gate.call_many(&developer(), asked.collect()).await;
            assert_eq!(outcomes.len(), calls.len());
            assert!(outcomes.iter().enumerate().all(|(n, outcome)| outcome.call_id.as_str() == n.to_string()));
            let log = log.lock().unwrap();
            let at = |what, n: usize| log.iter().position(|entry| *entry == (what, i64::try_from(n).unwrap())).unwrap();
            for later in 0..calls.len() {
                for earlier in 0..later {
                    let (a, b) = (calls[earlier], calls[later]);
                    assert!(a.1 != b.1 || (a.0 && b.0) || at("end", earlier) < at("begin", later), "{calls:?} {log:?}");
                }
            }
        });
    }
}
