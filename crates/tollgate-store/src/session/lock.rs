//! Who works in a session: one process at a time. The system lets go of a lock however its process ends.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::key::{create_private_folder, open_private};
use crate::{Store, StoreError};

/// What is read of a lock file: a process's number.
const OWNER_BYTES_MAX: u64 = 32;

/// A session that is this process's until this is dropped.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    // Its lock is what counts.
    _file: File,
}

impl Store {
    /// Takes a session for this process.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another process works in it, or the file cannot be used.
    pub fn lock_session(&self, id: &str) -> Result<SessionLock, StoreError> {
        let folder = self.folder().join("sessions");
        create_private_folder(&folder).map_err(|source| StoreError::io(&folder, source))?;
        let path = folder.join(format!("{id}.lock"));
        loop {
            let mut file = open_private(&path).map_err(|source| StoreError::io(&path, source))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use(id, &file)),
                Err(TryLockError::Error(source)) => return Err(StoreError::io(&path, source)),
            }
            // The owner before may have taken the file away between the opening and the lock.
            if !is_at(&file, &path) {
                continue;
            }
            let written = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            written.map_err(|source| StoreError::io(&path, source))?;
            return Ok(SessionLock { path, _file: file });
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Still locked: nobody else can have made it theirs. A file that stays is taken over by whoever comes next.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(place).ok().is_some_and(|here| fs::metadata(path).map(place).is_ok_and(|there| here == there))
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

fn in_use(id: &str, mut file: &File) -> StoreError {
    let mut owner = String::new();
    let _ = file.rewind();
    let _ = file.take(OWNER_BYTES_MAX).read_to_string(&mut owner);
    let who = owner.trim().parse::<u32>().map(|number| format!(" (number {number})")).unwrap_or_default();
    StoreError::Conflict(format!("another process{who} works in session `{id}`"))
}
