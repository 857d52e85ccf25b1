//! How often callers may ask.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::json;
use tollgate_gate::{CallLimit, Per, ProcessQuotas};
use tollgate_testkit::TestClock;
use tollgate_types::{
    BoxFuture, Call, Caller, Clock, Code, Door, Outcome, QuotaStore, Rate, Risk, Surface, ToolOutput, Turn,
};

use crate::world::{Setup, World, developer, echo, tool};

fn globs(glob: &str) -> GlobSet {
    GlobSetBuilder::new().add(Glob::new(glob).unwrap()).build().unwrap()
}

fn rate(count: u32, seconds: u64, burst: u32) -> Rate {
    let some = |count| NonZeroU32::new(count).unwrap();
    Rate { count: some(count), period: Duration::from_secs(seconds), burst: some(burst) }
}

fn limit(tools: &str, per: &[Per], rate: Rate) -> CallLimit {
    CallLimit { name: format!("limit on {tools}"), tools: globs(tools), roles: Vec::new(), per: per.to_vec(), rate }
}

struct Limited {
    world: World,
    clock: Arc<TestClock>,
}

impl Limited {
    fn new(limits: Vec<CallLimit>) -> Self {
        let clock = Arc::new(TestClock::default());
        let noted: Arc<dyn Clock> = Arc::<TestClock>::clone(&clock);
        let tools = vec![echo().arc(), tool("other", Risk::Read, |_, _| async { Ok(ToolOutput::text("o")) }).arc()];
        Self { world: World::with(Setup { tools, limits, clock: Some(noted), ..Setup::default() }), clock }
    }

    async fn ask(&self, caller: &Caller, tool: &str) -> Outcome {
        self.world.gate.call(caller, Call::tool(tool, json!({ "text": "x" }))).await
    }

    /// How many of ten calls get through.
    async fn get_through(&self, caller: &Caller, tool: &str) -> usize {
        let mut count = 0;
        for _ in 0..10 {
            count += usize::from(self.ask(caller, tool).await.code().is_none());
        }
        count
    }
}

#[tokio::test]
async fn a_burst_gets_through_and_then_the_rate_counts() {
    let limited = Limited::new(vec![limit("*", &[Per::Caller], rate(60, 60, 3))]);
    assert_eq!(limited.get_through(&developer(), "echo").await, 3);
    let refused = limited.ask(&developer(), "echo").await;
    let error = refused.end.error().unwrap();
    assert_eq!((error.error, error.retryable, error.retry_after_ms), (Code::RateLimited, true, Some(1_000)));
    assert_eq!(error.message, "too many calls: 60 in 60 s, 3 at once (limit on *)");
    assert_eq!(limited.world.events(&refused), ["received", "finished"], "it is recorded, and was not judged");

    limited.clock.advance(Duration::from_millis(999));
    assert_eq!(limited.get_through(&developer(), "echo").await, 0);
    limited.clock.advance(Duration::from_millis(1));
    assert_eq!(limited.get_through(&developer(), "echo").await, 1);
    limited.clock.advance(Duration::from_secs(3_600));
    assert_eq!(limited.get_through(&developer(), "echo").await, 3, "a long pause saves up no more than the burst");
}

#[tokio::test]
async fn each_has_the_count_that_the_limit_names() {
    let eve = Caller::new("eve", "developer", Surface::Library);
    let tenant = |name: &str| Caller { tenant: Some(name.into()), ..developer() };
    // Two callers or two tools, and how many of the second one's calls get through after the first one's ten.
    let cases: [(&[Per], Caller, &str, usize); 9] = [
        (&[], eve.clone(), "other", 0),
        (&[Per::Caller], eve.clone(), "echo", 2),
        (&[Per::Caller], developer(), "other", 0),
        (&[Per::Tool], eve.clone(), "echo", 0),
        (&[Per::Tool], developer(), "other", 2),
        (&[Per::Role], eve, "echo", 0),
        (&[Per::Tenant], tenant("b"), "echo", 2),
        (&[Per::Session], developer().with_session("s2"), "echo", 2),
        (&[Per::Caller, Per::Tool], developer(), "other", 2),
    ];
    for (per, second, tool, expected) in cases {
        let limited = Limited::new(vec![limit("*", per, rate(1, 60, 2))]);
        assert_eq!(limited.get_through(&developer(), "echo").await, 2);
        assert_eq!(limited.get_through(&second, tool).await, expected, "{per:?} {second:?} {tool}");
    }
}

#[tokio::test]
async fn names_cannot_be_made_to_share_a_count() {
    let limited = Limited::new(vec![limit("*", &[Per::Caller, Per::Session], rate(1, 60, 1))]);
    let first = Caller::new("a 1:b", "developer", Surface::Library).with_session("c");
    let second = Caller::new("a", "developer", Surface::Library).with_session("b 1:c");
    assert_eq!(limited.get_through(&first, "echo").await, 1);
    assert_eq!(limited.get_through(&second, "echo").await, 1);
}

#[tokio::test]
async fn a_limit_concerns_its_tools_and_roles_and_the_strictest_counts() {
    let narrow = CallLimit { roles: vec!["reader".into()], ..limit("*", &[Per::Caller], rate(1, 60, 1)) };
    let limited = Limited::new(vec![limit("ech*", &[Per::Caller], rate(1, 60, 4)), narrow]);
    let reader = Caller::new("eve", "reader", Surface::McpStdio);
    assert_eq!(limited.get_through(&developer(), "other").await, 10);
    assert_eq!(limited.get_through(&developer(), "echo").await, 4);
    assert_eq!(limited.get_through(&reader, "echo").await, 1);
}

#[tokio::test]
async fn what_does_not_exist_for_a_caller_is_not_counted_and_says_nothing() {
    let limited = Limited::new(vec![limit("*", &[], rate(1, 60, 1))]);
    for _ in 0..3 {
        assert_eq!(limited.ask(&developer(), "no_such_tool").await.code(), Some(Code::UnknownTool));
    }
    assert_eq!(limited.get_through(&developer(), "echo").await, 1);
}

/// A store that cannot be reached.
struct Broken;

impl QuotaStore for Broken {
    fn take<'a>(&'a self, _: Rate, _: &'a str) -> BoxFuture<'a, Result<Turn, String>> {
        Box::pin(async { Err("no connection".to_owned()) })
    }
}

#[tokio::test]
async fn what_cannot_be_counted_does_not_happen() {
    let limits = vec![limit("*", &[], rate(1, 60, 1))];
    let world = World::with(Setup {
        tools: vec![echo().arc()],
        limits,
        quota_store: Some(Arc::new(Broken)),
        ..Setup::default()
    });
    let outcome = world.call("echo", json!({ "text": "x" })).await;
    assert_eq!(outcome.code(), Some(Code::Unavailable));
    assert_eq!(world.events(&outcome), ["received", "finished"]);
}

#[tokio::test]
async fn counts_that_are_full_again_are_forgotten() {
    let clock = Arc::new(TestClock::default());
    let noted: Arc<dyn Clock> = Arc::<TestClock>::clone(&clock);
    let quotas = ProcessQuotas::new(noted);
    for number in 0..20_000 {
        assert_eq!(quotas.take(rate(1, 1, 1), &format!("caller {number}")).await, Ok(Turn::Taken));
        clock.advance(Duration::from_millis(1));
    }
    assert!(quotas.counts() <= 11_100, "{}", quotas.counts());
}
