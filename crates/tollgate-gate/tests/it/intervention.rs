//! The last rung: what no other one solved, a human may; and what policy denies only where that is said.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate_gate::OperatorError;
use tollgate_policy::Role;
use tollgate_store::{Answer, StoreError};
use tollgate_types::{
    Call, Caller, Code, Door, End, OnError, Outcome, Permission, Risk, Secret, Status, Surface, Tool, ToolError,
    ToolOutput, WaitingKind,
};

use crate::world::{Setup, World, developer, free, tool};

fn on_error(value: Value) -> OnError {
    serde_json::from_value(value).unwrap()
}

/// A tool that never works.
fn stock(runs: &Arc<AtomicUsize>, ladder: Value) -> Arc<dyn Tool> {
    let runs = Arc::clone(runs);
    tool("stock", Risk::Read, move |_, _| {
        let runs = Arc::clone(&runs);
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Err(ToolError::new("the shelf is locked, key zq-injected-secret").with_tool_code("LOCKED").retryable())
        }
    })
    .define(move |it| {
        it.on_error = on_error(ladder);
        let count = json!({"type": "integer", "minimum": 0});
        it.output_schema = Some(json!({"type": "object", "properties": {"count": count, "note": {"type": "string"}}, "required": ["count"]}));
    })
    .arc()
}

fn retried() -> Value {
    json!({"default": {"human": true}, "LOCKED": {"retry": {"max": 2, "pause_ms": 0}}})
}

fn world(runs: &Arc<AtomicUsize>, ladder: Value) -> World {
    let secrets = vec![Secret::new("zq-injected-secret")];
    World::with(Setup { tools: vec![stock(runs, ladder)], secrets, ..Setup::default() })
}

fn id(outcome: &Outcome) -> String {
    match &outcome.end {
        End::Waiting(waiting, error) => {
            assert_eq!((waiting.kind, error.error), (WaitingKind::Intervention, Code::InterventionRequired));
            waiting.id.to_string()
        }
        end => panic!("it does not wait: {end:?}"),
    }
}

fn answer(approved: bool) -> Answer {
    Answer { approved, by: "alice".into(), reason: (!approved).then(|| "count it yourself".into()), typed: None }
}

#[tokio::test]
async fn a_human_gives_the_result_to_the_one_who_asks_again_once() {
    let runs = Arc::default();
    let world = world(&runs, retried());
    let waiting = world.call("stock", json!({"sku": "A103"})).await;
    assert_eq!((waiting.status(), waiting.exit()), (Status::Waiting, 4));
    assert_eq!(world.events(&waiting), ["received", "decided", "started", "waiting"]);
    let again = world.call("stock", json!({"sku": "A103"})).await;
    let own = |outcome: &Outcome| outcome.end.error().unwrap().tool_code.clone();
    assert_eq!((own(&waiting).as_deref(), own(&again).as_deref()), (Some("LOCKED"), Some("LOCKED")));
    assert_eq!((id(&again), runs.load(Ordering::SeqCst)), (id(&waiting), 3), "asked once, and not tried meanwhile");

    let shown = world.operator.approval(&id(&waiting)).await.unwrap();
    assert_eq!((shown.kind, shown.tried.as_ref().unwrap()["retries"].clone()), (WaitingKind::Intervention, json!(2)));
    assert_eq!(shown.tried.as_ref().unwrap()["tool_code"], "LOCKED");
    let text = shown.shown();
    assert!(text.contains("what was tried") && text.contains("what the result must fit"), "{text}");
    assert!(!serde_json::to_string(&shown).unwrap().contains("zq-injected-secret"));

    let bare = world.operator.answer(&id(&waiting), answer(true)).await;
    assert!(matches!(bare, Err(OperatorError::Store(StoreError::Conflict(_)))), "{bare:?}");
    let unfit = world.operator.give_result(&id(&waiting), answer(true), json!({"count": -1})).await;
    assert!(matches!(&unfit, Err(OperatorError::Unfit(why)) if why.contains("/count")), "{unfit:?}");
    let result = json!({"count": 12, "note": "see zq-injected-secret"});
    let given = world.operator.give_result(&id(&waiting), answer(true), result).await.unwrap();
    assert!(!serde_json::to_string(&given).unwrap().contains("see zq"), "the result is for the asker");

    let eve = Caller::new("eve", "developer", Surface::Library);
    let other = world.gate.call(&eve, Call::tool("stock", json!({"sku": "A103"}))).await;
    assert_ne!(id(&other), id(&waiting), "another asker asks anew");
    let done = world.call("stock", json!({"sku": "A103"})).await;
    assert_eq!(done.status(), Status::Done, "{:?}", done.end);
    let result = done.result().unwrap();
    assert_eq!(result.structured.as_ref().unwrap()["count"], 12);
    assert!(result.text().contains("given by alice") && !result.text().contains("zq-injected-secret"));
    assert_eq!(world.events(&done), ["received", "decided", "finished"]);
    let finished = world.record(&done, "finished");
    assert_eq!(
        (&finished["approval"], &finished["note"]),
        (&json!(id(&waiting)), &json!("the result was given by alice"))
    );
    assert_ne!(id(&world.call("stock", json!({"sku": "A103"})).await), id(&waiting), "once");
}

#[tokio::test]
async fn a_no_comes_back_too_and_then_it_is_tried_again() {
    let runs = Arc::default();
    let world = world(&runs, json!({"default": "human"}));
    let waiting = world.call("stock", json!({})).await;
    world.operator.answer(&id(&waiting), answer(false)).await.unwrap();
    let refused = world.call("stock", json!({})).await;
    assert_eq!((refused.code(), refused.exit()), (Some(Code::ApprovalRejected), 3));
    assert!(refused.end.error().unwrap().message.contains("count it yourself"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_ne!(id(&world.call("stock", json!({})).await), id(&waiting));
}

#[tokio::test]
async fn under_a_key_the_humans_result_is_the_answer_that_stays() {
    let runs = Arc::default();
    let tool = tool("move", Risk::Write, {
        let runs: Arc<AtomicUsize> = Arc::clone(&runs);
        move |_, _| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Err(ToolError::new("the belt stands still")) }
        }
    });
    let tools = vec![tool.define(|it| it.on_error = on_error(json!({"default": "human"}))).arc()];
    let world = World::with(Setup { tools, roles: vec![free()], ..Setup::default() });
    let keyed = async || {
        let call = Call::tool("move", json!({})).with_idempotency_key("k");
        world.gate.call(&developer(), call).await
    };
    let waiting = keyed().await;
    world.operator.give_result(&id(&waiting), answer(true), json!("moved by hand")).await.unwrap();
    let done = keyed().await;
    assert!(done.model_text().starts_with("moved by hand"), "{:?}", done.end);
    let replayed = keyed().await;
    assert!(replayed.replayed && replayed.model_text().starts_with("moved by hand"), "{:?}", replayed.end);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

fn denied(ladder: Option<Value>) -> (World, Arc<AtomicUsize>) {
    let runs: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&runs);
    let tool = tool("read_path", Risk::Read, move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("secret")) }
    })
    .define(|it| {
        it.security.blocked_patterns = vec!["private".into()];
        it.on_error = ladder.map(on_error).unwrap_or_default();
    });
    let clerk = Role::new("clerk").allow("nothing").permission(Permission::Read);
    (World::with(Setup { tools: vec![tool.arc()], roles: vec![clerk], ..Setup::default() }), runs)
}

#[tokio::test]
async fn only_denied_is_escalated_and_only_where_it_is_named() {
    for ladder in [None, Some(json!({"default": "human"})), Some(json!({"default": "fail", "denied": "fail"}))] {
        let (world, _) = denied(ladder);
        assert_eq!(world.call("read_path", json!({"path": "private/x"})).await.code(), Some(Code::Denied));
    }
    let (world, runs) = denied(Some(json!({"default": "fail", "denied": "human"})));
    let waiting = world.call("read_path", json!({"path": "private/x"})).await;
    assert_eq!(world.operator.approval(&id(&waiting)).await.unwrap().tried.unwrap()["code"], "denied");
    world.operator.give_result(&id(&waiting), answer(true), json!("the part you may know")).await.unwrap();
    let done = world.call("read_path", json!({"path": "private/x"})).await;
    assert!(done.model_text().starts_with("the part you may know"));
    assert_eq!(runs.load(Ordering::SeqCst), 0, "nothing ran by that");

    let clerk = Caller::new("eve", "clerk", Surface::Library);
    let hidden = world.gate.call(&clerk, Call::tool("read_path", json!({"path": "x"}))).await;
    assert_eq!((hidden.code(), world.gate.forbidden_calls()), (Some(Code::UnknownTool), 1), "forbidden is not");
    let nobody = world.gate.call(&clerk, Call::tool("no_such_tool", json!({}))).await;
    assert_eq!((nobody.code(), world.gate.forbidden_calls()), (Some(Code::UnknownTool), 1));
}
