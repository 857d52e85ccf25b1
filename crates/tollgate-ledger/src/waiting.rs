//! Who waits for a turn at the ledger, and with what.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ahead::Ahead;
use crate::entry::Batch;
use crate::sync::Appended;
use crate::{Durability, LedgerError};

/// So many are sealed for at once: whoever comes meanwhile waits for that.
const SEALED_AT_ONCE_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) next_ticket: u64,
    /// The thread stands in line, or is about to.
    pub(crate) is_called: bool,
    pub(crate) is_stopping: bool,
    pub(crate) is_gone: bool,
}

impl Waiting {
    /// Seals for the first of those for whom that was not done yet.
    pub(crate) fn seal_ahead(&self, ahead: &mut Ahead, time: &str, boot: &str) {
        let sealed = ahead.fits(|at| self.jobs.get(at).map(|job| job.ticket));
        for job in self.jobs.iter().skip(sealed).take(SEALED_AT_ONCE_MAX) {
            if !ahead.seal(job.ticket, &job.batch, time, boot) {
                break;
            }
        }
    }

    /// Whether anybody waits for more than the next sync.
    pub(crate) fn is_pressing(&self) -> bool {
        self.jobs.iter().any(|job| job.durability == Durability::Batched)
    }
}

/// What a caller waits for.
pub(crate) struct Job {
    pub(crate) ticket: u64,
    pub(crate) batch: Batch,
    pub(crate) durability: Durability,
    pub(crate) answer: Appended,
}

pub(crate) fn refuse(jobs: Vec<Job>, error: &LedgerError) {
    for job in jobs {
        // Whoever went away does not need its answer.
        let _ = job.answer.send(Err(error.clone()));
    }
}

pub(crate) fn gone() -> LedgerError {
    LedgerError::io("write a record")(std::io::Error::other("the thread that writes is gone"))
}

/// One of the callers, for as long as it is there.
pub(crate) struct Present<'a>(&'a AtomicUsize);

impl<'a> Present<'a> {
    pub(crate) fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
