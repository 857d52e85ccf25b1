//! What signed checkpoints say of the ledger, those in its own file and those that were kept elsewhere, and whether the
//! sequence of them is whole. Comparing it with the records is [`crate::verify`]'s.

use std::collections::VecDeque;
use std::io;

use tollgate_types::limits::LEDGER_LOCK_WAIT_MS;

use crate::LedgerError;
use crate::checkpoints::{self, Checkpoints, Kept, later_version, missing_between};
use crate::key::KeyFile;
use crate::note::{Checkpoint, Doubt, VerifierKey, notes_in};
use crate::segment::Folder;
use crate::tree::Node;
use crate::turn::{Turn, patiently};
use crate::verify::{Fault, FaultKind, Trust};

/// Where checkpoints that were kept elsewhere are said to stand.
const ANCHOR: &str = "anchor";

/// One checkpoint.
pub(crate) struct Claim {
    pub(crate) size: u64,
    pub(crate) root: Node,
    pub(crate) time: String,
    /// The file and the line, or which of the notes of the anchor.
    pub(crate) place: (&'static str, u64),
}

/// All checkpoints that are known, by their sizes.
pub(crate) struct Claims {
    pub(crate) key: VerifierKey,
    pub(crate) left: VecDeque<Claim>,
    /// In the ledger's own file, and the last of them.
    pub(crate) count: usize,
    pub(crate) last: Option<(u64, String)>,
    /// Of those that were kept elsewhere.
    pub(crate) anchored: Option<usize>,
    /// The first thing that is wrong with the checkpoints themselves.
    pub(crate) fault: Option<Fault>,
}

impl Claims {
    /// Reads them before the records, so that there are at least the records that they cover. None for a ledger that
    /// never had a checkpoint, when nobody asks for one.
    pub(crate) fn read(folder: &Folder, trust: &Trust) -> Result<Option<Self>, LedgerError> {
        let own = match &trust.key {
            Some(key) => Some(key.clone()),
            None => KeyFile::of(folder).load_any()?.map(|signer| signer.verifier().clone()),
        };
        let file = read_file(folder)?;
        let Some(key) = own else {
            return if file.is_some() || trust.anchor.is_some() { Err(LedgerError::NoKey) } else { Ok(None) };
        };
        let mut claims = Self { key, left: VecDeque::new(), count: 0, last: None, anchored: None, fault: None };
        match file {
            Some(bytes) => claims.take_file(&bytes)?,
            None => claims.blame(FaultKind::Checkpoint, 1, (checkpoints::NAME, 0), "the checkpoints are gone".into()),
        }
        if let Some(text) = &trust.anchor {
            claims.take_anchor(text);
        }
        claims.left.make_contiguous().sort_by_key(|claim| claim.size);
        Ok(Some(claims))
    }

    fn blame(&mut self, kind: FaultKind, seq: u64, (file, line): (&'static str, u64), message: String) {
        self.fault.get_or_insert(Fault { kind, seq, segment: file.to_owned(), line, message });
    }

    fn take_file(&mut self, bytes: &[u8]) -> Result<(), LedgerError> {
        let mut kept: Vec<(u64, Checkpoint)> = Vec::new();
        for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
            let covered = kept.last().map_or(0, |(_, last)| last.size);
            let place = (checkpoints::NAME, number);
            let Some(line) = line.strip_suffix(b"\n") else {
                self.blame(FaultKind::Truncated, covered + 1, place, "the checkpoint is not finished".into());
                break;
            };
            match Kept::parse(line, &self.key) {
                Ok(found) => kept.push((number, found.checkpoint)),
                Err(doubt) => {
                    if let Some(version) = later_version(line) {
                        return Err(LedgerError::Later { what: checkpoints::NAME, version });
                    }
                    self.blame(FaultKind::Checkpoint, covered + 1, place, doubt.message().into());
                }
            }
        }
        if kept.is_empty() {
            self.blame(FaultKind::Checkpoint, 1, (checkpoints::NAME, 1), "there is no checkpoint in the file".into());
        }
        self.check_sequence(&kept);
        self.count = kept.len();
        self.last = kept.last().map(|(_, last)| (last.size, last.time.clone()));
        let claim =
            |(line, Checkpoint { size, root, time, .. })| Claim { size, root, time, place: (checkpoints::NAME, line) };
        self.left.extend(kept.into_iter().map(claim));
        Ok(())
    }

    /// Numbers rise, sizes do not fall, and what is missing was thinned out.
    fn check_sequence(&mut self, kept: &[(u64, Checkpoint)]) {
        let latest = kept.last().map_or(0, |(_, last)| last.number);
        let (mut number, mut size) = (0, 0);
        for (line, checkpoint) in kept {
            let place = (checkpoints::NAME, *line);
            if checkpoint.number <= number || checkpoint.size < size {
                self.blame(
                    FaultKind::Checkpoint,
                    size + 1,
                    place,
                    "the checkpoint does not stand where it belongs".into(),
                );
            } else if let Some(missing) = missing_between(number, checkpoint.number, latest) {
                let message = format!("checkpoint number {missing} is missing before it");
                self.blame(FaultKind::Checkpoint, size + 1, place, message);
            }
            (number, size) = (checkpoint.number, checkpoint.size);
        }
    }

    fn take_anchor(&mut self, text: &str) {
        let mut count = 0;
        for (note, number) in notes_in(text).into_iter().zip(1..) {
            match Checkpoint::open(&note, &self.key) {
                Ok(Checkpoint { size, root, time, .. }) => {
                    count += 1;
                    self.left.push_back(Claim { size, root, time, place: (ANCHOR, number) });
                }
                // One place may keep the checkpoints of many ledgers.
                Err(doubt) if note.lines().next() == Some(self.key.name()) => {
                    self.blame(FaultKind::Checkpoint, 1, (ANCHOR, number), doubt.message().into());
                }
                Err(Doubt::Malformed | Doubt::Unknown | Doubt::Forged) => {}
            }
        }
        self.anchored = Some(count);
        if count == 0 {
            let message = format!(
                "it holds no checkpoint of `{}`: it belongs to another ledger, or this one was written anew with another key",
                self.key.name()
            );
            self.blame(FaultKind::Rewritten, 1, (ANCHOR, 0), message);
        }
    }
}

/// The file between two signatures.
fn read_file(folder: &Folder) -> Result<Option<Vec<u8>>, LedgerError> {
    let checkpoints = Checkpoints::of(folder);
    match checkpoints.lock_file_to_read() {
        // A copy without its lock has no writers.
        Err(error) if error.kind() == io::ErrorKind::NotFound => checkpoints.read(),
        opened => {
            let lock = opened.map_err(LedgerError::io("open its lock"))?;
            let _turn = patiently(LEDGER_LOCK_WAIT_MS, || Turn::take_to_read(&lock))?;
            checkpoints.read()
        }
    }
}
