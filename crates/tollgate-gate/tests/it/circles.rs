//! Callers that ask for the same again and again.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_policy::{Ask, Role};
use tollgate_testkit::TestClock;
use tollgate_types::{Call, Caller, Clock, Code, Door, Permission, Risk, SourceKind, Surface, ToolError, ToolOutput};

use crate::world::{Setup, World, tool};

struct Circling {
    world: World,
    clock: Arc<TestClock>,
    /// What `status` says.
    state: Arc<AtomicUsize>,
}

impl Circling {
    /// A role that may repeat so often.
    fn new(repeats: Option<u32>) -> Self {
        let state = Arc::new(AtomicUsize::new(0));
        let said = Arc::clone(&state);
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
        let status = tool("status", Risk::Read, move |_, _| {
            let state = said.load(Ordering::SeqCst);
            async move { Ok(ToolOutput::structured(json!({ "state": state }))) }
        });
        let fail = tool("fail", Risk::Read, |_, _| async { Err(ToolError::new("no such thing")) });
        let change = tool("change", Risk::Write, |_, _| async { Ok(ToolOutput::text("changed")) });
        let tools = [status, fail, change]
            .map(|tool| tool.schema(schema.clone()).define(|d| d.source.kind = SourceKind::Builtin).arc());
        let mut role = Role::new("poller").allow("*").risk(Risk::Write).permission(Permission::System).ask(Ask::Never);
        role.repeats = repeats.and_then(NonZeroU32::new);
        let clock = Arc::new(TestClock::default());
        let noted: Arc<dyn Clock> = Arc::<TestClock>::clone(&clock);
        let setup = Setup { tools: tools.into(), roles: vec![role], clock: Some(noted), ..Setup::default() };
        Self { world: World::with(setup), clock, state }
    }

    async fn ask(&self, session: &str, tool: &str, arguments: Value) -> Option<Code> {
        let caller = Caller::new("agent", "poller", Surface::Library).with_session(session);
        self.world.gate.call(&caller, Call::tool(tool, arguments)).await.code()
    }
}

#[tokio::test]
async fn the_same_end_again_and_again_is_refused() {
    let circling = Circling::new(Some(3));
    let same = || circling.ask("s", "status", json!({"a": 1, "b": 2}));
    for _ in 0..3 {
        assert_eq!(same().await, None);
    }
    assert_eq!(same().await, Some(Code::NoProgress));
    let turned = circling.ask("s", "status", json!({"b": 2, "a": 1})).await;
    assert_eq!(turned, Some(Code::NoProgress), "the order of keys is no news");
    assert_eq!(circling.ask("s", "status", json!({"a": 2})).await, None, "another question");
    assert_eq!(circling.ask("t", "status", json!({"a": 1, "b": 2})).await, None, "another session");
    let refused = circling.world.records().into_iter().rfind(|record| record["outcome"]["code"] == "no_progress");
    assert_eq!(refused.unwrap()["outcome"]["status"], "refused");

    circling.world.gate.drain().await;
    assert_eq!(circling.ask("s", "change", json!({})).await, None);
    assert_eq!(same().await, None, "after a change it may read differently");
}

#[tokio::test]
async fn errors_count_and_news_and_time_start_anew() {
    let circling = Circling::new(Some(2));
    let fail = || circling.ask("s", "fail", json!({}));
    assert_eq!(
        [fail().await, fail().await, fail().await],
        [Code::ToolError, Code::ToolError, Code::NoProgress].map(Some)
    );

    let poll = || circling.ask("s", "status", json!({}));
    for news in 0..5 {
        circling.state.store(news, Ordering::SeqCst);
        assert_eq!([poll().await, circling.ask("s", "status", json!({"a": 1})).await], [None, None]);
    }
    assert_eq!([poll().await, poll().await], [None, Some(Code::NoProgress)]);
    circling.clock.advance(Duration::from_secs(601));
    assert_eq!(poll().await, None, "the world may have changed meanwhile");
}

#[tokio::test]
async fn a_role_without_a_limit_may_ask_for_ever() {
    let circling = Circling::new(None);
    for _ in 0..50 {
        assert_eq!(circling.ask("s", "status", json!({})).await, None);
    }
}
