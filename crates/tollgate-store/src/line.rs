//! Whose turn it is to write into the database, among all processes that share a data folder. SQLite hands its lock to
//! whoever looks at the right moment, so that a process which writes all the time would keep the others waiting for ever.
//! Here whoever waits for SQLite's lock is first in line, and those who come later, the last writer among them, wait behind.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::key::open_private;

/// How long somebody stands in line before trying beside it: whoever is first may have been stopped.
const LOOKS_MAX: u32 = 10_000;
const PAUSE: Duration = Duration::from_micros(200);

/// The line: the `flock` of a file, held by whoever is first. None where the file cannot be had, as on a disk that is full:
/// SQLite's own lock is what keeps order.
pub(crate) struct Line(Option<File>);

impl Line {
    pub(crate) fn open(path: &Path) -> Self {
        Self(open_private(path).ok())
    }

    /// Takes SQLite's lock when it is this process's turn.
    pub(crate) fn next<T>(&self, take: impl FnOnce() -> T) -> T {
        let first = self.0.as_ref().filter(|line| stand(line));
        let taken = take();
        if let Some(line) = first {
            // The system lets go of it at the latest with the process.
            let _ = line.unlock();
        }
        taken
    }
}

/// Waits to be first. False where the line does not move.
fn stand(line: &File) -> bool {
    for _ in 0..LOOKS_MAX {
        match line.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Err(TryLockError::Error(_)) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_first_and_who_is_stopped_there_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.lock");
        let (one, other) = (Line::open(&path), Line::open(&path));
        let taken = one.next(|| {
            // Whoever stands in line while it waits for SQLite is looked at in vain.
            assert!(other.0.as_ref().is_some_and(|line| line.try_lock().is_err()));
            7
        });
        assert_eq!((taken, other.next(|| 8)), (7, 8));
        assert_eq!(Line::open(&folder.path().join("no/such/folder")).next(|| 9), 9);
    }
}
