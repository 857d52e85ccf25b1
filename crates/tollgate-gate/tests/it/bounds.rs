//! How much may be under way at once, and how deep tools may call tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use tollgate_types::{AttemptId, Call, CancellationToken, Code, Door, Risk, Status, ToolOutput, limits};

use crate::world::{World, developer, echo, tool};

#[tokio::test]
async fn a_tool_that_calls_itself_comes_to_an_end() {
    let runs = Arc::new(AtomicU32::new(0));
    let tool_runs = Arc::clone(&runs);
    let world = World::new([tool("again", Risk::Read, move |_, cx| {
        tool_runs.fetch_add(1, Ordering::SeqCst);
        async move {
            // It says nothing of where it stands, and is known to stand there.
            let inner = cx.door.call(&cx.caller, Call::tool("again", json!({}))).await;
            Ok(ToolOutput::text(format!("below: {}", inner.model_text())))
        }
    })
    .define(|definition| definition.execution.max_concurrent = 100)
    .arc()]);
    let outcome = world.call("again", json!({})).await;
    assert_eq!(outcome.status(), Status::Done);
    assert!(outcome.model_text().contains("8 calls deep"), "{}", outcome.model_text());
    assert_eq!(runs.load(Ordering::SeqCst), 1 + limits::CALL_DEPTH_MAX);

    let records = world.records();
    let refused = records.iter().find(|record| record["outcome"]["code"] == "budget_exceeded").unwrap();
    let parents: Vec<_> = records.iter().filter(|record| record["event"] == "received").collect();
    assert_eq!(parents.len(), 2 + limits::CALL_DEPTH_MAX as usize, "the one that is refused is recorded too");
    assert_eq!(parents[0].get("parent"), None);
    assert!(parents.windows(2).all(|pair| pair[1]["parent"] == pair[0]["attempt"]), "each hangs on the one above");
    assert_eq!(refused["attempt"], parents.last().unwrap()["attempt"]);
}

#[tokio::test]
async fn a_tool_cannot_ask_in_the_name_of_another_call() {
    let world = World::new([
        echo().arc(),
        tool("outer", Risk::Read, |_, cx| async move {
            let call = Call::tool("echo", json!({ "text": "x" })).with_parent(AttemptId::new("somebody"));
            Ok(ToolOutput::text(cx.door.call(&cx.caller, call).await.model_text()))
        })
        .arc(),
    ]);
    let outcome = world.call("outer", json!({})).await;
    let records = world.records();
    let inner = records.iter().find(|record| record["tool"]["name"] == "echo").unwrap();
    assert_eq!(inner["parent"], outcome.attempt.unwrap().as_str());
}

#[tokio::test]
async fn more_calls_than_may_be_under_way_are_told_to_come_back() {
    let open = CancellationToken::new();
    let gate = open.clone();
    let world = World::new([tool("wait", Risk::Read, move |_, _| {
        let gate = gate.clone();
        async move {
            gate.cancelled().await;
            Ok(ToolOutput::text("through"))
        }
    })
    .define(|definition| definition.execution.max_concurrent = usize::from(u16::MAX))
    .arc()]);
    let caller = developer();
    let ask = || world.gate.call(&caller, Call::tool("wait", json!({})));
    let under_way: Vec<_> = (0..limits::CALLS_UNDER_WAY_MAX).map(|_| ask()).collect();
    let refused = ask().await;
    let error = refused.end.error().unwrap();
    assert_eq!((error.error, error.retryable, error.retry_after_ms), (Code::RateLimited, true, Some(1_000)));
    assert_eq!(world.events(&refused), ["received", "finished"]);

    open.cancel();
    let outcomes = join_all(under_way).await;
    assert!(outcomes.iter().all(|outcome| outcome.status() == Status::Done));
    assert_eq!(ask().await.status(), Status::Done);
}

#[tokio::test]
async fn arguments_that_are_too_large_or_too_deep_reach_nothing() {
    let runs = Arc::new(AtomicU32::new(0));
    let tool_runs = Arc::clone(&runs);
    let world = World::new([tool("any", Risk::Read, move |_, _| {
        tool_runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("ran")) }
    })
    .arc()]);
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let sized = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
    let (depth, bytes) = (limits::JSON_DEPTH_MAX, limits::ARGUMENTS_BYTES_MAX);
    for (fits, too_much, code, part) in [
        (nested(depth), nested(depth + 1), Code::InvalidJson, "nested deeper than 64 levels"),
        (sized(bytes), sized(bytes + 1), Code::InvalidArguments, "more than the limit of 4194304"),
    ] {
        let before = runs.load(Ordering::SeqCst);
        assert_eq!(world.raw("any", &fits).await.status(), Status::Done);
        let refused = world.raw("any", &too_much).await;
        let error = refused.end.error().unwrap();
        assert_eq!(error.error, code);
        assert!(error.message.contains(part), "{}", error.message);
        assert_eq!((world.events(&refused).len(), runs.load(Ordering::SeqCst)), (2, before + 1));
    }
}
