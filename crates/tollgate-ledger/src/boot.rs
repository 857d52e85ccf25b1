//! Which processes live: each holds the lock of a file of its own for as long as it runs, and the system lets go of it
//! however the process ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tollgate_types::BootId;

use crate::segment::{create_dir, first_seq, open_regular, private_file, segment_name, sync_dir};

/// What a boot file may hold at most.
const BOOT_BYTES_MAX: u64 = 4096;

/// `data_dir/boot`.
pub(crate) struct Boots {
    path: PathBuf,
}

/// The file of a running process.
pub(crate) struct Boot {
    path: PathBuf,
    // Its lock says that the process lives.
    _file: File,
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
    pub(crate) fn create(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join("boot");
        create_dir(&path)?;
        Ok(Self { path })
    }

    /// Marks this process as living. Called within a turn at the ledger, so that nobody takes it for dead between the
    /// making of the file and its locking.
    pub(crate) fn enter(&self, id: &BootId, (first, offset): (u64, u64)) -> io::Result<Boot> {
        let path = self.path.join(format!("{id}.lock"));
        let mut file = private_file().write(true).create_new(true).open(&path)?;
        file.lock()?;
        let start = Start { v: 1, segment: segment_name(first), offset };
        if let Err(error) = file.write_all(serde_json::to_string(&start)?.as_bytes()) {
            // An empty file would be taken for a dead process's.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Boot { path, _file: file })
    }

    /// The processes that ended without closing. Their locks are held now, so that nobody else recovers them too.
    /// Called within a turn at the ledger.
    pub(crate) fn dead(&self) -> io::Result<Dead> {
        let (mut dead, mut has_living) = (Vec::new(), false);
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let id = path.file_stem().and_then(|stem| stem.to_str());
            let Some(id) = id.filter(|_| path.extension().is_some_and(|extension| extension == "lock")) else {
                continue;
            };
            let file = match open_regular(private_file().read(true), &path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    has_living = true;
                    continue;
                }
                taken => taken?,
            }
            // A file that was removed meanwhile belonged to a process that closed in good order.
            if rustix::fs::fstat(&file)?.st_nlink > 0 {
                let (id, start) = (BootId::new(id), start(&file)?);
                dead.push(DeadBoot { id, start, boot: Boot { path, _file: file } });
            }
        }
        dead.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Dead { boots: dead, has_living })
    }
}

/// Where the process began; the very beginning where its file did not survive.
fn start(file: &File) -> io::Result<(u64, u64)> {
    let mut text = String::new();
    match file.take(BOOT_BYTES_MAX).read_to_string(&mut text) {
        Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let start = serde_json::from_str::<Start>(&text).ok().filter(|start| start.v == 1);
    Ok(start.and_then(|start| Some((first_seq(&start.segment)?, start.offset))).unwrap_or_default())
}

impl Boot {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mark away: nothing is left to recover.
    pub(crate) fn leave(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl DeadBoot {
    /// Takes the mark away: everything is recovered.
    pub(crate) fn leave(&self) -> io::Result<()> {
        self.boot.leave()
    }
}

/// Brings a boot file and its name to the disk, so that a power loss cannot hide that a process was there.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()?;
    path.parent().map_or(Ok(()), sync_dir)
}
