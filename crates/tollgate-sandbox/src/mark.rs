//! A mark in the environment of a program, inherited by its descendants: by it those are found that left the process
//! group. A descendant that cleans its environment is out of reach.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, getpid, kill_process};

/// A process that is killed may have started another in the same moment, and one look at a busy system may miss one; so
/// the search is repeated until it found none twice.
const ROUNDS_MAX: usize = 16;
const CLEAN_ROUNDS: usize = 2;

/// One program's mark, unlike any other of this process.
#[derive(Debug)]
pub(crate) struct Mark(String);

impl Mark {
    /// The variable.
    pub(crate) const NAME: &str = "TOLLGATE_SPAWN";

    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The address of a static differs from run to run, and so tells a reused process id from its first owner.
        let run = std::ptr::from_ref(&NEXT).addr();
        Self(format!("{}.{run:x}.{}", getpid().as_raw_nonzero(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Kills every process that carries the mark. Where there is no `/proc`, none is found.
    pub(crate) fn kill_all(&self) {
        let mut clean = 0;
        for _ in 0..ROUNDS_MAX {
            let mut found = false;
            for pid in self.bearers() {
                found |= kill_process(pid, Signal::KILL).is_ok();
            }
            clean = if found { 0 } else { clean + 1 };
            if clean == CLEAN_ROUNDS {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn bearers(&self) -> impl Iterator<Item = Pid> {
        let entry = format!("{}={}", Self::NAME, self.0).into_bytes();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(move |process| {
            let pid = process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            // Other people's processes, and the dead, do not tell.
            let environment = fs::read(process.path().join("environ")).ok()?;
            environment.split(|byte| *byte == 0).any(|variable| variable == entry).then_some(pid)
        })
    }
}
