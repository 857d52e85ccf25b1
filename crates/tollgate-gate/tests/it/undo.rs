//! Undo in the gate: what takes a call back is noted when it runs, judged when it is made, and made once.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollgate_ledger::{Attempt, Index};
use tollgate_types::{
    CancellationToken, Code, Compensation, End, Outcome, Risk, Secret, Status, Tool, ToolError, ToolOutput, Undo,
};

use crate::world::{Setup, World, developer, free, tool};

type Calls = Arc<Mutex<Vec<Value>>>;

fn order(result: Value) -> Arc<dyn Tool> {
    let map = json!({"id": {"result": "/id"}, "sku": {"pointer": "/sku"}});
    tool("order", Risk::Write, move |_, _| {
        let result = result.clone();
        async move { Ok(ToolOutput::structured(result)) }
    })
    .define(|it| {
        it.undo = Undo::Tool(Compensation { tool: "cancel".into(), map_args: serde_json::from_value(map).unwrap() });
    })
    .arc()
}

fn cancel(calls: &Calls, fails: usize) -> Arc<dyn Tool> {
    let calls = Arc::clone(calls);
    tool("cancel", Risk::Write, move |arguments, _| {
        let mut made = calls.lock().unwrap();
        made.push(arguments);
        let ended =
            if made.len() <= fails { Err(ToolError::new("closed").retryable()) } else { Ok(ToolOutput::text("ok")) };
        async move { ended }
    })
    .arc()
}

fn first(world: &World, outcome: &Outcome) -> Attempt {
    let mut index = Index::open(world.folder.path(), &mut |_, _| {}).unwrap();
    index.attempt_by(outcome.attempt.as_ref().unwrap().as_str()).unwrap().attempt
}

async fn undo(world: &World, outcome: &Outcome) -> Outcome {
    world.gate.undo(&developer(), &first(world, outcome), CancellationToken::new()).await
}

fn world(calls: &Calls, result: Value, fails: usize) -> World {
    let tools = vec![order(result), cancel(calls, fails)];
    let roles = vec![free()];
    World::with(Setup { tools, roles, secrets: vec![Secret::new("zq-injected-secret")], ..Setup::default() })
}

#[tokio::test]
async fn the_undo_is_a_call_with_its_parent_and_happens_once() {
    let calls = Calls::default();
    let world = world(&calls, json!({"id": 17}), 0);
    let ordered = world.call("order", json!({"sku": "A103"})).await;
    let undone = undo(&world, &ordered).await;
    assert_eq!((undone.status(), undone.tool.as_str()), (Status::Done, "cancel"), "{:?}", undone.end);
    assert_eq!(*calls.lock().unwrap(), [json!({"id": 17, "sku": "A103"})]);
    let finished = world.record(&undone, "finished");
    assert_eq!(finished["parent"], json!(ordered.attempt));
    assert_eq!(finished["note"], format!("the undo of attempt {}", ordered.attempt.as_ref().unwrap()));
    let again = undo(&world, &ordered).await;
    assert_eq!((again.code(), calls.lock().unwrap().len()), (Some(Code::Conflict), 1));
    assert_eq!(world.events(&again), ["received", "finished"]);
    let nothing = undo(&world, &undone).await;
    assert_eq!(nothing.code(), Some(Code::InvalidArguments), "cancel declares no undo");
}

#[tokio::test]
async fn an_undo_that_came_to_nothing_may_be_tried_again() {
    let calls = Calls::default();
    let world = world(&calls, json!({"id": 17}), 1);
    let ordered = world.call("order", json!({})).await;
    assert_eq!(undo(&world, &ordered).await.code(), Some(Code::InvalidArguments), "it has no sku to take back");
    let ordered = world.call("order", json!({"sku": "A103"})).await;
    assert_eq!(undo(&world, &ordered).await.code(), Some(Code::ToolError));
    assert_eq!(undo(&world, &ordered).await.status(), Status::Done);
}

/// A way to order that is closed: another one is taken.
fn closed(tool_name: &'static str, instead: &str) -> Arc<dyn Tool> {
    let ladder = json!({"default": {"retry": {"max": 0}, "fallback": {"tool": instead}}});
    tool(tool_name, Risk::Write, |_, _| async {
        Err(ToolError::with_code(Code::UpstreamError, "closed").with_tool_code("UNREACHABLE").nothing_happened())
    })
    .define(|it| it.on_error = serde_json::from_value(ladder.clone()).unwrap())
    .arc()
}

#[tokio::test]
async fn what_a_fallback_did_is_undone_in_place_of_what_was_asked_for() {
    let calls = Calls::default();
    let world = world(&calls, json!({"id": 17}), 0);
    world.gate.register(closed("near", "order")).unwrap();
    world.gate.register(closed("far", "near")).unwrap();
    for name in ["near", "far"] {
        let asked = world.call(name, json!({"sku": "A103"})).await;
        assert_eq!(asked.status(), Status::Done, "{:?}", asked.end);
        let wrote = world.records().into_iter().rfind(|it| it["event"] == "received" && it["tool"]["name"] == "order");
        let wrote = wrote.unwrap()["attempt"].clone();
        let undone = undo(&world, &asked).await;
        assert_eq!((undone.status(), undone.tool.as_str()), (Status::Done, "cancel"), "{name}: {:?}", undone.end);
        let finished = world.record(&undone, "finished");
        assert_eq!(
            (&finished["parent"], &finished["note"]),
            (&wrote, &json!(format!("the undo of attempt {}", wrote.as_str().unwrap())))
        );
        assert_eq!(undo(&world, &asked).await.code(), Some(Code::Conflict), "{name}: once, by whichever name");
    }
    assert_eq!(*calls.lock().unwrap(), vec![json!({"id": 17, "sku": "A103"}); 2]);
}

#[tokio::test]
async fn a_secret_is_not_kept_for_an_undo() {
    let calls = Calls::default();
    let world = world(&calls, json!({"id": "zq-injected-secret"}), 0);
    let ordered = world.call("order", json!({"sku": "A103"})).await;
    let refused = undo(&world, &ordered).await;
    let End::Refused(error) = &refused.end else { panic!("{:?}", refused.end) };
    assert!(error.message.contains("hold a secret"), "{}", error.message);
    assert!(calls.lock().unwrap().is_empty());
    let store = std::fs::read(world.folder.path().join("store.db")).unwrap();
    let wal = std::fs::read(world.folder.path().join("store.db-wal")).unwrap_or_default();
    assert!(![store, wal].iter().any(|bytes| String::from_utf8_lossy(bytes).contains("zq-injected-secret")));
}
