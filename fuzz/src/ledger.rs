//! Recovery: whatever a process leaves at the end of the ledger, opening it says that it is damaged or mends it, keeps each
//! whole record, and goes on with a chain that verifies.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tollgate_ledger::{Durability, Entry, Event, Ledger, read, verify};
use tollgate_testkit::TestClock;
use tollgate_types::{AttemptId, CallId};

/// The first byte says what is done with the lines behind it: nothing, or that each becomes a record with a right seal, so
/// that what a record says is looked at too. The second says how much of the end is missing.
pub fn ledger(data: &[u8]) {
    let [how, missing, rest @ ..] = data else { return };
    let text = if how % 2 == 0 { rest.to_vec() } else { sealed(rest) };
    let text = text.get(..text.len().saturating_sub(usize::from(missing / 4))).unwrap_or_default();
    let folder = crate::folder();
    left_by_a_dead_process(folder.path(), text);
    let whole = whole_records(text);
    // Looking at it first must not matter.
    let _ = verify(folder.path());
    let Ok((ledger, _)) = Ledger::open(folder.path(), Arc::new(TestClock::default())) else { return };
    let entry = Entry::new(Event::Observed, &AttemptId::new("next"), &CallId::new("c"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(ledger.append(vec![entry], Durability::Strict)).unwrap();
    ledger.close().unwrap();
    let report = verify(folder.path()).unwrap();
    assert!(report.ok, "it was opened and does not verify: {report:?}");
    assert!(report.records > whole, "{whole} records were whole, and {} are there", report.records);
    assert!(read(folder.path()).all(|record| record.is_ok()));
    let (_, again) = Ledger::open(folder.path(), Arc::new(TestClock::default())).unwrap();
    assert!(again.unknown.is_empty() && again.never_started.is_empty() && again.torn_bytes == 0, "{again:?}");
}

fn left_by_a_dead_process(data_dir: &Path, text: &[u8]) {
    fs::create_dir_all(data_dir.join("audit")).unwrap();
    fs::create_dir_all(data_dir.join("boot")).unwrap();
    fs::write(data_dir.join("audit/segment-000000000001.jsonl"), text).unwrap();
    fs::write(data_dir.join("boot/b.lock"), r#"{"v":1,"segment":"segment-000000000001.jsonl","offset":0}"#).unwrap();
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A chain of records whose members are the lines, as docs/ledger-format.md says it.
fn sealed(members: &[u8]) -> Vec<u8> {
    let (mut out, mut prev) = (Vec::new(), "0".repeat(64));
    for (place, line) in members.split(|byte| *byte == b'\n').enumerate() {
        let head =
            format!(r#"{{"v":1,"seq":{},"prev":"{prev}","time":"2026-01-02T03:04:05.000000Z","boot":"b","#, place + 1);
        let body = [head.as_bytes(), line].concat();
        prev = hex(&body);
        out.extend([&body, br#","hash":""#.as_slice(), prev.as_bytes(), b"\"}\n"].concat());
    }
    out
}

/// How many records from the first on are whole and continue the chain.
fn whole_records(text: &[u8]) -> u64 {
    let (mut count, mut prev) = (0, "0".repeat(64));
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let beginning = format!(r#"{{"v":1,"seq":{},"prev":"{prev}","time":""#, count + 1);
        let Some(rest) = line.strip_suffix(b"\"}\n") else { break };
        let Some((rest, hash)) = rest.split_last_chunk::<64>() else { break };
        let Some(body) = rest.strip_suffix(br#","hash":""#) else { break };
        // What nobody can read was written by nobody, and is taken aside like what is torn.
        let is_read = serde_json::from_slice::<Value>(line).is_ok();
        if hex(body).as_bytes() != hash || !body.starts_with(beginning.as_bytes()) || !is_read {
            break;
        }
        (count, prev) = (count + 1, hex(body));
    }
    count
}
