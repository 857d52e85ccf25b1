//! A disk that fails where a test says so, and that knows what of it would outlive a power cut. Its files are real ones in
//! a real folder, so that whoever reads them past this disk sees what a running system would; no sync reaches the system.

mod platter;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_ledger::{Access, Disk, DiskFile, FileState, Sealing, SystemDisk};

use platter::{FileId, Platter};

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Opening a file that is there.
    Open,
    /// Making a file.
    Create,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making a file shorter or longer.
    SetLen,
    /// Saying whether a file takes records.
    Seal,
    /// Bringing a file to the disk.
    Sync,
    /// Listing a folder.
    Names,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a folder.
    CreateDir,
    /// Bringing a folder's names to the disk.
    SyncDir,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::Create,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Seal,
        Self::Sync,
        Self::Names,
        Self::Rename,
        Self::Remove,
        Self::CreateDir,
        Self::SyncDir,
    ];

    /// Whether a disk that can only be read refuses it.
    fn changes(self) -> bool {
        match self {
            Self::Create | Self::Write | Self::SetLen | Self::Seal | Self::Rename | Self::Remove | Self::CreateDir => {
                true
            }
            Self::Open | Self::Read | Self::Sync | Self::Names | Self::SyncDir => false,
        }
    }
}

/// How a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The act fails once, by an I/O error. What a failed sync was to bring to the disk never gets there.
    Once,
    /// This act and all further ones of its kind do.
    Lasting,
    /// There is no space: half of what is to be written still fits, and then what is given back.
    Full,
    /// The file system has become read-only.
    ReadOnly,
    /// Half of what is to be written is taken, which a system may do at any time.
    Short,
    /// The power is cut: nothing works any more. See [`TestDisk::after_power_cut`].
    PowerCut,
}

/// A disk over the files of one folder, which fails as it was told to.
#[derive(Debug, Clone)]
pub struct TestDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    counts: BTreeMap<Act, u64>,
    total: u64,
    plan: Option<(Option<Act>, u64, Fault)>,
    /// The fault that struck and has not been mended.
    standing: Option<(Act, Fault)>,
    has_struck: bool,
    /// The bytes that are left on a full disk.
    free: Option<u64>,
    platter: Platter,
}

const NO_SPACE: i32 = 28;
const BROKEN: i32 = 5;
const READ_ONLY: i32 = 30;

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl TestDisk {
    /// A disk that does as the system does. What is in the folder already is on the disk.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let platter = Platter::of(folder)?;
        let (counts, total, plan, standing) = (BTreeMap::new(), 0, None, None);
        let state = State { counts, total, plan, standing, has_struck: false, free: None, platter };
        Ok(Self(Arc::new(Mutex::new(state))))
    }

    /// The same, for [`tollgate_ledger::Options`].
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// From now on, fails with the `number`th act of that kind from now, from 1.
    pub fn fail(&self, act: Act, number: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.counts.get(&act).copied().unwrap_or_default() + number;
        (state.plan, state.has_struck) = (Some((Some(act), at, fault)), false);
    }

    /// From now on, fails with the `number`th act of any kind from now.
    pub fn fail_any(&self, number: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.total + number;
        (state.plan, state.has_struck) = (Some((None, at, fault)), false);
    }

    /// Takes all the space that is left.
    pub fn fill(&self) {
        self.state().free = Some(0);
    }

    /// Whether the planned fault has struck.
    pub fn has_struck(&self) -> bool {
        self.state().has_struck
    }

    /// Whether the disk is as it should be again, or still.
    pub fn is_well(&self) -> bool {
        let state = self.state();
        state.standing.is_none() && state.free.is_none()
    }

    /// Ends what lasts, and forgets what was planned. Not a power cut.
    pub fn mend(&self) {
        let mut state = self.state();
        state.standing.take_if(|(_, fault)| *fault != Fault::PowerCut);
        (state.free, state.plan) = (None, None);
    }

    /// How many acts of that kind there were.
    pub fn count(&self, act: Act) -> u64 {
        self.state().counts.get(&act).copied().unwrap_or_default()
    }

    /// How much of a file is on the disk for certain, counted from its start.
    pub fn durable_bytes(&self, path: &Path) -> u64 {
        self.state().platter.durable_bytes(path)
    }

    /// Writes into the empty folder `into` what is found when the power is back: all that was synced, and of the rest what
    /// the dice of `seed` say.
    ///
    /// # Errors
    /// When it cannot be written there.
    pub fn after_power_cut(&self, seed: u64, into: &Path) -> io::Result<()> {
        self.state().platter.after_power_cut(seed, into)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an act may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    All,
    Half,
}

impl State {
    fn ask(&mut self, act: Act) -> io::Result<Leave> {
        self.total += 1;
        let count = self.counts.entry(act).or_default();
        *count += 1;
        let is_due = |(planned, at, _): &mut (Option<Act>, u64, Fault)| match planned {
            Some(planned) => *planned == act && *at == *count,
            None => *at == self.total,
        };
        if let Some((_, _, fault)) = self.plan.take_if(is_due) {
            self.has_struck = true;
            match fault {
                Fault::Once => return Err(error(BROKEN)),
                Fault::Short => return Ok(Leave::Half),
                Fault::Full => {
                    self.free = Some(0);
                    if act == Act::Write {
                        return Ok(Leave::Half);
                    }
                }
                Fault::Lasting | Fault::ReadOnly | Fault::PowerCut => self.standing = Some((act, fault)),
            }
        }
        match self.standing {
            Some((_, Fault::PowerCut)) => Err(error(BROKEN)),
            Some((kind, Fault::Lasting)) if kind == act => Err(error(BROKEN)),
            Some((_, Fault::ReadOnly)) if act.changes() => Err(error(READ_ONLY)),
            Some(_) | None if self.free == Some(0) && matches!(act, Act::Create | Act::CreateDir) => {
                Err(error(NO_SPACE))
            }
            Some(_) | None => Ok(Leave::All),
        }
    }

    /// How many of so many bytes still fit, when a file of `len` grows by them.
    fn fitting(&mut self, bytes: usize, offset: u64, len: u64) -> io::Result<usize> {
        let Some(free) = &mut self.free else { return Ok(bytes) };
        let growth = (offset + bytes as u64).saturating_sub(len);
        let missing = usize::try_from(growth.saturating_sub(*free)).map_err(io::Error::other)?;
        *free = free.saturating_sub(growth);
        if missing >= bytes { Err(error(NO_SPACE)) } else { Ok(bytes - missing) }
    }

    fn given_back(&mut self, bytes: u64) {
        self.free = self.free.map(|free| free + bytes);
    }
}

impl Disk for TestDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let is_there = path.exists();
        let may_create = matches!(access, Access::AppendOrCreate | Access::Create | Access::Replace);
        let creates = may_create && !is_there;
        state.ask(if creates { Act::Create } else { Act::Open })?;
        if let Some((_, Fault::ReadOnly)) = state.standing
            && access != Access::Read
        {
            return Err(error(READ_ONLY));
        }
        let file = SystemDisk.open(path, access)?;
        let id = if creates { state.platter.created(path) } else { state.platter.id_of(path)? };
        if access == Access::Replace && !creates {
            state.platter.resized(id, 0);
        }
        let errors_seen = Mutex::new(state.platter.errors(id));
        Ok(Box::new(TestFile { disk: self.clone(), file, id, errors_seen }))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.state().ask(Act::Names)?;
        let mut names = SystemDisk.names(folder)?;
        // Any order is right; this one is the same each time.
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Act::Rename)?;
        fs::rename(from, to)?;
        state.platter.renamed(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Act::Remove)?;
        let len = fs::metadata(path)?.len();
        fs::remove_file(path)?;
        state.given_back(len);
        state.platter.removed(path);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        // Most of the time it is there already, which a disk may say in any state.
        if path.exists() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.ask(Act::CreateDir)?;
        SystemDisk.create_dir(path)?;
        state.platter.made(path);
        Ok(())
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.ask(Act::SyncDir)?;
        state.platter.synced_dir(folder);
        Ok(())
    }
}

/// An open file of a [`TestDisk`].
#[derive(Debug)]
struct TestFile {
    disk: TestDisk,
    file: Box<dyn DiskFile>,
    id: FileId,
    /// How many failed syncs of this file this descriptor was told of. The system tells each of them once.
    errors_seen: Mutex<u64>,
}

impl TestFile {
    fn write(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<usize> {
        let mut state = self.disk.state();
        let (leave, len) = (state.ask(Act::Write)?, self.file.state()?.len);
        let start = offset.unwrap_or(len);
        let fitting = match leave {
            Leave::Half => bytes.len().div_ceil(2),
            Leave::All => state.fitting(bytes.len(), start, len)?,
        };
        let bytes = bytes.get(..fitting).unwrap_or_default();
        let written = match offset {
            Some(offset) => self.file.write_at(bytes, offset)?,
            None => self.file.append(bytes)?,
        };
        state.platter.written(self.id, start, bytes.get(..written).unwrap_or_default());
        Ok(written)
    }
}

impl DiskFile for TestFile {
    fn file(&self) -> &File {
        self.file.file()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.state().ask(Act::Read)?;
        self.file.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes, None)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.write(bytes, Some(offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.ask(Act::SetLen)?;
        let before = self.file.state()?.len;
        self.file.set_len(len)?;
        state.given_back(before.saturating_sub(len));
        state.platter.resized(self.id, len);
        Ok(())
    }

    fn set_sealing(&self, sealing: Sealing) -> io::Result<()> {
        let mut state = self.disk.state();
        state.ask(Act::Seal)?;
        self.file.set_sealing(sealing)?;
        state.platter.sealed(self.id, sealing);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let mut seen = self.errors_seen.lock().unwrap_or_else(PoisonError::into_inner);
        match state.ask(Act::Sync) {
            Err(error) => {
                state.platter.lost(self.id);
                *seen = state.platter.errors(self.id);
                return Err(error);
            }
            Ok(_) => state.platter.synced(self.id),
        }
        let errors = state.platter.errors(self.id);
        if std::mem::replace(&mut *seen, errors) < errors { Err(error(BROKEN)) } else { Ok(()) }
    }

    fn state(&self) -> io::Result<FileState> {
        self.file.state()
    }
}

/// Where a folder's files are, relative to it.
fn files_below(folder: &Path, found: &mut Vec<PathBuf>, folders: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path.clone());
            files_below(&path, found, folders)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (crate::Folder, TestDisk, PathBuf) {
        let folder = crate::Folder::new().unwrap();
        let disk = TestDisk::new(folder.path()).unwrap();
        let path = folder.path().join("a");
        (folder, disk, path)
    }

    fn found(disk: &TestDisk, seed: u64) -> Option<Vec<u8>> {
        let folder = crate::Folder::new().unwrap();
        disk.after_power_cut(seed, folder.path()).unwrap();
        fs::read(folder.path().join("a")).ok()
    }

    #[test]
    fn what_was_synced_outlives_a_power_cut_and_the_rest_may() {
        let (folder, disk, path) = disk();
        let file = disk.open(&path, Access::Create).unwrap();
        file.write_at(b"one", 0).unwrap();
        file.sync_data().unwrap();
        let names: Vec<_> = (0..32).map(|seed| found(&disk, seed).is_some()).collect();
        assert!(names.contains(&true) && names.contains(&false), "its name was not synced");
        disk.sync_dir(folder.path()).unwrap();
        file.append(b"two").unwrap();
        let contents: Vec<_> = (0..32).map(|seed| found(&disk, seed).unwrap()).collect();
        assert!(contents.iter().all(|content| content.starts_with(b"one")));
        assert!(contents.contains(&b"one".to_vec()) && contents.contains(&b"onetwo".to_vec()));
        file.sync_data().unwrap();
        assert!((0..32).all(|seed| found(&disk, seed).unwrap() == b"onetwo"));
    }

    #[test]
    fn a_failed_sync_loses_what_it_was_for_and_is_told_to_each_descriptor_once() {
        let (folder, disk, path) = disk();
        let (file, other) =
            (disk.open(&path, Access::AppendOrCreate).unwrap(), disk.open(&path, Access::AppendOrCreate).unwrap());
        disk.sync_dir(folder.path()).unwrap();
        file.append(b"one").unwrap();
        disk.fail(Act::Sync, 1, Fault::Once);
        assert!(file.sync_data().is_err() && file.sync_data().is_ok(), "the second says nothing, and does nothing");
        assert!((0..32).all(|seed| found(&disk, seed).unwrap() != b"one"));
        assert!(other.sync_data().is_err() && other.sync_data().is_ok());
    }

    #[test]
    fn a_full_disk_takes_half_and_then_nothing_until_it_is_mended() {
        let (_folder, disk, path) = disk();
        let file = disk.open(&path, Access::Create).unwrap();
        disk.fail(Act::Write, 1, Fault::Full);
        assert_eq!(file.append(b"four").unwrap(), 2);
        assert_eq!(file.append(b"ur").unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.set_len(1).unwrap();
        assert_eq!((file.append(b"four").unwrap(), file.write_at(b"x", 0).unwrap()), (1, 1), "what was given back");
        disk.mend();
        assert_eq!(file.append(b"four").unwrap(), 4);
    }
}
