//! Processes that are stopped or killed while they hold what the others wait for.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tollgate_ledger::{Durability, Event, LedgerError, Options, verify};

use super::*;

/// Takes the lock that it is told, says so, and goes no further.
#[test]
fn child_holds_a_lock() {
    let Some(data_dir) = child_data_dir() else { return };
    let file =
        File::options().write(true).open(data_dir.join(std::env::var_os("TOLLGATE_TEST_LOCK").unwrap())).unwrap();
    file.lock().unwrap();
    say("held");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A process that has the lock and was stopped.
fn stopped(data_dir: &Path, lock: &str) -> Child {
    let mut command = child("stopped::child_holds_a_lock", data_dir);
    let command = command.env("TOLLGATE_TEST_LOCK", lock).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "say held"));
    kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
    child
}

fn opened(data_dir: &Path, lock_wait_ms: u64) -> Ledger {
    let options = Options { lock_wait_ms, ..Options::default() };
    Ledger::open_with(data_dir, running_clock(), options).unwrap().0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_writer_is_an_error_after_the_limit_and_its_death_frees_the_others_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (hasty, patient) = (opened(folder.path(), 100), opened(folder.path(), 600_000));
    fill(&hasty, 1).await;
    let mut holder = stopped(folder.path(), "audit/lock");
    for durability in [Durability::Batched, Durability::Strict] {
        let refused = hasty.append(vec![entry(Event::Observed, "refused")], durability).await.unwrap_err();
        assert!(matches!(refused, LedgerError::Busy { waited_ms: 100 }), "{refused}");
        assert!(refused.hint().unwrap().contains("audit/lock"));
    }
    let opening = Ledger::open_with(folder.path(), clock(), Options { lock_wait_ms: 100, ..Options::default() });
    assert!(matches!(opening, Err(LedgerError::Busy { waited_ms: 100 })));

    let patient = Arc::new(patient);
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..50 {
        let patient = Arc::clone(&patient);
        waiting.spawn(async move {
            let durability = if number % 2 == 0 { Durability::Strict } else { Durability::Batched };
            patient.append(vec![entry(Event::Observed, &format!("patient-{number}"))], durability).await
        });
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    let mut places = std::collections::BTreeSet::new();
    while let Some(done) = waiting.join_next().await {
        places.insert(done.unwrap().unwrap().get());
    }
    assert_eq!(places, (2..52).collect(), "each was told its own place");
    fill(&hasty, 1).await;
    let records = check_chain(folder.path());
    assert!(records.iter().all(|record| record["attempt"] != "refused"), "what was refused is not written later");
    assert_eq!(records.len(), 52);
    assert!(verify(folder.path()).unwrap().ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_stopped_in_line_or_as_it_synced_holds_nobody_up_for_good() {
    for lock in ["audit/queue.lock", "audit/synced"] {
        let folder = tempfile::tempdir().unwrap();
        let ledger = opened(folder.path(), 400);
        fill(&ledger, 1).await;
        let mut holder = stopped(folder.path(), lock);
        for number in 0..40 {
            let durability = if number % 2 == 0 { Durability::Strict } else { Durability::Batched };
            ledger.append(vec![entry(Event::Observed, "a")], durability).await.unwrap();
        }
        ledger.checkpoint_now().await.unwrap();
        assert_eq!(check_chain(folder.path()).len(), 41, "{lock}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        fill(&ledger, 20).await;
        ledger.close().unwrap();
        assert!(verify(folder.path()).unwrap().ok);
    }
}
