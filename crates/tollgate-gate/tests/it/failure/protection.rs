//! What protects a source and everybody else: breaker, places, retry budget.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_gate::SourceReport;
use tollgate_types::{Code, Resilience, Risk, Status};

use super::double::{Deeds, Fault, busy_until, double, on_error, world};
use crate::world::{Setup, TestTool, World};

fn rules(value: Value) -> Resilience {
    serde_json::from_value(value).unwrap()
}

fn of_crm(tool: TestTool) -> TestTool {
    tool.define(|d| {
        d.source.server = Some("crm".into());
        d.on_error = on_error(json!({"default": "fail"}));
    })
}

fn report(world: &World, source: &str) -> SourceReport {
    world.gate.sources().into_iter().find(|report| report.source == source).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_left_alone_and_tried_by_one() {
    let deeds = Arc::new(Deeds::default());
    let mut faults = vec![Fault::Reset; 4];
    faults.push(Fault::Answer);
    let look = of_crm(double("look", Risk::Read, faults, &deeds));
    let other = of_crm(double("find", Risk::Read, [Fault::Answer], &Arc::default()));
    let elsewhere = double("elsewhere", Risk::Read, [Fault::Answer], &Arc::default());
    let resilience = rules(json!({"sources": {"crm": {"breaker": {"failures": 3, "open_ms": 10_000}}}}));
    let tools = vec![look.arc(), other.arc(), elsewhere.arc()];
    let (world, _clock) = world(Setup { tools, resilience, ..Setup::default() });
    for _ in 0..3 {
        assert_eq!(world.call("look", json!({})).await.code(), Some(Code::UpstreamError));
    }
    let refused = world.call("find", json!({})).await;
    let error = refused.end.error().unwrap();
    assert_eq!((error.error, error.retryable, error.retry_after_ms), (Code::Unavailable, true, Some(10_000)));
    assert!(error.message.contains("`crm`") && error.hint.as_ref().unwrap().contains("10 s"));
    assert_eq!(world.events(&refused), ["received", "decided", "finished"], "it never started");
    assert_eq!(world.call("elsewhere", json!({})).await.status(), Status::Done);
    assert_eq!((report(&world, "crm").breaker, report(&world, "crm").refused), (Some("open"), 1));

    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(report(&world, "crm").breaker, Some("half_open"));
    assert_eq!(world.call("look", json!({})).await.code(), Some(Code::UpstreamError), "the probe fails");
    assert_eq!(world.call("look", json!({})).await.code(), Some(Code::Unavailable));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(world.call("look", json!({})).await.status(), Status::Done, "the next one does not");
    assert_eq!(world.call("find", json!({})).await.status(), Status::Done);
    let crm = report(&world, "crm");
    assert_eq!((crm.breaker, crm.opened, crm.refused, deeds.count()), (Some("closed"), 2, 2, 5));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_fault_of_the_source_leaves_it_alone() {
    for fault in [Fault::Login, Fault::Busy, Fault::Lie, Fault::Misfit, Fault::Answer] {
        let look = of_crm(double("look", Risk::Read, [fault], &Arc::default()));
        let resilience = rules(json!({"breaker": {"failures": 1}}));
        let (world, _clock) = world(Setup { tools: vec![look.arc()], resilience, ..Setup::default() });
        for _ in 0..4 {
            world.call("look", json!({})).await;
        }
        assert_eq!(report(&world, "crm").breaker, Some("closed"), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_ends_retries_and_leads_to_the_fallback() {
    let deeds = Arc::new(Deeds::default());
    let look = double("look", Risk::Read, [Fault::Refused, Fault::Reset], &deeds).define(|d| {
        d.source.server = Some("crm".into());
        d.on_error = on_error(json!({
            "network_error": {"retry": {"max": 9, "pause_ms": 10}}, "default": {"fallback": {"tool": "other"}},
        }));
    });
    let other = double("other", Risk::Read, [Fault::Answer], &Arc::default());
    let resilience = rules(json!({"breaker": {"failures": 2}}));
    let (world, _clock) = world(Setup { tools: vec![look.arc(), other.arc()], resilience, ..Setup::default() });
    let first = world.call("look", json!({})).await;
    assert_eq!((first.status(), deeds.count()), (Status::Done, 2), "{:?}", first.end);
    let second = world.call("look", json!({})).await;
    assert_eq!((second.status(), deeds.count()), (Status::Done, 2), "it is not asked at all");
    assert!(second.model_text().contains("failed (unavailable); this is what `other` says"));
    assert_eq!((report(&world, "crm").fallbacks, report(&world, "crm").retries), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn one_slow_source_holds_no_more_than_its_places() {
    let deeds = Arc::new(Deeds::default());
    let names = ["a", "b", "c"];
    let slow = names.map(|name| of_crm(double(name, Risk::Read, [Fault::Delay(500)], &deeds)).arc());
    let quick = double("quick", Risk::Read, [Fault::Answer], &Arc::default()).arc();
    let resilience = rules(json!({"sources": {"crm": {"max_concurrent": 1, "max_waiting": 1}}}));
    let (world, _clock) =
        world(Setup { tools: slow.into_iter().chain([quick]).collect(), resilience, ..Setup::default() });
    let calls = futures_util::future::join_all(names.map(|name| world.call(name, json!({}))));
    let received = || world.records().iter().filter(|record| record["event"] == "received").count();
    let meanwhile = async {
        busy_until(|| received() == 3).await;
        world.call("quick", json!({})).await.status()
    };
    let (outcomes, quick) = futures_util::join!(calls, meanwhile);
    assert_eq!(quick, Status::Done);
    let done = outcomes.iter().filter(|outcome| outcome.status() == Status::Done).count();
    let busy = outcomes.iter().filter(|outcome| outcome.code() == Some(Code::Unavailable)).count();
    assert_eq!((done, busy), (2, 1));
    assert_eq!(deeds.most.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!((report(&world, "crm").busy, report(&world, "crm").waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn retries_do_not_multiply_what_is_asked_of_a_source_that_is_down() {
    let deeds = Arc::new(Deeds::default());
    let look = double("look", Risk::Read, [Fault::Refused], &deeds).define(|d| d.source.server = Some("crm".into()));
    let resilience = rules(json!({"breaker": {"failures": 0}, "retry_budget": {"percent": 10, "reserve": 4}}));
    let (world, _clock) = world(Setup { tools: vec![look.arc()], resilience, ..Setup::default() });
    for _ in 0..40 {
        world.call("look", json!({})).await;
    }
    let retries = deeds.count() - 40;
    assert!((4..=8).contains(&retries), "{retries}");
    assert_eq!(report(&world, "crm").retries, retries as u64);
}
