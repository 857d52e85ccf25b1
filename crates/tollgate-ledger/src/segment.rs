//! The folder of the ledger and its files: names, permissions, and directory entries that reach the disk.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::disk::{Access, Disk, FileState, Opened, Sealing, SystemDisk, create_dir, open_regular, private_file};
use crate::{LedgerError, lines};

/// `data_dir/audit`.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    data_dir: PathBuf,
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Folder {
    /// The folder on the system's disk, to be read.
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self::on(Arc::new(SystemDisk), data_dir)
    }

    fn on(disk: Arc<dyn Disk>, data_dir: &Path) -> Self {
        Self { data_dir: data_dir.to_owned(), path: data_dir.join("audit"), disk }
    }

    /// The folder, made when it is not there yet.
    pub(crate) fn create(disk: Arc<dyn Disk>, data_dir: &Path) -> io::Result<Self> {
        create_dir(disk.as_ref(), data_dir)?;
        let folder = Self::on(disk, data_dir);
        create_dir(folder.disk(), &folder.path)?;
        Ok(folder)
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    pub(crate) fn shared_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// The folder that it is in.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Where the index over the segments is kept.
    pub(crate) fn index_path(&self) -> PathBuf {
        self.path.join("index.sqlite")
    }

    /// The file whose lock is a writer's turn.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        self.file_to_lock("lock")
    }

    /// The same, for readers who may not write here.
    pub(crate) fn lock_file_to_read(&self) -> io::Result<File> {
        open_regular(private_file().read(true), &self.path.join("lock"))
    }

    /// The file whose lock is the first place in the line for a turn.
    pub(crate) fn queue_file(&self) -> io::Result<File> {
        self.file_to_lock("queue.lock")
    }

    /// The file that says how far the segments are on the disk, and whose lock is the right to sync for others.
    pub(crate) fn synced_file(&self) -> io::Result<File> {
        self.file_to_lock("synced")
    }

    fn file_to_lock(&self, name: &str) -> io::Result<File> {
        open_regular(private_file().read(true).write(true).create(true).truncate(false), &self.path.join(name))
    }

    /// The first seq of each segment, ascending.
    pub(crate) fn segments(&self) -> io::Result<Vec<u64>> {
        let mut found: Vec<u64> = self.disk.names(&self.path)?.iter().filter_map(|name| first_seq(name)).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The segments, of which a ledger that was ever opened has at least one.
    pub(crate) fn existing_segments(&self) -> Result<Vec<u64>, LedgerError> {
        match self.segments() {
            Ok(segments) if !segments.is_empty() => Ok(segments),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LedgerError::io("be read")(error)),
            Ok(_) | Err(_) => Err(LedgerError::Missing { path: self.path.clone() }),
        }
    }

    /// How many files hold what was cut off.
    pub(crate) fn torn_files(&self) -> io::Result<usize> {
        Ok(self.disk.names(&self.path)?.iter().filter(|name| name.ends_with(".torn")).count())
    }

    pub(crate) fn open_to_read(&self, first: u64) -> io::Result<Box<Opened>> {
        self.disk.open(&self.path.join(segment_name(first)), Access::Read)
    }

    /// Opens a segment that is there. A sealed one can only be read, which is all that a writer then needs.
    pub(crate) fn open(&self, first: u64) -> io::Result<Segment> {
        self.open_for(first, Access::Append)
    }

    /// The length of a segment.
    pub(crate) fn len_of(&self, first: u64) -> io::Result<u64> {
        self.open_to_read(first)?.len()
    }

    /// Opens the segment; a new one's name is on the disk when this returns.
    pub(crate) fn open_or_create(&self, first: u64) -> io::Result<Segment> {
        let segment = self.open_for(first, Access::AppendOrCreate)?;
        self.disk.sync_dir(&self.path)?;
        Ok(segment)
    }

    fn open_for(&self, first: u64, access: Access) -> io::Result<Segment> {
        let file = match self.disk.open(&self.path.join(segment_name(first)), access) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.open_to_read(first)?,
            opened => opened?,
        };
        Ok(Segment::new(file, first))
    }

    /// Writes a stretch of a segment once more through a descriptor that has not failed yet, and syncs it: after a
    /// failed sync the system may take pages for clean that never reached the disk.
    pub(crate) fn rewrite(&self, segment: &Segment) -> io::Result<()> {
        let is_sealed = segment.state()?.is_sealed;
        if is_sealed {
            segment.file.set_sealing(Sealing::Open)?;
        }
        let file = self.disk.open(&self.path.join(segment.name()), Access::Write)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut position = segment.synced_bytes();
        loop {
            let read = file.read_at(&mut buffer, position)?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            file.write_all_at(bytes, position)?;
            position += read as u64;
        }
        file.sync_data()?;
        if is_sealed { segment.seal() } else { Ok(()) }
    }

    /// Moves what lies beyond `end` into a file of its own. Returns that file's name.
    pub(crate) fn cut(&self, segment: &Segment, end: u64, len: u64) -> io::Result<String> {
        let (name, torn) = self.torn_file(segment.first, end)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut done = 0;
        while end + done < len {
            let read = segment.file.read_at(&mut buffer, end + done)?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            torn.write_all_at(bytes, done)?;
            done += read as u64;
        }
        torn.sync_data()?;
        self.disk.sync_dir(&self.path)?;
        segment.file.set_len(end)?;
        Ok(name)
    }

    /// Lets a sealed segment be written once more, because its end is to be cut off.
    pub(crate) fn unseal(&self, segment: Segment) -> io::Result<Segment> {
        if !segment.state()?.is_sealed {
            return Ok(segment);
        }
        segment.file.set_sealing(Sealing::Open)?;
        self.open(segment.first)
    }

    /// Takes a whole segment out of the chain. Returns the name that its file has now.
    pub(crate) fn set_aside(&self, first: u64) -> io::Result<String> {
        let (name, _) = self.torn_file(first, 0)?;
        self.disk.rename(&self.path.join(segment_name(first)), &self.path.join(&name))?;
        self.disk.sync_dir(&self.path)?;
        Ok(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn torn_file(&self, first: u64, end: u64) -> io::Result<(String, Box<Opened>)> {
        let mut count = 1;
        loop {
            let name = format!("segment-{first:012}-{end}-{count}.torn");
            match self.disk.open(&self.path.join(&name), Access::Create) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => count += 1,
                opened => return Ok((name, opened?)),
            }
        }
    }
}

/// One open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Box<Opened>,
    pub(crate) first: u64,
    is_poisoned: AtomicBool,
    synced_bytes: AtomicU64,
}

impl Segment {
    pub(crate) fn new(file: Box<Opened>, first: u64) -> Self {
        Self { file, first, is_poisoned: AtomicBool::new(false), synced_bytes: AtomicU64::new(0) }
    }

    pub(crate) fn name(&self) -> String {
        segment_name(self.first)
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    pub(crate) fn state(&self) -> io::Result<FileState> {
        self.file.state()
    }

    /// Tells every process that this segment gets no more records.
    pub(crate) fn seal(&self) -> io::Result<()> {
        self.file.set_sealing(Sealing::Sealed)
    }

    /// Brings everything up to `end` to the disk. After a failure this descriptor is never asked again.
    pub(crate) fn sync(&self, end: u64) -> io::Result<()> {
        if self.is_poisoned() {
            return Err(io::Error::other("an earlier sync failed"));
        }
        self.file.sync_data().inspect_err(|_| self.is_poisoned.store(true, Ordering::Release))?;
        self.note_synced(end);
        Ok(())
    }

    /// Notes that everything up to `end` is on the disk, whoever brought it there.
    pub(crate) fn note_synced(&self, end: u64) {
        self.synced_bytes.fetch_max(end, Ordering::AcqRel);
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Acquire)
    }

    /// As a failed sync leaves it.
    #[cfg(test)]
    pub(crate) fn poison(&self) {
        self.is_poisoned.store(true, Ordering::Release);
    }

    pub(crate) fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::Acquire)
    }

    /// The error that names the record at `position`.
    pub(crate) fn damaged(&self, position: u64, seq: u64, message: &'static str) -> LedgerError {
        let line = lines::line_number(self.file.as_ref(), position).unwrap_or(0);
        LedgerError::Damaged { seq, segment: self.name(), line, message }
    }
}

/// The name of the segment whose first record is `first`.
pub(crate) fn segment_name(first: u64) -> String {
    format!("segment-{first:012}.jsonl")
}

/// The other way round; none for any other file.
pub(crate) fn first_seq(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".jsonl")?;
    let first = digits.parse().ok()?;
    (segment_name(first) == name).then_some(first)
}
