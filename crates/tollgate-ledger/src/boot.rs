//! Which processes live: each holds the lock of a file of its own for as long as it runs, and the system lets go of it
//! however the process ends.

use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_types::BootId;

use crate::disk::{Access, Disk, Opened, create_dir};
use crate::segment::{Folder, first_seq, segment_name};

/// What a boot file may hold at most.
const BOOT_BYTES_MAX: u64 = 4096;

/// `data_dir/boot`.
pub(crate) struct Boots {
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

/// The file of a running process.
pub(crate) struct Boot {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    // Its lock says that the process lives.
    _file: Box<Opened>,
}

/// The processes that ended without closing.
pub(crate) struct Dead {
    pub(crate) boots: Vec<DeadBoot>,
    /// Whether others have the ledger open.
    pub(crate) has_living: bool,
}

/// What a process that ended without closing left.
pub(crate) struct DeadBoot {
    pub(crate) id: BootId,
    /// The segment and offset before which it wrote nothing.
    pub(crate) start: (u64, u64),
    boot: Boot,
}

#[derive(Serialize, Deserialize)]
struct Start {
    v: u32,
    segment: String,
    offset: u64,
}

impl Boots {
    pub(crate) fn create(ledger: &Folder) -> io::Result<Self> {
        let (path, disk) = (ledger.data_dir().join("boot"), ledger.shared_disk());
        create_dir(disk.as_ref(), &path)?;
        Ok(Self { path, disk })
    }

    /// Marks this process as living. Called within a turn at the ledger, so that nobody takes it for dead between the
    /// making of the file and its locking.
    pub(crate) fn enter(&self, id: &BootId, (first, offset): (u64, u64)) -> io::Result<Boot> {
        let path = self.path.join(format!("{id}.lock"));
        let file = self.disk.open(&path, Access::Create)?;
        file.file().lock()?;
        let start = Start { v: 1, segment: segment_name(first), offset };
        if let Err(error) = file.write_all_at(serde_json::to_string(&start)?.as_bytes(), 0) {
            // An empty file would be taken for a dead process's.
            let _ = self.disk.remove(&path);
            return Err(error);
        }
        Ok(Boot { path, disk: Arc::clone(&self.disk), _file: file })
    }

    /// A process that began within a segment began at its start: places within it change. Called within a turn at the ledger.
    pub(crate) fn begin_at_start_of(&self, first: u64) -> io::Result<()> {
        for name in self.disk.names(&self.path)?.iter().filter(|name| name.ends_with(".lock")) {
            let file = match self.disk.open(&self.path.join(name), Access::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if start(file.as_ref())?.0 == first {
                // Whoever reads half of it takes it for the very beginning.
                let begin = Start { v: 1, segment: segment_name(first), offset: 0 };
                file.set_len(0)?;
                file.write_all_at(serde_json::to_string(&begin)?.as_bytes(), 0)?;
                file.sync_data()?;
            }
        }
        Ok(())
    }

    /// Whether the process of this mark runs.
    pub(crate) fn lives(&self, id: &BootId) -> io::Result<bool> {
        let file = match self.disk.open(&self.path.join(format!("{id}.lock")), Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        match file.file().try_lock_shared() {
            Err(TryLockError::WouldBlock) => Ok(true),
            // Given back with the file: whoever looks for the dead meanwhile finds this one the next time.
            taken => taken.map(|()| false).map_err(Into::into),
        }
    }

    /// The processes that ended without closing. Their locks are held now, so that nobody else recovers them too.
    /// Called within a turn at the ledger.
    pub(crate) fn dead(&self) -> io::Result<Dead> {
        let (mut dead, mut has_living) = (Vec::new(), false);
        for name in self.disk.names(&self.path)? {
            let Some(id) = name.strip_suffix(".lock") else { continue };
            let path = self.path.join(&name);
            let file = match self.disk.open(&path, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            match file.file().try_lock() {
                Err(TryLockError::WouldBlock) => {
                    has_living = true;
                    continue;
                }
                taken => taken?,
            }
            // A file that was removed meanwhile belonged to a process that closed in good order.
            if !file.state()?.is_removed {
                let (id, start) = (BootId::new(id), start(file.as_ref())?);
                let boot = Boot { path, disk: Arc::clone(&self.disk), _file: file };
                dead.push(DeadBoot { id, start, boot });
            }
        }
        dead.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Dead { boots: dead, has_living })
    }
}

/// Where the process began; the very beginning where its file did not survive.
fn start(file: &Opened) -> io::Result<(u64, u64)> {
    let bytes = file.read_from(0, BOOT_BYTES_MAX)?;
    let start = serde_json::from_slice::<Start>(&bytes).ok().filter(|start| start.v == 1);
    Ok(start.and_then(|start| Some((first_seq(&start.segment)?, start.offset))).unwrap_or_default())
}

impl Boot {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mark away: nothing is left to recover.
    pub(crate) fn leave(&self) -> io::Result<()> {
        self.disk.remove(&self.path)
    }
}

impl DeadBoot {
    /// Takes the mark away: everything is recovered.
    pub(crate) fn leave(&self) -> io::Result<()> {
        self.boot.leave()
    }
}

/// Brings a boot file and its name to the disk, so that a power loss cannot hide that a process was there.
pub(crate) fn sync(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    disk.open(path, Access::Read)?.sync_data()?;
    path.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
}
