//! How the following of roles and rules goes: counts, and whether what stands in the files now is broken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::Error;

/// What became of each time that roles and rules were read again.
#[derive(Debug, Default)]
pub struct Reloads {
    taken_over: AtomicU64,
    failed: AtomicU64,
    is_broken: AtomicBool,
}

impl Reloads {
    pub(crate) fn count(&self, reloaded: &Result<bool, Error>) {
        let (is_new, is_broken) = (matches!(reloaded, Ok(true)), reloaded.is_err());
        self.taken_over.fetch_add(is_new.into(), Ordering::Relaxed);
        self.failed.fetch_add(is_broken.into(), Ordering::Relaxed);
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }

    /// How often a changed policy took the place of the one before.
    pub fn taken_over(&self) -> u64 {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// How often what was read could not be used, and the one before stayed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether what was read last could not be used: the files say something else than what counts.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}
