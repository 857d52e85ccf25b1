//! Whose turn it is to write, among all processes that share a data folder, and how the others wait for theirs.
//!
//! A turn is the exclusive `flock` of `audit/lock`. Whoever does not get it at once stands in line: it waits in the kernel
//! for that of `audit/queue.lock`, with it for the turn, and makes room behind it when its turn has come. So the first in
//! line waits for nobody but whoever writes, and whoever writes all the time looks now and then whether somebody stands
//! there. What the system holds, it lets go of when a process dies.

use std::borrow::Borrow;
use std::fs::{File, TryLockError};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::LedgerError;
use crate::segment::Folder;

/// So many turns are taken between two looks at the line.
const TURNS_IN_A_ROW: u32 = 8;
/// And so many once the line was found not to move.
const TURNS_BESIDE: u32 = 256;

/// Threads of this process that wait for a lock. One that is in vain waits on until the lock is free.
const WAITING_MAX: usize = 32;

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A lock that is held across processes until this is dropped.
pub(crate) struct Turn<F: Borrow<File>>(F);

impl<'a> Turn<&'a File> {
    /// Takes the turn when nobody has it.
    pub(crate) fn take(lock: &'a File) -> Result<Option<Self>, LedgerError> {
        Ok(is_taken(lock.try_lock())?.then_some(Self(lock)))
    }

    /// Takes a reader's turn, which keeps writers out and lets other readers in.
    pub(crate) fn take_to_read(lock: &'a File) -> Result<Option<Self>, LedgerError> {
        Ok(is_taken(lock.try_lock_shared())?.then_some(Self(lock)))
    }
}

impl Turn<File> {
    /// Waits for a lock that has no line, as for the right to sign.
    pub(crate) fn wait(lock: File, wait_ms: u64) -> Result<Self, LedgerError> {
        if is_taken(lock.try_lock())? {
            return Ok(Self(lock));
        }
        within(wait_ms, move || blocking(&lock).map(|()| Self(lock)))
    }

    /// Waits for a turn at the ledger; where the line does not move, beside it.
    pub(crate) fn wait_in_line(folder: &Folder, wait_ms: u64) -> Result<Self, LedgerError> {
        let lock = folder.lock_file().map_err(LedgerError::io("open its lock"))?;
        if is_taken(lock.try_lock())? {
            return Ok(Self(lock));
        }
        let standing = folder.clone();
        match within(wait_ms / 2, move || Self::stand_in_line(&standing)) {
            Err(LedgerError::Busy { .. }) => {}
            waited => return waited,
        }
        let beside = || Ok(is_taken(lock.try_lock())?.then_some(()));
        patiently(wait_ms / 2, beside).map_err(|error| match error {
            LedgerError::Busy { .. } => LedgerError::Busy { waited_ms: wait_ms },
            other => other,
        })?;
        Ok(Self(lock))
    }

    /// Waits for a turn at the ledger for as long as it takes, with descriptors of its own: those who share one share its
    /// locks.
    pub(crate) fn stand_in_line(folder: &Folder) -> io::Result<Self> {
        let (queue, lock) = (folder.queue_file()?, folder.lock_file()?);
        blocking(&queue)?;
        blocking(&lock)?;
        queue.unlock()?;
        Ok(Self(lock))
    }
}

impl<F: Borrow<File>> Drop for Turn<F> {
    fn drop(&mut self) {
        if let Err(error) = self.0.borrow().unlock() {
            tracing::error!("the ledger's lock cannot be released: {error}");
        }
    }
}

/// The way to a turn for whoever comes often. Used by one thread at a time.
pub(crate) struct Door {
    lock: File,
    queue: File,
    /// How many turns are taken before the next look at the line.
    turns: AtomicU32,
}

impl Door {
    pub(crate) fn of(folder: &Folder) -> io::Result<Self> {
        Ok(Self { lock: folder.lock_file()?, queue: folder.queue_file()?, turns: AtomicU32::new(0) })
    }

    /// Takes the turn when nobody has it. Every few turns not even then, if somebody stands in line.
    pub(crate) fn enter(&self) -> Result<Option<Turn<&File>>, LedgerError> {
        match self.turns.load(Ordering::Relaxed).checked_sub(1) {
            Some(left) => self.turns.store(left, Ordering::Relaxed),
            None if Turn::take_to_read(&self.queue)?.is_none() => return Ok(None),
            None => self.turns.store(TURNS_IN_A_ROW, Ordering::Relaxed),
        }
        Turn::take(&self.lock)
    }

    /// Takes the turn when nobody has it, whoever stands in line.
    pub(crate) fn push_in(&self) -> Result<Option<Turn<&File>>, LedgerError> {
        let turn = Turn::take(&self.lock)?;
        if turn.is_some() {
            self.turns.store(TURNS_BESIDE, Ordering::Relaxed);
        }
        Ok(turn)
    }
}

fn is_taken(taken: Result<(), TryLockError>) -> Result<bool, LedgerError> {
    match taken {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(LedgerError::io("take its lock")(error)),
    }
}

fn blocking(lock: &File) -> io::Result<()> {
    loop {
        match lock.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

/// Does on a thread of its own what may wait for ever, and goes on without it after so long. A turn that comes later is let
/// go at once.
fn within<T: Send + 'static>(
    wait_ms: u64,
    wait: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LedgerError> {
    if WAITING.fetch_add(1, Ordering::AcqRel) >= WAITING_MAX {
        WAITING.fetch_sub(1, Ordering::AcqRel);
        return Err(LedgerError::Busy { waited_ms: 0 });
    }
    let (sender, waited) = sync_channel(1);
    let wait = move || {
        let turn = wait();
        WAITING.fetch_sub(1, Ordering::AcqRel);
        // Whoever is gone by now drops it.
        drop(sender.send(turn));
    };
    thread::Builder::new().name("ledger-wait".to_owned()).spawn(wait).map_err(LedgerError::io("wait for its lock"))?;
    match waited.recv_timeout(Duration::from_millis(wait_ms)) {
        Ok(waited) => waited.map_err(LedgerError::io("take its lock")),
        Err(RecvTimeoutError::Timeout) => Err(LedgerError::Busy { waited_ms: wait_ms }),
        Err(RecvTimeoutError::Disconnected) => {
            Err(LedgerError::io("wait for its lock")(io::Error::other("the thread that waits is gone")))
        }
    }
}

/// Tries again and again until `attempt` gives something, for at most `wait_ms`. The pauses grow, or a hundred waiters
/// would spend the time that the holder of the turn needs; they are uneven, so that waiters do not knock in step; and
/// their sum is counted rather than a clock read, so that it ends whatever the clock does.
pub(crate) fn patiently<T>(
    wait_ms: u64,
    mut attempt: impl FnMut() -> Result<Option<T>, LedgerError>,
) -> Result<T, LedgerError> {
    const PAUSE_US_MIN: u64 = 50;
    const PAUSE_US_MAX: u64 = 10_000;

    let mut spread_us = PAUSE_US_MIN;
    let mut waited = Duration::ZERO;
    let mut dice = u64::from(std::process::id()) | 1 << 40;
    loop {
        if let Some(got) = attempt()? {
            return Ok(got);
        }
        if waited >= Duration::from_millis(wait_ms) {
            return Err(LedgerError::Busy { waited_ms: wait_ms });
        }
        // Xorshift64.
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let pause = Duration::from_micros(PAUSE_US_MIN + dice % spread_us);
        spread_us = (spread_us * 3 / 2).min(PAUSE_US_MAX);
        std::thread::sleep(pause);
        waited += pause;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::SystemDisk;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(Arc::new(SystemDisk), dir.path()).unwrap();
        (dir, folder)
    }

    #[test]
    fn whoever_comes_often_makes_room_for_those_in_line() {
        let (_dir, folder) = folder();
        let door = Door::of(&folder).unwrap();
        let first_in_line = folder.queue_file().unwrap();
        assert!(door.enter().unwrap().is_some(), "nobody is there");
        first_in_line.lock().unwrap();
        let mut turns = 0;
        while door.enter().unwrap().is_some() {
            turns += 1;
        }
        assert_eq!(turns, TURNS_IN_A_ROW);
        assert!(door.enter().unwrap().is_none(), "for as long as somebody stands there");
        // A line that was found not to move is looked at less often.
        assert!(door.push_in().unwrap().is_some());
        assert!((0..TURNS_BESIDE).all(|_| door.enter().unwrap().is_some()));
        assert!(door.enter().unwrap().is_none());
        first_in_line.unlock().unwrap();
        assert!(door.enter().unwrap().is_some());
    }

    #[test]
    fn those_in_line_come_one_after_the_other_and_leave_nothing_locked() {
        let (_dir, folder) = folder();
        let turns = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _turn = Turn::stand_in_line(&folder).unwrap();
                        let before = turns.load(Ordering::Relaxed);
                        thread::yield_now();
                        turns.store(before + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 400);
        assert!(Door::of(&folder).unwrap().enter().unwrap().is_some());
    }

    #[test]
    fn a_wait_ends_and_the_turn_that_comes_later_is_let_go() {
        let (_dir, folder) = folder();
        let held = folder.lock_file().unwrap();
        held.lock().unwrap();
        assert!(matches!(Turn::wait_in_line(&folder, 20), Err(LedgerError::Busy { waited_ms: 20 })));
        assert!(matches!(Turn::wait(folder.lock_file().unwrap(), 20), Err(LedgerError::Busy { .. })));
        held.unlock().unwrap();
        // The threads that still wait get their turns now, and nobody has them.
        for _ in 0..5 {
            Turn::wait_in_line(&folder, 60_000).unwrap();
        }
    }
}
