//! `audit/checkpoints`: the file of signed checkpoints, one a line. It knows how they are kept and thinned out; when one is
//! signed, and over what, is the notary's.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::LedgerError;
use crate::disk::{Access, Opened, open_regular, private_file};
use crate::line::Head;
use crate::note::{Checkpoint, Doubt, NOTE_BYTES_MAX, Signer, VerifierKey, node, node_text};
use crate::segment::Folder;
use crate::tree::Frontier;

/// The file's name in messages.
pub(crate) const NAME: &str = "checkpoints";
/// The version of the file's format.
const VERSION: u64 = 1;
/// A line: a note, and a frontier of at most 64 hashes.
const LINE_BYTES_MAX: usize = NOTE_BYTES_MAX + 8 * 1024;
/// The whole file; thinning keeps it far below.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How many of the latest are all kept.
const RECENT: u64 = 128;
/// After how many new ones the older are thinned out.
const THIN_EVERY: u64 = 256;

/// One line: a checkpoint with what is needed to go on from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) frontier: Frontier,
    pub(crate) note: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    v: u64,
    note: String,
    frontier: Vec<String>,
}

impl Kept {
    /// Signs what `checkpoint` says, whose root is that of `frontier`.
    pub(crate) fn sign(checkpoint: Checkpoint, frontier: Frontier, signer: &Signer) -> Self {
        let note = checkpoint.sign(signer);
        Self { checkpoint, frontier, note }
    }

    /// The first of a sequence: no record yet.
    pub(crate) fn genesis(time: String, signer: &Signer) -> Self {
        let frontier = Frontier::default();
        let (root, Head { seq, hash }) = (frontier.root(), Head::GENESIS);
        Self::sign(Checkpoint { number: 1, size: seq, root, time, head: hash, end: (1, 0) }, frontier, signer)
    }

    /// The last record that it covers.
    pub(crate) fn head(&self) -> Head {
        Head { seq: self.checkpoint.size, hash: self.checkpoint.head }
    }

    fn line(&self) -> Result<Vec<u8>, LedgerError> {
        let frontier = self.frontier.peaks().iter().map(node_text).collect();
        let line = Line { v: VERSION, note: self.note.clone(), frontier };
        let mut bytes =
            serde_json::to_vec(&line).map_err(|error| LedgerError::io("write a checkpoint")(error.into()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// One line without its line break. There is one way to write it, so that no byte can be another.
    pub(crate) fn parse(bytes: &[u8], key: &VerifierKey) -> Result<Self, Doubt> {
        let line: Line = serde_json::from_slice(bytes).map_err(|_| Doubt::Malformed)?;
        let checkpoint = Checkpoint::open(&line.note, key)?;
        let peaks: Option<Vec<_>> = line.frontier.iter().map(|text| node(text)).collect();
        let frontier = peaks.and_then(|peaks| Frontier::new(checkpoint.size, peaks)).ok_or(Doubt::Malformed)?;
        let kept = Self { checkpoint, frontier, note: line.note };
        let is_canonical = kept.line().is_ok_and(|line| line.strip_suffix(b"\n") == Some(bytes));
        let is_right = line.v == VERSION && kept.frontier.root() == kept.checkpoint.root;
        if is_right && is_canonical { Ok(kept) } else { Err(Doubt::Malformed) }
    }
}

/// The end of the file.
pub(crate) struct Last {
    pub(crate) kept: Kept,
    /// Where its line begins and ends.
    start: u64,
    end: u64,
    /// It covers as many records as the one before it: only the latest of those is kept.
    is_repetition: bool,
    is_torn: bool,
}

/// The file of checkpoints.
pub(crate) struct Checkpoints {
    folder: Folder,
}

impl Checkpoints {
    pub(crate) fn of(folder: &Folder) -> Self {
        Self { folder: folder.clone() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }

    /// The file whose lock is the right to sign. Whoever takes it and a turn at the ledger takes it first.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        let path = self.folder.path().join("checkpoints.lock");
        open_regular(private_file().read(true).write(true).create(true).truncate(false), &path)
    }

    /// The same, for readers who may not write here.
    pub(crate) fn lock_file_to_read(&self) -> io::Result<File> {
        open_regular(private_file().read(true), &self.folder.path().join("checkpoints.lock"))
    }

    fn open(&self) -> Result<Option<Box<Opened>>, LedgerError> {
        match self.folder.disk().open(&self.path(), Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(LedgerError::io("read its checkpoints")),
        }
    }

    /// The whole file; none when there is none.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, LedgerError> {
        let Some(file) = self.open()? else { return Ok(None) };
        let bytes = file.read_from(0, FILE_BYTES_MAX + 1).map_err(LedgerError::io("read its checkpoints"))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(damaged(0, 0, "the file of checkpoints is too long to be one"));
        }
        Ok(Some(bytes))
    }

    /// The last checkpoint; none when there is no file. What a dying signer left behind it does not count.
    pub(crate) fn last(&self, key: &VerifierKey) -> Result<Option<Last>, LedgerError> {
        let Some(file) = self.open()? else { return Ok(None) };
        let read = || -> io::Result<(u64, Vec<u8>)> {
            let start = file.len()?.saturating_sub(3 * LINE_BYTES_MAX as u64);
            Ok((start, file.read_from(start, 3 * LINE_BYTES_MAX as u64)?))
        };
        let (start, bytes) = read().map_err(LedgerError::io("read its checkpoints"))?;
        let mut lines = Vec::new();
        let mut at = start;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            lines.push((at, line));
            at += line.len() as u64;
        }
        let is_torn = |(_, line): &mut (u64, &[u8])| !line.ends_with(b"\n") || line.contains(&0);
        while lines.pop_if(is_torn).is_some() {}
        let Some((start, line)) = lines.pop() else { return Err(damaged(1, 1, "there is no checkpoint in the file")) };
        let end = start + line.len() as u64;
        let kept =
            Kept::parse(line.strip_suffix(b"\n").unwrap_or(line), key).map_err(|doubt| self.doubtful(line, doubt))?;
        let before = lines.pop().and_then(|(_, line)| Kept::parse(line.strip_suffix(b"\n").unwrap_or(line), key).ok());
        let is_repetition = before.is_some_and(|before| before.checkpoint.size == kept.checkpoint.size);
        Ok(Some(Last { kept, start, end, is_repetition, is_torn: end < at }))
    }

    fn doubtful(&self, line: &[u8], doubt: Doubt) -> LedgerError {
        match later_version(line) {
            Some(version) => LedgerError::Later { what: NAME, version },
            None => {
                let bytes = self.read().ok().flatten().unwrap_or_default();
                damaged(1, bytes.iter().filter(|byte| **byte == b'\n').count() as u64, doubt.message())
            }
        }
    }

    /// Begins a sequence: the file holds nothing but this.
    pub(crate) fn begin(&self, first: &Kept) -> Result<(), LedgerError> {
        self.replace(&first.line()?).map_err(LedgerError::io("write a checkpoint"))
    }

    /// Puts a checkpoint behind the last one, or in its place where three in a row would say the same of the records.
    pub(crate) fn put(&self, last: &Last, next: &Kept) -> Result<(), LedgerError> {
        let is_repetition = last.is_repetition && next.checkpoint.size == last.kept.checkpoint.size;
        let at = if is_repetition { last.start } else { last.end };
        let line = next.line()?;
        let write = || {
            let file = self.cut(at)?;
            if is_repetition || last.is_torn {
                // A power cut must not leave half of one and half of the other.
                file.sync_data()?;
            }
            file.write_all_at(&line, at).inspect_err(|_| drop(file.set_len(at)))?;
            file.sync_data()
        };
        write().map_err(LedgerError::io("write a checkpoint"))?;
        if next.checkpoint.number.is_multiple_of(THIN_EVERY) { self.thin(next.checkpoint.number) } else { Ok(()) }
    }

    /// Takes away what a dying signer left behind the last checkpoint.
    pub(crate) fn mend(&self, last: &Last) -> Result<(), LedgerError> {
        let mend = || if last.is_torn { self.cut(last.end)?.sync_data() } else { Ok(()) };
        mend().map_err(LedgerError::io("mend its checkpoints"))
    }

    /// The file, no longer than `end`.
    fn cut(&self, end: u64) -> io::Result<Box<Opened>> {
        let file = self.folder.disk().open(&self.path(), Access::Write)?;
        file.set_len(end)?;
        Ok(file)
    }

    /// The number that the next checkpoint has.
    pub(crate) fn next_number(last: &Last, size: u64) -> u64 {
        let number = last.kept.checkpoint.number;
        if last.is_repetition && size == last.kept.checkpoint.size { number } else { number + 1 }
    }

    fn thin(&self, latest: u64) -> Result<(), LedgerError> {
        let bytes = self.read()?.unwrap_or_default();
        let is_kept = |line: &&[u8]| number_of(line).is_none_or(|number| is_kept(number, latest));
        let kept: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').filter(is_kept).collect();
        self.replace(&kept.concat()).map_err(LedgerError::io("thin its checkpoints out"))
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let (disk, aside) = (self.folder.disk(), self.folder.path().join("checkpoints.new"));
        let file = disk.open(&aside, Access::Replace)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        disk.rename(&aside, &self.path())?;
        disk.sync_dir(self.folder.path())
    }

    /// Puts the file aside because the sequence cannot be continued. Returns its new name.
    pub(crate) fn retire(&self) -> io::Result<Option<String>> {
        let mut names = (1..).map(|count| format!("checkpoints-{count}.old"));
        let path = self.folder.path();
        match names.find(|name| !path.join(name).exists()) {
            Some(name) if self.path().exists() => {
                self.folder.disk().rename(&self.path(), &path.join(&name))?;
                self.folder.disk().sync_dir(path)?;
                Ok(Some(name))
            }
            Some(_) | None => Ok(None),
        }
    }
}

impl Doubt {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Malformed => "the line is not a checkpoint",
            Self::Unknown => "the checkpoint is not signed with this ledger's key",
            Self::Forged => "the checkpoint's signature does not fit its content",
        }
    }
}

/// The error that names a line of the file.
pub(crate) fn damaged(seq: u64, line: u64, message: &'static str) -> LedgerError {
    LedgerError::Damaged { seq, segment: NAME.to_owned(), line, message }
}

/// The version of a line that a later release wrote.
pub(crate) fn later_version(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u64,
    }
    serde_json::from_slice::<Versioned>(line).ok().map(|it| it.v).filter(|version| *version > VERSION)
}

/// The number in a line that was checked when it was written.
fn number_of(line: &[u8]) -> Option<u64> {
    let line: Line = serde_json::from_slice(line).ok()?;
    line.note.lines().nth(3)?.strip_prefix("number ")?.parse().ok()
}

/// How far apart are the numbers that are kept of so old an age, as a power of two.
fn level(age: u64) -> u32 {
    (age / RECENT).checked_ilog2().map_or(0, |level| level + 1)
}

/// Whether the checkpoint `number` is there when `latest` is the last one. What may go stays gone.
fn is_kept(number: u64, latest: u64) -> bool {
    number.trailing_zeros() >= level(latest.saturating_sub(number))
}

/// The first number between two neighbours in the file that should be there.
pub(crate) fn missing_between(before: u64, after: u64, latest: u64) -> Option<u64> {
    let mut number = before + 1;
    while number < after {
        let level = level(latest.saturating_sub(number));
        if number.trailing_zeros() >= level {
            return Some(number);
        }
        // The next multiple, or where a finer level begins.
        let multiple = (number >> level).saturating_add(1) << level;
        let finer = latest.saturating_sub(RECENT << (level - 1)) + 1;
        number = multiple.min(finer.max(number + 1));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_few_of_the_old_and_all_of_the_new() {
        let kept = |latest: u64| (1..=latest).filter(|number| is_kept(*number, latest)).collect::<Vec<_>>();
        assert_eq!(kept(RECENT), (1..=RECENT).collect::<Vec<_>>());
        assert!(kept(200_000).len() < 1_000, "{}", kept(200_000).len());
        assert_eq!(
            kept(200_000).iter().rev().take(128).copied().collect::<Vec<_>>(),
            (199_873..=200_000).rev().collect::<Vec<_>>()
        );
        for latest in [1, 127, 128, 129, 255, 256, 257, 1_000, 5_000] {
            let (now, then) = (kept(latest), kept(latest + 1));
            assert!(then.iter().all(|number| now.contains(number) || *number == latest + 1), "what is gone stays gone");
            for gap in now.windows(2) {
                assert_eq!(missing_between(gap[0], gap[1], latest), None);
            }
            for (at, gone) in now.iter().enumerate() {
                let before = if at == 0 { 0 } else { now[at - 1] };
                let after = now.get(at + 1).copied().unwrap_or(latest + 1);
                assert_eq!(missing_between(before, after, latest), Some(*gone), "{latest}");
            }
        }
    }
}
