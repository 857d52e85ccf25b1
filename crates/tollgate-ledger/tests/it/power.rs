//! The power is cut at any act of a story. Of what was not synced, any page, any length and any name may be there or not when
//! it is back. What was acknowledged as being on the disk is there, the rest is cut off and said, and the chain goes on.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_ledger::{Checkpointing, verify};
use tollgate_testkit::{Fault, TestDisk};

use super::story::{End, Story, Told, check_end, events_in};
use super::*;

use Durability::{Batched, Strict};

/// Goes on until the power is gone, or the story is over.
async fn tell(story: &mut Story) -> Option<()> {
    story.open().ok()?;
    for durability in [Batched, Strict, Batched] {
        story.call(durability).await;
    }
    story.ledger().checkpoint_now().await.ok()?;
    for durability in [Batched, Batched, Strict, Batched, Strict, Batched, Strict] {
        story.call(durability).await;
    }
    story.ledger().checkpoint_now().await.ok()?;
    for durability in [Strict, Batched, Batched] {
        story.call(durability).await;
    }
    // It dies over a call, and another process goes on.
    story.begin(Strict).await;
    story.close();
    story.open().ok()?;
    for durability in [Batched, Strict] {
        story.call(durability).await;
    }
    story.close();
    Some(())
}

/// The synced part of each segment, by its first record.
fn durable(story: &Story) -> BTreeMap<u64, u64> {
    let is_begun = story.data_dir.join("audit").exists();
    let segments = if is_begun { segments(&story.data_dir) } else { Vec::new() };
    segments.iter().map(|path| (first_of(path), story.disk.durable_bytes(path))).collect()
}

/// The first record and the offset in the names of what was cut off.
fn torn(data_dir: &Path) -> Vec<(u64, u64)> {
    let names = fs::read_dir(data_dir.join("audit")).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let parts = names.filter_map(|name| {
        let mut parts =
            name.strip_prefix("segment-")?.strip_suffix(".torn")?.split('-').map(|part| part.parse().unwrap());
        Some((parts.next()?, parts.next()?))
    });
    parts.collect()
}

/// The power is back: what is found in `folder` is opened, by a process whose power may be cut as well.
fn check_found(folder: &Path, told: &Told, durable: &BTreeMap<u64, u64>, cuts: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let disk = TestDisk::new(folder).unwrap();
    let mut story = Story::new(folder, disk);
    story.told = told.clone();
    story.open().unwrap();
    for (first, end) in torn(folder) {
        let durable = durable.get(&first).copied().unwrap_or_default();
        assert!(end >= durable, "cut at {end} of segment {first}, of which {durable} bytes were on the disk");
    }
    let notes = check_chain(folder).iter().filter(|it| it["event"] == "recovered").count();
    // Where the power fails a second time between the cutting and its record, the file alone says so.
    assert!(notes >= torn(folder).len() || cuts > 1, "what was cut off is said");
    story.go_on_from(1_000);
    assert_eq!(runtime.block_on(story.call(Strict)), End::Done);
    story.close();
    check_end(folder, &story.told);
    let events = events_in(folder);
    for attempt in &told.ran {
        let is_promised = told.durable.contains(&format!("started {attempt}"));
        assert!(!is_promised || events.contains_key(attempt), "`{attempt}` ran, and nothing says so");
    }
}

/// Cuts the power at the act `first`, and again at the act `second` of whoever opens what is found.
fn cut(first: u64, second: u64, seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let [folder, found, again] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let disk = TestDisk::new(folder.path()).unwrap();
    disk.fail_any(first, Fault::PowerCut);
    let mut story = Story::new(folder.path(), disk.clone());
    runtime.block_on(tell(&mut story));
    let durable = durable(&story);
    disk.after_power_cut(seed, found.path()).unwrap();
    story.close();

    let disk = TestDisk::new(found.path()).unwrap();
    disk.fail_any(second, Fault::PowerCut);
    let mut next = Story::new(found.path(), disk.clone());
    let _ = next.open();
    disk.after_power_cut(seed.rotate_left(32), again.path()).unwrap();
    next.close();
    check_found(again.path(), &story.told, &durable, 2);

    let once = tempfile::tempdir().unwrap();
    story.disk.after_power_cut(seed, once.path()).unwrap();
    check_found(once.path(), &story.told, &durable, 1);
}

proptest! {
    // The seed of a failure is printed and kept; `PROPTEST_CASES` tries more.
    #[test]
    fn after_a_power_cut_everything_acknowledged_is_there(
        first in 1_u64..250, second in 1_u64..120, seed in any::<u64>(),
    ) {
        cut(first, second, seed);
    }
}

/// What is signed while nothing happens is written over the last signature.
async fn wait(data_dir: &Path, disk: &TestDisk, (records, cut): (u64, u64)) -> Option<()> {
    let checkpointing = Checkpointing { idle_ms: 1, ..Checkpointing::default() };
    let options = Options { checkpointing, disk: disk.shared(), ..Options::default() };
    let ledger = Ledger::open_with(data_dir, running_clock(), options).ok()?.0;
    let mut told = ledger.checkpoints();
    for _ in 0..records {
        ledger.append(vec![entry(Event::Observed, "x")], Durability::Strict).await.ok()?;
        ledger.checkpoint_now().await.ok()?;
    }
    disk.fail_any(cut, Fault::PowerCut);
    for _ in 0..4 {
        told.borrow_and_update();
        while !told.has_changed().ok()? {
            if disk.has_struck() {
                return None;
            }
            tokio::task::yield_now().await;
        }
    }
    Some(())
}

#[test]
fn a_power_cut_while_nothing_happens_leaves_a_checkpoint() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for seed in 0..400 {
        let [folder, found] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let disk = TestDisk::new(folder.path()).unwrap();
        runtime.block_on(wait(folder.path(), &disk, (1 + seed % 13, 1 + seed % 31)));
        disk.after_power_cut(seed, found.path()).unwrap();
        let opened = Ledger::open(found.path(), clock()).map(drop);
        assert!(opened.is_ok(), "seed {seed}: {opened:?}");
        let report = verify(found.path()).unwrap();
        assert!(report.ok, "seed {seed}: {report:?}");
    }
}

#[test]
fn after_a_power_cut_at_each_act_in_turn_too() {
    for act in 1..250 {
        cut(act, act % 120, act);
    }
}
