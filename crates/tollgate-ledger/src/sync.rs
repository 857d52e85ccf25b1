//! Group commit: one thread that brings records to the disk, many waiters for each sync, and signs checkpoints over what is
//! there. Whoever is alone syncs without it: handing a record over and being woken again cost half of what a quick disk
//! takes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_types::limits::LEDGER_SYNC_MS;

use crate::LedgerError;
use crate::schedule::{Schedule, State};
use crate::segment::Segment;

/// How long records that nobody waits for gather. The sync itself takes the rest of [`LEDGER_SYNC_MS`].
const GATHER: Duration = Duration::from_millis(LEDGER_SYNC_MS / 2);

/// What must be on the disk before the first record may be called durable.
pub(crate) type Foundation = Box<dyn Fn() -> io::Result<()> + Send>;

type Answer = Result<(), Arc<io::Error>>;

/// A promise that is kept once the records are on the disk.
pub(crate) struct Receipt(oneshot::Receiver<Answer>);

impl Receipt {
    pub(crate) async fn wait(self) -> Result<(), LedgerError> {
        let answer = self.0.await.unwrap_or_else(|_| Err(Arc::new(io::Error::other("the thread that syncs is gone"))));
        answer.map_err(|cause| LedgerError::Unavailable { doing: "sync a record", cause })
    }
}

/// The thread and what it has to do.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Answer>>>,
}

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
}

#[derive(Default)]
struct Work {
    /// Segments with records that may not be on the disk, oldest first, and how far each was written.
    dirty: Vec<(Arc<Segment>, u64)>,
    waiting: Vec<oneshot::Sender<Answer>>,
    /// The number of the last record that was written, and that with which the thread looks at checkpoints.
    written: u64,
    wake_at: u64,
    checkpoints: State,
    /// Who wants a checkpoint now.
    asking: Vec<oneshot::Sender<State>>,
    /// The foundation is on the disk.
    is_founded: bool,
    is_stopping: bool,
    is_gone: bool,
}

impl Work {
    fn is_urgent(&self) -> bool {
        self.is_stopping || !self.waiting.is_empty() || !self.asking.is_empty()
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Syncer {
    pub(crate) fn start(foundation: Foundation, schedule: Option<Schedule>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new().name("ledger-sync".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, foundation, schedule)
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Refuses when nobody would sync what is written now.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let work = self.shared.work();
        if work.is_gone {
            return Err(LedgerError::io("sync records")(io::Error::other("the thread that syncs is gone")));
        }
        work.checkpoints.refusal.clone().map_or(Ok(()), Err)
    }

    /// Why no checkpoint can be written, when that is so.
    pub(crate) fn failing(&self) -> Option<Arc<LedgerError>> {
        self.shared.work().checkpoints.failing.clone()
    }

    /// Asks for a checkpoint over all that was written, now.
    pub(crate) async fn sign_now(&self) -> State {
        let (sender, receiver) = oneshot::channel();
        {
            let mut work = self.shared.work();
            if !work.is_gone {
                work.asking.push(sender);
            }
            self.shared.wake.notify_one();
        }
        receiver.await.unwrap_or_else(|_| State { failing: Some(Arc::new(LedgerError::Closed)), refusal: None })
    }

    /// Says that there are so many records, which a checkpoint is to cover.
    pub(crate) fn wrote(&self, seq: u64) {
        let mut work = self.shared.work();
        let was_before = work.written < work.wake_at;
        work.written = seq.max(work.written);
        if was_before && work.written >= work.wake_at {
            self.shared.wake.notify_one();
        }
    }

    /// Says that the segment was written up to `end`; it is synced soon.
    pub(crate) fn submit(&self, segment: Arc<Segment>, end: u64) {
        let mut work = self.shared.work();
        if work.dirty.is_empty() {
            self.shared.wake.notify_one();
        }
        add(&mut work, segment, end);
    }

    /// The same, at once, and with a receipt.
    pub(crate) fn submit_strict(&self, segment: Arc<Segment>, end: u64) -> Receipt {
        let (sender, receiver) = oneshot::channel();
        let mut work = self.shared.work();
        add(&mut work, segment, end);
        if !work.is_gone {
            work.waiting.push(sender);
        }
        self.shared.wake.notify_one();
        Receipt(receiver)
    }

    /// Syncs the segment up to `end` on the caller's own thread, and all that was submitted before with it. None, and
    /// nothing done, where that is for the thread to do: something else is under way or to be synced first.
    pub(crate) fn sync_here(&self, segment: &Arc<Segment>, end: u64) -> Option<Result<(), LedgerError>> {
        let mut work = self.shared.work();
        let is_other = |(dirty, _): &(Arc<Segment>, u64)| !Arc::ptr_eq(dirty, segment);
        if !work.is_founded || work.is_gone || work.is_urgent() || work.dirty.iter().any(is_other) {
            return None;
        }
        work.dirty.clear();
        drop(work);
        let synced = segment.sync(end).map_err(|error| {
            // The thread finds that it failed, and says so at the end.
            self.submit(Arc::clone(segment), end);
            tracing::error!("the ledger cannot be synced and takes no records until it can: {error}");
            LedgerError::io("sync a record")(error)
        });
        Some(synced)
    }

    /// Syncs what is left and ends the thread.
    pub(crate) fn stop(&self) -> Result<(), LedgerError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        self.shared.work().is_stopping = true;
        self.shared.wake.notify_one();
        let answer =
            thread.join().unwrap_or_else(|_| Err(Arc::new(io::Error::other("the thread that syncs panicked"))));
        answer.map_err(|cause| LedgerError::Unavailable { doing: "sync its last records", cause })
    }
}

fn add(work: &mut Work, segment: Arc<Segment>, end: u64) {
    match work.dirty.last_mut() {
        Some((last, last_end)) if Arc::ptr_eq(last, &segment) => *last_end = end.max(*last_end),
        Some(_) | None => work.dirty.push((segment, end)),
    }
}

fn run(shared: &Shared, foundation: Foundation, mut schedule: Option<Schedule>) -> Answer {
    /// Nobody may be promised anything by a thread that is gone.
    struct Farewell<'a>(&'a Shared);
    impl Drop for Farewell<'_> {
        fn drop(&mut self) {
            let mut work = self.0.work();
            work.is_gone = true;
            work.waiting.clear();
            work.asking.clear();
        }
    }

    let _farewell = Farewell(shared);
    let mut foundation = Some(foundation);
    let mut last = Ok(());
    loop {
        let mut work = wait(shared, schedule.as_ref());
        let (dirty, waiting) = (std::mem::take(&mut work.dirty), std::mem::take(&mut work.waiting));
        let (written, is_stopping, asking) = (work.written, work.is_stopping, std::mem::take(&mut work.asking));
        drop(work);
        if dirty.is_empty() && is_stopping {
            if let Some(schedule) = &mut schedule {
                schedule.finish(written);
            }
            return last;
        }
        if !dirty.is_empty() {
            last = sync(&dirty, &mut foundation).map_err(Arc::new);
            shared.work().is_founded = foundation.is_none();
            if let Err(error) = &last {
                tracing::error!("the ledger cannot be synced and takes no records until it can: {error}");
            }
        }
        for waiter in waiting {
            // A waiter that went away does not need its answer.
            let _ = waiter.send(last.clone());
        }
        if let Some(schedule) = &mut schedule {
            let state = if asking.is_empty() { schedule.keep(written) } else { schedule.finish(written) };
            shared.work().checkpoints = state.clone();
            for waiter in asking {
                let _ = waiter.send(state.clone());
            }
        }
    }
}

/// Waits until something is to be synced and others had the time to join, or a checkpoint is due, or the end.
fn wait<'a>(shared: &'a Shared, schedule: Option<&Schedule>) -> MutexGuard<'a, Work> {
    let mut work = shared.work();
    work.wake_at = schedule.map_or(u64::MAX, Schedule::wake_at);
    let idle = |work: &mut Work| {
        work.dirty.is_empty() && work.asking.is_empty() && !work.is_stopping && work.written < work.wake_at
    };
    let work = match schedule {
        Some(schedule) => {
            shared.wake.wait_timeout_while(work, schedule.pause(), idle).unwrap_or_else(PoisonError::into_inner).0
        }
        None => shared.wake.wait_while(work, idle).unwrap_or_else(PoisonError::into_inner),
    };
    if work.dirty.is_empty() {
        return work;
    }
    let gathering = |work: &mut Work| !work.is_urgent();
    shared.wake.wait_timeout_while(work, GATHER, gathering).unwrap_or_else(PoisonError::into_inner).0
}

fn sync(dirty: &[(Arc<Segment>, u64)], foundation: &mut Option<Foundation>) -> io::Result<()> {
    // Each is tried, so that each that fails is known not to be trusted.
    let mut result = match foundation {
        Some(lay) => lay(),
        None => Ok(()),
    };
    if result.is_ok() {
        *foundation = None;
    }
    for (segment, end) in dirty {
        result = result.and(segment.sync(*end));
    }
    result
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn segment(file: File) -> Arc<Segment> {
        Arc::new(Segment::new(Box::new(file), 1))
    }

    /// A pipe cannot be synced: the kernel says so for real.
    fn unsyncable() -> Arc<Segment> {
        let (reader, _writer) = io::pipe().unwrap();
        segment(File::from(OwnedFd::from(reader)))
    }

    #[tokio::test]
    async fn a_failed_sync_fails_every_waiter_and_poisons_its_descriptor_only() {
        let syncer = Syncer::start(Box::new(|| Ok(())), None).unwrap();
        let (bad, good) = (unsyncable(), segment(tempfile::tempfile().unwrap()));
        let receipts = [syncer.submit_strict(Arc::clone(&bad), 1), syncer.submit_strict(Arc::clone(&bad), 2)];
        for receipt in receipts {
            assert!(matches!(receipt.wait().await, Err(LedgerError::Unavailable { .. })));
        }
        assert!(bad.is_poisoned());
        syncer.submit_strict(Arc::clone(&good), 1).wait().await.unwrap();
        assert!(!good.is_poisoned());
        assert!(syncer.submit_strict(bad, 3).wait().await.is_err(), "never asked again");
        assert!(syncer.stop().is_err(), "the last sync failed");
    }

    #[tokio::test]
    async fn nothing_is_durable_before_its_foundation() {
        let tries = Arc::new(AtomicU32::new(0));
        let lay = {
            let tries = Arc::clone(&tries);
            move || if tries.fetch_add(1, Ordering::Relaxed) == 0 { Err(io::Error::other("not yet")) } else { Ok(()) }
        };
        let syncer = Syncer::start(Box::new(lay), None).unwrap();
        let file = segment(tempfile::tempfile().unwrap());
        assert!(syncer.submit_strict(Arc::clone(&file), 1).wait().await.is_err());
        for _ in 0..3 {
            syncer.submit_strict(Arc::clone(&file), 1).wait().await.unwrap();
        }
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        syncer.stop().unwrap();
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_promises_nothing() {
        let syncer = Syncer::start(Box::new(|| Ok(())), None).unwrap();
        syncer.stop().unwrap();
        assert!(syncer.check().is_err());
        let file = segment(tempfile::tempfile().unwrap());
        assert!(syncer.submit_strict(file, 1).wait().await.is_err());
    }

    #[tokio::test]
    async fn whoever_is_alone_syncs_without_the_thread_once_there_is_a_foundation() {
        let syncer = Syncer::start(Box::new(|| Ok(())), None).unwrap();
        let (file, other) = (segment(tempfile::tempfile().unwrap()), segment(tempfile::tempfile().unwrap()));
        assert!(syncer.sync_here(&file, 1).is_none(), "nothing is durable before its foundation");
        syncer.submit_strict(Arc::clone(&file), 1).wait().await.unwrap();
        syncer.submit(Arc::clone(&file), 2);
        syncer.sync_here(&file, 3).unwrap().unwrap();
        assert_eq!(file.synced_bytes(), 3);
        syncer.submit(Arc::clone(&other), 1);
        assert!(syncer.sync_here(&file, 4).is_none(), "an earlier segment goes first");
        syncer.stop().unwrap();
        assert_eq!((file.synced_bytes(), other.synced_bytes()), (3, 1));
    }

    #[tokio::test]
    async fn what_failed_without_the_thread_is_known_at_the_end() {
        let syncer = Syncer::start(Box::new(|| Ok(())), None).unwrap();
        syncer.submit_strict(segment(tempfile::tempfile().unwrap()), 1).wait().await.unwrap();
        let bad = unsyncable();
        assert!(matches!(syncer.sync_here(&bad, 1), Some(Err(LedgerError::Unavailable { .. }))));
        assert!(bad.is_poisoned());
        assert!(syncer.stop().is_err());
    }

    #[test]
    fn what_nobody_waits_for_is_synced_before_the_end() {
        let syncer = Syncer::start(Box::new(|| Ok(())), None).unwrap();
        let file = segment(tempfile::tempfile().unwrap());
        syncer.submit(Arc::clone(&file), 7);
        syncer.submit(Arc::clone(&file), 9);
        syncer.stop().unwrap();
        assert_eq!(file.synced_bytes(), 9);
    }
}
