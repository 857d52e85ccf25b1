//! A key makes it happen once: given, derived or an argument; while it is under way, after it failed, after a process died.

mod crash;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Notify;
use tollgate_policy::Role;
use tollgate_store::{NewReservation, ReservationKey, Store};
use tollgate_testkit::TestClock;
use tollgate_types::{
    AttemptId, Call, Caller, Clock, Code, Content, Digest, Door, Idempotency, Outcome, Risk, SourceKind, Status,
    Surface, Tool, ToolDefinition, ToolError, ToolOutput,
};

use crate::world::{Setup, World, developer, echo, tool};

/// A tool that counts, and what it does to the world is told by `risk`.
fn counting(runs: &Arc<AtomicUsize>, own: Idempotency) -> Arc<dyn Tool> {
    let runs = Arc::clone(runs);
    tool("order", Risk::Write, move |_, cx| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move { Ok(ToolOutput::structured(json!({"run": run, "told": cx.handed_key.map(|key| key.value)}))) }
    })
    .schema(json!({
        "type": "object", "required": ["id"],
        "properties": {"id": {"type": ["integer", "string", "null"]}, "item": {"type": "string"}},
    }))
    .define(|definition| {
        definition.source.kind = SourceKind::Program;
        definition.idempotency = own;
    })
    .arc()
}

pub(crate) fn free() -> Role {
    Role::new("free")
        .allow("*")
        .risk(Risk::Dangerous)
        .permission(tollgate_types::Permission::System)
        .ask(tollgate_policy::Ask::Never)
}

pub(crate) fn caller(subject: &str) -> Caller {
    Caller::new(subject, "free", Surface::Library)
}

fn world(tools: Vec<Arc<dyn Tool>>) -> World {
    World::with(Setup { roles: vec![free()], tools, ..Setup::default() })
}

async fn order(world: &World, who: &str, key: Option<&str>, arguments: serde_json::Value) -> Outcome {
    let mut call = Call::tool("order", arguments);
    call.idempotency_key = key.map(str::to_owned);
    world.gate.call(&caller(who), call).await
}

#[tokio::test]
async fn equal_calls_of_one_caller_count_as_one_for_their_time() {
    let (runs, clock) = (Arc::default(), Arc::new(TestClock::default()));
    let own = Idempotency { derive: true, ttl_ms: 600_000, ..Idempotency::default() };
    let world = World::with(Setup {
        roles: vec![free()],
        tools: vec![counting(&runs, own)],
        clock: Some(Arc::<TestClock>::clone(&clock)),
        ..Setup::default()
    });
    let ask = |who, id: u8| order(&world, who, None, json!({"id": id}));
    for (who, id, replayed) in [("ada", 1, false), ("ada", 1, true), ("ada", 2, false), ("eve", 1, false)] {
        assert_eq!(ask(who, id).await.replayed, replayed, "{who} {id}");
    }
    assert!(!order(&world, "ada", None, json!({"item": "tea", "id": 1})).await.replayed, "other arguments");
    let spelled = world.gate.call(&caller("ada"), Call::raw("order", r#"{ "id":1.0 }"#)).await;
    assert!(spelled.replayed, "the same arguments in another spelling");
    // A key that the caller gives beside it does not make it two.
    assert!(order(&world, "ada", Some("k"), json!({"id": 1})).await.replayed);
    clock.advance(Duration::from_millis(599_999));
    assert!(ask("ada", 1).await.replayed);
    clock.set(clock.now() - jiff::SignedDuration::from_hours(48));
    assert!(ask("ada", 1).await.replayed, "a clock that goes back makes nothing new");
    clock.set(clock.now() + jiff::SignedDuration::from_hours(48));
    clock.advance(Duration::from_millis(1));
    assert!(!ask("ada", 1).await.replayed, "its time is over");
    assert_eq!(runs.load(Ordering::SeqCst), 5);
}

#[tokio::test]
async fn an_argument_is_the_key() {
    let runs = Arc::default();
    let own = Idempotency { argument: Some("/id".into()), ..Idempotency::default() };
    let world = world(vec![counting(&runs, own)]);
    let ask = |id: serde_json::Value, item: &'static str| order(&world, "ada", None, json!({"id": id, "item": item}));
    let first = ask(json!("17"), "tea").await;
    let again = ask(json!("17"), "tea").await;
    assert_eq!((again.replayed, again.result()), (true, first.result()));
    let other = ask(json!("17"), "coffee").await;
    let error = other.end.error().unwrap();
    assert_eq!(
        (error.error, error.message.as_str()),
        (Code::Conflict, "this idempotency key was used with other arguments")
    );
    assert!(!ask(json!(17), "coffee").await.replayed, "a number is another value");
    let without = ask(json!(null), "tea").await;
    assert_eq!(
        (without.code(), without.end.error().unwrap().details[0].path.as_str()),
        (Some(Code::InvalidArguments), "/id")
    );
    let given = order(&world, "ada", Some("another"), json!({"id": "17", "item": "tea"})).await;
    assert!(given.replayed, "a key that is given does not get by the tool's own");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let note = world.record(&again, "finished")["note"].clone();
    assert_eq!(note, format!("the stored answer of attempt {}", first.attempt.unwrap()));
}

#[tokio::test]
async fn what_runs_is_told_the_key_and_learns_nothing_from_it() {
    let own = || Idempotency { hand_on: Some("ORDER_KEY".into()), ..Idempotency::default() };
    let told = |outcome: &Outcome| outcome.result().unwrap().structured.as_ref().unwrap()["told"].clone();
    let world = world(vec![counting(&Arc::default(), own())]);
    let ask = |who, key, id: u8| order(&world, who, key, json!({"id": id}));
    let ada = told(&ask("ada", Some("k"), 1).await);
    let text = ada.as_str().unwrap();
    assert_eq!((text.len(), text.split('-').count(), text.chars().nth(14)), (36, 5, Some('8')), "{text}");
    assert_ne!(ada, told(&ask("eve", Some("k"), 1).await), "two callers who chose the same key are two");
    assert_ne!(ada, told(&ask("ada", Some("l"), 1).await));
    assert_eq!(told(&ask("ada", None, 1).await), json!(null), "no key, nothing to tell");
    // Another house of the same folder tells the same.
    std::fs::remove_file(world.folder.path().join("store.db")).unwrap();
    let World { gate, operator, folder } = world;
    drop((gate, operator));
    let later = World::at(
        folder,
        Setup { roles: vec![free()], tools: vec![counting(&Arc::default(), own())], ..Setup::default() },
    );
    assert_eq!(told(&order(&later, "ada", Some("k"), json!({"id": 1})).await), ada);
}

#[tokio::test]
async fn the_second_call_waits_for_the_first() {
    let (began, go, runs) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (tool_began, tool_go, tool_runs) = (Arc::clone(&began), Arc::clone(&go), Arc::clone(&runs));
    let world = world(vec![
        tool("order", Risk::Write, move |_, _| {
            let (began, go) = (Arc::clone(&tool_began), Arc::clone(&tool_go));
            let run = tool_runs.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                began.notify_one();
                go.notified().await;
                Ok(ToolOutput::text(format!("order {run}")))
            }
        })
        .arc(),
    ]);
    let ask = || order(&world, "ada", Some("k"), json!({}));
    let release = async {
        began.notified().await;
        // Whatever the others do by now, they do not run.
        go.notify_one();
    };
    let (first, second, third, ()) = tokio::join!(ask(), ask(), ask(), release);
    let mut replayed: Vec<_> = [&first, &second, &third].map(|outcome| outcome.replayed).into();
    replayed.sort_unstable();
    assert_eq!(replayed, [false, true, true]);
    assert!([first, second, third].iter().all(|outcome| outcome.model_text() == "order 1"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Takes a key as a process does that says nothing more.
async fn held(world: &World, attempt: &str, arguments_of: &Outcome) -> AttemptId {
    let digest = world.record(arguments_of, "decided").get("args_hmac").unwrap().as_str().unwrap().to_owned();
    let new = NewReservation {
        keys: vec![ReservationKey::new(&caller("ada"), "order", "k")],
        digest: Digest::new(digest),
        attempt: AttemptId::new(attempt),
        ttl_ms: 60_000,
    };
    let attempt = new.attempt.clone();
    Store::new(world.folder.path()).reserve(new, tollgate_gate::SystemClock::new().now()).await.unwrap();
    attempt
}

fn short(runs: &Arc<AtomicUsize>, timeout_ms: u64, is_idempotent: Option<bool>) -> Arc<dyn Tool> {
    let runs = Arc::clone(runs);
    let body = move |_, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("ordered")) }
    };
    let define = move |definition: &mut tollgate_types::ToolDefinition| {
        definition.execution.timeout_ms = timeout_ms;
        definition.annotations.idempotent = is_idempotent;
    };
    tool("order", Risk::Write, body).define(define).arc()
}

#[tokio::test]
async fn the_wait_has_an_end_and_can_be_cancelled() {
    let runs = Arc::default();
    let world = world(vec![short(&runs, 30, None)]);
    let other = order(&world, "ada", Some("other"), json!({})).await;
    let first = held(&world, "a-1", &other).await;
    let outcome = order(&world, "ada", Some("k"), json!({})).await;
    let error = outcome.end.error().unwrap();
    assert_eq!((error.error, error.retryable, error.retry_after_ms), (Code::Conflict, true, Some(1_000)));
    assert!(
        error.message.contains("is still under way") && error.message.contains(first.as_str()),
        "{}",
        error.message
    );
    let call = Call::tool("order", json!({})).with_idempotency_key("k").with_parent(first);
    let nested = world.gate.call(&caller("ada"), call).await;
    assert_eq!(nested.code(), Some(Code::Conflict), "a tool does not wait for itself");
    let cancellation = tollgate_types::CancellationToken::new();
    cancellation.cancel();
    let call = Call::tool("order", json!({})).with_idempotency_key("k");
    let cancelled = world.gate.call_until(&caller("ada"), call, cancellation).await;
    assert_eq!(cancelled.code(), Some(Code::Cancelled));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn which_failures_stay_under_the_key() {
    type Make = fn() -> ToolError;
    let cases: [(&str, Risk, Make, usize); 8] = [
        ("final", Risk::Write, || ToolError::new("no such item"), 1),
        ("the tool says: again", Risk::Write, || ToolError::new("the shop is closed").retryable(), 2),
        ("it changed nothing", Risk::Write, || ToolError::with_code(Code::UpstreamError, "away").nothing_happened(), 2),
        ("nobody knows", Risk::Write, || ToolError::with_code(Code::UpstreamError, "it broke off"), 1),
        ("a read, final", Risk::Read, || ToolError::new("no such item"), 1),
        ("a read, broken off", Risk::Read, || ToolError::with_code(Code::UpstreamError, "it broke off"), 2),
        ("a read, late", Risk::Read, || ToolError::with_code(Code::Timeout, "late"), 2),
        ("late", Risk::Write, || ToolError::with_code(Code::Timeout, "late"), 1),
    ];
    for (what, risk, make, expected) in cases {
        let runs = Arc::new(AtomicUsize::new(0));
        let tool_runs = Arc::clone(&runs);
        let fails = move |_, _| {
            tool_runs.fetch_add(1, Ordering::SeqCst);
            async move { Err(make()) }
        };
        let once = |d: &mut ToolDefinition| d.on_error = serde_json::from_value(json!({"default": "fail"})).unwrap();
        let world = world(vec![tool("order", risk, fails).define(once).arc()]);
        let first = order(&world, "ada", Some("k"), json!({})).await;
        let again = order(&world, "ada", Some("k"), json!({})).await;
        assert_eq!((first.status(), again.code()), (Status::Failed, first.code()), "{what}");
        assert_eq!((runs.load(Ordering::SeqCst), again.replayed), (expected, expected == 1), "{what}");
    }
}

#[tokio::test]
async fn a_replay_is_judged_by_the_policy_of_now() {
    let runs = Arc::default();
    let mut world = world(vec![counting(&runs, Idempotency::default())]);
    let ask = |world: &World| {
        let call = Call::tool("order", json!({"id": 1})).with_idempotency_key("k");
        let gate = world.gate.clone();
        async move { gate.call(&caller("ada"), call).await }
    };
    assert_eq!(ask(&world).await.status(), Status::Done);
    for (role, code) in
        [(Role::new("free").allow("read_*"), Code::UnknownTool), (free().exclude("order"), Code::UnknownTool)]
    {
        world = World::at(
            world.folder,
            Setup { roles: vec![role], tools: vec![counting(&runs, Idempotency::default())], ..Setup::default() },
        );
        let outcome = ask(&world).await;
        assert_eq!((outcome.code(), outcome.replayed), (Some(code), false));
    }
    let asking = free().ask(tollgate_policy::Ask::Always);
    world = World::at(
        world.folder,
        Setup { roles: vec![asking], tools: vec![counting(&runs, Idempotency::default())], ..Setup::default() },
    );
    assert!(ask(&world).await.replayed, "what was answered needs no second yes");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_long_answer_is_replayed_through_its_handle() {
    for (length, is_cut) in [(20_000, true), (1_200_000, false)] {
        let long =
            tool("order", Risk::Write, move |_, _| async move { Ok(ToolOutput::text("字\n".repeat(length / 4))) })
                .define(move |definition| definition.output.max_length = if is_cut { 1_000 } else { 2_000_000 })
                .arc();
        let world = world(vec![long]);
        let first = order(&world, "ada", Some("k"), json!({})).await;
        let again = order(&world, "ada", Some("k"), json!({})).await;
        assert!(again.replayed && again.status() == Status::Done);
        let result = again.result().unwrap();
        assert_eq!(first.result() == Some(result), is_cut);
        assert!(result.content.iter().all(|part| matches!(part, Content::Text(text) if text.len() < 8_000)));
        let handle = &result.truncated.as_ref().unwrap().handle;
        let call = Call::tool("read_result", json!({"handle": handle}));
        let rest = world.gate.call(&caller("ada"), call).await;
        assert!(rest.model_text().contains('字'), "{}", rest.model_text());
    }
}

#[tokio::test]
async fn keys_have_a_form() {
    let world = world(vec![counting(&Arc::default(), Idempotency::default())]);
    for bad in ["", "a\nb", "\u{1}equal", &"k".repeat(257)] {
        assert_eq!(
            order(&world, "ada", Some(bad), json!({"id": 1})).await.code(),
            Some(Code::InvalidArguments),
            "{bad:?}"
        );
    }
    for good in ["订单 17", &"k".repeat(256)] {
        assert_eq!(order(&world, "ada", Some(good), json!({"id": 1})).await.status(), Status::Done, "{good:?}");
    }
}

#[tokio::test]
async fn without_a_key_nobody_asks_the_store() {
    let world = World::new([echo().arc()]);
    assert_eq!(world.gate.call(&developer(), Call::tool("echo", json!({"text": "好"}))).await.status(), Status::Done);
    assert!(!world.folder.path().join("store.db").exists());
}
