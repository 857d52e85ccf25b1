//! What a server left behind beside its answers, for whoever looks for a fault: counts, and the last of each kind.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::log::LogFile;

const STDERR_BYTES_MAX: usize = 8 * 1024;
const LINES_MAX: usize = 16;
const LINE_CHARS_MAX: usize = 200;

/// What a server sent that was no answer to anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Noise {
    /// Lines on standard output that are no message.
    pub lines: u64,
    /// The last of them, their heads.
    pub last_lines: Vec<String>,
    /// Messages that were too long.
    pub too_long: u64,
    /// Answers to ids that were never ours.
    pub unknown_ids: u64,
    /// Answers that nobody waited for any more: too late, or a second one.
    pub stale_answers: u64,
}

/// The traces of one server, over all its starts.
#[derive(Debug, Default)]
pub(super) struct Traces {
    kept: Mutex<Kept>,
    log: Option<LogFile>,
}

#[derive(Debug, Default)]
struct Kept {
    stderr: VecDeque<u8>,
    lines: VecDeque<String>,
    noise: Noise,
}

impl Traces {
    /// Traces whose standard error is kept in a file too.
    pub(super) fn kept_in(log: Option<LogFile>) -> Self {
        Self { kept: Mutex::default(), log }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn stderr(&self, bytes: &[u8]) {
        {
            let mut kept = self.kept();
            kept.stderr.extend(bytes);
            let surplus = kept.stderr.len().saturating_sub(STDERR_BYTES_MAX);
            kept.stderr.drain(..surplus);
        }
        if let Some(log) = &self.log {
            log.keep(bytes).await;
        }
    }

    pub(super) fn line(&self, line: &[u8]) {
        let mut kept = self.kept();
        kept.noise.lines += 1;
        if kept.lines.len() == LINES_MAX {
            kept.lines.pop_front();
        }
        let head = line.get(..LINE_CHARS_MAX * 4).unwrap_or(line);
        kept.lines.push_back(String::from_utf8_lossy(head).chars().take(LINE_CHARS_MAX).collect());
    }

    pub(super) fn too_long(&self) {
        self.kept().noise.too_long += 1;
    }

    pub(super) fn unknown_id(&self) {
        self.kept().noise.unknown_ids += 1;
    }

    pub(super) fn stale_answer(&self) {
        self.kept().noise.stale_answers += 1;
    }

    /// The end of standard error, from the beginning of a character on.
    pub(super) fn stderr_tail(&self) -> String {
        let kept = self.kept();
        let bytes: Vec<u8> = kept.stderr.iter().copied().skip_while(|byte| byte & 0xC0 == 0x80).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn noise(&self) -> Noise {
        let kept = self.kept();
        Noise { last_lines: kept.lines.iter().cloned().collect(), ..kept.noise.clone() }
    }
}
