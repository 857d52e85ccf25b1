//! Reading without writing.

use std::fs::OpenOptions;

use tollgate_ledger::{Durability, Event, LedgerError, attempt_records, read, tail, verify};

use super::*;

fn seqs(records: &[tollgate_ledger::Record]) -> Vec<u64> {
    records.iter().map(tollgate_ledger::Record::seq).collect()
}

#[tokio::test]
async fn the_tail_is_read_from_the_end_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_small(folder.path());
    fill(&ledger, 25).await;
    for count in [0, 1, 5, 24, 25, 26, 1000] {
        let (records, mut follower) = tail(folder.path(), count).unwrap();
        assert_eq!(seqs(&records), (26_u64.saturating_sub(count as u64).max(1)..=25).collect::<Vec<_>>());
        assert!(follower.poll_new().unwrap().is_empty());
    }
    let (_, mut follower) = tail(folder.path(), 0).unwrap();
    fill(&ledger, 30).await;
    assert_eq!(seqs(&follower.poll_new().unwrap()), (26..=55).collect::<Vec<_>>(), "over several segments");
    let last = segments(folder.path()).pop().unwrap();
    let whole = fs::read(&last).unwrap();
    OpenOptions::new().append(true).open(&last).unwrap().write_all(b"{\"v\":1,").unwrap();
    assert!(follower.poll_new().unwrap().is_empty(), "a line on its way is not a record yet");
    assert_eq!(tail(folder.path(), 1).unwrap().0[0].seq(), 55);
    assert_eq!(read(folder.path()).map(Result::unwrap).count(), 55);
    fs::write(&last, whole).unwrap();
    fill(&ledger, 1).await;
    assert_eq!(seqs(&follower.poll_new().unwrap()), [56]);
}

#[tokio::test]
async fn an_attempt_is_named_by_a_beginning_that_only_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    for attempt in ["019-aa", "019-ab"] {
        let trip =
            vec![entry(Event::Received, attempt), entry(Event::Started, attempt), entry(Event::Finished, attempt)];
        ledger.append(trip, Durability::Batched).await.unwrap();
    }
    let records = attempt_records(folder.path(), "019-ab").unwrap();
    assert_eq!(seqs(&records), [4, 5, 6]);
    assert_eq!(records[0].event(), Some(Event::Received));
    assert_eq!((records[0].attempt(), records[0].call_id()), (Some("019-ab"), Some("call-019-ab")));
    assert_eq!(
        attempt_records(folder.path(), "019-a").unwrap_err().to_string(),
        "`019-a` is in more than one attempt's id: `019-aa`, `019-ab`"
    );
    assert!(matches!(attempt_records(folder.path(), "7"), Err(LedgerError::UnknownAttempt { .. })));
}

#[test]
fn no_ledger_is_said_and_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for error in [
        verify(folder.path()).unwrap_err(),
        read(folder.path()).next().unwrap().unwrap_err(),
        attempt_records(folder.path(), "a").unwrap_err(),
        tail(folder.path(), 1).map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::Missing { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_line_that_is_no_record_is_an_error_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 3).await;
    let mut lines = lines(folder.path());
    lines.insert(1, "not a record".into());
    fs::write(&segments(folder.path())[0], lines.join("\n") + "\n").unwrap();
    let read: Vec<_> = read(folder.path()).collect();
    assert!(matches!(&read[1], Err(LedgerError::Damaged { seq: 2, line: 2, .. })), "{:?}", read[1]);
    assert_eq!(read.iter().flatten().count(), 3);
}
