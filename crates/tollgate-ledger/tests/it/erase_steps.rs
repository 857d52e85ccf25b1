//! An erasure on a disk that is gone after each of its steps: nothing is lost, and the next process finishes it.

use std::fs::File;
use std::io;

use tollgate_ledger::{Access, Disk, DiskFile, Level, Options, Sealing, SystemDisk, verify};

use super::*;
use crate::checkpoints::copy;
use crate::erase::{SUBJECTS, both_verify, erased, hashes, holders, of, written};

/// A disk that takes so many more steps.
#[derive(Debug, Clone)]
struct Dying(Arc<AtomicI64>);

impl Dying {
    fn step(&self) -> io::Result<()> {
        match self.0.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(io::Error::other("the disk is gone")),
        }
    }
}

impl Disk for Dying {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        if access != Access::Read {
            self.step()?;
        }
        Ok(Box::new(DyingFile { file: SystemDisk.open(path, access)?, disk: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.remove(path)
    }

    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        SystemDisk.sync_dir(folder)
    }
}

#[derive(Debug)]
struct DyingFile {
    file: Box<dyn DiskFile>,
    disk: Dying,
}

impl DiskFile for DyingFile {
    fn file(&self) -> &File {
        self.file.file()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.step()?;
        self.file.append(bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.step()?;
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.step()?;
        self.file.set_len(len)
    }

    fn set_sealing(&self, sealing: Sealing) -> io::Result<()> {
        self.disk.step()?;
        self.file.set_sealing(sealing)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync_data()
    }
}

#[tokio::test]
async fn after_each_step_nothing_is_lost_and_it_can_be_finished() {
    let original = tempfile::tempdir().unwrap();
    drop(written(original.path(), 6).await);
    let before = hashes(original.path());
    let mut steps = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        copy(original.path(), folder.path());
        let disk = Dying(Arc::new(AtomicI64::new(i64::MAX)));
        let options = Options { disk: Arc::new(disk.clone()), ..Options::default() };
        let ledger = Arc::new(Ledger::open_with(folder.path(), clock(), options).unwrap().0);
        disk.0.store(steps, Ordering::Relaxed);
        let is_done = erased(&ledger, of(&[("caller", SUBJECTS[0])]), Level::Contents).is_ok();
        // The process is gone, and what it would still do on its way out.
        disk.0.store(0, Ordering::Relaxed);
        drop(ledger);
        let report = verify(folder.path()).unwrap();
        assert!(report.ok, "after {steps} steps: {report:?}");
        assert_eq!(&hashes(folder.path())[..before.len()], &before[..], "after {steps} steps");

        let next = Arc::new(open(folder.path()).0);
        erased(&next, of(&[("caller", SUBJECTS[0])]), Level::Contents).unwrap();
        assert_eq!(verify(folder.path()).unwrap().erased.unwrap().undone, 0, "after {steps} steps");
        assert_eq!(holders(folder.path(), "的第0件事"), [] as [PathBuf; 0], "after {steps} steps");
        if is_done {
            both_verify(folder.path());
            break;
        }
        steps += 1;
    }
    assert!(steps > 15, "{steps} steps");
}
