//! Processes that die at any moment, and others that come at their keys. A process is a gate on a runtime of its own, which
//! stops between two steps and never goes on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tollgate_gate::Gate;
use tollgate_types::{Call, Code, Door, Outcome, Risk, Status, Tool, ToolOutput};

use super::{caller, free};
use crate::world::{Setup, open, tool};

/// What happened to the world: by caller and key, how often.
type Effects = Arc<Mutex<BTreeMap<String, u32>>>;

/// A tool whose effect is in the middle of its run.
fn pay(effects: &Effects, is_idempotent: bool) -> Arc<dyn Tool> {
    let effects = Arc::clone(effects);
    tool("pay", Risk::Write, move |arguments, _| {
        let effects = Arc::clone(&effects);
        async move {
            tokio::task::yield_now().await;
            *effects.lock().unwrap().entry(arguments.get("who").unwrap().to_string()).or_default() += 1;
            tokio::task::yield_now().await;
            Ok(ToolOutput::text("paid"))
        }
    })
    .define(|definition| definition.annotations.idempotent = is_idempotent.then_some(true))
    .arc()
}

#[derive(Debug, Clone)]
struct Step {
    caller: u8,
    key: u8,
    item: u8,
    /// How many ask at once.
    at_once: usize,
    /// When the process dies, if it does.
    dies_after_us: Option<u64>,
}

fn step() -> impl Strategy<Value = Step> {
    let dies = prop_oneof![2 => (0..12_000_u64).prop_map(Some), 1 => Just(None)];
    (0..2_u8, 0..2_u8, 0..5_u8, 1..3_usize, dies).prop_map(|(caller, key, item, at_once, dies_after_us)| Step {
        caller,
        key,
        // Mostly the same arguments.
        item: item / 4,
        at_once,
        dies_after_us,
    })
}

fn call(gate: &Gate, step: &Step) -> impl Future<Output = Outcome> + use<> {
    let name = format!("c{}", step.caller);
    let arguments = json!({"who": format!("{name} k{}", step.key), "item": step.item});
    let call = Call::tool("pay", arguments).with_idempotency_key(format!("k{}", step.key));
    let gate = gate.clone();
    async move { gate.call(&caller(&name), call).await }
}

/// One process: opens, asks, and ends or dies.
fn process(folder: &Path, step: &Step, effects: &Effects, is_idempotent: bool) -> Option<Vec<Outcome>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (gate, _operator) =
        open(folder, Setup { roles: vec![free()], tools: vec![pay(effects, is_idempotent)], ..Setup::default() });
    runtime.block_on(async {
        let calls = futures_util::future::join_all((0..step.at_once).map(|_| call(&gate, step)));
        match step.dies_after_us {
            None => Some(calls.await),
            Some(us) => tokio::time::timeout(Duration::from_micros(us), calls).await.ok(),
        }
    })
    // What the runtime had not done by now is never done: nothing polls its tasks any more.
}

fn told(steps: &[Step], is_idempotent: bool) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let effects = Effects::default();
    for step in steps {
        process(folder.path(), step, &effects, is_idempotent);
    }
    let mut known = Vec::new();
    for (caller, key) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for item in [0, 1] {
            let last = Step { caller, key, item, at_once: 1, dies_after_us: None };
            let outcome = process(folder.path(), &last, &effects, is_idempotent).unwrap().remove(0);
            known.push((json!(format!("c{caller} k{key}")).to_string(), outcome));
        }
    }
    let effects = effects.lock().unwrap();
    for (who, outcome) in known {
        let times = effects.get(&who).copied().unwrap_or_default();
        match (outcome.status(), outcome.code()) {
            (Status::Done, _) => prop_assert!(times >= 1, "{who}: {times}"),
            (_, Some(Code::Conflict)) => prop_assert!(!outcome.end.error().unwrap().retryable, "nothing is under way"),
            (Status::Unknown, _) => prop_assert!(!is_idempotent, "{who}: {outcome:?}"),
            _ => prop_assert!(outcome.replayed, "{who}: {outcome:?}"),
        }
        prop_assert!(times <= 1 || is_idempotent, "{who}: {times}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn at_most_once_wherever_a_process_dies(steps in proptest::collection::vec(step(), 1..6)) {
        told(&steps, false)?;
    }

    #[test]
    fn what_may_happen_twice_is_made_again_and_ends(steps in proptest::collection::vec(step(), 1..6)) {
        told(&steps, true)?;
    }
}

/// Another process, in the middle of its call until it is told to die.
fn held(folder: &Path) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (die, told_to_die) = mpsc::channel::<()>();
    let (began, has_begun) = mpsc::channel::<()>();
    let folder = folder.to_owned();
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reached = Arc::new(tokio::sync::Notify::new());
        let tool_reached = Arc::clone(&reached);
        let hangs = tool("pay", Risk::Write, move |_, _| {
            tool_reached.notify_one();
            std::future::pending()
        });
        let (gate, _operator) =
            open(&folder, Setup { roles: vec![free()], tools: vec![hangs.arc()], ..Setup::default() });
        let step = Step { caller: 0, key: 0, item: 0, at_once: 1, dies_after_us: None };
        runtime.block_on(async {
            tokio::select! {
                _ = call(&gate, &step) => panic!("it hangs"),
                () = reached.notified() => {}
            }
        });
        began.send(()).unwrap();
        told_to_die.recv().unwrap();
    });
    has_begun.recv().unwrap();
    (die, process)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_meanwhile_is_noticed_by_those_who_wait() {
    for is_idempotent in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (die, process) = held(folder.path());
        let effects = Effects::default();
        let setup = Setup { roles: vec![free()], tools: vec![pay(&effects, is_idempotent)], ..Setup::default() };
        let (gate, operator) = open(folder.path(), setup);
        let step = Step { caller: 0, key: 0, item: 0, at_once: 1, dies_after_us: None };
        let kill = async {
            assert!(operator.unsettled().await.unwrap().is_empty(), "it lives");
            die.send(()).unwrap();
        };
        let (outcome, ()) = tokio::join!(call(&gate, &step), kill);
        process.join().unwrap();
        let unsettled = operator.unsettled().await.unwrap();
        assert_eq!(unsettled.len(), 1, "an operator is to look at it either way");
        let ran = effects.lock().unwrap().values().sum::<u32>();
        if is_idempotent {
            assert_eq!((outcome.status(), ran), (Status::Done, 1), "{outcome:?}");
        } else {
            assert_eq!((outcome.code(), ran), (Some(Code::OutcomeUnknown), 0), "{outcome:?}");
            let error = outcome.end.error().unwrap();
            let settle = format!("tollgate audit settle {}", unsettled[0].attempt);
            assert!(error.hint.as_ref().unwrap().contains(&settle), "{error:?}");
        }
    }
}
