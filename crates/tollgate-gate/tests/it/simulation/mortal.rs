//! A clock that kills. Whatever a process does to the world, it reads the clock before: a process whose clock unwinds
//! instead does nothing any more, and leaves everything as it was between two steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tollgate_testkit::TestClock;
use tollgate_types::Clock;

/// What unwinds.
pub(crate) struct Killed;

/// The clock of one process.
pub(crate) struct Mortal {
    time: Arc<TestClock>,
    /// How often it is read before it kills.
    reads_left: AtomicI64,
    is_dead: AtomicBool,
    /// Whether a look at how much time passed counts too. How often the ledger looks is up to the system's threads.
    counts_both: bool,
}

impl Mortal {
    pub(crate) fn new(time: &Arc<TestClock>, reads_left: Option<u32>, counts_both: bool) -> Arc<Self> {
        let reads_left = AtomicI64::new(reads_left.map_or(i64::MAX, i64::from));
        Arc::new(Self { time: Arc::clone(time), reads_left, is_dead: AtomicBool::new(false), counts_both })
    }

    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    pub(crate) fn kill_after(&self, reads: u32) {
        self.reads_left.store(i64::from(reads), Ordering::SeqCst);
    }

    pub(crate) fn spare(&self) {
        self.reads_left.store(i64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    fn read(&self, may_count: bool) {
        // When the ledger's own threads read it is up to the system: they die with the others, but do not count.
        let is_own = std::thread::current().name().is_none_or(|name| !name.starts_with("ledger-"));
        if may_count && is_own && self.reads_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.kill();
        }
        if self.is_dead() {
            // Says nothing, unlike a panic.
            std::panic::resume_unwind(Box::new(Killed));
        }
    }
}

impl Clock for Mortal {
    fn now(&self) -> Timestamp {
        self.read(true);
        self.time.now()
    }

    fn monotonic(&self) -> Duration {
        self.read(self.counts_both);
        self.time.monotonic()
    }
}
