//! Group commit: one thread that brings records to the disk, many waiters for each sync. What is to be on the disk it has
//! written just before it syncs, all that came during the last sync with one write. Whoever is alone syncs without it:
//! handing a record over and being woken again cost half of what a quick disk takes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_types::limits::LEDGER_SYNC_MS;

use crate::LedgerError;
use crate::segment::Segment;
use crate::synced::{For, Synced};

/// How long records that nobody waits for gather. The sync itself takes the rest of [`LEDGER_SYNC_MS`].
const GATHER: Duration = Duration::from_millis(LEDGER_SYNC_MS / 2);

/// What must be on the disk before the first record may be called durable.
pub(crate) type Foundation = Box<dyn Fn() -> io::Result<()> + Send>;

/// Writes the records that wait for the thread, and submits them.
pub(crate) type Gather = Box<dyn Fn() + Send + Sync>;

type Answer = Result<(), Arc<io::Error>>;

/// Somebody who waits until records are on the disk, the last of which has this number.
pub(crate) struct Waiter {
    pub(crate) seq: u64,
    pub(crate) answer: Appended,
}

/// Where the number of an append's last record is told, once the append is as durable as it was asked to be.
pub(crate) type Appended = oneshot::Sender<Result<u64, LedgerError>>;

impl Waiter {
    fn tell(self, answer: &Answer) {
        let answer = match answer {
            Ok(()) => Ok(self.seq),
            Err(cause) => Err(LedgerError::Unavailable { doing: "sync a record", cause: Arc::clone(cause) }),
        };
        // A waiter that went away does not need its answer.
        let _ = self.answer.send(answer);
    }
}

/// The thread and what it has to do.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<Answer>>>,
}

struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
    gather: OnceLock<Gather>,
    synced: Arc<Synced>,
}

#[derive(Default)]
struct Work {
    /// Segments with records that may not be on the disk, oldest first, and how far each was written.
    dirty: Vec<(Arc<Segment>, u64)>,
    waiting: Vec<Waiter>,
    /// Records that are not written yet wait for a sync.
    is_called: bool,
    /// The foundation is on the disk.
    is_founded: bool,
    /// The thread is up, and looks again when its time has come: records that nobody waits for need not wake it.
    is_gathering: bool,
    is_stopping: bool,
    is_gone: bool,
}

impl Work {
    fn is_urgent(&self) -> bool {
        self.is_stopping || self.is_called || !self.waiting.is_empty()
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Syncer {
    pub(crate) fn start(synced: Arc<Synced>, foundation: Foundation) -> io::Result<Self> {
        let shared = Arc::new(Shared { work: Mutex::default(), wake: Condvar::new(), gather: OnceLock::new(), synced });
        let thread = std::thread::Builder::new().name("ledger-sync".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, foundation)
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Says how the thread comes by what waits for it. The first to say it is heard.
    pub(crate) fn gather_with(&self, gather: Gather) {
        let _ = self.shared.gather.set(gather);
    }

    /// Has the thread gather what waits for it, and sync that.
    pub(crate) fn call(&self) {
        let mut work = self.shared.work();
        let was_urgent = work.is_urgent();
        work.is_called = true;
        // The thread that is awake looks again by itself.
        if !was_urgent {
            self.shared.wake.notify_one();
        }
    }

    /// Refuses when nobody would sync what is written now.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        if self.shared.work().is_gone {
            return Err(LedgerError::io("sync records")(io::Error::other("the thread that syncs is gone")));
        }
        Ok(())
    }

    /// Says that the segment was written up to `end`; it is synced soon.
    pub(crate) fn submit(&self, segment: Arc<Segment>, end: u64) {
        let mut work = self.shared.work();
        if work.dirty.is_empty() && !work.is_gathering {
            self.shared.wake.notify_one();
        }
        add(&mut work, segment, end);
    }

    /// The same, at once, for those who wait for it.
    pub(crate) fn submit_strict(&self, segment: Arc<Segment>, end: u64, waiters: impl IntoIterator<Item = Waiter>) {
        let mut work = self.shared.work();
        add(&mut work, segment, end);
        if work.is_gone {
            return;
        }
        // The thread that is awake looks again by itself.
        let is_first = work.waiting.is_empty();
        work.waiting.extend(waiters);
        if is_first {
            self.shared.wake.notify_one();
        }
    }

    /// Syncs the segment up to `end` on the caller's own thread, and all that was submitted before with it. None, and
    /// nothing done, where that is for the thread to do: something else is under way or to be synced first.
    pub(crate) fn sync_here(&self, segment: &Arc<Segment>, end: u64) -> Option<Result<(), LedgerError>> {
        let mut work = self.shared.work();
        let is_other = |(dirty, _): &(Arc<Segment>, u64)| !Arc::ptr_eq(dirty, segment);
        if !work.is_founded || work.is_gone || work.is_urgent() || work.dirty.iter().any(is_other) {
            return None;
        }
        let dirty = std::mem::take(&mut work.dirty);
        drop(work);
        let Some(synced) = self.shared.synced.commit_alone(segment, end) else {
            dirty.into_iter().for_each(|(segment, end)| self.submit(segment, end));
            return None;
        };
        let synced = synced.map_err(|error| {
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

fn run(shared: &Shared, foundation: Foundation) -> Answer {
    /// Nobody may be promised anything by a thread that is gone.
    struct Farewell<'a>(&'a Shared);
    impl Drop for Farewell<'_> {
        fn drop(&mut self) {
            let mut work = self.0.work();
            work.is_gone = true;
            work.waiting.clear();
        }
    }

    let _farewell = Farewell(shared);
    let mut foundation = Some(foundation);
    let mut last = Ok(());
    loop {
        let mut work = wait(shared);
        if std::mem::take(&mut work.is_called) {
            drop(work);
            if let Some(gather) = shared.gather.get() {
                gather();
            }
            work = shared.work();
        }
        let (dirty, waiting) = (std::mem::take(&mut work.dirty), std::mem::take(&mut work.waiting));
        let is_stopping = work.is_stopping;
        drop(work);
        if dirty.is_empty() && is_stopping {
            return last;
        }
        if !dirty.is_empty() {
            last = sync(&shared.synced, &dirty, &mut foundation).map_err(Arc::new);
            shared.work().is_founded = foundation.is_none();
            if let Err(error) = &last {
                tracing::error!("the ledger cannot be synced and takes no records until it can: {error}");
            }
        }
        waiting.into_iter().for_each(|waiter| waiter.tell(&last));
    }
}

/// Waits until something is to be synced and others had the time to join, or for the end.
fn wait(shared: &Shared) -> MutexGuard<'_, Work> {
    let idle = |work: &mut Work| work.dirty.is_empty() && !work.is_urgent();
    let mut work = shared.wake.wait_while(shared.work(), idle).unwrap_or_else(PoisonError::into_inner);
    if work.is_urgent() {
        return work;
    }
    work.is_gathering = true;
    let gathering = |work: &mut Work| !work.is_urgent();
    let mut work = shared.wake.wait_timeout_while(work, GATHER, gathering).unwrap_or_else(PoisonError::into_inner).0;
    work.is_gathering = false;
    work
}

fn sync(synced: &Synced, dirty: &[(Arc<Segment>, u64)], foundation: &mut Option<Foundation>) -> io::Result<()> {
    // Each is tried, so that each that fails is known not to be trusted.
    let mut result = match foundation {
        Some(lay) => lay(),
        None => Ok(()),
    };
    if result.is_ok() {
        *foundation = None;
    }
    for (segment, end) in dirty {
        result = result.and(synced.commit(segment, *end, For::Records));
    }
    result
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::disk::SystemDisk;
    use crate::segment::Folder;

    fn segment(file: File) -> Arc<Segment> {
        Arc::new(Segment::new(Box::new(file), 1))
    }

    fn syncer(foundation: Foundation) -> (tempfile::TempDir, Syncer) {
        let data_dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(Arc::new(SystemDisk), data_dir.path()).unwrap();
        (data_dir, Syncer::start(Arc::new(Synced::open(folder).unwrap()), foundation).unwrap())
    }

    async fn strict(syncer: &Syncer, segment: &Arc<Segment>, end: u64) -> Result<u64, LedgerError> {
        let (answer, answered) = oneshot::channel();
        syncer.submit_strict(Arc::clone(segment), end, [Waiter { seq: 7, answer }]);
        answered.await.unwrap_or(Err(LedgerError::Closed))
    }

    /// A pipe cannot be synced: the kernel says so for real.
    fn unsyncable() -> Arc<Segment> {
        let (reader, _writer) = io::pipe().unwrap();
        segment(File::from(OwnedFd::from(reader)))
    }

    #[tokio::test]
    async fn a_failed_sync_fails_every_waiter_and_poisons_its_descriptor_only() {
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        let (bad, good) = (unsyncable(), segment(tempfile::tempfile().unwrap()));
        let answers = tokio::join!(strict(&syncer, &bad, 1), strict(&syncer, &bad, 2));
        for answer in [answers.0, answers.1] {
            assert!(matches!(answer, Err(LedgerError::Unavailable { .. })));
        }
        assert!(bad.is_poisoned());
        strict(&syncer, &good, 1).await.unwrap();
        assert!(!good.is_poisoned());
        assert!(strict(&syncer, &bad, 3).await.is_err(), "never asked again");
        assert!(syncer.stop().is_err(), "the last sync failed");
    }

    #[tokio::test]
    async fn nothing_is_durable_before_its_foundation() {
        let tries = Arc::new(AtomicU32::new(0));
        let lay = {
            let tries = Arc::clone(&tries);
            move || if tries.fetch_add(1, Ordering::Relaxed) == 0 { Err(io::Error::other("not yet")) } else { Ok(()) }
        };
        let (_data_dir, syncer) = syncer(Box::new(lay));
        let file = segment(tempfile::tempfile().unwrap());
        assert!(strict(&syncer, &file, 1).await.is_err());
        for _ in 0..3 {
            strict(&syncer, &file, 1).await.unwrap();
        }
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        syncer.stop().unwrap();
    }

    #[tokio::test]
    async fn what_waits_for_a_sync_is_gathered_before_it_begins() {
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        let (syncer, file) = (Arc::new(syncer), segment(tempfile::tempfile().unwrap()));
        let (answer, answered) = oneshot::channel();
        let waiter = Mutex::new(Some(Waiter { seq: 7, answer }));
        let (gathering, written) = (Arc::downgrade(&syncer), Arc::clone(&file));
        syncer.gather_with(Box::new(move || {
            let waiter = waiter.lock().unwrap().take();
            gathering.upgrade().unwrap().submit_strict(Arc::clone(&written), 5, waiter);
        }));
        assert!(syncer.sync_here(&file, 1).is_none());
        syncer.call();
        assert_eq!(answered.await.unwrap().unwrap(), 7);
        assert_eq!(file.synced_bytes(), 5);
        syncer.stop().unwrap();
    }

    #[tokio::test]
    async fn a_thread_that_is_gone_promises_nothing() {
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        syncer.stop().unwrap();
        assert!(syncer.check().is_err());
        let file = segment(tempfile::tempfile().unwrap());
        assert!(strict(&syncer, &file, 1).await.is_err());
    }

    #[tokio::test]
    async fn whoever_is_alone_syncs_without_the_thread_once_there_is_a_foundation() {
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        let (file, other) = (segment(tempfile::tempfile().unwrap()), segment(tempfile::tempfile().unwrap()));
        assert!(syncer.sync_here(&file, 1).is_none(), "nothing is durable before its foundation");
        strict(&syncer, &file, 1).await.unwrap();
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
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        strict(&syncer, &segment(tempfile::tempfile().unwrap()), 1).await.unwrap();
        let bad = unsyncable();
        assert!(matches!(syncer.sync_here(&bad, 2), Some(Err(LedgerError::Unavailable { .. }))));
        assert!(bad.is_poisoned());
        assert!(syncer.stop().is_err());
    }

    #[test]
    fn what_nobody_waits_for_is_synced_before_the_end() {
        let (_data_dir, syncer) = syncer(Box::new(|| Ok(())));
        let file = segment(tempfile::tempfile().unwrap());
        syncer.submit(Arc::clone(&file), 7);
        syncer.submit(Arc::clone(&file), 9);
        syncer.stop().unwrap();
        assert_eq!(file.synced_bytes(), 9);
    }
}
