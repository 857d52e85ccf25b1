//! A ledger whose disk fails at each of its acts: no record, no call; no result without its record; and it works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tollgate_ledger::Options;
use tollgate_testkit::{Act, Fault, TestDisk};
use tollgate_types::{Code, Outcome, Risk, Status, ToolOutput};

use crate::world::{Setup, World, tool};

/// A house on such a disk, with one tool that reads and one that changes, and how often each ran.
struct Rig {
    world: World,
    disk: TestDisk,
    runs: [Arc<AtomicUsize>; 2],
}

const TOOLS: [(&str, Risk); 2] = [("look", Risk::Read), ("act", Risk::Write)];

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = TestDisk::new(folder.path()).unwrap();
        let runs: [Arc<AtomicUsize>; 2] = Default::default();
        let tools = TOOLS.into_iter().zip(&runs).map(|((name, risk), runs)| {
            let (runs, disk) = (Arc::clone(runs), disk.clone());
            let body = move |arguments: serde_json::Value, _| {
                runs.fetch_add(1, Ordering::SeqCst);
                if arguments["fills"] == true {
                    disk.fill();
                }
                async { Ok(ToolOutput::text("the result")) }
            };
            tool(name, risk, body).define(|it| it.source.kind = tollgate_types::SourceKind::Builtin).arc()
        });
        let setup = Setup {
            tools: tools.collect(),
            options: Options { disk: disk.shared(), ..Options::default() },
            ..Setup::default()
        };
        Self { world: World::at(folder, setup), disk, runs }
    }

    /// Calls it, and checks what is promised whatever happens.
    async fn call(&self, which: usize) -> Outcome {
        let (name, risk) = TOOLS[which];
        let before = self.runs[which].load(Ordering::SeqCst);
        let outcome = self.world.call(name, json!({})).await;
        let has_run = self.runs[which].load(Ordering::SeqCst) > before;
        let events = outcome.attempt.as_ref().map(|_| self.world.events(&outcome)).unwrap_or_default();
        let has = |event: &str| events.iter().any(|it| it == event);
        assert!(!has_run || has("started"), "no record, no call: {events:?}");
        let withheld = if risk == Risk::Read { Code::AuditUnavailable } else { Code::OutcomeUnknown };
        match (outcome.status(), outcome.code()) {
            (Status::Done, None) => assert!(has_run && has("finished"), "{events:?}"),
            (_, Some(Code::AuditUnavailable)) if !has_run => {}
            (_, code) => assert!(has_run && code == Some(withheld), "{outcome:?}"),
        }
        let said = serde_json::to_string(&outcome).unwrap();
        assert_eq!(said.contains("the result"), outcome.status() == Status::Done);
        outcome
    }
}

#[tokio::test]
async fn whatever_fails_of_the_disk_no_call_and_no_result_is_without_its_record() {
    let faults = [
        (Act::Write, Fault::Once),
        (Act::Write, Fault::Lasting),
        (Act::Write, Fault::Full),
        (Act::Write, Fault::ReadOnly),
        (Act::Sync, Fault::Once),
        (Act::Sync, Fault::Lasting),
    ];
    for (act, fault) in faults {
        let (mut number, mut withheld) = (1, 0);
        loop {
            let rig = Rig::new();
            rig.disk.fail(act, number, fault);
            for which in [0, 1, 1, 0] {
                let outcome = rig.call(which).await;
                withheld += usize::from(outcome.status() != Status::Done);
            }
            let was_struck = rig.disk.has_struck();
            rig.disk.mend();
            // A sync that failed is told to each descriptor once: that of the records, and that of the checkpoints.
            for _ in 0..2 {
                rig.call(1).await;
            }
            for which in [0, 1] {
                assert_eq!(
                    rig.call(which).await.status(),
                    Status::Done,
                    "{act:?} {number} {fault:?}: no restart is needed"
                );
            }
            if !was_struck {
                break;
            }
            number += 1;
        }
        assert!(number > 3 && withheld > 0, "{act:?} {fault:?}");
    }
}

#[tokio::test]
async fn a_call_that_fills_the_disk_has_its_true_outcome_and_the_next_one_does_not_begin() {
    for (name, _) in TOOLS {
        let rig = Rig::new();
        let outcome = rig.world.call(name, json!({ "fills": true })).await;
        assert_eq!(
            (outcome.status(), rig.world.record(&outcome, "finished")["outcome"]["status"].as_str()),
            (Status::Done, Some("done"))
        );
        for which in [0, 1] {
            assert_eq!(rig.call(which).await.code(), Some(Code::AuditUnavailable));
        }
        let halted = rig.world.records().iter().filter(|record| record["event"] == "halted").count();
        assert_eq!(halted, 1);
        rig.disk.mend();
        assert_eq!(rig.call(1).await.status(), Status::Done);
    }
}
