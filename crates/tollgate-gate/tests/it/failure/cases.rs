//! `tests/cases/failure.jsonl`: cases of others, and the ladder as it is taught. Each line is run; none is left out.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollgate_types::{Call, Clock, Code, Door, Risk, SourceKind, Status, ToolError, ToolOutput};

use super::double::{Deeds, Fault, double, on_error, world};
use crate::world::{Setup, developer, tool};

#[tokio::test(start_paused = true)]
async fn every_case_holds() {
    for line in include_str!("../../cases/failure.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        match case["id"].as_str().unwrap() {
            "TC-113" => a_stalled_tool_hangs_nobody(&case).await,
            "T070" => what_ran_and_stalled_is_not_run_again(&case).await,
            "T073" => no_way_around_a_no(&case).await,
            id if id.starts_with("ladder.") => a_rung(&case).await,
            id => panic!("nobody runs {id}"),
        }
    }
}

async fn a_stalled_tool_hangs_nobody(case: &Value) {
    let wanted = &case["expected"];
    let deeds = Arc::new(Deeds::default());
    let stalled = double("stalled", Risk::Read, [Fault::Hang], &deeds).define(|d| {
        d.execution.timeout_ms = case["input"]["timeout_ms"].as_u64().unwrap();
        d.on_error = on_error(json!({"default": "fail"}));
    });
    let sibling = double("sibling", Risk::Read, [Fault::Answer], &Arc::default());
    let (world, _clock) = world(Setup { tools: vec![stalled.arc(), sibling.arc()], ..Setup::default() });
    let (late, beside) = futures_util::join!(world.call("stalled", json!({})), world.call("sibling", json!({})));
    assert_eq!(late.code().unwrap().as_str(), wanted["code"]);
    assert_eq!((beside.status() == Status::Done), wanted["siblings_unaffected"].as_bool().unwrap());
}

async fn what_ran_and_stalled_is_not_run_again(case: &Value) {
    assert!(case["expected"].as_str().unwrap().starts_with("write tool executed once"));
    let deeds = Arc::new(Deeds::default());
    let pay = double("pay", Risk::Write, [Fault::Hang], &deeds).define(|d| {
        d.source.kind = SourceKind::Builtin;
        d.on_error =
            on_error(json!({"default": {"retry": {"max": 3, "pause_ms": 1}}, "timeout": {"retry": {"max": 3}}}));
    });
    let (world, _clock) = world(Setup { tools: vec![pay.arc()], ..Setup::default() });
    for is_replayed in [false, true] {
        let call = Call::tool("pay", json!({})).with_idempotency_key("k");
        let outcome = world.gate.call(&developer(), call).await;
        assert_eq!((outcome.code(), outcome.replayed), (Some(Code::Timeout), is_replayed));
    }
    assert_eq!(deeds.count(), 1);
}

async fn no_way_around_a_no(case: &Value) {
    assert!(case["expected"].as_str().unwrap().contains("deny is final"));
    let deeds = Arc::new(Deeds::default());
    let look = double("look", Risk::Read, [Fault::Answer], &Arc::default()).define(|d| {
        d.security.blocked_patterns = vec!["secret".into()];
        d.on_error = on_error(json!({"default": {"fallback": {"tool": "other"}}}));
    });
    let other = double("other", Risk::Read, [Fault::Answer], &deeds);
    let (world, _clock) = world(Setup { tools: vec![look.arc(), other.arc()], ..Setup::default() });
    assert_eq!(world.call("look", json!({"q": "a secret"})).await.code(), Some(Code::Denied));
    assert_eq!(deeds.count(), 0);
}

async fn a_rung(case: &Value) {
    let (fails, wanted, id) = (&case["fails_with"], &case["expected"], &case["id"]);
    let code = Code::ALL.iter().find(|code| code.as_str() == fails["code"]).copied().unwrap();
    let mut error = ToolError::with_code(code, "on purpose");
    error.tool_code = fails["tool_code"].as_str().map(str::to_owned);
    error.retryable = fails["retryable"].as_bool().unwrap_or(error.retryable);
    let began: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = Arc::clone(&began);
    let look = tool("look", Risk::Read, move |_, cx| {
        seen.lock().unwrap().push(cx.clock.monotonic().as_millis() as u64);
        let error = error.clone();
        async move { Err(error) }
    });
    let look = look.define(|d| d.on_error = on_error(case["on_error"].clone()));
    let quick = tool("quick_preview", Risk::Read, |arguments, _| async move { Ok(ToolOutput::structured(arguments)) });
    let (world, clock) = world(Setup { tools: vec![look.arc(), quick.arc()], ..Setup::default() });
    let outcome = world.call("look", json!({"city": "北京"})).await;
    assert!(clock.monotonic().as_secs() < 60);
    let began = began.lock().unwrap();
    let pauses: Vec<u64> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let most: Vec<u64> = serde_json::from_value(wanted["pauses_ms"].clone()).unwrap();
    assert_eq!((pauses.len() as u64, pauses.len()), (wanted["retries"].as_u64().unwrap(), most.len()), "{id}");
    // Chance shortens a pause to the half at most.
    assert!(pauses.iter().zip(&most).all(|(pause, most)| (most / 2..=*most).contains(pause)), "{id}: {pauses:?}");
    match outcome.code() {
        Some(code) => assert_eq!(code.as_str(), wanted["ends"], "{id}"),
        None => {
            assert_eq!(wanted["ends"], "quick_preview", "{id}");
            assert_eq!(outcome.result().unwrap().structured, Some(json!({"city": "北京"})), "{id}");
        }
    }
}
