//! The laws of the gate (ARCHITECTURE.md), tried on any house and any story against the reference gate. Each is a test of
//! its own. `PROPTEST_CASES` says how many stories each is told; a failing one is printed, made as short as it gets, and
//! kept in `proptest-regressions/laws.txt`, from where it is told again first.

mod approvals;
mod hidden;
mod stricter;
mod world;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tokio::runtime::Runtime;
use tollgate::ledger::{Event, Record};
use tollgate::store::Answer;
use tollgate::{Clock, Code, End, Outcome, Status};
use tollgate_testkit::reference::any::{self, Step, Story, at};
use tollgate_testkit::reference::{self, Arguments, Asked, House, State, listed, pass};

use world::World;

/// How many stories a law is told, where the environment does not say.
pub(crate) fn told(stories: u32) -> ProptestConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/laws.txt");
    let said = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    ProptestConfig {
        cases: said.unwrap_or(stories),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

pub(crate) fn fit(n: i64) -> Arguments {
    Arguments::Fit { n, note: String::new() }
}

/// A story as it is told, in the real house and by the reference.
struct Telling {
    world: World,
    plan: House,
    state: State,
    /// The ids of the questions, in the order of the reference's.
    questions: Vec<String>,
}

impl Telling {
    async fn step(&mut self, story: &Story, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::List(caller) => {
                let Some(caller) = at(&story.callers, *caller) else { return Ok(()) };
                prop_assert_eq!(self.world.names(caller).await, listed(&self.plan, caller));
            }
            Step::Call(..) | Step::Again(..) => {
                if let Some(asked) = story.asked(step, &self.state) {
                    self.call(&asked).await?;
                }
            }
            Step::Word(place, word) => {
                let Some(place) = any::question(*place, self.questions.len()) else { return Ok(()) };
                let (Some(about), Some(id)) = (self.state.questions.get(place), self.questions.get(place)) else {
                    return Ok(());
                };
                let word = any::said(word, about);
                let (is_taken, after) = reference::answer(&self.state, place, &word);
                let answer = Answer { approved: word.approved, by: word.by, reason: None, typed: word.typed };
                let operator = self.world.house.operator();
                let answered = match word.for_session {
                    true => operator.approve_for_session(id, answer).await,
                    false => operator.answer(id, answer).await,
                };
                prop_assert_eq!(answered.is_ok(), is_taken, "{:?}", answered.map(|_| ()));
                self.state = after;
            }
            Step::Pass(by) => {
                self.world.clock.advance(*by);
                (self.state.wall, self.state.passed) = (self.state.wall + *by, self.state.passed + *by);
            }
            Step::Back(by) => {
                // Not before the beginning of the story: the reference counts from there.
                let by = (*by).min(self.state.wall);
                self.world.clock.set(self.world.clock.now() - by);
                self.state.wall -= by;
            }
            Step::Change(place, change) => {
                let Some(place) = place.checked_rem(self.plan.roles.len()) else { return Ok(()) };
                self.plan.roles.get_mut(place).into_iter().for_each(|role| change.apply(role));
                self.world.reload(&self.plan, "").await;
            }
            Step::Restart => unreachable!("the teller does that"),
        }
        Ok(())
    }

    /// The id of the question that an answer of the reference is about.
    fn question(&self, answer: reference::Answer) -> Option<String> {
        self.questions.get(answer.question?).cloned()
    }

    async fn call(&mut self, asked: &Asked) -> Result<(), TestCaseError> {
        let (expected, after) = pass(&self.plan, &self.state, asked);
        let outcome = self.world.call(asked).await;
        prop_assert_eq!(outcome.code(), expected.code, "{:?}", outcome.end);
        if let End::Waiting(waiting, _) = &outcome.end {
            if after.questions.len() > self.questions.len() {
                self.questions.push(waiting.id.to_string());
            }
            prop_assert_eq!(self.question(expected), Some(waiting.id.to_string()));
        }
        let records = self.world.records(&outcome);
        check_records(&records, &outcome, expected, self.question(expected).as_deref())?;
        prop_assert_eq!(self.world.runs(), after.runs, "how often a tool ran");
        let visible = listed(&self.plan, &asked.caller);
        let hidden = self.plan.tools.iter().map(|tool| &*tool.name).filter(|name| !visible.iter().any(|it| it == name));
        check_silence(&outcome, hidden, &asked.name)?;
        self.state = after;
        Ok(())
    }
}

fn count(records: &[Record], event: Event) -> usize {
    records.iter().filter(|record| record.event() == Some(event)).count()
}

/// What the ledger has of one attempt.
fn check_records(
    records: &[Record],
    outcome: &Outcome,
    expected: reference::Answer,
    yes: Option<&str>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(count(records, Event::Received), 1);
    prop_assert_eq!(count(records, Event::Finished) + count(records, Event::Waiting), 1);
    prop_assert_eq!(count(records, Event::Waiting) == 1, outcome.status() == Status::Waiting);
    prop_assert_eq!(count(records, Event::Started), usize::from(expected.code.is_none()));
    if let Some(finished) = records.iter().find(|record| record.event() == Some(Event::Finished)) {
        prop_assert_eq!(finished.code(), expected.recorded.map(Code::as_str));
    }
    if let (Some(started), Some(yes)) = (records.iter().find(|it| it.event() == Some(Event::Started)), yes) {
        prop_assert_eq!(started.get("approval").and_then(|id| id.as_str()), Some(yes));
    }
    Ok(())
}

/// No name of a hidden tool is in an answer, but for the one that was asked for.
fn check_silence<'a>(
    outcome: &Outcome,
    hidden: impl Iterator<Item = &'a str>,
    asked: &str,
) -> Result<(), TestCaseError> {
    let said = serde_json::to_string(outcome).unwrap();
    // Names that are fit end with a number of their own: none is a part of another.
    for name in hidden.filter(|name| name.len() > 3 && name.is_ascii() && !asked.contains(name)) {
        prop_assert!(!said.contains(name), "`{}` is named: {}", name, said);
    }
    Ok(())
}

async fn tell(story: &Story) -> Result<Telling, TestCaseError> {
    let mut plan = story.house.clone();
    let world = World::new(&mut plan).await;
    let mut telling = Telling { world, plan, state: State::default(), questions: Vec::new() };
    for step in &story.steps {
        if matches!(step, Step::Restart) {
            let Telling { world, plan, state, questions } = telling;
            let world = world.restart(&plan).await;
            telling = Telling { world, plan, state: state.restarted(), questions };
        } else {
            telling.step(story, step).await.map_err(|error| TestCaseError::fail(format!("{step:?}: {error}")))?;
        }
    }
    Ok(telling)
}

proptest! {
    #![proptest_config(told(24))]

    #[test]
    fn every_step_is_as_the_reference_says(story in any::story()) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let telling = tell(&story).await?;
            let report = tollgate::ledger::verify(telling.world.house.data_dir()).unwrap();
            prop_assert!(report.ok, "{:?}", report);
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(told(12))]

    #[test]
    fn what_may_be_called_is_listed_and_what_is_listed_is_known(house in any::house(), callers in any::callers()) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let mut plan = House { limit: None, ..house };
            let world = World::new(&mut plan).await;
            for caller in &callers {
                let names = world.names(caller).await;
                for tool in plan.tools.iter().filter(|tool| tool.name != "read_result") {
                    let asked = Asked { caller: caller.clone(), name: tool.name.clone(), arguments: fit(1) };
                    let code = world.call(&asked).await.code();
                    prop_assert_eq!(names.contains(&tool.name), code != Some(Code::UnknownTool), "{}", tool.name);
                }
            }
            Ok(())
        })?;
    }

    /// Many at once: each has one result, and one beginning and one end in the ledger, whatever became of it.
    #[test]
    fn each_call_has_one_result_and_one_record_of_each_kind(
        house in any::house(),
        callers in any::callers(),
        calls in proptest::collection::vec((any::<u8>(), any::name(), any::arguments()), 1..24),
    ) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let mut plan = house;
            let world = World::new(&mut plan).await;
            let story = Story { house: plan, callers, steps: Vec::new() };
            let step = |(caller, name, arguments)| Step::Call(usize::from(caller), name, arguments);
            let asked = calls.into_iter().map(step).filter_map(|step| story.asked(&step, &State::default()));
            let asked: Vec<Asked> = asked.collect();
            let outcomes = futures_util::future::join_all(asked.iter().map(|asked| world.call(asked))).await;
            let mut attempts: Vec<_> = outcomes.iter().map(|outcome| outcome.attempt.clone().unwrap()).collect();
            let mut started = 0;
            for outcome in &outcomes {
                let records = world.records(outcome);
                prop_assert_eq!(count(&records, Event::Received), 1);
                prop_assert_eq!(count(&records, Event::Finished) + count(&records, Event::Waiting), 1);
                // What is refused, or waits, never reaches a tool.
                let has_run = matches!(outcome.status(), Status::Done);
                prop_assert_eq!(count(&records, Event::Started), usize::from(has_run));
                started += usize::from(has_run);
            }
            attempts.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
            attempts.dedup();
            prop_assert_eq!(attempts.len(), asked.len());
            prop_assert_eq!(world.runs(), started);
            Ok(())
        })?;
    }
}

/// The rate is that of the time that passes, whatever the clock on the wall shows.
#[tokio::test]
async fn a_clock_that_jumps_gives_no_calls_and_takes_none() {
    let limit = reference::Limit { calls: 2, every: Duration::from_secs(60) };
    let mut tool = tollgate::ToolDefinition::new("look", "Looks.");
    (tool.risk, tool.permission) = (tollgate::Risk::Read, tollgate::Permission::Read);
    let mut plan = House { tools: vec![tool], limit: Some(limit), ..House::default() };
    let world = World::new(&mut plan).await;
    let caller = tollgate::Caller::new("ada", "developer", tollgate::Surface::Library);
    let asked = Asked { caller, name: "look".into(), arguments: Arguments::Missing };
    let ask = async || world.call(&asked).await.code();
    assert_eq!((ask().await, ask().await, ask().await), (None, None, Some(Code::RateLimited)));
    let beginning = world.clock.now();
    for jump in [Duration::from_secs(86_400 * 365), Duration::ZERO] {
        world.clock.set(beginning + jump);
        assert_eq!(ask().await, Some(Code::RateLimited), "{jump:?}");
    }
    world.clock.set(beginning - Duration::from_secs(86_400));
    assert_eq!(ask().await, Some(Code::RateLimited));
    world.clock.advance(Duration::from_secs(30));
    assert_eq!((ask().await, ask().await), (None, Some(Code::RateLimited)));
}
