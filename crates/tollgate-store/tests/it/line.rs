//! Two processes that write: whoever waits is next.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate_store::{Store, Unsettled};
use tollgate_types::AttemptId;

use super::folder;

const WRITES: usize = 31;
/// Of the other's writes, while one waits for its own. Without a line they are hundreds.
const MEANWHILE_MAX: usize = 4;

fn write(store: &Store, who: &str, n: usize) {
    let one = Unsettled {
        attempt: AttemptId::new(format!("{who}-{n}")),
        call_id: "c".into(),
        tool: "pay".into(),
        time: "2026-11-30T08:00:00Z".into(),
        caller: who.into(),
    };
    store.take_over(&[one], &[]).unwrap();
}

#[test]
fn who_writes_all_the_time_keeps_nobody_waiting() {
    let (folder, busy) = folder();
    let other = Store::new(folder.path());
    write(&busy, "first", 0);
    let (written, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut meanwhile = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                write(&busy, "busy", written.fetch_add(1, Ordering::Relaxed));
            }
        });
        let waited = (0..WRITES).map(|n| {
            let before = written.load(Ordering::Relaxed);
            write(&other, "other", n);
            written.load(Ordering::Relaxed) - before
        });
        let waited: Vec<usize> = waited.collect();
        is_over.store(true, Ordering::Relaxed);
        waited
    });
    meanwhile.sort_unstable();
    assert!(meanwhile[WRITES / 2] <= MEANWHILE_MAX, "{meanwhile:?}");
}
