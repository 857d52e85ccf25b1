//! No record, no call.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tollgate_gate::OperatorError;
use tollgate_ledger::{Durability, Options};
use tollgate_store::{Answer, Message};
use tollgate_types::{Code, End, Risk, Status, ToolOutput};

use crate::world::{Setup, World, echo, tool};

/// Takes the ledger's lock as another process would that stands still.
pub(crate) fn hold(world: &World) -> File {
    let file =
        File::options().write(true).create(true).truncate(false).open(world.folder.path().join("audit/lock")).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

#[tokio::test]
async fn without_a_record_nothing_is_done_and_it_recovers() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool_runs = Arc::clone(&runs);
    let world = World::new([tool("act", Risk::Read, move |_, _| {
        tool_runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("acted")) }
    })
    .arc()]);
    let held = hold(&world);
    let refused = world.call("act", json!({})).await;
    assert_eq!((refused.code(), refused.exit(), &refused.attempt), (Some(Code::AuditUnavailable), 6, &None));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    drop(held);
    assert_eq!(world.call("act", json!({})).await.status(), Status::Done);
}

#[tokio::test]
async fn a_change_whose_end_cannot_be_recorded_withholds_its_result() {
    for (risk, code, exit) in [(Risk::Write, Code::OutcomeUnknown, 5), (Risk::Read, Code::AuditUnavailable, 6)] {
        let held = Arc::new(std::sync::Mutex::new(None));
        let path = Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
        let (tool_held, tool_path) = (Arc::clone(&held), Arc::clone(&path));
        let world = World::new([tool("act", risk, move |_, _| {
            let file = File::options().write(true).open(tool_path.get().unwrap()).unwrap();
            flock(&file, FlockOperation::LockExclusive).unwrap();
            *tool_held.lock().unwrap() = Some(file);
            async { Ok(ToolOutput::text("the result")) }
        })
        .define(|d| d.source.kind = tollgate_types::SourceKind::Builtin)
        .arc()]);
        path.set(world.folder.path().join("audit/lock")).unwrap();
        let outcome = world.call("act", json!({})).await;
        assert_eq!((outcome.code(), outcome.exit()), (Some(code), exit));
        assert!(!serde_json::to_string(&outcome).unwrap().contains("the result"));
        drop(held.lock().unwrap().take());
    }
}

#[tokio::test]
async fn every_attempt_has_one_beginning_and_one_end() {
    let world = World::new([
        echo().arc(),
        tool("ask", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("")) }).arc(),
        tool("boom", Risk::Read, |_, _| async { panic!("on purpose") }).arc(),
        tool("slow", Risk::Read, |_, _| async { std::future::pending().await })
            .define(|d| d.execution.timeout_ms = 5)
            .arc(),
    ]);
    let calls = (0..200).map(|n| {
        let (name, arguments) = match n % 7 {
            0 => ("echo", r#"{"text":"a"}"#),
            1 => ("echo", "{"),
            2 => ("ask", "{}"),
            3 => ("boom", "{}"),
            4 => ("slow", "{}"),
            5 => ("missing", "{}"),
            _ => ("read_result", r#"{"handle":"res_none"}"#),
        };
        world.raw(name, arguments)
    });
    let outcomes = futures_util::future::join_all(calls).await;
    let mut ends: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for record in world.records() {
        let Some(attempt) = record["attempt"].as_str() else { continue };
        let counts = ends.entry(attempt.to_owned()).or_default();
        match record["event"].as_str().unwrap() {
            "received" => counts.0 += 1,
            "finished" | "waiting" => counts.1 += 1,
            _ => {}
        }
    }
    assert_eq!(ends.len(), outcomes.len());
    assert!(ends.values().all(|counts| *counts == (1, 1)), "{ends:?}");
    assert!(tollgate_ledger::verify(world.folder.path()).unwrap().ok);
}

/// What could not be recorded does not count, and its message may come again.
#[tokio::test]
async fn a_signed_answer_counts_with_its_record_or_not_at_all() {
    let world = World::new([tool("act", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("acted")) }).arc()]);
    let waiting = world.call("act", json!({})).await;
    let End::Waiting(what, _) = &waiting.end else { unreachable!("it is dangerous") };
    let open = world.operator.approval(what.id.as_str()).await.unwrap();
    let message = || Message { id: "m1".into(), approval: open.id.clone(), digest: open.digest.clone(), result: None };
    let yes = || Answer { approved: true, by: "alice".into(), reason: None, typed: None };
    let held = hold(&world);
    let lost = world.operator.answer_by_message(message(), yes()).await;
    assert!(matches!(lost, Err(OperatorError::Ledger(_))), "{lost:?}");
    drop(held);
    assert_eq!(world.call("act", json!({})).await.status(), Status::Waiting, "no record, no yes");
    world.operator.answer_by_message(message(), yes()).await.unwrap();
    assert_eq!(world.record(&waiting, "approved")["note"], "by alice (signed message m1)");
    assert!(world.operator.answer_by_message(message(), yes()).await.is_err(), "once");
    assert_eq!(world.call("act", json!({})).await.status(), Status::Done);
}

/// How far the last sync went, as `audit/synced` says it, and how long the only segment is.
fn synced_and_written(data_dir: &Path) -> (u64, u64) {
    let mark = std::fs::read(data_dir.join("audit/synced")).unwrap();
    let end = u64::from_le_bytes(mark.get(24..32).unwrap().try_into().unwrap());
    (end, std::fs::metadata(data_dir.join("audit/segment-000000000001.jsonl")).unwrap().len())
}

#[tokio::test]
async fn strict_reads_are_on_the_disk_before_they_run_and_before_they_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, looks) = (folder.path().to_owned(), Arc::new(AtomicUsize::new(0)));
    let tool_looks = Arc::clone(&looks);
    let look = tool("look", Risk::Read, move |_, _| {
        let (synced, written) = synced_and_written(&data_dir);
        assert_eq!(synced, written, "`started` is on the disk");
        tool_looks.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolOutput::text("seen")) }
    });
    let world = World::at(
        folder,
        Setup {
            tools: vec![look.arc()],
            options: Options { reads: Durability::Strict, ..Options::default() },
            ..Setup::default()
        },
    );
    for _ in 0..5 {
        let outcome = world.call("look", json!({})).await;
        assert_eq!(outcome.status(), Status::Done);
        assert_eq!(world.events(&outcome), ["received", "decided", "started", "finished"]);
        let (synced, written) = synced_and_written(world.folder.path());
        assert_eq!(synced, written, "`finished` is on the disk");
    }
    assert_eq!(looks.load(Ordering::SeqCst), 5);
}
