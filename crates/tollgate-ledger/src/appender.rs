//! How the records of many callers come into the one chain. Whoever finds the ledger free writes at once, and then for those
//! who came meanwhile, all with one write. What must be on the disk the thread that syncs writes, all that gathered during
//! the last sync at once, unless a caller is alone. Where another process has the turn, or something takes its time, one
//! thread stands in line for all who wait.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tollgate_types::{Clock, limits};

use crate::ahead::Ahead;
use crate::entry::Batch;
use crate::segment::Folder;
use crate::signing::Signing;
use crate::sync::{Appended, Syncer, Waiter};
use crate::turn::{Door, Turn};
use crate::waiting::{Job, Present, Waiting, gone, refuse};
use crate::writer::{Pace, Writer, Written};
use crate::{Durability, LedgerError};

/// What is written in one turn for those who wait, unless one of them alone wants more.
const TURN_BYTES_MAX: usize = 1024 * 1024;
/// So often a caller's own task writes for others before the thread does.
const ROUNDS_MAX: usize = 4;
/// Between two tries to get in beside a line that does not move.
const PUSH_IN: Duration = Duration::from_millis(10);
/// A sync on the caller's own task that took longer shows that the disk is slow.
const QUICK: Duration = Duration::from_millis(2);
/// How many syncs are left to the thread then.
const SLOW_SYNCS: u32 = 20;

/// Puts records behind the last one, for all callers of this process.
pub(crate) struct Appender {
    writer: Mutex<Writer>,
    // Used with the writer's lock.
    door: Door,
    waiting: Mutex<Waiting>,
    /// What those who wait for a sync have sealed. Locked after the writer, and before those who wait.
    ahead: Mutex<Ahead>,
    boot: String,
    wake: Condvar,
    /// Tells those who wait for a sync that they may have to wait for somebody else first.
    held_up: Notify,
    folder: Folder,
    pub(crate) syncer: Syncer,
    pub(crate) signing: Signing,
    clock: Arc<dyn Clock>,
    /// Attempts with `received` and neither `finished` nor `waiting`.
    open_attempts: AtomicI64,
    /// Callers whose append has not returned.
    callers: AtomicUsize,
    /// How many of the next syncs are not for a caller's own task.
    slow_syncs: AtomicU32,
    lock_wait_ms: u64,
}

/// Whether those who stand in line come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manners {
    Polite,
    PushIn,
}

impl Appender {
    /// With the thread that stands in line.
    pub(crate) fn start(
        folder: &Folder,
        writer: Writer,
        (syncer, signing): (Syncer, Signing),
        clock: Arc<dyn Clock>,
        lock_wait_ms: u64,
    ) -> std::io::Result<(Arc<Self>, JoinHandle<()>)> {
        let appender = Arc::new(Self {
            ahead: Mutex::new(Ahead::of(writer.head())),
            boot: writer.boot().to_owned(),
            writer: Mutex::new(writer),
            door: Door::of(folder)?,
            waiting: Mutex::default(),
            wake: Condvar::new(),
            held_up: Notify::new(),
            folder: folder.clone(),
            syncer,
            signing,
            clock,
            open_attempts: AtomicI64::new(0),
            callers: AtomicUsize::new(0),
            slow_syncs: AtomicU32::new(0),
            lock_wait_ms,
        });
        let gathering = Arc::downgrade(&appender);
        appender.syncer.gather_with(Box::new(move || {
            if let Some(appender) = gathering.upgrade() {
                appender.gather();
            }
        }));
        let standing = Arc::clone(&appender);
        let thread = std::thread::Builder::new().name("ledger-line".to_owned()).spawn(move || standing.run())?;
        Ok((appender, thread))
    }

    /// Writes the entries as consecutive records, and returns the last one's number once they are as durable as asked.
    pub(crate) async fn append(&self, batch: Batch, durability: Durability) -> Result<u64, LedgerError> {
        self.syncer.check()?;
        match self.signing.check() {
            // What ran is said all the same: only new calls are too much.
            Err(LedgerError::NoCheckpoint { .. }) if batch.has_end => {}
            checked => checked?,
        }
        let _caller = Present::of(&self.callers);
        if durability == Durability::Strict && !self.is_alone() {
            return self.wait_for_turn(batch, durability).await;
        }
        let written = self.write_here(&batch);
        // For those who came while this one had the writer.
        self.serve(Manners::Polite);
        let Some(written) = written? else { return self.wait_for_turn(batch, durability).await };
        self.count(&batch, &written);
        match durability {
            Durability::Batched => self.syncer.submit(written.segment, written.end),
            Durability::Strict => return self.sync(written).await,
        }
        Ok(written.seq)
    }

    /// Does what must be done before a call can begin. It holds up the caller's thread.
    pub(crate) fn prepare(&self, now: Timestamp) -> Result<(), LedgerError> {
        self.syncer.check()?;
        self.signing.check()?;
        self.in_turn(|writer| writer.prepare(now))?
    }

    /// The attempts that this process has not ended.
    pub(crate) fn open_attempts(&self) -> i64 {
        self.open_attempts.load(Ordering::Acquire)
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer that panicked left its state as it was before: the next turn reads what is in the file.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the writer, for which a turn is waited for. It holds up the caller's thread.
    pub(crate) fn in_turn<T>(&self, act: impl FnOnce(&mut Writer) -> T) -> Result<T, LedgerError> {
        let _turn = Turn::wait_in_line(&self.folder, self.lock_wait_ms)?;
        Ok(act(&mut self.writer()))
    }

    /// Does something within a turn, if there is one to be had now.
    pub(crate) fn if_free<T>(&self, act: impl FnOnce() -> Result<T, LedgerError>) -> Result<Option<T>, LedgerError> {
        let _writer = self.writer();
        let Some(_turn) = self.door.enter()? else { return Ok(None) };
        act().map(Some)
    }

    /// Writes where nobody waits and nothing stands in the way.
    fn write_here(&self, batch: &Batch) -> Result<Option<Written>, LedgerError> {
        if self.waiting().is_pressing() {
            return Ok(None);
        }
        let Some(mut writer) = self.try_writer() else { return Ok(None) };
        let Some(_turn) = self.door.enter()? else { return Ok(None) };
        writer.append(batch, self.clock.now(), Pace::Inline)
    }

    fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, batch: &Batch, written: &Written) {
        self.open_attempts.fetch_add(batch.opens, Ordering::AcqRel);
        self.signing.wrote(written.seq);
    }

    /// Whether a caller may sync on its own task: nobody else asks for anything, and the disk has been quick.
    fn is_alone(&self) -> bool {
        if self.callers.load(Ordering::Acquire) > 1 || self.open_attempts() > 1 {
            return false;
        }
        match self.slow_syncs.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => self.slow_syncs.store(left, Ordering::Relaxed),
            None => return true,
        }
        false
    }

    /// Brings to the disk what somebody wrote who is alone: here, or where something else is to be synced first, by the
    /// thread.
    async fn sync(&self, written: Written) -> Result<u64, LedgerError> {
        let Written { segment, end, seq } = written;
        let began = self.clock.monotonic();
        if let Some(synced) = self.syncer.sync_here(&segment, end) {
            if self.clock.monotonic().saturating_sub(began) > QUICK {
                self.slow_syncs.store(SLOW_SYNCS, Ordering::Relaxed);
            }
            return synced.map(|()| seq);
        }
        let (answer, answered) = oneshot::channel();
        self.syncer.submit_strict(segment, end, [Waiter { seq, answer }]);
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Waiting for a turn.
impl Appender {
    async fn wait_for_turn(&self, batch: Batch, durability: Durability) -> Result<u64, LedgerError> {
        let (answer, mut answered) = oneshot::channel();
        let mut held_up = pin!(self.held_up.notified());
        held_up.as_mut().enable();
        let ticket = self.stand(batch, durability, answer)?;
        if durability == Durability::Batched {
            self.serve(Manners::Polite);
        } else {
            self.syncer.call();
            self.seal_ahead();
            // As long as the thread that syncs gets on, a time limit would only cost.
            let is_in_line = self.waiting().is_called;
            tokio::select! {
                biased;
                answer = &mut answered => return answer.unwrap_or_else(|_| Err(gone())),
                () = held_up, if !is_in_line => {}
                () = std::future::ready(()), if is_in_line => {}
            }
        }
        let limit = Duration::from_millis(self.lock_wait_ms);
        let (mut pause, mut waited) = (limit / 2, Duration::ZERO);
        loop {
            if let Ok(answer) = timeout(pause, &mut answered).await {
                return answer.unwrap_or_else(|_| Err(gone()));
            }
            waited += pause;
            if waited >= limit {
                break;
            }
            // Whoever is first in line may have been stopped.
            self.serve(Manners::PushIn);
            pause = PUSH_IN.min(limit / 2);
        }
        if self.leave(ticket) {
            return Err(LedgerError::Busy { waited_ms: self.lock_wait_ms });
        }
        // It is being written, or waits for the disk.
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    fn stand(&self, batch: Batch, durability: Durability, answer: Appended) -> Result<u64, LedgerError> {
        let mut waiting = self.waiting();
        if waiting.is_stopping {
            return Err(LedgerError::Closed);
        }
        if waiting.jobs.len() >= limits::LEDGER_WAITING_MAX {
            return Err(LedgerError::Busy { waited_ms: 0 });
        }
        let ticket = waiting.next_ticket;
        waiting.next_ticket += 1;
        waiting.jobs.push_back(Job { ticket, batch, durability, answer });
        Ok(ticket)
    }

    /// Seals for those who wait, unless somebody does already or writes for them.
    fn seal_ahead(&self) {
        if let Ok(mut ahead) = self.ahead.try_lock() {
            self.waiting().seal_ahead(&mut ahead, &format!("{:.6}", self.clock.now()), &self.boot);
        }
    }

    /// Takes back what nobody began to write.
    fn leave(&self, ticket: u64) -> bool {
        let mut waiting = self.waiting();
        let before = waiting.jobs.len();
        waiting.jobs.retain(|job| job.ticket != ticket);
        waiting.jobs.len() < before
    }

    /// Writes for those who wait, unless somebody does already.
    ///
    /// INVARIANT: whoever has had the writer comes by here, and whoever waits does after it began to: one of them sees the
    /// other. Who waits for a sync is seen by the thread, which waits for the writer.
    fn serve(&self, manners: Manners) {
        for _ in 0..ROUNDS_MAX {
            let waiting = self.waiting();
            let is_left = match manners {
                Manners::Polite => waiting.is_called || !waiting.is_pressing(),
                Manners::PushIn => waiting.jobs.is_empty(),
            };
            drop(waiting);
            if is_left {
                return;
            }
            let Some(writer) = self.try_writer() else { return };
            if !self.write_round(writer, manners) {
                return;
            }
        }
        self.call();
    }

    /// Writes for those who wait for a sync, before the thread begins it, and for whoever came while it had the writer.
    fn gather(&self) {
        let waiting = self.waiting();
        let is_left = waiting.is_called || waiting.jobs.is_empty();
        drop(waiting);
        if is_left {
            return;
        }
        let writer = self.try_writer().unwrap_or_else(|| {
            self.held_up.notify_waiters();
            self.writer()
        });
        if self.write_round(writer, Manners::Polite) {
            self.serve(Manners::Polite);
        }
        // One write does not take any number of records.
        if !self.waiting().jobs.is_empty() {
            self.syncer.call();
        }
    }

    /// Writes for the first of those who wait. False when somebody else does.
    fn write_round(&self, mut writer: MutexGuard<'_, Writer>, manners: Manners) -> bool {
        let turn = if manners == Manners::Polite { self.door.enter() } else { self.door.push_in() };
        let left = match turn {
            Ok(Some(_turn)) => self.write_for(&mut writer, self.some_jobs(), Pace::Inline),
            Ok(None) if manners == Manners::PushIn => return false,
            Ok(None) => {
                self.call();
                return false;
            }
            Err(error) => {
                refuse(self.some_jobs(), &error);
                return false;
            }
        };
        drop(writer);
        let is_done = left.is_empty();
        if !is_done {
            left.into_iter().rev().for_each(|job| self.waiting().jobs.push_front(job));
            self.call();
        }
        is_done
    }

    fn call(&self) {
        let mut waiting = self.waiting();
        if !std::mem::replace(&mut waiting.is_called, true) {
            self.wake.notify_all();
            self.held_up.notify_waiters();
        }
    }

    /// The first of those who wait, as many as one write takes.
    fn some_jobs(&self) -> Vec<Job> {
        let mut waiting = self.waiting();
        let (mut bytes, mut jobs) = (0, Vec::new());
        let fits = |bytes: usize, job: &Job| bytes == 0 || bytes + job.batch.bytes() <= TURN_BYTES_MAX;
        while let Some(job) = waiting.jobs.pop_front_if(|job| fits(bytes, job)) {
            bytes += job.batch.bytes();
            jobs.push(job);
        }
        jobs
    }

    /// Writes within a turn, and hands on who is to be told. Gives back those for whom that would be too slow for `pace`.
    fn write_for(&self, writer: &mut Writer, jobs: Vec<Job>, pace: Pace) -> Vec<Job> {
        let mut all = Batch::default();
        jobs.iter().for_each(|job| all.extend(&job.batch));
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.fits(|at| jobs.get(at).map(|job| job.ticket));
        let appended = writer.append_ahead(&all, &mut ahead, self.clock.now(), pace);
        ahead.begin_at(writer.head());
        drop(ahead);
        match appended {
            Ok(Some(written)) => self.tell(jobs, &all, written),
            Ok(None) => return jobs,
            Err(error) if jobs.len() <= 1 => refuse(jobs, &error),
            // One of them may be the reason.
            Err(_) => return jobs.into_iter().flat_map(|job| self.write_for(writer, vec![job], pace)).collect(),
        }
        Vec::new()
    }

    fn tell(&self, jobs: Vec<Job>, all: &Batch, written: Written) {
        self.count(all, &written);
        let mut seq = written.seq - all.len() as u64;
        let mut waiters = Vec::new();
        for Job { batch, durability, answer, .. } in jobs {
            seq += batch.len() as u64;
            match durability {
                Durability::Strict => waiters.push(Waiter { seq, answer }),
                // Whoever went away does not need its answer.
                Durability::Batched => drop(answer.send(Ok(seq))),
            }
        }
        if waiters.is_empty() {
            self.syncer.submit(written.segment, written.end);
        } else {
            self.syncer.submit_strict(written.segment, written.end, waiters);
        }
    }

    /// What the thread that stands in line does.
    fn run(&self) {
        loop {
            let idle = |waiting: &mut Waiting| !waiting.is_called && !waiting.is_stopping;
            let waiting = self.wake.wait_while(self.waiting(), idle).unwrap_or_else(PoisonError::into_inner);
            if waiting.is_stopping {
                break;
            }
            drop(waiting);
            self.take_turn();
            let mut waiting = self.waiting();
            waiting.is_called = !waiting.jobs.is_empty();
        }
        let mut waiting = self.waiting();
        (waiting.is_gone, waiting.jobs) = (true, VecDeque::new());
        self.wake.notify_all();
    }

    fn take_turn(&self) {
        match Turn::stand_in_line(&self.folder) {
            Ok(_turn) => {
                let mut writer = self.writer();
                let left = self.write_for(&mut writer, self.some_jobs(), Pace::Blocking);
                refuse(left, &gone());
            }
            Err(error) => refuse(self.some_jobs(), &LedgerError::io("take its lock")(error)),
        }
    }

    /// Ends the thread. Where another process has the turn and does not give it back, it is left standing: it holds nothing.
    pub(crate) fn stop(&self, thread: JoinHandle<()>) {
        let mut waiting = self.waiting();
        waiting.is_stopping = true;
        self.wake.notify_all();
        let limit = Duration::from_millis(self.lock_wait_ms);
        let (waiting, _) = self
            .wake
            .wait_timeout_while(waiting, limit, |waiting| !waiting.is_gone)
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.is_gone {
            drop(waiting);
            let _ = thread.join();
        }
    }
}
