//! Signs checkpoints: reads what was recorded since the last one, grows the tree by it, and signs the new root. It knows
//! nothing of when; that is the schedule's.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tollgate_types::Clock;

use crate::LedgerError;
use crate::checkpoints::{Checkpoints, Kept, Last, damaged};
use crate::key::KeyFile;
use crate::line::{self, Head};
use crate::lines::{Lines, is_torn};
use crate::note::{Checkpoint, Signer};
use crate::segment::{Folder, Segment};
use crate::synced::{For, Synced};
use crate::tree::{self, Frontier};
use crate::turn::Turn;

/// Records that one checkpoint reads at most, so that nobody waits long who asked for one.
const RECORDS_AT_ONCE_MAX: u64 = 20_000;
/// Waiting for another process's signature or turn.
const WAIT_MS: u64 = 1_000;

/// Why a checkpoint is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// There are new records.
    Records,
    /// Nothing happened for so long, and it shall be provable.
    Idle(SignedDuration),
}

/// What a look at the ledger came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signed {
    /// Records that are covered now.
    pub(crate) size: u64,
    /// There are more, left for the next time.
    pub(crate) is_behind: bool,
}

/// The key, and what it needs to sign.
pub(crate) struct Notary {
    checkpoints: Checkpoints,
    signer: Signer,
    written: Written,
    clock: Arc<dyn Clock>,
    told: watch::Sender<Option<Arc<str>>>,
}

/// The segments, and how they are brought to the disk.
struct Written {
    folder: Folder,
    synced: Arc<Synced>,
    segment: Option<Segment>,
}

/// A key with its last checkpoint: where the ledger stands.
pub(crate) struct Standing {
    pub(crate) signer: Signer,
    pub(crate) last: Kept,
}

impl Standing {
    /// The key of this data folder and its last checkpoint, both made when there are none. Called with the right to sign.
    pub(crate) fn open(folder: &Folder, now: Timestamp) -> Result<Self, LedgerError> {
        let (keys, checkpoints) = (KeyFile::of(folder), Checkpoints::of(folder));
        if let Some(signer) = keys.load()? {
            let gone = || damaged(1, 0, "the checkpoints are gone");
            let last = checkpoints.last(signer.verifier())?.ok_or_else(gone)?;
            checkpoints.mend(&last)?;
            return Ok(Self { signer, last: last.kept });
        }
        let signer = keys.prepare()?;
        let last = match checkpoints.last(signer.verifier())? {
            Some(last) => last.kept,
            None => {
                let first = Kept::genesis(format!("{now:.6}"), &signer);
                checkpoints.begin(&first)?;
                first
            }
        };
        keys.adopt()?;
        Ok(Self { signer, last })
    }

    /// Another key and another sequence, which begins where `from` ends: the old ones say what is not so any more.
    pub(crate) fn anew(folder: &Folder, now: Timestamp, from: Option<Kept>) -> Result<Self, LedgerError> {
        let (keys, checkpoints) = (KeyFile::of(folder), Checkpoints::of(folder));
        checkpoints.retire().map_err(LedgerError::io("put its checkpoints aside"))?;
        keys.retire()?;
        let signer = keys.prepare()?;
        let time = format!("{now:.6}");
        let last = match from {
            Some(Kept { checkpoint, frontier, .. }) => {
                Kept::sign(Checkpoint { number: 1, time, ..checkpoint }, frontier, &signer)
            }
            None => Kept::genesis(time, &signer),
        };
        checkpoints.begin(&last)?;
        keys.adopt()?;
        Ok(Self { signer, last })
    }
}

impl Notary {
    pub(crate) fn new(folder: Folder, synced: Arc<Synced>, standing: Standing, clock: Arc<dyn Clock>) -> Self {
        let Standing { signer, last } = standing;
        let checkpoints = Checkpoints::of(&folder);
        let told = watch::Sender::new((last.checkpoint.size > 0).then(|| last.note.into()));
        let written = Written { folder, synced, segment: None };
        Self { checkpoints, signer, written, clock, told }
    }

    /// The latest note that this process signed or found.
    pub(crate) fn told(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.told.subscribe()
    }

    /// Signs a checkpoint over what is on the disk, unless somebody else did.
    pub(crate) fn sign(&mut self, why: Why) -> Result<Signed, LedgerError> {
        // INVARIANT: nobody signs between the look at the last checkpoint and the next one.
        let signing = self.checkpoints.lock_file().map_err(LedgerError::io("open its lock"))?;
        let _signing = Turn::wait(signing, WAIT_MS)?;
        let gone = || damaged(1, 0, "the checkpoints are gone");
        let last = self.checkpoints.last(self.signer.verifier())?.ok_or_else(gone)?;
        let (segments, len) = self.written.sync()?;
        let grown = Grown::from(&self.written.folder, &last.kept, &segments, len)?;
        let signed = Signed { size: grown.head.seq, is_behind: grown.is_behind };
        let now = self.clock.now();
        let is_due = match why {
            Why::Records => grown.head.seq > last.kept.checkpoint.size,
            Why::Idle(period) => grown.head.seq > last.kept.checkpoint.size || is_older(&last, now, period),
        };
        if is_due {
            let next = grown.sign(Checkpoints::next_number(&last, signed.size), now, &self.signer);
            self.checkpoints.put(&last, &next)?;
            self.told.send_replace(Some(next.note.into()));
        }
        Ok(signed)
    }
}

impl Written {
    /// Brings all that was written up to now to the disk. Says which segments there are, and how long the last one is.
    fn sync(&mut self) -> Result<(Vec<u64>, u64), LedgerError> {
        let looking = || LedgerError::io("look at its segments");
        if let Some(segment) = self.segment.take_if(|segment| segment.is_poisoned()) {
            let _turn = Turn::wait_in_line(&self.folder, WAIT_MS)?;
            self.folder.rewrite(&segment).map_err(LedgerError::io("sync its segment again"))?;
        }
        // Within a turn, so that no line is half written or about to be taken back.
        let turn = Turn::wait_in_line(&self.folder, WAIT_MS)?;
        let segments = self.folder.segments().map_err(looking())?;
        let Some(&first) = segments.last() else { return Ok((segments, 0)) };
        let segment = match self.segment.take().filter(|segment| segment.first == first) {
            Some(segment) => segment,
            None => self.folder.open(first).map_err(looking())?,
        };
        let len = segment.len().map_err(looking())?;
        drop(turn);
        // INVARIANT: every earlier segment was synced before the last one came into being.
        let segment = self.segment.insert(segment);
        let syncing = LedgerError::io("sync what a checkpoint shall cover");
        self.synced.commit(segment, len, For::Checkpoint).map_err(syncing)?;
        Ok((segments, len))
    }
}

/// Whether the last checkpoint is that old, by a clock that may have gone back.
fn is_older(last: &Last, now: Timestamp, period: SignedDuration) -> bool {
    let time = last.kept.checkpoint.time.parse::<Timestamp>();
    time.is_ok_and(|time| now.duration_since(time).abs() >= period)
}

/// The tree after the records that came since a checkpoint.
struct Grown {
    frontier: Frontier,
    head: Head,
    end: (u64, u64),
    size_max: u64,
    is_behind: bool,
}

impl Grown {
    /// Reads on from `kept` in those segments, the last of them up to `len`.
    fn from(folder: &Folder, kept: &Kept, segments: &[u64], len: u64) -> Result<Self, LedgerError> {
        let (start, from) = kept.checkpoint.end;
        let size_max = kept.checkpoint.size.saturating_add(RECORDS_AT_ONCE_MAX);
        let frontier = kept.frontier.clone();
        let mut grown = Self { frontier, head: kept.head(), end: (start, from), size_max, is_behind: false };
        if kept.checkpoint.size > 0 && !segments.contains(&start) {
            return Err(damaged(kept.checkpoint.size, 0, "records that a checkpoint covers are gone"));
        }
        for &first in segments.iter().filter(|first| **first >= start) {
            let is_last = segments.last() == Some(&first);
            let reading = || LedgerError::io("read what a checkpoint shall cover");
            let segment = Segment::new(folder.open_to_read(first).map_err(reading())?, first);
            let to = if is_last { len } else { segment.len().map_err(reading())? };
            let from = if first == start { from } else { 0 };
            if to < from {
                return Err(segment.damaged(to, grown.head.seq, "records that a checkpoint covers are gone"));
            }
            grown.read(&segment, from, to, is_last)?;
            if grown.is_behind {
                break;
            }
        }
        Ok(grown)
    }

    fn read(&mut self, segment: &Segment, from: u64, to: u64, is_last: bool) -> Result<(), LedgerError> {
        let reading = || LedgerError::io("read what a checkpoint shall cover");
        let mut lines = Lines::new(segment.file.as_ref(), from, to);
        while let Some(line) = lines.next().map_err(reading())? {
            if self.frontier.size() >= self.size_max {
                self.is_behind = true;
                return Ok(());
            }
            // Content is checked by whoever verifies; what is signed is the chain of hashes.
            let link = line::peek(line.bytes).filter(|link| line.is_whole && link.follows(&self.head));
            let Some((link, leaf)) = link.and_then(|link| Some((link, line::bytes_of(&link.head.hash)?))) else {
                // What a dying writer left is the next writer's to mend.
                let torn = line.start;
                if is_last && is_torn(segment.file.as_ref(), torn, to).map_err(reading())? {
                    return Ok(());
                }
                return Err(segment.damaged(torn, self.head.seq + 1, "the line does not continue the chain"));
            };
            self.frontier.push(tree::leaf(&leaf));
            (self.head, self.end) = (link.head, (segment.first, lines.position()));
        }
        Ok(())
    }

    fn sign(self, number: u64, now: Timestamp, signer: &Signer) -> Kept {
        let Self { frontier, head, end, .. } = self;
        let (size, root, time) = (head.seq, frontier.root(), format!("{now:.6}"));
        Kept::sign(Checkpoint { number, size, root, time, head: head.hash, end }, frontier, signer)
    }
}
