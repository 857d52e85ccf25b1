//! `kill -9` at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use tollgate_ledger::{Checkpointing, Durability, Event, ToolRef, verify};
use tollgate_types::uuid_v7;

use super::*;

const KILLS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_works_until_it_is_killed() {
    let Some(data_dir) = child_data_dir() else { return };
    let checkpointing = Checkpointing { every_ms: 5, every_records: 20, idle_ms: 5, ..Checkpointing::default() };
    let options = Options { checkpointing, ..Options::default() };
    let ledger = Arc::new(Ledger::open_with(&data_dir, running_clock(), options).unwrap().0);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let ledger = Arc::clone(&ledger);
        tasks.spawn(async move {
            loop {
                let attempt = uuid_v7(clock().now());
                let mut started = entry(Event::Started, &attempt);
                started.tool = Some(ToolRef { name: "pay".into(), pin: None, source: Some("program") });
                ledger.append(vec![entry(Event::Received, &attempt)], Durability::Batched).await.unwrap();
                ledger.append(vec![started], Durability::Strict).await.unwrap();
                say(&format!("started {attempt}"));
                ledger.append(vec![entry(Event::Finished, &attempt)], Durability::Strict).await.unwrap();
                say(&format!("finished {attempt}"));
            }
        });
    }
    tasks.join_next().await;
}

/// The last event of each attempt, by whole lines, before anything is mended.
fn last_events(data_dir: &Path) -> BTreeMap<String, String> {
    let mut last = BTreeMap::new();
    for line in lines(data_dir) {
        let record: Value = serde_json::from_str(&line).unwrap();
        if let (Some(attempt), Some(event)) = (record["attempt"].as_str(), record["event"].as_str()) {
            last.insert(attempt.to_owned(), event.to_owned());
        }
    }
    last
}

#[test]
fn killed_processes_lose_nothing_that_was_acknowledged_and_every_open_attempt_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let mut acknowledged = BTreeSet::new();
    let mut reported = 0;
    for round in 0..KILLS {
        let mut child =
            child("crash::child_works_until_it_is_killed", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // Some fixed, uneven number of acknowledgements; where exactly the writers are then is up to chance.
        for _ in 0..(round * 7919) % 97 {
            line.clear();
            out.read_line(&mut line).unwrap();
            acknowledged.extend(line.trim_end().strip_prefix("say ").map(str::to_owned));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(said(out));

        let last = last_events(folder.path());
        let of = |wanted| -> BTreeSet<String> {
            last.iter().filter(|(_, event)| *event == wanted).map(|(id, _)| id.clone()).collect()
        };
        let (started, received) = (of("started"), of("received").len());
        let (_, recovery) = open(folder.path());
        let unknown: BTreeSet<_> = recovery.unknown.iter().map(|it| it.attempt.as_str().to_owned()).collect();
        assert_eq!((unknown, recovery.never_started.len()), (started, received));
        assert!(recovery.unknown.iter().all(|it| it.tool.as_deref() == Some("pay")));
        reported += recovery.unknown.len();

        let written: BTreeSet<_> = check_chain(folder.path())
            .iter()
            .filter(|record| record["outcome"].is_null() && !record["attempt"].is_null())
            .map(|it| format!("{} {}", it["event"].as_str().unwrap(), it["attempt"].as_str().unwrap()))
            .collect();
        assert!(acknowledged.is_subset(&written), "lost: {:?}", acknowledged.difference(&written));
        let report = verify(folder.path()).unwrap();
        assert!(report.ok && report.checkpoints.as_ref().unwrap().unproven == 0, "{report:?}");
        checkpoints::check_checkpoints(folder.path());
        let (_, again) = open(folder.path());
        assert!(again.unknown.is_empty() && again.never_started.is_empty() && again.torn_bytes == 0, "told once");
    }
    assert!(reported > 0 && !acknowledged.is_empty(), "the kills hit something");
}
