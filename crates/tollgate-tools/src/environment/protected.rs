//! What nobody may touch through a tool: the data folder, configuration and keys, known by device and inode, so that
//! another name for them (a hard link, a mount, another spelling) is still them.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cap_std::fs::{Metadata, MetadataExt};
use tollgate_types::{Code, ToolError};

/// Entries of protected folders compared with a file that has several names: a call's check may not take long.
const PROTECTED_ENTRIES_MAX: usize = 4_096;

/// Device and inode: what a file is, whatever its name.
pub(super) type Id = (u64, u64);

/// What `meta` describes.
pub(super) fn id(meta: &Metadata) -> Id {
    (meta.dev(), meta.ino())
}

/// What nobody may touch.
pub(super) struct Protected {
    pub(super) ids: HashSet<Id>,
    /// What does not exist yet, so that nobody creates it: the folder that exists, and the next name.
    names: Vec<(Id, OsString)>,
    paths: Vec<PathBuf>,
    /// The files inside that have several names; none when they can not be told.
    linked: OnceLock<Option<HashSet<Id>>>,
}

impl Protected {
    /// What stands at `paths` now, and what will.
    pub(super) fn of(paths: &[PathBuf]) -> Self {
        let mut protected = Self {
            ids: HashSet::new(),
            names: Vec::new(),
            paths: Vec::with_capacity(paths.len()),
            linked: OnceLock::new(),
        };
        for path in paths {
            let Ok(path) = std::path::absolute(path) else { continue };
            // The link and what it leads to are both out of reach.
            protected.ids.extend(std::fs::symlink_metadata(&path).ok().map(|meta| std_id(&meta)));
            match std::fs::metadata(&path) {
                Ok(meta) => {
                    protected.ids.insert(std_id(&meta));
                }
                Err(_) => protected.names.extend(first_missing(&path)),
            }
            protected.paths.push(path);
        }
        protected
    }

    /// Whether `name` in `folder` is where something protected would be made.
    pub(super) fn has_name(&self, folder: Id, name: &OsStr) -> bool {
        // Some file systems do not tell upper case from lower.
        self.names.iter().any(|(at, missing)| *at == folder && missing.eq_ignore_ascii_case(name))
    }

    /// Whether this is protected, or another name of a file that is.
    pub(super) fn has(&self, meta: &Metadata) -> bool {
        self.ids.contains(&id(meta)) || (meta.is_file() && meta.nlink() > 1 && self.has_link(&id(meta)))
    }

    fn has_link(&self, file: &Id) -> bool {
        let linked = self.linked.get_or_init(|| linked_files(self.paths.clone()));
        // Fail closed: what can not be compared is not shown.
        linked.as_ref().is_none_or(|files| files.contains(file))
    }

    /// The answer to whoever asks for it.
    pub(super) fn refusal(path: &str) -> ToolError {
        ToolError::with_code(Code::Denied, format!("`{path}` belongs to Tollgate itself")).with_hint(
            "its data, configuration and keys are out of reach of every tool, and so is a file with several names \
                 (hard links) that can not be told from them; work with other files",
        )
    }
}

fn std_id(meta: &std::fs::Metadata) -> Id {
    use std::os::unix::fs::MetadataExt as _;
    (meta.dev(), meta.ino())
}

/// The deepest folder of `path` that exists, and the name that is missing there.
fn first_missing(path: &Path) -> Option<(Id, OsString)> {
    path.ancestors().find_map(|missing| {
        let folder = std::fs::metadata(missing.parent()?).ok()?;
        Some((std_id(&folder), missing.file_name()?.to_owned()))
    })
}

fn linked_files(mut todo: Vec<PathBuf>) -> Option<HashSet<Id>> {
    use std::os::unix::fs::MetadataExt as _;
    let mut files = HashSet::new();
    let mut seen = todo.len();
    while let Some(path) = todo.pop() {
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        if meta.is_dir() {
            for entry in std::fs::read_dir(&path).ok()? {
                seen += 1;
                if seen > PROTECTED_ENTRIES_MAX {
                    return None;
                }
                todo.push(entry.ok()?.path());
            }
        } else if meta.nlink() > 1 {
            files.insert(std_id(&meta));
        }
    }
    Some(files)
}
