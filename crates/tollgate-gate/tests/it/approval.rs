//! A human's yes: one caller, one pin, one argument digest, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tollgate_store::Answer;
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, Call, Caller, Code, Door, End, Outcome, Risk, Status,
    Surface, Tool, ToolOutput,
};

use crate::world::{Setup, World, developer, tool};

fn pay(runs: &Arc<AtomicUsize>) -> Arc<dyn Tool> {
    let runs = Arc::clone(runs);
    tool("pay", Risk::Dangerous, move |_, _| {
        let runs = Arc::clone(&runs);
        async move { Ok(ToolOutput::text(format!("paid {}", runs.fetch_add(1, Ordering::SeqCst) + 1))) }
    })
    .schema(json!({"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}}}))
    .arc()
}

fn id(outcome: &Outcome) -> String {
    match &outcome.end {
        End::Waiting(waiting, _) => waiting.id.to_string(),
        end => panic!("it does not wait: {end:?}"),
    }
}

fn answer(approved: bool) -> Answer {
    Answer { approved, by: "alice".into(), reason: (!approved).then(|| "too much".into()), typed: None }
}

#[tokio::test]
async fn it_waits_and_runs_once_when_asked_again() {
    let runs = Arc::default();
    let world = World::new([pay(&runs)]);
    let arguments = json!({"to": "a", "amount": 1});
    let waiting = world.call("pay", arguments.clone()).await;
    assert_eq!((waiting.status(), waiting.exit()), (Status::Waiting, 4));
    assert_eq!(world.events(&waiting), ["received", "decided", "waiting"]);
    let again = world.call("pay", arguments.clone()).await;
    assert_eq!(id(&again), id(&waiting), "the same question");

    let shown = world.operator.approval(&id(&waiting)).await.unwrap();
    assert_eq!(shown.preview.as_deref(), Some(r#"would run with {"to":"a","amount":1}"#));
    world.operator.answer(&id(&waiting), answer(true)).await.unwrap();
    assert_eq!(world.events(&waiting), ["received", "decided", "waiting", "approved"]);

    let other = world.call("pay", json!({"to": "b", "amount": 1})).await;
    assert_ne!(id(&other), id(&waiting), "other arguments ask anew");
    let stranger = Caller::new("carol", "developer", Surface::Library);
    let stranger = world.gate.call(&stranger, Call::tool("pay", arguments.clone())).await;
    assert_ne!(id(&stranger), id(&waiting), "another caller asks anew");
    assert_eq!(runs.load(Ordering::SeqCst), 0);

    let spelled = world.raw("pay", r#"{ "amount": 1, "to": "a" }"#).await;
    assert_eq!(spelled.model_text(), "paid 1", "the same arguments in another spelling");
    assert_eq!(world.record(&spelled, "started")["approval"], id(&waiting));
    assert_eq!(world.call("pay", arguments).await.status(), Status::Waiting, "the yes is used up");
}

#[tokio::test]
async fn a_no_is_told_with_its_reason() {
    let runs = Arc::default();
    let world = World::new([pay(&runs)]);
    let waiting = world.call("pay", json!({})).await;
    world.operator.answer(&id(&waiting), answer(false)).await.unwrap();
    let refused = world.call("pay", json!({})).await;
    assert_eq!((refused.status(), refused.code(), refused.exit()), (Status::Refused, Some(Code::ApprovalRejected), 3));
    assert!(refused.end.error().unwrap().message.contains("alice said no: too much"));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_changed_definition_asks_anew() {
    let runs = Arc::default();
    let world = World::new([pay(&runs)]);
    let waiting = world.call("pay", json!({})).await;
    world.operator.answer(&id(&waiting), answer(true)).await.unwrap();
    assert!(world.gate.unregister("pay"));
    let changed = tool("pay", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("another program")) });
    world.gate.register(changed.arc()).unwrap();
    let again = world.call("pay", json!({})).await;
    assert_ne!(id(&again), id(&waiting));
}

struct Human(fn() -> ApprovalAnswer, AtomicUsize);

impl ApprovalChannel for Human {
    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        assert_eq!(question.arguments, json!({"to": "a"}));
        assert!(question.preview.is_some());
        self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready((self.0)()))
    }
}

async fn with_human(answer: fn() -> ApprovalAnswer) -> (World, Outcome, usize) {
    let runs = Arc::default();
    let human = Arc::new(Human(answer, AtomicUsize::new(0)));
    let channel: Arc<dyn ApprovalChannel> = Arc::<Human>::clone(&human);
    let world = World::with(Setup { tools: vec![pay(&runs)], channel: Some(channel), ..Setup::default() });
    let outcome = world.call("pay", json!({"to": "a"})).await;
    let asked = human.1.load(Ordering::SeqCst);
    (world, outcome, asked)
}

#[tokio::test]
async fn a_human_at_hand_is_asked_at_once() {
    let (world, outcome, asked) = with_human(|| ApprovalAnswer::Approved { by: "alice".into(), typed: None }).await;
    assert_eq!((outcome.model_text().as_str(), asked), ("paid 1", 1));
    assert_eq!(world.events(&outcome), ["received", "decided", "approved", "started", "finished"]);

    let (world, outcome, _) = with_human(|| ApprovalAnswer::Rejected { by: "alice".into(), reason: None }).await;
    assert_eq!(outcome.code(), Some(Code::ApprovalRejected));
    assert_eq!(world.events(&outcome), ["received", "decided", "rejected", "finished"]);

    let (world, outcome, _) = with_human(|| ApprovalAnswer::Later).await;
    assert_eq!(outcome.status(), Status::Waiting);
    assert_eq!(world.events(&outcome), ["received", "decided", "waiting"]);
}

#[tokio::test]
async fn a_yes_for_one_order_number_is_none_for_its_neighbour() {
    let runs = Arc::default();
    let world = World::new([pay(&runs)]);
    let waiting = world.raw("pay", r#"{"amount":1234567890123456789}"#).await;
    world.operator.answer(&id(&waiting), answer(true)).await.unwrap();
    assert_eq!(world.raw("pay", r#"{"amount":1234567890123456788}"#).await.status(), Status::Waiting);
    assert_eq!(world.raw("pay", r#"{"amount":1234567890123456789}"#).await.status(), Status::Done);
}

#[tokio::test]
async fn the_same_call_twice_at_once_runs_at_most_once_a_yes() {
    let runs: Arc<AtomicUsize> = Arc::default();
    let human = Arc::new(Human(|| ApprovalAnswer::Approved { by: "alice".into(), typed: None }, AtomicUsize::new(0)));
    let channel: Arc<dyn ApprovalChannel> = Arc::<Human>::clone(&human);
    let world = World::with(Setup { tools: vec![pay(&runs)], channel: Some(channel), ..Setup::default() });
    let (one, other) = tokio::join!(world.call("pay", json!({"to": "a"})), world.call("pay", json!({"to": "a"})));
    let done = [&one, &other].iter().filter(|outcome| outcome.status() == Status::Done).count();
    assert_eq!(done, runs.load(Ordering::SeqCst));
    for outcome in [&one, &other] {
        assert_ne!(outcome.exit(), 6, "{:?}", outcome.end);
    }
}

#[tokio::test]
async fn secrets_are_not_shown_to_the_human_either() {
    let runs = Arc::default();
    let world = World::with(Setup {
        tools: vec![pay(&runs)],
        secrets: vec![tollgate_types::Secret::new("zq-injected-secret")],
        ..Setup::default()
    });
    let waiting = world.gate.call(&developer(), Call::tool("pay", json!({"to": "zq-injected-secret"}))).await;
    let shown = serde_json::to_string(&world.operator.approval(&id(&waiting)).await.unwrap()).unwrap();
    assert!(!shown.contains("zq-injected-secret"), "{shown}");
}

/// What the approver must type is a value of the arguments as they are shown, else the tool's name.
#[tokio::test]
async fn a_yes_that_must_be_typed() {
    let cases = [
        ("/to", json!({"to": "订单-7", "amount": 1}), "订单-7"),
        ("/amount", json!({"to": "a", "amount": 250}), "250"),
        ("", json!({"to": "a", "amount": 2}), "pay"),
        ("/missing", json!({"to": "a", "amount": 3}), "pay"),
        ("/to", json!({"to": "line\nbreak", "amount": 4}), "pay"),
        ("/to", json!({"to": "x".repeat(1_000), "amount": 5}), "pay"),
        ("/to", json!({"to": "a\u{200b}b", "amount": 7}), "pay"),
        ("/to", json!({"to": "a\u{202e}b", "amount": 8}), "pay"),
        ("/to", json!({"to": "sk-planted-0123456789", "amount": 6}), "pay"),
    ];
    for (pointer, arguments, expected) in cases {
        let pay = tool("pay", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("paid")) })
            .define(|it| it.security.typed_confirmation = Some(pointer.to_owned()));
        let secrets = vec![tollgate_types::Secret::new("sk-planted-0123456789")];
        let world = World::with(Setup { tools: vec![pay.arc()], secrets, ..Setup::default() });
        let waiting = world.call("pay", arguments.clone()).await;
        let open = world.operator.approval(&id(&waiting)).await.unwrap();
        assert!(!format!("{open:?}").contains("sk-planted"), "{open:?}");
        let typed = open.typed.unwrap();
        if !arguments.to_string().contains("sk-planted") {
            assert_eq!(typed, expected, "{pointer}");
        }
        assert!(world.operator.answer(&id(&waiting), answer(true)).await.is_err());
        assert_eq!(world.events(&waiting), ["received", "decided", "waiting"], "what does not count is not recorded");
        let said = Answer { typed: Some(typed), ..answer(true) };
        world.operator.answer(&id(&waiting), said).await.unwrap();
        assert_eq!(world.call("pay", arguments).await.status(), Status::Done);
    }
}

#[tokio::test]
async fn two_persons_must_say_yes() {
    let pay = tool("pay", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("paid")) })
        .define(|it| it.security.approvers = std::num::NonZeroU32::new(2));
    let world = World::new([pay.arc()]);
    let waiting = world.call("pay", json!({})).await;
    let by = |name: &str| Answer { by: name.into(), ..answer(true) };
    assert!(world.operator.answer(&id(&waiting), by("alice")).await.unwrap().is_open());
    assert_eq!(world.call("pay", json!({})).await.status(), Status::Waiting);
    assert!(world.operator.answer(&id(&waiting), by("alice")).await.is_err(), "a second yes of the same person");
    world.operator.answer(&id(&waiting), by("bert")).await.unwrap();
    assert_eq!(world.call("pay", json!({})).await.status(), Status::Done);
    let notes: Vec<_> = world.records().into_iter().filter(|it| it["event"] == "approved").collect();
    let notes: Vec<_> = notes.iter().map(|it| it["note"].as_str().unwrap()).collect();
    assert_eq!(notes, ["by alice, 1 of 2", "by bert, 2 of 2"]);
}

/// One yes for the rest of a session: this caller, this session, this tool, any arguments; and no more than that.
#[tokio::test]
async fn a_yes_for_the_session_lets_its_calls_run_and_no_others() {
    let runs = Arc::default();
    let other = tool("pay_twice", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("twice")) }).arc();
    let world = World::new([pay(&runs), other]);
    let bob = developer().with_session("s1");
    let ask = async |caller: &Caller, name: &str, to: &str| {
        world.gate.call(caller, Call::tool(name, json!({ "to": to }))).await
    };
    let waiting = ask(&bob, "pay", "a").await;
    world.operator.approve_for_session(&id(&waiting), answer(true)).await.unwrap();
    let approved = world.record(&waiting, "approved");
    let note = approved["note"].as_str().unwrap();
    assert!(note.starts_with("by alice: for its session until ") && note.contains("100 calls at most"), "{note}");

    for to in ["a", "b", "c"] {
        let done = ask(&bob, "pay", to).await;
        assert_eq!(done.status(), Status::Done, "{to}");
        assert_eq!(world.record(&done, "started")["approval"], approved["approval"], "each call names its yes");
    }
    for stranger in [
        developer(),
        developer().with_session("s2"),
        Caller::new("carol", "developer", Surface::Library).with_session("s1"),
        Caller { surface: Surface::McpStdio, ..bob.clone() },
        bob.clone().with_tenant("acme"),
    ] {
        assert_eq!(ask(&stranger, "pay", "a").await.status(), Status::Waiting, "{stranger:?}");
    }
    assert_eq!(ask(&bob, "pay_twice", "a").await.status(), Status::Waiting, "another tool");

    let [grant] = &world.operator.grants().await.unwrap()[..] else { panic!("one grant") };
    assert_eq!((grant.left, grant.by.as_str()), (97, "alice"));
    world.operator.revoke(grant.id.as_str(), "alice").await.unwrap();
    assert_eq!(ask(&bob, "pay", "d").await.status(), Status::Waiting, "taken back");
    assert!(world.operator.grants().await.unwrap().is_empty());
    let last = world.records().into_iter().rfind(|record| record["event"] == "rejected").unwrap();
    assert_eq!(last["note"], "by alice: taken back for the rest of the session");
}

#[tokio::test]
async fn a_yes_for_the_session_is_bounded_and_not_for_every_question() {
    let runs = Arc::default();
    let typed = tool("drop", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("dropped")) })
        .define(|it| it.security.typed_confirmation = Some(String::new()));
    let world = World::new([pay(&runs), typed.arc()]);
    let bob = developer().with_session("s1");
    let ask = async |caller: &Caller, name: &str, to: &str| {
        world.gate.call(caller, Call::tool(name, json!({ "to": to }))).await
    };
    let without = ask(&developer(), "pay", "a").await;
    assert!(world.operator.approve_for_session(&id(&without), answer(true)).await.is_err(), "there is no session");
    let strict = ask(&bob, "drop", "a").await;
    let said = Answer { typed: Some("drop".into()), ..answer(true) };
    assert!(world.operator.approve_for_session(&id(&strict), said).await.is_err(), "it is typed each time");
    assert_eq!(world.events(&strict), ["received", "decided", "waiting"]);

    let waiting = ask(&bob, "pay", "first").await;
    world.operator.approve_for_session(&id(&waiting), answer(true)).await.unwrap();
    for number in 0..tollgate_types::limits::GRANT_CALLS_MAX {
        assert_eq!(ask(&bob, "pay", &number.to_string()).await.status(), Status::Done);
    }
    assert_eq!(ask(&bob, "pay", "one more").await.status(), Status::Waiting);
    assert_eq!(ask(&bob, "pay", "first").await.status(), Status::Waiting, "the yes itself was part of it");
}

/// Threat: one approval, raced by many executions.
#[tokio::test]
async fn of_many_calls_at_once_one_runs_under_the_yes() {
    let runs: Arc<AtomicUsize> = Arc::default();
    let world = World::new([pay(&runs)]);
    let waiting = world.call("pay", json!({"to": "a"})).await;
    world.operator.answer(&id(&waiting), answer(true)).await.unwrap();
    let calls = (0..64).map(|_| world.call("pay", json!({"to": "a"})));
    let outcomes = futures_util::future::join_all(calls).await;
    let done = outcomes.iter().filter(|outcome| outcome.status() == Status::Done).count();
    assert_eq!((done, runs.load(Ordering::SeqCst)), (1, 1));
    assert!(outcomes.iter().all(|outcome| outcome.exit() != 6), "none of the others is our failure");
}
