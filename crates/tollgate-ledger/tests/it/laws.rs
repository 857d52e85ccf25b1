//! What holds for any record and any change.

use proptest::prelude::*;
use tollgate_ledger::{Durability, Entry, Event, OutcomeRef, ToolRef, abridge, verify};
use tollgate_types::{Caller, Repair, Status, Surface};

use super::*;

fn entries() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    let events = [Event::Received, Event::Decided, Event::Started, Event::Finished, Event::Settled, Event::Halted];
    let one = (proptest::sample::select(events.to_vec()), any::<[String; 6]>(), any::<u64>(), 0..4_usize);
    let entry = one.prop_map(|(event, [attempt, subject, tool, argument, result, note], number, repairs)| {
        let mut entry = entry(event, &attempt);
        entry.caller = Some(Arc::new(Caller::new(subject, "r", Surface::Library)));
        entry.tool = Some(ToolRef { name: tool, pin: None, source: None });
        entry.arguments = Some(abridge(&serde_json::json!({ argument: number })));
        entry.result = Some(abridge(&Value::from(result.repeat(number as usize % 300))));
        entry.repairs = vec![Repair::new("/\n", "rule"); repairs];
        entry.outcome = Some(OutcomeRef { status: Status::Done, code: None, tool_code: Some(note), retryable: None });
        entry.duration_ms = Some(number);
        entry
    });
    proptest::collection::vec(proptest::collection::vec(entry, 1..4), 1..8)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_entries_make_a_chain_and_read_back(appends in entries()) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_small(folder.path());
        let mut written = Vec::new();
        for append in appends {
            written.extend(append.iter().map(|entry| serde_json::to_value(entry).unwrap()));
            runtime().block_on(ledger.append(append, Durability::Batched)).unwrap();
        }
        let records = check_chain(folder.path());
        prop_assert!(verify(folder.path()).unwrap().ok);
        let read: Vec<_> = tollgate_ledger::read(folder.path()).map(|it| it.unwrap().into_value()).collect();
        prop_assert_eq!(&read, &records);
        prop_assert_eq!(read.len(), written.len());
        for (mut read, written) in read.into_iter().zip(written) {
            let record = read.as_object_mut().unwrap();
            record.retain(|key, _| !["v", "seq", "prev", "time", "boot", "hash"].contains(&key.as_str()));
            prop_assert_eq!(read, written);
        }
    }
}

#[test]
fn any_changed_byte_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_small(folder.path());
    runtime().block_on(fill(&ledger, 30));
    drop(ledger);
    let segments = segments(folder.path());
    let mut bytes = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        bytes.extend((0..fs::read(segment).unwrap().len()).map(|offset| (index, offset)));
    }
    let config = ProptestConfig::with_cases(512);
    proptest!(config, |(place in proptest::sample::select(bytes), change in 1..=255_u8)| {
        let (index, offset) = place;
        let original = fs::read(&segments[index]).unwrap();
        let mut changed = original.clone();
        changed[offset] ^= change;
        let copy = segments[index].with_extension("kept");
        fs::rename(&segments[index], &copy).unwrap();
        fs::write(&segments[index], &changed).unwrap();
        let report = verify(folder.path()).unwrap();
        fs::rename(&copy, &segments[index]).unwrap();
        let before = original[..offset].iter().filter(|byte| **byte == b'\n').count() as u64;
        let first = first_of(&segments[index]);
        let fault = report.fault.unwrap();
        prop_assert_eq!(fault.seq, first + before, "{:?}", fault);
    });
}
