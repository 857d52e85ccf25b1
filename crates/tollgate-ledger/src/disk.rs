//! The disk as the ledger uses it: every file that it writes, and every name. There is one that a product has, the
//! system's; a test puts another in its place, that fails, is full or loses its power. Locks are not a disk's business.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
const SEALED_MODE: u32 = 0o400;
const OWNER_WRITES: u32 = 0o200;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To read it and write behind its end.
    Append,
    /// The same; an empty one is made where there is none.
    AppendOrCreate,
    /// To read it and write anywhere in it.
    Write,
    /// To write a new one where there is none.
    Create,
    /// To write a new one in the place of any other.
    Replace,
}

/// Whether a file takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    /// Its owner may write it.
    Open,
    /// Nobody may, which tells every process that it gets no more.
    Sealed,
}

/// What the system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Its length in bytes.
    pub len: u64,
    /// Whether it is [`Sealing::Sealed`].
    pub is_sealed: bool,
    /// Whether it has no name any more.
    pub is_removed: bool,
}

/// The names and files of a disk. What is not said otherwise is what the system does.
///
/// A file is on the disk after [`DiskFile::sync_data`], its name after [`Disk::sync_dir`] of its folder.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file as every file of the ledger is opened: for its owner alone, never through a symlink, and without
    /// waiting for whoever holds the other end of something that is no file, which is an error.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(open_regular(&options(access), path)?))
    }

    /// The names in a folder, in any order. One that is no text is left out: no file of the ledger has such a name.
    ///
    /// # Errors
    /// What the system says.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Gives a file another name, in the place of any other file that has it.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Takes a file's name away.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Makes a folder that only its owner may enter.
    ///
    /// # Errors
    /// What the system says.
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(FOLDER_MODE).create(path)
    }

    /// Brings the names in a folder to the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

/// An open file. What is not said otherwise is what the system does with [`DiskFile::file`].
pub trait DiskFile: Debug + Send + Sync {
    /// The system's file, for its lock.
    fn file(&self) -> &File;

    /// Reads some bytes from a place on; none at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self.file(), buffer, offset)
    }

    /// Writes some of the bytes behind the end, and says how many.
    ///
    /// # Errors
    /// What the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut self.file(), bytes)
    }

    /// Writes some of the bytes from a place on, and says how many.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self.file(), bytes, offset)
    }

    /// Makes the file so long: what is beyond is gone, what is missing is zeros.
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file().set_len(len)
    }

    /// Says whether the file takes records.
    ///
    /// # Errors
    /// What the system says.
    fn set_sealing(&self, sealing: Sealing) -> io::Result<()> {
        let mode = if sealing == Sealing::Sealed { SEALED_MODE } else { FILE_MODE };
        self.file().set_permissions(Permissions::from_mode(mode))
    }

    /// Brings the content and the length to the disk. After a failure this descriptor must not be asked again: the system
    /// may take for clean what never reached the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync_data(&self) -> io::Result<()> {
        self.file().sync_data()
    }

    /// What the system says of the file now.
    ///
    /// # Errors
    /// What the system says.
    fn state(&self) -> io::Result<FileState> {
        state_of(self.file())
    }
}

/// The system's disk.
#[derive(Debug)]
pub struct SystemDisk;

impl Disk for SystemDisk {}

impl DiskFile for File {
    fn file(&self) -> &File {
        self
    }
}

/// An open file of any disk.
pub(crate) type Opened = dyn DiskFile;

impl Opened {
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.state()?.len)
    }

    pub(crate) fn append_all(&self, bytes: &[u8]) -> io::Result<()> {
        all(bytes, |rest, _| self.append(rest))
    }

    pub(crate) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        all(bytes, |rest, done| self.write_at(rest, offset + done))
    }

    /// The bytes from `offset` on, at most so many.
    pub(crate) fn read_from(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        let wanted = self.len()?.saturating_sub(offset).min(bytes_max);
        let mut bytes = vec![0; usize::try_from(wanted).map_err(io::Error::other)?];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_at(rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// Writes on until every byte is taken or one is refused.
fn all(bytes: &[u8], write: impl Fn(&[u8], u64) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match write(rest, done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn options(access: Access) -> OpenOptions {
    let mut options = private_file();
    match access {
        Access::Read => options.read(true),
        Access::Append => options.read(true).append(true),
        Access::AppendOrCreate => options.read(true).append(true).create(true),
        Access::Write => options.read(true).write(true),
        Access::Create => options.read(true).write(true).create_new(true),
        Access::Replace => options.read(true).write(true).create(true).truncate(true),
    };
    options
}

/// Asks for no times: Linux gives a file whose times were asked for new ones with its next write, which costs as much as
/// the write itself.
#[cfg(target_os = "linux")]
fn state_of(file: &File) -> io::Result<FileState> {
    use rustix::fs::{AtFlags, StatxFlags, statx};

    let wanted = StatxFlags::SIZE | StatxFlags::MODE | StatxFlags::NLINK;
    let stat = statx(file, "", AtFlags::EMPTY_PATH, wanted)?;
    let is_sealed = u32::from(stat.stx_mode) & OWNER_WRITES == 0;
    Ok(FileState { len: stat.stx_size, is_sealed, is_removed: stat.stx_nlink == 0 })
}

#[cfg(not(target_os = "linux"))]
fn state_of(file: &File) -> io::Result<FileState> {
    use std::os::unix::fs::MetadataExt;

    let stat = file.metadata()?;
    Ok(FileState { len: stat.len(), is_sealed: stat.mode() & OWNER_WRITES == 0, is_removed: stat.nlink() == 0 })
}

/// How every file of the ledger is opened, locks too.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

/// Opens a regular file; a pipe, a socket or a device in its place is an error.
pub(crate) fn open_regular(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` is not a regular file", path.display())))
}

/// Makes a folder that only its owner may enter, and brings its name to the disk.
pub(crate) fn create_dir(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.create_dir(path) {
        Ok(()) => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => disk.sync_dir(parent),
            Some(_) | None => disk.sync_dir(Path::new(".")),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}
