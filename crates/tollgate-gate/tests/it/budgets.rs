//! How much callers may spend: through the whole gate, on a real store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use globset::{Glob, GlobSetBuilder};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tollgate_gate::{Budget, Per, Verdict};
use tollgate_policy::Role;
use tollgate_store::{Answer, Charge, Count, Store, Unsettled};
use tollgate_testkit::TestClock;
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, ArgumentCost, AttemptId, BoxFuture, Call, Caller, Clock, Code,
    Cost, Door, End, Outcome, Risk, SourceKind, Status, Surface, Tool, ToolError, ToolOutput, Units,
};

use crate::world::{Setup, TestTool, World, developer, echo, tool};

fn units(text: &str) -> Units {
    text.parse().unwrap()
}

fn budget(tools: &str, per: &[Per], units: &str) -> Budget {
    let tools = GlobSetBuilder::new().add(Glob::new(tools).unwrap()).build().unwrap();
    Budget {
        name: "budget 1".into(),
        id: format!("{tools:?}{per:?}"),
        tools,
        roles: Vec::new(),
        per: per.to_vec(),
        is_daily: true,
        time_zone: TimeZone::UTC,
        units: units.parse().unwrap(),
    }
}

/// What is never begun anew.
fn for_session(tools: &str, per: &[Per], units: &str) -> Budget {
    Budget { is_daily: false, ..budget(tools, per, units) }
}

/// Costs what its argument `amount` says, and ends as its argument `end` says.
fn pay(risk: Risk, runs: &Arc<AtomicUsize>) -> TestTool {
    let runs = Arc::clone(runs);
    let pay = tool("pay", risk, move |arguments: Value, _| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            match arguments.get("end").and_then(Value::as_str) {
                Some("error") => Err(ToolError::new("the bank said no")),
                Some("panic") => panic!("the bank is gone"),
                _ => Ok(ToolOutput::text("paid")),
            }
        }
    });
    pay.define(|definition| {
        definition.source.kind = SourceKind::Builtin;
        definition.cost = Some(Cost::Argument(ArgumentCost { argument: "/amount".into(), per_unit: Units::ONE }));
    })
}

struct Shop {
    world: World,
    clock: Arc<TestClock>,
    runs: Arc<AtomicUsize>,
}

impl Shop {
    fn new(budgets: Vec<Budget>) -> Self {
        Self::with(Risk::Write, Setup { budgets, ..Setup::default() })
    }

    fn with(risk: Risk, setup: Setup) -> Self {
        let (clock, runs) = (Arc::new(TestClock::default()), Arc::default());
        let world = World::with(Self::setup(risk, setup, &clock, &runs));
        Self { world, clock, runs }
    }

    fn setup(risk: Risk, mut setup: Setup, clock: &Arc<TestClock>, runs: &Arc<AtomicUsize>) -> Setup {
        let noted: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
        let free = echo().define(|definition| definition.cost = Some(Cost::Fixed(Units::ZERO))).arc();
        let plain = tool("plain", Risk::Read, |_, _| async { Ok(ToolOutput::text("p")) }).arc();
        setup.tools.extend([pay(risk, runs).arc(), free, plain] as [Arc<dyn Tool>; 3]);
        Setup { clock: Some(noted), ..setup }
    }

    async fn pay(&self, amount: impl Into<Value>) -> Outcome {
        self.world.call("pay", json!({ "amount": amount.into() })).await
    }

    async fn spent(&self) -> String {
        self.world.gate.budgets(&developer(), "pay").await.unwrap().first().unwrap().spent.to_string()
    }

    fn at(&self, wall: &str) {
        self.clock.set(wall.parse().unwrap());
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_what_is_left() {
    let shop = Shop::new(vec![budget("pay", &[Per::Caller], "100")]);
    assert_eq!(shop.pay(80).await.status(), Status::Done);
    let refused = shop.pay("20.5").await;
    let error = refused.end.error().unwrap();
    assert_eq!((refused.status(), error.error, error.retryable), (Status::Refused, Code::BudgetExceeded, false));
    let until = "until 2026-01-03T00:00:00+00:00[UTC]";
    let left = format!("the call costs 20.5 units, and 20 of 100 are left (80 spent, budget 1) {until}");
    assert_eq!(error.message, left);
    assert!(error.hint.as_deref().unwrap().contains("wait for the next day"));
    assert_eq!(shop.world.events(&refused), ["received", "decided", "finished"], "it was judged, and not started");
    assert_eq!(shop.world.record(&refused, "finished")["outcome"]["code"], "budget_exceeded");

    assert_eq!(shop.pay(20).await.status(), Status::Done, "what fits goes through");
    assert_eq!(shop.pay(0).await.status(), Status::Done, "what costs nothing goes through");
    assert_eq!((shop.runs(), shop.spent().await.as_str()), (3, "100"));
    let huge = shop.pay(101).await;
    assert!(huge.end.error().unwrap().hint.as_deref().unwrap().contains("no call may cost so much"));
}

#[tokio::test]
async fn a_tool_that_says_nothing_costs_one() {
    let shop = Shop::new(vec![budget("*", &[Per::Caller], "2")]);
    for expected in [None, None, Some(Code::BudgetExceeded)] {
        assert_eq!(shop.world.call("plain", json!({})).await.code(), expected);
    }
    assert_eq!(shop.world.call("echo", json!({ "text": "free" })).await.status(), Status::Done);
}

#[tokio::test]
async fn a_price_that_cannot_be_read_is_refused_where_somebody_counts() {
    let shop = Shop::new(vec![budget("pay", &[Per::Caller], "100")]);
    for arguments in [json!({}), json!({ "amount": -1 }), json!({ "amount": "much" }), json!({ "amount": [1] })] {
        let refused = shop.world.call("pay", arguments.clone()).await;
        assert_eq!(refused.code(), Some(Code::InvalidArguments), "{arguments}");
        assert!(refused.model_text().contains("/amount"), "{}", refused.model_text());
    }
    assert_eq!((shop.runs(), shop.spent().await.as_str()), (0, "0"));
    let uncounted = Shop::new(vec![budget("other", &[Per::Caller], "100")]);
    assert_eq!(uncounted.world.call("pay", json!({})).await.status(), Status::Done);
}

#[tokio::test]
async fn what_started_is_spent_however_it_ends_and_the_rest_is_not() {
    let shop = Shop::new(vec![budget("*", &[Per::Caller], "100")]);
    let ends = [("error", Code::ToolError), ("panic", Code::Internal)];
    for (end, code) in ends {
        let outcome = shop.world.call("pay", json!({ "amount": 10, "end": end })).await;
        assert_eq!(outcome.code(), Some(code));
    }
    assert_eq!(shop.spent().await, "20");
    for (name, arguments) in [("none", json!({})), ("echo", json!({})), ("pay", json!({ "amount": 90 }))] {
        assert_eq!(shop.world.call(name, arguments).await.status(), Status::Refused, "{name}");
    }
    let cancelled = tollgate_types::CancellationToken::new();
    cancelled.cancel();
    let call = Call::tool("pay", json!({ "amount": 10 }));
    let outcome = shop.world.gate.call_until(&developer(), call, cancelled).await;
    let expected = if shop.world.events(&outcome).contains(&"started".to_owned()) { "30" } else { "20" };
    assert_eq!(shop.spent().await, expected);
}

#[tokio::test]
async fn what_the_result_says_is_spent_and_never_more_than_was_held() {
    let bill = json!({ "result": "/usage/tokens", "per_unit": 0.001, "at_most": 5 });
    let ask = tool("ask", Risk::Read, |arguments: Value, _| async move {
        match arguments.get("fails") {
            Some(_) => Err(ToolError::new("no answer")),
            None => Ok(ToolOutput::structured(json!({ "usage": arguments }))),
        }
    });
    let ask = ask.define(|definition| definition.cost = serde_json::from_value(bill).unwrap()).arc();
    let budgets = vec![budget("ask", &[], "13.2")];
    let shop = Shop::with(Risk::Write, Setup { tools: vec![ask], budgets, ..Setup::default() });
    let spent = || async { shop.world.gate.budgets(&developer(), "ask").await.unwrap()[0].spent.to_string() };
    for (arguments, expected) in [
        (json!({ "tokens": 1_200 }), "1.2"),
        (json!({ "tokens": 0 }), "1.2"),
        (json!({ "tokens": 70_000 }), "6.2"),
        (json!({ "fails": true }), "11.2"),
    ] {
        shop.world.call("ask", arguments).await;
        assert_eq!(spent().await, expected);
    }
    let refused = shop.world.call("ask", json!({ "tokens": 1 })).await;
    assert_eq!(refused.code(), Some(Code::BudgetExceeded), "what it may cost must fit");
}

#[tokio::test]
async fn a_call_costs_once_under_its_key() {
    let shop = Shop::new(vec![budget("pay", &[Per::Caller], "10")]);
    for _ in 0..3 {
        let call = Call::tool("pay", json!({ "amount": 10 })).with_idempotency_key("k");
        assert_eq!(shop.world.gate.call(&developer(), call).await.status(), Status::Done);
    }
    assert_eq!((shop.runs(), shop.spent().await.as_str()), (1, "10"));
}

fn yes() -> Answer {
    Answer { approved: true, by: "alice".into(), reason: None, typed: None }
}

#[tokio::test]
async fn who_waits_spends_nothing_and_nobody_is_asked_about_what_cannot_be_paid() {
    let shop =
        Shop::with(Risk::Dangerous, Setup { budgets: vec![budget("pay", &[Per::Caller], "100")], ..Setup::default() });
    assert_eq!(shop.pay(101).await.code(), Some(Code::BudgetExceeded));
    assert_eq!(shop.world.operator.approvals(true).await.unwrap().len(), 0);

    shop.at("2026-01-02T23:00:00Z");
    let ids = [60, 70].map(|amount| {
        let shop = &shop;
        async move {
            let End::Waiting(waiting, _) = shop.pay(amount).await.end else { panic!("it does not wait") };
            shop.world.operator.answer(waiting.id.as_str(), yes()).await.unwrap();
        }
    });
    join_all(ids).await;
    assert_eq!(shop.spent().await, "0");
    assert_eq!(shop.pay(60).await.status(), Status::Done);
    assert_eq!(shop.pay(70).await.code(), Some(Code::BudgetExceeded));
    shop.at("2026-01-03T01:00:00Z");
    assert_eq!(shop.pay(70).await.status(), Status::Done, "the yes was not used up");
    assert_eq!(shop.runs(), 2);
}

/// Says yes once two wait for it.
struct Both(Barrier);

impl ApprovalChannel for Both {
    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async {
            self.0.wait().await;
            ApprovalAnswer::Approved { by: "alice".into(), typed: None }
        })
    }
}

#[tokio::test]
async fn who_comes_too_late_for_the_yes_gets_back_what_was_held() {
    let channel: Arc<dyn ApprovalChannel> = Arc::new(Both(Barrier::new(2)));
    let budgets = vec![budget("pay", &[Per::Caller], "100")];
    let shop = Shop::with(Risk::Dangerous, Setup { budgets, channel: Some(channel), ..Setup::default() });
    let (one, other) = tokio::join!(shop.pay(30), shop.pay(30));
    let mut codes = [one.code(), other.code()];
    codes.sort_by_key(Option::is_some);
    // It lost the race for the yes, or found it used up already and asks for one of its own.
    let is_late = matches!(codes, [None, Some(Code::Conflict | Code::ApprovalRequired)]);
    assert!(is_late, "{one:?} {other:?}");
    assert_eq!((shop.runs(), shop.spent().await.as_str()), (1, "30"));
}

#[tokio::test]
async fn each_has_the_count_that_the_budget_names() {
    let eve = || Caller::new("eve", "developer", Surface::Library);
    // Two callers, and what the second one may still spend of 3 after the first one's 2.
    let cases: [(&[Per], Caller, &str, usize); 9] = [
        (&[], eve(), "plain", 1),
        (&[Per::Caller], eve(), "plain", 3),
        (&[Per::Caller], developer(), "other", 1),
        (&[Per::Tool], developer(), "other", 3),
        (&[Per::Role], eve(), "plain", 1),
        (&[Per::Tenant], developer().with_tenant("b"), "plain", 3),
        (&[Per::Session], developer().with_session("s2"), "plain", 3),
        (&[Per::Session], eve().with_session("bob"), "plain", 3),
        (&[Per::Caller, Per::Tool], developer(), "other", 3),
    ];
    for (per, second, name, expected) in cases {
        for budget in [budget("*", per, "3"), for_session("*", per, "3")] {
            if per == [Per::Session] && second.subject == "eve" && budget.is_daily {
                continue;
            }
            let other = tool("other", Risk::Read, |_, _| async { Ok(ToolOutput::text("o")) }).arc();
            let setup = Setup { tools: vec![other], budgets: vec![budget], ..Setup::default() };
            let shop = Shop::with(Risk::Write, setup);
            for _ in 0..2 {
                assert_eq!(shop.world.call("plain", json!({})).await.status(), Status::Done);
            }
            let calls = (0..5).map(|_| shop.world.gate.call(&second, Call::tool(name, json!({}))));
            let done = join_all(calls).await.iter().filter(|outcome| outcome.status() == Status::Done).count();
            assert_eq!(done, expected, "{per:?} {second:?} {name}");
        }
    }
}

#[tokio::test]
async fn a_session_never_begins_anew_and_who_has_none_counts_by_days() {
    let shop = Shop::new(vec![for_session("pay", &[Per::Session], "10")]);
    let session = developer().with_session("s1");
    let ask = |caller: Caller| {
        let gate = &shop.world.gate;
        async move { gate.call(&caller, Call::tool("pay", json!({ "amount": 10 }))).await }
    };
    assert_eq!(ask(session.clone()).await.status(), Status::Done);
    assert_eq!(ask(developer()).await.status(), Status::Done);
    shop.at("2026-01-09T00:00:00Z");
    let over = ask(session).await;
    assert_eq!(over.end.error().unwrap().message, "the call costs 10 units, and 0 of 10 are left (10 spent, budget 1)");
    assert!(over.end.error().unwrap().hint.as_deref().unwrap().contains("this session has no more"));
    assert_eq!(ask(developer()).await.status(), Status::Done);
    assert_eq!(ask(developer()).await.code(), Some(Code::BudgetExceeded));
}

#[tokio::test]
async fn a_clock_that_jumps_makes_no_day_richer() {
    let shop = Shop::new(vec![budget("pay", &[], "100")]);
    assert_eq!(shop.pay(60).await.status(), Status::Done);
    for wall in ["2026-01-03T00:00:00Z", "2031-05-05T00:00:00Z", "1970-01-01T00:00:00Z"] {
        shop.at(wall);
        assert_eq!(shop.pay(100).await.status(), Status::Done, "{wall}");
        assert_eq!(shop.pay(1).await.code(), Some(Code::BudgetExceeded), "{wall}");
    }
    shop.at("2026-01-02T23:59:59.999999999Z");
    assert_eq!(shop.pay(41).await.code(), Some(Code::BudgetExceeded), "what was spent before the jump still counts");
    assert_eq!(shop.pay(40).await.status(), Status::Done);
    shop.clock.advance(Duration::from_nanos(1));
    assert_eq!(shop.pay(1).await.code(), Some(Code::BudgetExceeded), "tomorrow came back as well");
    for wall in [Timestamp::MIN, Timestamp::MAX] {
        shop.clock.set(wall);
        assert_eq!(shop.pay(100).await.status(), Status::Done, "{wall}");
    }
}

#[tokio::test]
async fn a_day_is_that_of_its_time_zone() {
    // 31 March 2024 has 23 hours in central Europe, 27 October 25; Shanghai is eight hours ahead.
    let europe = "CET-1CEST,M3.5.0,M10.5.0/3";
    for (zone, last, first, ends) in [
        ("+08:00", "2026-01-02T15:59:59Z", "2026-01-02T16:00:00Z", "2026-01-03T00:00:00+08:00"),
        (europe, "2024-03-30T22:59:59Z", "2024-03-30T23:00:00Z", "2024-03-31T00:00:00+01:00"),
        (europe, "2024-03-31T21:59:59Z", "2024-03-31T22:00:00Z", "2024-04-01T00:00:00+02:00"),
        (europe, "2024-10-27T22:59:59Z", "2024-10-27T23:00:00Z", "2024-10-28T00:00:00+01:00"),
    ] {
        let time_zone = DateTimeParser::new().parse_time_zone(zone).unwrap();
        let shop = Shop::new(vec![Budget { time_zone, ..budget("pay", &[], "1") }]);
        shop.at(last);
        assert_eq!(shop.pay(1).await.status(), Status::Done);
        let over = shop.pay(1).await;
        assert!(over.end.error().unwrap().message.contains(&format!("until {ends}")), "{zone}: {over:?}");
        shop.at(first);
        assert_eq!(shop.pay(1).await.status(), Status::Done, "{zone} {first}");
    }
}

#[tokio::test]
async fn the_strictest_counts_and_the_others_are_not_charged() {
    let narrow = Budget { roles: vec!["developer".into()], ..budget("p*", &[Per::Tool], "10") };
    let others = Budget { roles: vec!["reader".into()], ..budget("*", &[], "0.5") };
    let shop = Shop::new(vec![budget("pay", &[], "100"), Budget { name: "budget 2".into(), ..narrow }, others]);
    assert_eq!(shop.pay(8).await.status(), Status::Done);
    let refused = shop.pay(8).await;
    assert!(refused.end.error().unwrap().message.contains("(8 spent, budget 2)"), "{refused:?}");
    let reports = shop.world.gate.budgets(&developer(), "pay").await.unwrap();
    let left: Vec<_> = reports.iter().map(|report| (report.left, report.ends.is_some())).collect();
    assert_eq!(left, [(units("92"), true), (units("2"), true)]);
}

#[tokio::test]
async fn what_does_not_exist_for_a_caller_says_nothing_of_budgets() {
    let shop = Shop::with(
        Risk::Write,
        Setup {
            roles: vec![Role::new("reader").allow("echo")],
            budgets: vec![budget("*", &[], "1")],
            ..Setup::default()
        },
    );
    assert_eq!(shop.pay(1).await.status(), Status::Done);
    let reader = Caller::new("eve", "reader", Surface::Library);
    let ask = |name: &str| {
        let call = Call::tool(name, json!({ "amount": 1 }));
        let (gate, reader) = (&shop.world.gate, &reader);
        async move { gate.call(reader, call).await.end.error().unwrap().clone() }
    };
    let (hidden, none) = (ask("pay").await, ask("tip").await);
    assert_eq!((hidden.error, none.error), (Code::UnknownTool, Code::UnknownTool));
    assert_eq!(hidden.message.replace("pay", "tip"), none.message);
    assert_eq!(shop.spent().await, "1");
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let shop = Shop::new(vec![budget("pay", &[], "100")]);
    assert_eq!(shop.pay(60).await.status(), Status::Done);
    let Shop { world, clock, runs } = shop;
    let World { gate, operator, folder } = world;
    gate.drain().await;
    drop((gate, operator));
    let raised = Setup { budgets: vec![budget("pay", &[], "110")], ..Setup::default() };
    let world = World::at(folder, Shop::setup(Risk::Write, raised, &clock, &runs));
    let shop = Shop { world, clock, runs };
    assert_eq!(shop.pay(51).await.code(), Some(Code::BudgetExceeded));
    assert_eq!(shop.pay(50).await.status(), Status::Done, "a budget that is raised keeps its counts");
}

#[tokio::test]
async fn without_a_budget_the_store_is_not_even_opened() {
    for budgets in [Vec::new(), vec![budget("other", &[], "1")], vec![budget("echo", &[], "1")]] {
        let shop = Shop::new(budgets);
        assert_eq!(shop.world.call("echo", json!({ "text": "x" })).await.status(), Status::Done);
        assert!(!shop.world.folder.path().join("store.db").exists());
    }
}

#[tokio::test]
async fn what_cannot_be_counted_does_not_happen() {
    let shop = Shop::new(vec![budget("pay", &[], "100")]);
    std::fs::write(shop.world.folder.path().join("store.db"), "this is no database, and never was".repeat(100))
        .unwrap();
    let refused = shop.pay(1).await;
    assert_eq!((refused.code(), shop.runs()), (Some(Code::AuditUnavailable), 0), "{refused:?}");
    assert!(!shop.world.events(&refused).contains(&"started".to_owned()));
    assert_eq!(shop.world.call("plain", json!({})).await.status(), Status::Done, "what costs nothing goes on");
}

#[tokio::test]
async fn an_operator_says_whether_what_nobody_saw_end_is_spent() {
    for (verdict, expected) in [(Verdict::Done, "40"), (Verdict::Failed, "0")] {
        let budget = budget("pay", &[], "100");
        let shop = Shop::new(vec![budget.clone()]);
        // As a process leaves it that died before the end was recorded.
        let store = Store::new(shop.world.folder.path());
        let count = Count { budget: budget.id, holder: "[]".into(), day: "2026-01-02".into() };
        let charge = Charge { count, cost: units("40"), limit: budget.units };
        let attempt = AttemptId::new("0123456789");
        store.spend(attempt.clone(), vec![charge], shop.clock.now()).await.unwrap();
        assert_eq!(shop.spent().await, "40");
        let unsettled = Unsettled {
            attempt: attempt.clone(),
            call_id: "c".into(),
            tool: "pay".into(),
            time: "2026-01-02T03:04:05Z".into(),
            caller: "bob".into(),
        };
        store.take_over(&[unsettled], &[]).unwrap();
        shop.world.operator.settle(attempt.as_str(), verdict, "looked".into()).await.unwrap();
        assert_eq!(shop.spent().await, expected);
    }
}

/// What becomes of a call that is made.
fn fate() -> impl Strategy<Value = (u32, &'static str, bool)> {
    (1..60_u32, prop_oneof![Just("well"), Just("error"), Just("panic")], any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_started_is_what_is_spent_and_never_too_much(fates in proptest::collection::vec(fate(), 1..12)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        let (started, spent) = runtime.block_on(async {
            let shop = Shop::new(vec![budget("pay", &[], "100"), for_session("*", &[Per::Role], "150")]);
            let calls = fates.iter().map(|(amount, end, is_dropped)| {
                let call = Call::tool("pay", json!({ "amount": amount, "end": end }));
                let gate = shop.world.gate.clone();
                async move {
                    let caller = developer();
                    let call = gate.call(&caller, call);
                    if *is_dropped {
                        // It is under way, and then nobody waits for it any more.
                        drop(call.now_or_never());
                    } else {
                        call.await;
                    }
                }
            });
            join_all(calls).await;
            shop.world.gate.drain().await;
            let records = shop.world.records();
            let of = |event: &str| records.iter().filter(|record| record["event"] == event).cloned().collect::<Vec<_>>();
            let received = of("received");
            let cost = |attempt: &Value| {
                let received = received.iter().find(|record| record["attempt"] == *attempt).unwrap();
                received["arguments"]["amount"].as_u64().unwrap()
            };
            let started: u64 = of("started").iter().map(|record| cost(&record["attempt"])).sum();
            (started.to_string(), shop.spent().await)
        });
        prop_assert_eq!(&started, &spent);
        prop_assert!(started.parse::<u64>().unwrap() <= 100);
    }
}
