//! A folder that goes away by itself.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A folder for one test, removed when it is dropped.
///
/// ```
/// use tollgate_testkit::Folder;
///
/// let folder = Folder::new()?.file("notes/a.txt", "无线键盘")?;
/// assert_eq!(std::fs::read_to_string(folder.path().join("notes/a.txt"))?, "无线键盘");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    // Held for its `Drop`.
    _owner: tempfile::TempDir,
}

impl Folder {
    /// An empty folder. Its path has no symlinks in it, so that it compares equal to what the system says.
    ///
    /// # Errors
    /// When the system's temporary folder cannot be written.
    pub fn new() -> io::Result<Self> {
        let owner = tempfile::Builder::new().prefix("tollgate-test-").tempdir()?;
        Ok(Self { root: owner.path().canonicalize()?, _owner: owner })
    }

    /// The same folder with a file in it; folders on the way are made.
    ///
    /// # Errors
    /// When `path` leads out of the folder, or cannot be written.
    pub fn file(self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<Self> {
        let path = path.as_ref();
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            let message = format!("`{}` leads out of the folder", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, contents)?;
        Ok(self)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cannot_leave_the_folder() {
        for path in ["../x", "/x", "a/../../x"] {
            assert!(Folder::new().unwrap().file(path, "").is_err(), "{path}");
        }
    }

    #[test]
    fn it_goes_away() {
        let path = Folder::new().unwrap().file("a/b", "").unwrap().path().to_owned();
        assert!(!path.exists());
    }
}
