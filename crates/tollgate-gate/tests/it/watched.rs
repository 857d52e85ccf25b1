//! What those who watch are told of calls, and what tools are told of the trace that they are part of.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tollgate_gate::current_attempt;
use tollgate_types::{
    AttemptId, Call, Code, Door, Observed, Observer, Risk, Secret, Stage, Status, ToolOutput, TraceContext,
};

use crate::world::{Setup, World, developer, echo, tool};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";

/// Keeps what it is told.
#[derive(Default)]
struct Watcher {
    makes_traces: bool,
    wants_content: bool,
    seen: Mutex<Vec<Arc<Observed>>>,
}

impl Observer for Watcher {
    fn place(&self, attempt: &AttemptId, asked: Option<&TraceContext>) -> Option<TraceContext> {
        let place = asked.map_or_else(|| TraceContext::root(attempt), |asked| asked.below(attempt));
        place.filter(|_| self.makes_traces)
    }

    fn wants_content(&self) -> bool {
        self.wants_content
    }

    fn seen(&self, call: &Arc<Observed>) {
        self.seen.lock().unwrap().push(Arc::clone(call));
    }
}

impl Watcher {
    fn of(world: &World, watcher: Self) -> Arc<Self> {
        let watcher = Arc::new(watcher);
        assert!(world.gate.watched_by(Arc::clone(&watcher) as _));
        watcher
    }

    fn last(&self) -> Arc<Observed> {
        Arc::clone(self.seen.lock().unwrap().last().unwrap())
    }
}

fn asked() -> TraceContext {
    TraceContext::read([PARENT], ["vendor=1"]).unwrap()
}

/// A tool that says what it was told of the trace, and what it was asked within.
fn trace() -> crate::world::TestTool {
    tool("trace", Risk::Read, |_, cx| async move {
        let told: Vec<String> = cx.trace.iter().flat_map(|trace| trace.headers()).map(|(_, value)| value).collect();
        Ok(ToolOutput::structured(json!({ "told": told, "within": current_attempt().map(|id| id.to_string()) })))
    })
}

fn told(outcome: &tollgate_types::Outcome) -> Value {
    outcome.result().unwrap().structured.clone().unwrap()
}

#[tokio::test]
async fn each_stage_is_told_and_where_a_call_ended() {
    let failing = tool("fail", Risk::Read, |_, _| async { Err(tollgate_types::ToolError::new("no")) }).arc();
    let asking = tool("write", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("")) }).arc();
    let world = World::new([echo().arc(), failing, asking]);
    let watcher = Watcher::of(&world, Watcher::default());
    for (name, arguments, status, code, ended_in) in [
        ("echo", json!({"text": "x"}), Status::Done, None, None),
        ("none", json!({}), Status::Refused, Some(Code::UnknownTool), Some(Stage::Find)),
        ("echo", json!({}), Status::Refused, Some(Code::InvalidArguments), Some(Stage::Validate)),
        ("write", json!({}), Status::Waiting, Some(Code::ApprovalRequired), Some(Stage::Approve)),
        ("fail", json!({}), Status::Failed, Some(Code::ToolError), Some(Stage::Run)),
    ] {
        let outcome = world.call(name, arguments).await;
        let seen = watcher.last();
        assert_eq!(Some(&seen.attempt), outcome.attempt.as_ref(), "{name}");
        assert_eq!((seen.status, seen.code, seen.ended_in()), (status, code, ended_in), "{name}");
        let stages: Vec<Stage> = seen.stages.iter().map(|staged| staged.stage).collect();
        let last = ended_in.unwrap_or(Stage::Shape);
        let expected = Stage::ALL.into_iter().filter(|stage| *stage <= last || *stage == Stage::Close);
        assert_eq!(stages, expected.collect::<Vec<_>>(), "{name}");
        // One begins where the one before ended, and together they are the whole trip.
        let mut at = std::time::Duration::ZERO;
        for staged in &seen.stages {
            assert_eq!(staged.began, at, "{name} {:?}", staged.stage);
            at += staged.took;
        }
        assert_eq!(seen.took, at, "{name}");
    }
    assert_eq!(watcher.seen.lock().unwrap().len(), 5, "each call once");
    assert!(watcher.last().arguments.is_none() && watcher.last().trace.is_none());
}

#[tokio::test]
async fn a_hidden_tool_is_forbidden_to_those_who_watch() {
    let role = tollgate_policy::Role::new("developer").allow("echo");
    let roles = vec![role];
    let tools = vec![echo().arc(), trace().arc()];
    let world = World::with(Setup { roles, tools, ..Setup::default() });
    let watcher = Watcher::of(&world, Watcher::default());
    let outcome = world.call("trace", json!({})).await;
    assert_eq!(outcome.code(), Some(Code::UnknownTool));
    let seen = watcher.last();
    assert_eq!((seen.code, seen.ended_in()), (Some(Code::Forbidden), Some(Stage::Admit)));
}

#[tokio::test]
async fn without_anybody_who_makes_traces_the_asker_s_own_is_handed_on() {
    let world = World::new([trace().arc()]);
    let call = Call::tool("trace", json!({})).with_trace(Some(asked()));
    let outcome = world.gate.call(&developer(), call).await;
    assert_eq!(told(&outcome)["told"], json!([PARENT, "vendor=1"]));
    assert_eq!(told(&outcome)["within"], json!(outcome.attempt), "what is logged on the way can say of which attempt");
    assert_eq!(told(&world.call("trace", json!({})).await)["told"], json!([]));
    // One who only counts changes nothing of that.
    Watcher::of(&world, Watcher::default());
    let call = Call::tool("trace", json!({})).with_trace(Some(asked()));
    assert_eq!(told(&world.gate.call(&developer(), call).await)["told"], json!([PARENT, "vendor=1"]));
}

#[tokio::test]
async fn a_tool_is_told_the_span_of_its_run_and_what_it_calls_stands_below() {
    let calling = tool("calling", Risk::Read, |_, cx| async move {
        // What a tool says of its place counts for nothing.
        let call = Call::tool("trace", json!({})).with_trace(Some(asked()));
        let inner = cx.door.call(&cx.caller, call).await;
        Ok(ToolOutput::structured(json!({ "inner": told(&inner)["told"] })))
    });
    let world = World::new([trace().arc(), calling.arc()]);
    let watcher = Watcher::of(&world, Watcher { makes_traces: true, ..Watcher::default() });
    let outcome = world.gate.call(&developer(), Call::tool("calling", json!({})).with_trace(Some(asked()))).await;
    let seen = watcher.seen.lock().unwrap().clone();
    let [inner, outer] = seen.as_slice() else { panic!("{seen:?}") };
    let (inner_place, outer_place) = (inner.trace.clone().unwrap(), outer.trace.clone().unwrap());
    assert_eq!((outer_place.trace, outer.above), (asked().trace, Some(asked().span)));
    let run = outer_place.child(Stage::Run.place());
    assert_eq!((inner_place.trace, inner.above), (run.trace, Some(run.span)));
    let inner_run = inner_place.child(Stage::Run.place());
    assert_eq!(told(&outcome)["inner"], json!([inner_run.traceparent(), "vendor=1"]));
    assert_ne!(inner_run.span, run.span);
}

#[tokio::test]
async fn content_is_told_only_where_it_is_wanted_and_never_with_secrets() {
    let leaky = tool("leaky", Risk::Read, |_, _| async { Ok(ToolOutput::text("it is hunter2-hunter2")) }).arc();
    let secrets = vec![Secret::new("hunter2-hunter2")];
    let world = World::with(Setup { tools: vec![leaky], secrets, ..Setup::default() });
    let blind = Watcher::of(&world, Watcher { makes_traces: true, ..Watcher::default() });
    world.call("leaky", json!({"key": "hunter2-hunter2"})).await;
    assert!(blind.last().arguments.is_none() && blind.last().result.is_none());
    let watcher = Watcher::of(&world, Watcher { wants_content: true, ..Watcher::default() });
    let outcome = world.call("leaky", json!({"key": "hunter2-hunter2", "city": "北京"})).await;
    let seen = watcher.last();
    let (arguments, result) = (seen.arguments.clone().unwrap(), seen.result.clone().unwrap());
    assert!(arguments.contains("北京") && result.contains("it is "), "{arguments} {result}");
    assert!(!format!("{seen:?}").contains("hunter2"), "{seen:?}");
    let record = |event: &str, key: &str| world.record(&outcome, event)[key].to_string();
    assert_eq!((arguments, result), (record("received", "arguments"), record("finished", "result")));
    // A name that nobody has is whatever the asker wrote.
    world.call("hunter2-hunter2", json!({})).await;
    assert!(!format!("{:?}", watcher.last()).contains("hunter2"));
}

#[tokio::test]
async fn too_many_who_watch_are_told_so() {
    let world = World::new([echo().arc()]);
    let added = (0..9).filter(|_| world.gate.watched_by(Arc::new(Watcher::default()))).count();
    assert_eq!(added, 8);
}
