//! The ledger through its public door, on real files and with real processes.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod chain;
mod checkpoints;
mod clocks;
mod crash;
mod damage;
mod disk;
mod erase;
mod erase_steps;
mod export;
mod faults;
mod groups;
mod index;
mod laws;
mod power;
mod processes;
mod proof;
mod reading;
mod rotate;
mod stopped;
mod story;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tollgate_ledger::{Durability, Entry, Event, Ledger, Options, Recovery};
use tollgate_types::{AttemptId, CallId, Clock};

/// A clock that goes on by a microsecond each time it is read.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(1_767_323_045_000_000 + self.0.fetch_add(1, Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(Ticking(AtomicI64::new(0)))
}

/// A clock that goes with the world's.
struct Running(std::time::Instant);

impl Clock for Running {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(1_767_323_045_000_000).unwrap() + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "what happens in time needs a time")]
fn running_clock() -> Arc<dyn Clock> {
    Arc::new(Running(std::time::Instant::now()))
}

fn open(data_dir: &Path) -> (Ledger, Recovery) {
    Ledger::open(data_dir, clock()).unwrap()
}

/// Segments so small that a few records fill one.
fn open_small(data_dir: &Path) -> Ledger {
    let options = Options { segment_bytes_max: 2_000, ..Options::default() };
    Ledger::open_with(data_dir, clock(), options).unwrap().0
}

fn entry(event: Event, attempt: &str) -> Entry {
    Entry::new(event, &AttemptId::new(attempt), &CallId::new(format!("call-{attempt}")))
}

/// Writes `count` attempts of one record each, one append each.
async fn fill(ledger: &Ledger, count: usize) {
    for number in 0..count {
        let mut entry = entry(Event::Observed, &format!("attempt-{number}"));
        entry.note = Some("n".repeat(number % 50));
        ledger.append(vec![entry], Durability::Batched).await.unwrap();
    }
}

fn segments(data_dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data_dir.join("audit")).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl")).collect();
    segments.sort();
    segments
}

/// The first record of a segment, by its name.
fn first_of(segment: &Path) -> u64 {
    let name = segment.file_stem().unwrap().to_str().unwrap();
    name.strip_prefix("segment-").unwrap().parse().unwrap()
}

/// The whole lines of all segments, without their line breaks.
fn lines(data_dir: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for segment in segments(data_dir) {
        let text = fs::read_to_string(segment).unwrap();
        lines.extend(text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned));
    }
    lines
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The chain as DESIGN §4.3 says it, by other means than the crate's own. Gives the records.
fn check_chain(data_dir: &Path) -> Vec<Value> {
    let mut prev = "0".repeat(64);
    let mut records = Vec::new();
    for segment in segments(data_dir) {
        let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&segment).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{name} ends within a line");
        assert_eq!(name, format!("segment-{:012}.jsonl", records.len() + 1));
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let (body, _) = line.rsplit_once(",\"hash\"").unwrap();
            assert_eq!(record["hash"], sha256(body), "{line}");
            assert_eq!(record["prev"], prev, "{line}");
            assert_eq!(record["seq"], records.len() + 1, "{line}");
            assert_eq!(record["v"], 1);
            record["hash"].as_str().unwrap().clone_into(&mut prev);
            records.push(record);
        }
    }
    records
}

/// The same test binary, running one of its tests in a process of its own.
#[expect(clippy::disallowed_methods, reason = "a test of processes starts processes")]
fn child(test: &str, data_dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env("TOLLGATE_TEST_CHILD", data_dir);
    command
}

/// The data folder, when this process was started by [`child`]. Otherwise the test has nothing of its own to do.
fn child_data_dir() -> Option<PathBuf> {
    std::env::var_os("TOLLGATE_TEST_CHILD").map(PathBuf::from)
}

/// Tells the parent something.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsay {line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// What a child said until it ended.
fn said(mut out: impl Read) -> Vec<String> {
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("say ")).map(str::to_owned).collect()
}
