//! Many processes on one folder.

use std::collections::BTreeMap;
use std::process::Stdio;

use tollgate_ledger::{Checkpointing, Durability, Event, Options, verify};

use super::*;

const PROCESSES: usize = 20;
const BURSTS: usize = 25;
const BURST_APPENDS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_appends() {
    let Some(data_dir) = child_data_dir() else { return };
    let checkpointing = Checkpointing { every_ms: 10, every_records: 100, idle_ms: 5, ..Checkpointing::default() };
    // How fast the machine is, is not asked here: who waits longest is told, and nobody may wait for ever.
    let options = Options { segment_bytes_max: 100_000, checkpointing, lock_wait_ms: 60_000, ..Options::default() };
    let clock = running_clock();
    let (ledger, recovery) = Ledger::open_with(&data_dir, Arc::clone(&clock), options).unwrap();
    assert!(recovery.unknown.is_empty() && recovery.never_started.is_empty(), "everybody lives");
    let boot = ledger.boot().as_str().to_owned();
    let ledger = Arc::new(ledger);
    let mut longest = Duration::ZERO;
    for burst in 0..BURSTS {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..BURST_APPENDS {
            let (ledger, clock, attempt) =
                (Arc::clone(&ledger), Arc::clone(&clock), format!("{boot}-{burst}-{number}"));
            tasks.spawn(async move {
                let durability = if number == 0 { Durability::Strict } else { Durability::Batched };
                let began = clock.monotonic();
                ledger.append(vec![entry(Event::Received, &attempt)], Durability::Batched).await.unwrap();
                let between = clock.monotonic();
                let end = vec![entry(Event::Started, &attempt), entry(Event::Finished, &attempt)];
                ledger.append(end, durability).await.unwrap();
                (between - began).max(clock.monotonic() - between)
            });
        }
        while let Some(done) = tasks.join_next().await {
            longest = longest.max(done.unwrap());
        }
    }
    say(&boot);
    say(&format!("{}", longest.as_millis()));
}

/// How many records of others stand between two of the same process at most, while it was at work.
fn longest_gap(records: &[Value], boot: &str) -> usize {
    let places: Vec<usize> = (0..records.len()).filter(|place| records[*place]["boot"] == boot).collect();
    places.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap_or_default()
}

/// How many syncs `audit/synced` counts.
fn syncs(data_dir: &Path) -> u64 {
    let mark = fs::read(data_dir.join("audit/synced")).unwrap();
    u64::from_le_bytes(mark[..8].try_into().unwrap())
}

#[test]
fn twenty_processes_at_once_keep_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let start = || child("processes::child_appends", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut children: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let mut boots = BTreeMap::new();
    let mut waits = BTreeMap::new();
    for child in &mut children {
        let said = said(child.stdout.take().unwrap());
        assert!(child.wait().unwrap().success());
        boots.insert(said[0].clone(), 0);
        waits.insert(said[0].clone(), said[1].clone());
    }
    let records = check_chain(folder.path());
    assert_eq!(records.len(), PROCESSES * BURSTS * BURST_APPENDS * 3);
    for record in &records {
        *boots.get_mut(record["boot"].as_str().unwrap()).unwrap() += 1;
    }
    assert!(boots.values().all(|count| *count == BURSTS * BURST_APPENDS * 3), "{boots:?}");
    for (boot, wait) in &waits {
        println!("{boot}: waited {wait} ms at most, for {} records of others", longest_gap(&records, boot));
    }
    let strict = (PROCESSES * BURSTS) as u64;
    println!("{strict} strict appends, and {} syncs of all kinds", syncs(folder.path()));
    let report = verify(folder.path()).unwrap();
    assert!(report.ok && report.segments > 5, "{report:?}");
    let sizes = checkpoints::check_checkpoints(folder.path());
    assert!(sizes.len() > 10 && sizes.last() == Some(&report.records), "one sequence of all: {sizes:?}");
    assert_eq!(fs::read_dir(folder.path().join("boot")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_attempts_of_the_living_are_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (living, _) = open(folder.path());
    let start = [("a", Event::Received), ("a", Event::Started), ("b", Event::Received), ("c", Event::Received)];
    let start =
        start.into_iter().chain([("c", Event::Waiting)]).map(|(attempt, event)| entry(event, attempt)).collect();
    living.append(start, Durability::Strict).await.unwrap();
    let (other, recovery) = open(folder.path());
    assert!(recovery.unknown.is_empty() && recovery.never_started.is_empty());

    // It goes without having ended them: its mark stays, and the next one ends them.
    let boot = living.boot().clone();
    drop(living);
    let (_, recovery) = open(folder.path());
    assert_eq!(recovery.unknown[0].attempt.as_str(), "a");
    assert_eq!((recovery.unknown.len(), recovery.never_started.len()), (1, 1));
    let records = check_chain(folder.path());
    let ends: Vec<_> = records[5..].iter().map(|it| (&it["attempt"], &it["outcome"]["status"])).collect();
    assert_eq!(ends[0], (&Value::from("a"), &Value::from("unknown")));
    assert_eq!(ends[1], (&Value::from("b"), &Value::from("failed")));
    assert_eq!(records[5]["outcome"]["code"], "outcome_unknown");
    assert_eq!(records[6]["outcome"]["code"], "cancelled");
    assert_eq!(records[6]["note"], "the process ended before the call was started");
    assert_eq!((&records[7]["event"], records.len()), (&Value::from("recovered"), 8));
    assert!(records[7]["note"].as_str().unwrap().contains(boot.as_str()));

    fill(&other, 1).await;
    let (_, recovery) = open(folder.path());
    assert!(recovery.unknown.is_empty(), "told once");
}
