//! How calls end that do not simply return: panics, cancelled and late ones, retries, turnstiles.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tollgate_types::{Call, Code, Concurrency, Door, Risk, Status, ToolError, ToolOutput};

use crate::world::{World, developer, tool};

#[tokio::test]
async fn a_panic_closes_as_failed() {
    let world = World::new([tool("boom", Risk::Write, |_, _| async { panic!("on purpose") })
        .define(|d| d.source.kind = tollgate_types::SourceKind::Builtin)
        .arc()]);
    let outcome = world.call("boom", json!({})).await;
    assert_eq!((outcome.status(), outcome.code(), outcome.exit()), (Status::Failed, Some(Code::Internal), 6));
    assert_eq!(world.events(&outcome).last().unwrap(), "finished");
    assert!(!outcome.end.error().unwrap().retryable, "it may have happened in part");
    assert!(!serde_json::to_string(&outcome).unwrap().contains("on purpose"), "panics are not for callers");
}

#[tokio::test]
async fn dropping_the_call_cancels_it_and_it_is_still_closed() {
    let (began, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    struct OnDrop(Arc<AtomicUsize>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (tool_began, tool_dropped) = (Arc::clone(&began), Arc::clone(&dropped));
    let world = World::new([tool("hang", Risk::Read, move |_, cx| {
        let (began, guard) = (Arc::clone(&tool_began), OnDrop(Arc::clone(&tool_dropped)));
        async move {
            let _guard = guard;
            began.notify_one();
            let cancelled = cx.cancellation.clone();
            std::future::pending::<()>().await;
            drop(cancelled);
            Ok(ToolOutput::text("never"))
        }
    })
    .arc()]);
    let caller = developer();
    {
        let call = world.gate.call(&caller, Call::tool("hang", json!({})));
        tokio::select! {
            _ = call => panic!("it hangs"),
            () = began.notified() => {}
        }
    }
    world.gate.drain().await;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let last = world.records().pop().unwrap();
    assert_eq!((last["event"].as_str(), last["outcome"]["code"].as_str()), (Some("finished"), Some("cancelled")));
}

#[tokio::test]
async fn a_late_tool_is_stopped() {
    let world = World::new([tool("slow", Risk::Read, |_, _| async {
        std::future::pending::<()>().await;
        Ok(ToolOutput::text("never"))
    })
    .define(|d| d.execution.timeout_ms = 50)
    .arc()]);
    let outcome = world.call("slow", json!({})).await;
    assert_eq!((outcome.status(), outcome.code(), outcome.exit()), (Status::Failed, Some(Code::Timeout), 1));
    assert!(outcome.end.error().unwrap().retryable);
}

#[tokio::test]
async fn a_late_change_warns_that_it_may_have_happened() {
    let world = World::new([tool("slow", Risk::Write, |_, _| async {
        std::future::pending::<()>().await;
        Ok(ToolOutput::text("never"))
    })
    .define(|d| {
        d.execution.timeout_ms = 50;
        d.source.kind = tollgate_types::SourceKind::Builtin;
    })
    .arc()]);
    let outcome = world.call("slow", json!({})).await;
    let error = outcome.end.error().unwrap();
    assert!(!error.retryable && error.hint.as_ref().unwrap().contains("may have happened"));
}

#[tokio::test]
async fn only_what_may_happen_twice_is_tried_twice() {
    let flaky = |name: &str, risk: Risk| {
        let tries = Arc::new(AtomicUsize::new(0));
        tool(name, risk, move |_, _| {
            let tries = tries.fetch_add(1, Ordering::SeqCst);
            async move {
                match tries {
                    0 | 1 => Err(ToolError::with_code(Code::UpstreamError, "the server sneezed")),
                    _ => Ok(ToolOutput::text(format!("after {tries} failures"))),
                }
            }
        })
        .define(|d| {
            d.execution.max_retries = 2;
            d.execution.retryable_errors = vec!["upstream_error".into()];
            d.source.kind = tollgate_types::SourceKind::Builtin;
        })
        .arc()
    };
    let world = World::new([flaky("look", Risk::Read), flaky("change", Risk::Write)]);
    let read = world.call("look", json!({})).await;
    assert_eq!(read.model_text(), "after 2 failures");
    assert_eq!(world.record(&read, "finished")["retries"], 2);
    let write = world.call("change", json!({})).await;
    assert_eq!(write.code(), Some(Code::UpstreamError));
}

#[tokio::test]
async fn a_key_does_not_make_a_change_repeatable() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool_runs = Arc::clone(&runs);
    let world = World::new([tool("send", Risk::Write, move |_, _| {
        tool_runs.fetch_add(1, Ordering::SeqCst);
        async { Err(ToolError::with_code(Code::UpstreamError, "the connection broke off")) }
    })
    .define(|d| {
        d.execution.max_retries = 2;
        d.execution.retryable_errors = vec!["upstream_error".into()];
        d.source.kind = tollgate_types::SourceKind::Builtin;
    })
    .arc()]);
    let call = Call::tool("send", json!({})).with_idempotency_key("k");
    assert_eq!(world.gate.call(&developer(), call).await.code(), Some(Code::UpstreamError));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_tool_is_told_that_its_time_is_up_before_it_is_dropped() {
    let told = Arc::new(AtomicUsize::new(0));
    let tool_told = Arc::clone(&told);
    let world = World::new([tool("slow", Risk::Read, move |_, cx| {
        let told = Arc::clone(&tool_told);
        async move {
            cx.cancellation.cancelled().await;
            told.fetch_add(1, Ordering::SeqCst);
            Ok(ToolOutput::text("last words"))
        }
    })
    .define(|d| d.execution.timeout_ms = 20)
    .arc()]);
    assert_eq!(world.call("slow", json!({})).await.code(), Some(Code::Timeout));
    assert_eq!(told.load(Ordering::SeqCst), 2, "a read that was too slow is tried once more");
}

#[tokio::test]
async fn turnstiles_hold() {
    for (concurrency, max_concurrent, expected) in [(Concurrency::Sequential, 5, 1), (Concurrency::Parallel, 2, 2)] {
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (tool_inside, tool_most) = (Arc::clone(&inside), Arc::clone(&most));
        let world = World::new([tool("step", Risk::Read, move |_, _| {
            let (inside, most) = (Arc::clone(&tool_inside), Arc::clone(&tool_most));
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolOutput::text("ok"))
            }
        })
        .define(|d| {
            d.execution.concurrency = concurrency;
            d.execution.max_concurrent = max_concurrent;
        })
        .arc()]);
        let calls = (0..12).map(|_| world.call("step", json!({})));
        let outcomes = futures_util::future::join_all(calls).await;
        assert!(outcomes.iter().all(|outcome| outcome.status() == Status::Done));
        assert_eq!(most.load(Ordering::SeqCst), expected);
    }
}

#[tokio::test]
async fn a_key_makes_it_happen_once() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool_runs = Arc::clone(&runs);
    let world = World::new([tool("order", Risk::Write, move |_, _| {
        let run = tool_runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(ToolOutput::structured(json!({"order": run}))) }
    })
    .schema(json!({"type": "object", "properties": {"item": {"type": "string"}}}))
    .define(|d| d.source.kind = tollgate_types::SourceKind::Builtin)
    .arc()]);
    let order = |item: &str| {
        let call = Call::tool("order", json!({"item": item})).with_idempotency_key("intent-1");
        let world = &world;
        async move { world.gate.call(&developer(), call).await }
    };
    let first = order("tea").await;
    let again = order("tea").await;
    assert_eq!((again.result(), again.replayed), (first.result(), true));
    assert_eq!(world.events(&again), ["received", "decided", "finished"], "nothing was started");
    assert_eq!(order("coffee").await.code(), Some(Code::Conflict));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(world.record(&first, "received")["key"], "intent-1");
}
