//! What of a disk is on the disk: the contents and names that were synced, and those that the system still holds back. A
//! page of 4 KiB or a name is there or not, and any of those that were not synced may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_ledger::Sealing;

use super::files_below;

const PAGE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;

/// A file, whatever its names.
pub(super) type FileId = u64;

/// The state of a disk.
#[derive(Debug)]
pub(super) struct Platter {
    root: PathBuf,
    next: FileId,
    /// The names of now.
    live: BTreeMap<PathBuf, FileId>,
    /// The names that are on the disk, and the changes of them that are not, in their order.
    names: BTreeMap<PathBuf, FileId>,
    folders: BTreeSet<PathBuf>,
    renaming: Vec<Naming>,
    files: BTreeMap<FileId, Content>,
}

#[derive(Debug, Clone)]
enum Naming {
    File(PathBuf, FileId),
    Folder(PathBuf),
    Rename(PathBuf, PathBuf, FileId),
    Removal(PathBuf),
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    is_sealed: bool,
    changes: Vec<Change>,
    errors: u64,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
    /// The file has grown so long, and what it grew by is lost.
    Hole(u64),
    Seal(bool),
}

impl Naming {
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::File(path, _) | Self::Folder(path) | Self::Rename(_, path, _) | Self::Removal(path) => path.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>, folders: &mut BTreeSet<PathBuf>) {
        match self {
            Self::File(path, id) => drop(names.insert(path.clone(), *id)),
            Self::Folder(path) => drop(folders.insert(path.clone())),
            Self::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            Self::Removal(path) => drop(names.remove(path)),
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>, is_sealed: &mut bool) {
        match self {
            Self::Write(offset, written) => overlay(bytes, *offset, written),
            Self::Len(len) => bytes.resize(index(*len), 0),
            Self::Hole(end) => bytes.resize(bytes.len().max(index(*end)), 0),
            Self::Seal(seal) => *is_sealed = *seal,
        }
    }

    /// The parts that reach the disk each by itself.
    fn parts(&self, part_bytes: u64) -> Vec<Self> {
        let Self::Write(offset, written) = self else { return vec![self.clone()] };
        let mut parts = Vec::new();
        let mut done = 0;
        while done < written.len() {
            let at = offset + done as u64;
            let end = written.len().min(done + index(part_bytes - at % part_bytes));
            parts.push(Self::Write(at, written.get(done..end).unwrap_or_default().to_vec()));
            done = end;
        }
        parts
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn overlay(bytes: &mut Vec<u8>, offset: u64, written: &[u8]) {
    let (start, end) = (index(offset), index(offset) + written.len());
    bytes.resize(bytes.len().max(end), 0);
    if let Some(place) = bytes.get_mut(start..end) {
        place.copy_from_slice(written);
    }
}

impl Content {
    /// What a sync of the data brings to the disk: all but the permission.
    fn settle(&mut self) {
        let (later, now): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| matches!(change, Change::Seal(_)));
        for change in now {
            change.apply(&mut self.bytes, &mut self.is_sealed);
        }
        self.changes = later;
    }

    /// What is found of it: some of its changes, either the first of them or any.
    fn found(&self, dice: &mut Dice) -> (Vec<u8>, bool) {
        let (mut bytes, mut is_sealed) = (self.bytes.clone(), self.is_sealed);
        let is_ordered = dice.roll(2) == 0;
        let part_bytes = if is_ordered { SECTOR_BYTES } else { PAGE_BYTES };
        let parts: Vec<Change> = self.changes.iter().flat_map(|change| change.parts(part_bytes)).collect();
        let first = dice.roll(parts.len() as u64 + 1);
        for (place, part) in (0..).zip(&parts) {
            let is_there = if is_ordered { place < first } else { dice.roll(2) == 0 };
            if is_there {
                part.apply(&mut bytes, &mut is_sealed);
            }
        }
        (bytes, is_sealed)
    }
}

impl Platter {
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        let mut platter = Self {
            root: root.to_owned(),
            next: 0,
            live: BTreeMap::new(),
            names: BTreeMap::new(),
            folders: BTreeSet::new(),
            renaming: Vec::new(),
            files: BTreeMap::new(),
        };
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        files_below(root, &mut files, &mut folders)?;
        platter.folders.extend(folders);
        for path in files {
            platter.id_of(&path)?;
        }
        Ok(platter)
    }

    /// A file that is there; one that came past this disk is on the disk.
    pub(super) fn id_of(&mut self, path: &Path) -> io::Result<FileId> {
        if let Some(id) = self.live.get(path) {
            return Ok(*id);
        }
        let is_sealed = fs::metadata(path)?.permissions().readonly();
        let content = Content { bytes: fs::read(path)?, is_sealed, ..Content::default() };
        let id = self.add(path, content);
        self.names.insert(path.to_owned(), id);
        Ok(id)
    }

    fn add(&mut self, path: &Path, content: Content) -> FileId {
        self.next += 1;
        self.files.insert(self.next, content);
        self.live.insert(path.to_owned(), self.next);
        self.next
    }

    pub(super) fn created(&mut self, path: &Path) -> FileId {
        let id = self.add(path, Content::default());
        self.renaming.push(Naming::File(path.to_owned(), id));
        id
    }

    pub(super) fn made(&mut self, path: &Path) {
        self.renaming.push(Naming::Folder(path.to_owned()));
    }

    pub(super) fn renamed(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.live.remove(from).ok_or_else(|| io::Error::other("it was not opened by this disk"))?;
        self.live.insert(to.to_owned(), id);
        self.renaming.push(Naming::Rename(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    pub(super) fn removed(&mut self, path: &Path) {
        self.live.remove(path);
        self.renaming.push(Naming::Removal(path.to_owned()));
    }

    pub(super) fn synced_dir(&mut self, folder: &Path) {
        let (settled, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.renaming).into_iter().partition(|naming| naming.folder() == Some(folder));
        for naming in settled {
            naming.apply(&mut self.names, &mut self.folders);
        }
        self.renaming = open;
    }

    fn change(&mut self, id: FileId, change: Change) {
        self.files.entry(id).or_default().changes.push(change);
    }

    pub(super) fn written(&mut self, id: FileId, offset: u64, bytes: &[u8]) {
        self.change(id, Change::Write(offset, bytes.to_vec()));
    }

    pub(super) fn resized(&mut self, id: FileId, len: u64) {
        self.change(id, Change::Len(len));
    }

    pub(super) fn sealed(&mut self, id: FileId, sealing: Sealing) {
        self.change(id, Change::Seal(sealing == Sealing::Sealed));
    }

    pub(super) fn synced(&mut self, id: FileId) {
        self.files.entry(id).or_default().settle();
    }

    /// A sync failed: the system holds what was written for clean, and it is not on the disk.
    pub(super) fn lost(&mut self, id: FileId) {
        let content = self.files.entry(id).or_default();
        content.errors += 1;
        for change in &mut content.changes {
            if let Change::Write(offset, bytes) = change {
                *change = Change::Hole(*offset + bytes.len() as u64);
            }
        }
    }

    pub(super) fn errors(&self, id: FileId) -> u64 {
        self.files.get(&id).map_or(0, |content| content.errors)
    }

    /// Up to where the file's content of now is that which is on the disk, and no change is held back.
    pub(super) fn durable_bytes(&self, path: &Path) -> u64 {
        let content = self.names.get(path).and_then(|id| self.files.get(id));
        let Some(content) = content else { return 0 };
        let first = content.changes.iter().filter_map(|change| match change {
            Change::Write(offset, _) => Some(*offset),
            Change::Len(len) => Some(*len),
            Change::Hole(_) => Some(0),
            Change::Seal(_) => None,
        });
        first.min().unwrap_or(u64::MAX).min(content.bytes.len() as u64)
    }

    pub(super) fn after_power_cut(&self, seed: u64, into: &Path) -> io::Result<()> {
        let mut dice = Dice::new(seed);
        let (mut names, mut folders) = (self.names.clone(), self.folders.clone());
        let is_ordered = dice.roll(2) == 0;
        let first = dice.roll(self.renaming.len() as u64 + 1);
        for (place, naming) in (0..).zip(&self.renaming) {
            let is_there = if is_ordered { place < first } else { dice.roll(2) == 0 };
            if is_there {
                naming.apply(&mut names, &mut folders);
            }
        }
        let place = |path: &Path| path.strip_prefix(&self.root).map(|path| into.join(path)).map_err(io::Error::other);
        for folder in &folders {
            fs::create_dir_all(place(folder)?)?;
        }
        for (path, id) in &names {
            let path = place(path)?;
            let (Some(content), true) = (self.files.get(id), path.parent().is_some_and(Path::exists)) else { continue };
            let (bytes, is_sealed) = content.found(&mut dice);
            fs::write(&path, bytes)?;
            let mode = if is_sealed { 0o400 } else { 0o600 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

/// Splitmix64: the same seed, the same rolls.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides.max(1)
    }
}
