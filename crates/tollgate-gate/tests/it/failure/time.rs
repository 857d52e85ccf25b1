//! Limits, queues, and ends from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, Call, CancellationToken, Clock, Code, Concurrency,
    Door, Risk, SourceKind, Status,
};

use super::double::{Deeds, Fault, busy_until, double, on_error, world};
use crate::world::{Setup, World, developer};

/// How many records of one event there are.
fn count(world: &World, event: &str) -> usize {
    world.records().iter().filter(|record| record["event"] == event).count()
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_turn_is_no_running() {
    let deeds = Arc::new(Deeds::default());
    let tool = double("step", Risk::Read, [Fault::Delay(800)], &deeds).define(|d| {
        d.execution.concurrency = Concurrency::Sequential;
        d.execution.timeout_ms = 1_000;
        d.execution.queue_timeout_ms = Some(2_000);
    });
    let (world, _clock) = world(Setup { tools: vec![tool.arc()], ..Setup::default() });
    let calls = futures_util::future::join_all((0..4).map(|_| world.call("step", json!({}))));
    let (outcomes, ()) = futures_util::join!(calls, busy_until(|| count(&world, "received") == 4));
    let mut queued: Vec<u64> = Vec::new();
    for outcome in &outcomes {
        match outcome.code() {
            None => queued.push(world.record(outcome, "finished")["queued_ms"].as_u64().unwrap_or(0)),
            Some(code) => {
                let error = outcome.end.error().unwrap();
                assert_eq!((code, error.retry_after_ms), (Code::Unavailable, Some(1_000)));
                assert!(!world.events(outcome).contains(&"started".to_owned()), "it never started");
            }
        }
    }
    queued.sort_unstable();
    assert_eq!(queued, [0, 800, 1_600]);
    assert_eq!(deeds.most.load(Ordering::SeqCst), 1);
    assert_eq!(world.gate.failures("step").unwrap().source.busy, 1);
}

#[tokio::test(start_paused = true)]
async fn progress_resets_silence_and_never_the_cap() {
    for (idle, timeout, fault, wanted) in [
        (150, 1_000, Fault::Drip, "did not finish within 1000 ms"),
        (50, 1_000, Fault::Drip, "said nothing within 50 ms"),
        (150, 100, Fault::Hang, "did not finish within 100 ms"),
    ] {
        let deeds = Arc::new(Deeds::default());
        let tool = double("step", Risk::Read, [fault], &deeds).define(|d| {
            d.execution.idle_timeout_ms = Some(idle);
            d.execution.timeout_ms = timeout;
        });
        let (world, _clock) = world(Setup { tools: vec![tool.arc()], ..Setup::default() });
        let outcome = world.call("step", json!({})).await;
        assert!(outcome.end.error().unwrap().message.contains(wanted), "{:?}", outcome.end);
    }
}

#[tokio::test]
async fn the_end_of_the_house_waits_for_what_ends_in_time() {
    let deeds = Arc::new(Deeds::default());
    let world = World::new([double("step", Risk::Read, [Fault::Delay(5)], &deeds).arc()]);
    let drain = async {
        busy_until(|| deeds.count() == 1).await;
        world.gate.drain_within(Duration::from_secs(60)).await
    };
    let (outcome, left) = futures_util::join!(world.call("step", json!({})), drain);
    assert_eq!((outcome.status(), left), (Status::Done, 0));
    assert_eq!(world.call("step", json!({})).await.status(), Status::Done, "later calls are served");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_in_time_is_cancelled_at_the_end_of_the_house() {
    for (fault, patience_ms) in [(Fault::Hang, 1_000), (Fault::Deaf, 0)] {
        let deeds = Arc::new(Deeds::default());
        let tool = double("step", Risk::Read, [fault], &deeds);
        let (world, clock) = world(Setup { tools: vec![tool.arc()], ..Setup::default() });
        let drain = async {
            busy_until(|| deeds.count() == 1).await;
            let began = clock.monotonic();
            let left = world.gate.drain_within(Duration::from_millis(patience_ms)).await;
            (left, clock.monotonic() - began)
        };
        let (outcome, (found, took)) = futures_util::join!(world.call("step", json!({})), drain);
        assert_eq!((outcome.code(), found), (Some(Code::Cancelled), 1), "{fault:?}");
        assert!(took <= Duration::from_millis(patience_ms + 750), "{fault:?} {took:?}");
        assert_eq!(deeds.alive.load(Ordering::SeqCst), 0);
        assert_eq!(world.call("step", json!({})).await.code(), Some(Code::Cancelled), "the house is closed");
    }
}

/// A human who never answers.
struct Silent {
    asked: Arc<Notify>,
    asking: Arc<AtomicUsize>,
}

struct Asking(Arc<AtomicUsize>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ApprovalChannel for Silent {
    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.asking.fetch_add(1, Ordering::SeqCst);
        let asking = Asking(Arc::clone(&self.asking));
        Box::pin(async move {
            let _asking = asking;
            self.asked.notify_one();
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_reaches_a_waiting_approval() {
    let (asked, asking) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let deeds = Arc::new(Deeds::default());
    let tool =
        double("change", Risk::Dangerous, [Fault::Answer], &deeds).define(|d| d.source.kind = SourceKind::Program);
    let channel = Silent { asked: Arc::clone(&asked), asking: Arc::clone(&asking) };
    let setup = Setup { tools: vec![tool.arc()], channel: Some(Arc::new(channel)), ..Setup::default() };
    let (world, _clock) = world(setup);
    let (caller, stop) = (developer(), CancellationToken::new());
    let call = world.gate.call_until(&caller, Call::tool("change", json!({})), stop.clone());
    let cancel = async {
        asked.notified().await;
        assert_eq!(asking.load(Ordering::SeqCst), 1);
        stop.cancel();
    };
    let (outcome, ()) = futures_util::join!(call, cancel);
    assert_eq!((outcome.code(), outcome.status()), (Some(Code::Cancelled), Status::Failed));
    world.gate.drain().await;
    assert_eq!((asking.load(Ordering::SeqCst), deeds.count()), (0, 0));
    assert_eq!(world.events(&outcome).last().unwrap(), "finished");
}

#[tokio::test(start_paused = true)]
async fn cancelling_reaches_every_place_where_a_call_can_be() {
    let ladder =
        json!({"network_error": {"retry": {"max": 3, "pause_ms": 60_000}}, "default": {"fallback": {"tool": "deaf"}}});
    for (fault, after_ms, tries) in
        [(Fault::Hang, 100, 1), (Fault::Deaf, 100, 1), (Fault::Refused, 10_000, 1), (Fault::Login, 100, 1)]
    {
        let deeds = Arc::new(Deeds::default());
        let look = double("look", Risk::Read, [fault], &deeds).define(|d| d.on_error = on_error(ladder.clone()));
        let deaf = double("deaf", Risk::Read, [Fault::Deaf], &deeds);
        let (world, clock) = world(Setup { tools: vec![look.arc(), deaf.arc()], ..Setup::default() });
        let (caller, stop) = (developer(), CancellationToken::new());
        let call = world.gate.call_until(&caller, Call::tool("look", json!({})), stop.clone());
        let cancel = async {
            busy_until(|| deeds.count() >= tries).await;
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            stop.cancel();
            clock.monotonic()
        };
        let (outcome, cancelled) = futures_util::join!(call, cancel);
        let took = clock.monotonic() - cancelled;
        assert!(
            outcome.status() == Status::Failed && took <= Duration::from_millis(750),
            "{fault:?} {took:?} {:?}",
            outcome.end
        );
        world.gate.drain().await;
        assert_eq!(deeds.alive.load(Ordering::SeqCst), 0, "{fault:?}");
        assert_eq!(count(&world, "finished"), count(&world, "received"), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_cancels() {
    let deeds = Arc::new(Deeds::default());
    let (world, _clock) =
        world(Setup { tools: vec![double("look", Risk::Read, [Fault::Deaf], &deeds).arc()], ..Setup::default() });
    let caller = developer();
    let call = world.gate.call(&caller, Call::tool("look", json!({})));
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err());
    world.gate.drain().await;
    assert_eq!(deeds.alive.load(Ordering::SeqCst), 0);
    assert_eq!(world.records().last().unwrap()["outcome"]["code"], "cancelled");
}
