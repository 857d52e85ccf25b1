//! A yes is for one caller, one definition and one set of arguments, within its time, once, and under the policy of now.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tokio::runtime::Runtime;
use tollgate::store::Answer;
use tollgate::{Caller, Clock, Code, End, Outcome, Permission, Risk, Status, Surface, ToolDefinition};
use tollgate_testkit::reference::{Arguments, Asked, House, Role};

use super::world::World;
use super::{fit, told};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// What may come between a yes and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    OtherNumber,
    OtherNote,
    OtherSubject,
    OtherTenant,
    OtherRole,
    OtherSurface,
    OtherDefinition,
    TooLate,
    ClockBack,
    StricterRole,
    Forbidden,
    Restart,
}

use Meanwhile::*;

impl Meanwhile {
    /// Whether the yes is gone by it, and not only of no use to somebody else.
    fn is_for_good(self) -> bool {
        matches!(self, OtherDefinition | TooLate | ClockBack | StricterRole | Forbidden)
    }
}

fn pay() -> ToolDefinition {
    let mut tool = ToolDefinition::new("pay", "Pays.");
    (tool.risk, tool.permission) = (Risk::Dangerous, Permission::Network);
    tool
}

fn plan() -> House {
    let role = |name: &str| Role {
        name: name.into(),
        tools: vec!["*".into()],
        risk: Some(Risk::Dangerous),
        permission: Some(Permission::System),
        ..Role::default()
    };
    House { tools: vec![pay()], roles: vec![role("clerk"), role("lead")], ..House::default() }
}

fn asked(arguments: Arguments) -> Asked {
    Asked { caller: Caller::new("ada", "clerk", Surface::Library), name: "pay".into(), arguments }
}

fn id(outcome: &Outcome) -> Option<String> {
    match &outcome.end {
        End::Waiting(waiting, _) => Some(waiting.id.to_string()),
        _ => None,
    }
}

fn yes() -> Answer {
    Answer { approved: true, by: "alice".into(), reason: None, typed: None }
}

/// Makes it so, and asks: it must not run. The house goes on.
async fn meet(mut world: World, plan: &mut House, what: Meanwhile, n: i64) -> Result<World, TestCaseError> {
    let mut call = asked(fit(n));
    match what {
        OtherNumber => call.arguments = fit(n + 1),
        OtherNote => call.arguments = Arguments::Fit { n, note: "备注".into() },
        OtherSubject => call.caller.subject = "eve".into(),
        OtherTenant => call.caller.tenant = Some("acme".into()),
        OtherRole => call.caller.role = "lead".into(),
        OtherSurface => call.caller.surface = Surface::Rest,
        OtherDefinition => {
            world.house.gate().unregister("pay");
            world.add(ToolDefinition { description: "Pays twice.".into(), ..pay() });
        }
        TooLate => world.clock.advance(24 * HOUR),
        ClockBack => world.clock.set(world.clock.now() - 2 * HOUR),
        StricterRole => {
            plan.roles.iter_mut().for_each(|role| role.risk = Some(Risk::Write));
            world.reload(plan, "").await;
        }
        Forbidden => world.reload(plan, "@id(\"no\") forbid (principal, action, resource);").await,
        Restart => {
            world = world.restart(plan).await;
            return Ok(world);
        }
    }
    let runs = world.runs();
    let outcome = world.call(&call).await;
    prop_assert_ne!(outcome.status(), Status::Done, "{:?}", what);
    prop_assert_eq!(world.runs(), runs);
    Ok(world)
}

proptest! {
    #![proptest_config(told(12))]

    #[test]
    fn a_yes_is_for_one_call(
        meanwhile in proptest::collection::vec(select(vec![
            OtherNumber, OtherNote, OtherSubject, OtherTenant, OtherRole, OtherSurface, OtherDefinition, TooLate,
            ClockBack, StricterRole, Forbidden, Restart,
        ]), 0..5),
        n in 1..100_i64,
    ) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let mut plan = plan();
            let mut world = World::new(&mut plan).await;
            let question = id(&world.call(&asked(fit(n))).await).unwrap();
            world.house.operator().answer(&question, yes()).await.unwrap();
            let mut is_gone = false;
            for what in meanwhile {
                world = meet(world, &mut plan, what, n).await?;
                is_gone |= what.is_for_good();
                if is_gone {
                    break;
                }
            }
            let before = world.runs();
            let calls = (0..6).map(|_| { let world = &world; async move { world.call(&asked(fit(n))).await } });
            let outcomes = futures_util::future::join_all(calls).await;
            let done = outcomes.iter().filter(|outcome| outcome.status() == Status::Done).count();
            prop_assert_eq!(done, usize::from(!is_gone), "of six at once");
            prop_assert_eq!(world.runs() - before, done);
            Ok(())
        })?;
    }
}

/// What was seen to be over stays so when the clock goes back to when it was not.
#[tokio::test]
async fn a_yes_does_not_come_back_with_the_clock() {
    let mut plan = plan();
    let world = World::new(&mut plan).await;
    let call = Asked { caller: asked(fit(1)).caller.with_session("s1"), ..asked(fit(1)) };
    let other = Asked { arguments: fit(2), ..call.clone() };
    let beginning = world.clock.now();
    let question = id(&world.call(&call).await).unwrap();
    let of_session = id(&world.call(&other).await).unwrap();
    world.house.operator().answer(&question, yes()).await.unwrap();
    world.clock.advance(25 * HOUR);
    assert_eq!(world.call(&other).await.code(), Some(Code::ApprovalExpired), "somebody looks at what is over");
    world.clock.set(beginning);
    assert_eq!(world.call(&call).await.code(), Some(Code::ApprovalExpired));
    assert!(world.house.operator().answer(&of_session, yes()).await.is_err());

    // The same for a yes that stands for a session: an hour.
    let question = id(&world.call(&call).await).unwrap();
    world.house.operator().approve_for_session(&question, yes()).await.unwrap();
    assert_eq!(world.call(&other).await.status(), Status::Done);
    world.clock.advance(HOUR);
    let waiting = world.call(&other).await;
    assert_eq!(waiting.status(), Status::Waiting, "{:?}", waiting.end);
    world.clock.set(beginning);
    assert_ne!(world.call(&other).await.status(), Status::Done);
    assert_eq!(world.runs(), 1);
}

/// Before its beginning nobody knows how old it is; a clock that is corrected by a little does not matter.
#[tokio::test]
async fn a_clock_that_goes_back_before_the_question_ends_it() {
    for (back, is_left) in [(Duration::from_secs(30), true), (2 * HOUR, false)] {
        let mut plan = plan();
        let world = World::new(&mut plan).await;
        let call = Asked { caller: asked(fit(1)).caller.with_session("s1"), ..asked(fit(1)) };
        let granted = id(&world.call(&call).await).unwrap();
        world.house.operator().approve_for_session(&granted, yes()).await.unwrap();
        let single = Asked { caller: asked(fit(2)).caller, ..asked(fit(2)) };
        let question = id(&world.call(&single).await).unwrap();
        world.house.operator().answer(&question, yes()).await.unwrap();
        world.clock.set(world.clock.now() - back);
        for call in [&call, &single] {
            assert_eq!(world.call(call).await.status() == Status::Done, is_left, "{back:?}");
        }
        // Time goes on, and what ended stays ended.
        world.clock.advance(back);
        assert_ne!(world.call(&single).await.status(), Status::Done);
        assert_eq!(world.runs(), if is_left { 2 } else { 0 });
    }
}
