//! Finding attempts without reading the whole ledger: an SQLite file beside the segments that says where the records of
//! each attempt stand and by what it is found. It is caught up when something is asked for, never on a call's path. It
//! holds no arguments and no results, nothing else depends on it, and it can be deleted at any time.

mod batch;
mod find;
mod part;
mod places;
mod tables;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tollgate_types::limits::LEDGER_LOCK_WAIT_MS;

use crate::LedgerError;
use crate::disk::{open_regular, private_file};
use crate::line::Head;
use crate::lines::hash_before;
use crate::segment::Folder;
use batch::Batch;
use tables::{INDICES, Position, TABLES, VERSION};

pub(crate) use find::IndexRow;
pub use find::{Cursor, FOUND_MAX, Found, Page, View};

/// How long one statement waits for another process that catches up.
const STATEMENT_WAIT: Duration = Duration::from_millis(100);
/// How often it is asked whether another process still goes on catching up, before it counts as stuck.
const STUCK_TRIES_MAX: u32 = 300;
/// Pages of the index in memory, in KiB.
const CACHE_KIB: i64 = 8 * 1024;

/// The index over one ledger, as far as the ledger was when it was opened.
pub struct Index {
    connection: Connection,
    folder: Folder,
    /// The file's device and inode; none where there could be no file.
    file: Option<(u64, u64)>,
}

/// Why the index is of no use as it is.
pub(crate) enum Trouble {
    /// It is broken, of another format, or of another ledger: one must be made anew.
    Stale,
    /// Another process writes to it.
    Busy,
    /// There can be no file here.
    Unwritable,
    /// Making it anew would not help.
    Ledger(LedgerError),
}

impl From<LedgerError> for Trouble {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::Unwritable,
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => {
                Self::Ledger(LedgerError::Index { message: error.to_string() })
            }
            _ => Self::Stale,
        }
    }
}

impl From<Trouble> for LedgerError {
    fn from(trouble: Trouble) -> Self {
        let message = match trouble {
            Trouble::Ledger(error) => return error,
            Trouble::Busy => return Self::Busy { waited_ms: LEDGER_LOCK_WAIT_MS },
            Trouble::Unwritable => "its file cannot be written",
            Trouble::Stale => "records are not where they were written; run `tollgate audit verify`",
        };
        Self::Index { message: message.to_owned() }
    }
}

impl Index {
    /// Opens the index of `data_dir/audit` and reads on from where it ended, telling `progress` how many bytes of the
    /// ledger are read, of how many. A broken index, or one of another ledger, is replaced. Where no file can be
    /// written, the index is a temporary one.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] when there is no ledger, or that it cannot be read, or what SQLite says.
    pub fn open(data_dir: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, LedgerError> {
        let folder = Folder::of(data_dir);
        folder.existing_segments()?;
        Ok(Self::opened(&folder, progress)?)
    }

    fn opened(folder: &Folder, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, Trouble> {
        match Self::open_file(folder, progress) {
            Err(Trouble::Stale) => Self::open_file(folder, progress),
            Err(Trouble::Unwritable) => {
                let mut index = Self { connection: Connection::open("")?, folder: folder.clone(), file: None };
                index.prepare()?;
                index.catch_up(progress)?;
                Ok(index)
            }
            other => other,
        }
    }

    /// A stale file is gone when this returns.
    fn open_file(folder: &Folder, progress: &mut dyn FnMut(u64, u64)) -> Result<Self, Trouble> {
        let path = folder.index_path();
        let file = open_regular(private_file().read(true).write(true).create(true).truncate(false), &path);
        let meta = file.and_then(|file| file.metadata()).map_err(|_| Trouble::Unwritable)?;
        let file = (meta.dev(), meta.ino());
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&path, flags).map_err(Trouble::from).and_then(|connection| {
            let mut index = Self { connection, folder: folder.clone(), file: Some(file) };
            index.prepare()?;
            index.catch_up(progress)?;
            Ok(index)
        });
        opened.inspect_err(|trouble| {
            if matches!(trouble, Trouble::Stale) {
                remove(folder, file);
            }
        })
    }

    fn prepare(&mut self) -> Result<(), Trouble> {
        let connection = &mut self.connection;
        connection.busy_timeout(Duration::from_millis(LEDGER_LOCK_WAIT_MS))?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        enter_wal(connection)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        if version(connection)? != VERSION {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            match version(&transaction)? {
                0 => {
                    transaction.execute_batch(TABLES)?;
                    transaction.pragma_update(None, "user_version", VERSION)?;
                }
                VERSION => {}
                _ => return Err(Trouble::Stale),
            }
            transaction.commit()?;
        }
        connection.busy_timeout(STATEMENT_WAIT)?;
        Ok(())
    }

    /// Reads what the ledger got since the last time, some thousand records a transaction. Other processes may do the
    /// same; each goes on where the last one ended.
    fn catch_up(&mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), Trouble> {
        let segments = self.folder.existing_segments()?;
        let mut lengths = Vec::with_capacity(segments.len());
        for first in segments {
            lengths.push((first, self.folder.len_of(first).map_err(LedgerError::io("be read"))?));
        }
        let Some(&end) = lengths.last() else { return Ok(()) };
        let total = lengths.iter().map(|(_, len)| len).sum();
        let mut before = None;
        let mut tries = 0;
        loop {
            let position = Position::load(&self.connection)?;
            let mut is_read = false;
            if let Some(position) = &position {
                self.check(position)?;
                is_read = (position.segment, position.offset) >= end;
                let read: u64 =
                    lengths.iter().take_while(|(first, _)| *first < position.segment).map(|(_, len)| len).sum();
                progress(read + position.offset, total);
            }
            match self.advance(is_read, end) {
                Ok(true) => tries = 0,
                Ok(false) => return Ok(()),
                Err(Trouble::Busy) if before != position => (before, tries) = (position, 0),
                Err(Trouble::Busy) if tries < STUCK_TRIES_MAX => tries += 1,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// One more step of catching up; whether there may be another.
    fn advance(&mut self, is_read: bool, end: (u64, u64)) -> Result<bool, Trouble> {
        if !is_read && self.step(end)? {
            return Ok(true);
        }
        self.connection.execute_batch(INDICES)?;
        Ok(false)
    }

    /// One transaction; whether there may be more.
    fn step(&mut self, end: (u64, u64)) -> Result<bool, Trouble> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let begin = Position { segment: 0, offset: 0, seq: 0, hash: Head::GENESIS.hash };
        let mut position = Position::load(&transaction)?.unwrap_or(begin);
        let mut batch = Batch::default();
        let has_more = batch.read(&transaction, &self.folder, &mut position, end)?;
        if position != begin {
            batch.write(&transaction)?;
            position.store(&transaction)?;
        }
        transaction.commit()?;
        Ok(has_more)
    }

    /// Whether the record before `position` is still the one that was read there: else this is another ledger.
    fn check(&self, position: &Position) -> Result<(), Trouble> {
        let file = self.folder.open_to_read(position.segment).map_err(|_| Trouble::Stale)?;
        let hash = hash_before(file.as_ref(), position.offset).map_err(LedgerError::io("be read"))?;
        if hash == Some(position.hash) { Ok(()) } else { Err(Trouble::Stale) }
    }

    /// Removes the file of an index that holds what is not to be held any more. Whoever has it open finds that out.
    pub(crate) fn forget(folder: &Folder) {
        if let Ok(meta) = fs::symlink_metadata(folder.index_path()) {
            remove(folder, (meta.dev(), meta.ino()));
        }
    }

    /// Uses the index as it is at one moment, and once more a new one where this one turns out to be stale.
    pub(crate) fn using<T>(&mut self, work: impl Fn(&Self) -> Result<T, Trouble>) -> Result<T, LedgerError> {
        match self.at_once(&work) {
            Err(Trouble::Stale) => {
                if let Some(file) = self.file {
                    remove(&self.folder, file);
                }
                *self = Self::opened(&self.folder, &mut |_, _| {})?;
                Ok(self.at_once(&work)?)
            }
            other => Ok(other?),
        }
    }

    fn at_once<T>(&self, work: impl Fn(&Self) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let _moment = self.connection.unchecked_transaction()?;
        work(self)
    }
}

/// Removes the file of an index, unless another process has put a new one in its place.
fn remove(folder: &Folder, file: (u64, u64)) {
    let path = folder.index_path();
    if fs::symlink_metadata(&path).is_ok_and(|meta| (meta.dev(), meta.ino()) != file) {
        return;
    }
    tracing::info!("the ledger's index is made anew");
    for end in ["-wal", "-shm", ""] {
        let mut name = path.clone().into_os_string();
        name.push(end);
        // What cannot be removed is found stale again, and that is said.
        let _ = fs::remove_file(name);
    }
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Changing the journal mode does not honour the busy timeout, so that processes starting together try again.
fn enter_wal(connection: &Connection) -> Result<(), Trouble> {
    const TRIES_MAX: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(20);
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL").map_err(Trouble::from) {
            Err(Trouble::Busy) if tries < TRIES_MAX => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            entered => return entered,
        }
    }
}
