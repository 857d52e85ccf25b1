//! A disk that fails once, for a while, half or wholly, at each of the acts that a story asks of it: no record, no call; what
//! was said to be on the disk is there; and with the fault gone it works again, without a restart.

use tollgate_testkit::{Act, Fault, TestDisk};

use super::story::{End, Story, check_end};
use super::*;

use Durability::{Batched, Strict};

impl Story {
    /// After each scene: what still stands must bear one more call, and what is over must not be felt.
    async fn recover(&mut self, was_struck: &mut bool) {
        if *was_struck || !self.disk.has_struck() {
            return;
        }
        *was_struck = true;
        if !self.disk.is_well() {
            if self.has_ledger() {
                self.call(Strict).await;
            }
            self.disk.mend();
        }
        if self.has_ledger() {
            // A sync that failed is told to each descriptor once: that of the records, and that of the checkpoints.
            let mut ends = Vec::new();
            while ends.last() != Some(&End::Done) && ends.len() < 3 {
                ends.push(self.call(Strict).await);
            }
            assert_eq!(ends.last(), Some(&End::Done), "the fault is gone: {ends:?}");
        } else {
            self.open().unwrap();
        }
    }

    /// Opens the ledger, a second time where a fault was in the way.
    async fn begin_anew(&mut self, was_struck: &mut bool) {
        if let Err(error) = self.open() {
            assert!(matches!(error, tollgate_ledger::LedgerError::Unavailable { .. }), "{error}");
        }
        self.recover(was_struck).await;
    }
}

async fn tell(story: &mut Story) {
    let mut was_struck = false;
    story.begin_anew(&mut was_struck).await;
    for durability in [Batched, Strict] {
        story.call(durability).await;
        story.recover(&mut was_struck).await;
    }
    let _ = story.ledger().checkpoint_now().await;
    story.recover(&mut was_struck).await;
    for durability in [Strict, Batched, Strict, Strict] {
        story.call(durability).await;
        story.recover(&mut was_struck).await;
    }
    // It dies over a call.
    let lost = story.begin(Strict).await;
    story.recover(&mut was_struck).await;
    story.close();
    story.begin_anew(&mut was_struck).await;
    story.call(Strict).await;
    story.recover(&mut was_struck).await;
    story.close();
    // What could not be said at the end is said now. A process that another test starts holds this one's locks for a moment,
    // and what seems to live is left for the next opening.
    for _ in 0..3 {
        story.begin_anew(&mut was_struck).await;
        story.close();
    }
    if let Some(lost) = &lost {
        assert!(story.told.unknown.contains(lost), "{:?}", story.told.unknown);
    }
}

/// Tells the story with the fault at the first such act, at the second, until there are no more. Says how many there were.
fn at_each(act: Act, fault: Fault) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for number in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let disk = TestDisk::new(folder.path()).unwrap();
        disk.fail(act, number, fault);
        let mut story = Story::new(folder.path(), disk);
        let _said = Said(act, number, fault);
        runtime.block_on(tell(&mut story));
        check_end(folder.path(), &story.told);
        if !story.disk.has_struck() {
            return number - 1;
        }
    }
    unreachable!()
}

/// Says which fault it was when a test fails.
struct Said(Act, u64, Fault);

impl Drop for Said {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self(act, number, fault) = self;
            let _ = writeln!(std::io::stderr(), "the fault was {fault:?} at {act:?} number {number}");
        }
    }
}

#[test]
fn at_each_write_a_fault_costs_no_record_and_lets_no_call_run_without_one() {
    for fault in [Fault::Once, Fault::Lasting, Fault::Full, Fault::Short, Fault::ReadOnly] {
        let writes = at_each(Act::Write, fault);
        assert!(writes > 20, "{fault:?}: {writes}");
    }
}

#[test]
fn a_sync_that_fails_is_not_believed_when_it_is_asked_again() {
    for fault in [Fault::Once, Fault::Lasting] {
        assert!(at_each(Act::Sync, fault) > 10 && at_each(Act::SyncDir, fault) > 3);
    }
}

#[test]
fn at_each_new_file_and_name_a_fault_refuses_and_passes() {
    for act in [Act::Create, Act::CreateDir, Act::SetLen, Act::Seal, Act::Rename, Act::Remove] {
        for fault in [Fault::Once, Fault::Full, Fault::ReadOnly] {
            assert!(at_each(act, fault) > 0, "{act:?}");
        }
    }
}

#[test]
fn at_each_look_at_the_disk_a_fault_refuses_and_passes() {
    for act in [Act::Open, Act::Read, Act::Names] {
        for fault in [Fault::Once, Fault::Lasting] {
            assert!(at_each(act, fault) > 3, "{act:?}");
        }
    }
}

fn notes(data_dir: &Path, event: &str) -> Vec<String> {
    let records = check_chain(data_dir).into_iter();
    records.filter(|it| it["event"] == event).map(|it| it["note"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn on_a_full_disk_calls_that_run_are_ended_and_none_begin() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::new(folder.path()).unwrap();
    let mut story = Story::new(folder.path(), disk.clone());
    story.open().unwrap();
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(story.begin(Strict).await.unwrap());
    }
    disk.fill();
    assert_eq!(story.call(Strict).await, End::Refused);
    for attempt in &running {
        assert_eq!(story.finish(attempt, Strict).await, End::Done, "into the reserve");
    }
    assert_eq!(story.call(Batched).await, End::Refused, "as long as it is full");
    assert_eq!(notes(folder.path(), "halted"), ["the disk is full: no call begins until there is space"]);
    disk.mend();
    assert_eq!(story.call(Strict).await, End::Done);
    assert_eq!(notes(folder.path(), "recovered"), ["there is space on the disk again"]);
    // It was made anew: a second time is as the first.
    let last = story.begin(Strict).await.unwrap();
    disk.fill();
    assert_eq!(story.finish(&last, Strict).await, End::Done);
    assert_eq!(story.call(Strict).await, End::Refused);
    assert_eq!(notes(folder.path(), "halted").len(), 2);
    disk.mend();
    story.close();
    check_end(folder.path(), &story.told);
}

#[tokio::test]
async fn what_another_process_runs_is_ended_out_of_the_same_reserve() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::new(folder.path()).unwrap();
    let (mut one, mut other) = (Story::new(folder.path(), disk.clone()), Story::new(folder.path(), disk.clone()));
    one.open().unwrap();
    other.open().unwrap();
    let running = one.begin(Strict).await.unwrap();
    disk.fill();
    assert_eq!(other.call(Strict).await, End::Refused);
    assert_eq!(other.call(Strict).await, End::Refused, "what was given up is not for its calls");
    assert_eq!(one.finish(&running, Strict).await, End::Done);
    assert_eq!(notes(folder.path(), "halted").len(), 1, "once for both");
    disk.mend();
    other.close();
    one.close();
    check_end(folder.path(), &one.told);
}
