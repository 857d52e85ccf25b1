//! Where a path led: an opened folder, what is left of the path below it, and what stands there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;

use cap_std::fs::{Dir, FileTypeExt, Metadata, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use tollgate_types::{Code, ToolError};

use super::protected::{Id, Protected, id};
use super::workspace::Confined;
use crate::text::{nearest, ticked};

/// Names looked at for a suggestion.
const NAMES_MAX: usize = 2_000;

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File,
    /// A pipe, socket or device, by its name for people.
    Special(&'static str),
    Missing,
}

impl Kind {
    pub(super) fn of(meta: &Metadata) -> Self {
        let kind = meta.file_type();
        match () {
            () if meta.is_file() => Self::File,
            () if meta.is_dir() => Self::Folder,
            () if kind.is_fifo() => Self::Special("a named pipe"),
            () if kind.is_socket() => Self::Special("a socket"),
            () => Self::Special("a device"),
        }
    }
}

/// Where a path leads: an opened folder, and what is left of the path below it.
pub(crate) struct Place<'a> {
    pub(super) confined: &'a Confined,
    /// The path as it was asked for.
    pub(super) asked: String,
    /// The folders below the root, each opened, with its name.
    pub(super) folders: Vec<(Dir, Id, OsString)>,
    /// Empty for a folder; one name for a file; more for what has no folder yet.
    pub(super) rest: Vec<OsString>,
    /// Whether a name on the way, a link's included, is that of a configuration.
    pub(super) is_configuration: bool,
    /// What stands there.
    pub(crate) kind: Kind,
}

impl<'a> Place<'a> {
    pub(super) fn root(confined: &'a Confined, asked: &str) -> Self {
        Self {
            confined,
            asked: asked.to_owned(),
            folders: Vec::new(),
            rest: Vec::new(),
            is_configuration: false,
            kind: Kind::Folder,
        }
    }

    /// The workspace that this is a place of.
    pub(crate) fn confined(&self) -> &'a Confined {
        self.confined
    }

    /// The deepest folder on the way.
    pub(crate) fn folder(&self) -> &Dir {
        self.folders.last().map_or(self.confined.root(), |(folder, ..)| folder)
    }

    pub(crate) fn folder_id(&self) -> Id {
        self.folders.last().map_or(self.confined.root_id(), |(_, id, _)| *id)
    }

    /// The folders on the way from the root, each with its path.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = (&Dir, String)> {
        let mut path = PathBuf::new();
        std::iter::once((self.confined.root(), String::new())).chain(self.folders.iter().map(
            move |(folder, _, name)| {
                path.push(name);
                (folder, path.to_string_lossy().into_owned())
            },
        ))
    }

    /// The last name.
    pub(crate) fn name(&self) -> &OsStr {
        self.rest.last().map_or(OsStr::new("."), OsString::as_os_str)
    }

    /// The path from the root, links resolved; `.` for the root.
    pub(crate) fn path(&self) -> String {
        let names = self.folders.iter().map(|(_, _, name)| name).chain(&self.rest);
        let path: PathBuf = names.collect();
        if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
    }

    /// One folder deeper, opened without following a link and compared.
    pub(super) fn enter(&mut self, name: &OsStr) -> Result<(), ToolError> {
        let (folder, meta) = open_folder(self.folder(), name).map_err(|error| self.failed(&error))?;
        if self.confined.protected().has(&meta) {
            return Err(Protected::refusal(&self.asked));
        }
        self.folders.push((folder, id(&meta), name.to_owned()));
        Ok(())
    }

    /// Makes the folders that are missing before the last name.
    pub(crate) fn create_folders(&mut self) -> Result<(), ToolError> {
        while self.rest.len() > 1 {
            let name = self.rest.remove(0);
            if self.confined.protected().has_name(self.folder_id(), &name) {
                return Err(Protected::refusal(&self.asked));
            }
            match self.folder().create_dir(&name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(self.failed(&error)),
                Ok(()) | Err(_) => self.enter(&name)?,
            }
        }
        Ok(())
    }

    /// Opens the file for reading.
    pub(crate) fn open_file(&self) -> Result<(std::fs::File, Metadata), ToolError> {
        match self.kind {
            Kind::Folder => Err(self.is_folder()),
            Kind::Special(what) => Err(self.is_special(what)),
            Kind::Missing => Err(self.not_found()),
            Kind::File => {
                let (file, meta) = open_file(self.folder(), self.name()).map_err(|error| self.failed(&error))?;
                if self.confined.protected().has(&meta) {
                    return Err(Protected::refusal(&self.asked));
                }
                match Kind::of(&meta) {
                    Kind::File => Ok((file, meta)),
                    Kind::Special(what) => Err(self.is_special(what)),
                    Kind::Folder | Kind::Missing => Err(self.is_folder()),
                }
            }
        }
    }

    /// Refuses what may be read and not changed: what the operator keeps, and every configuration.
    pub(crate) fn may_change(&self) -> Result<(), ToolError> {
        if self.is_configuration {
            let message = format!("`{}` is a configuration of Tollgate", self.asked);
            return Err(ToolError::with_code(Code::Denied, message)
                .with_hint("a start in its folder would obey it, so no tool may change it; the operator must"));
        }
        let read_only = self.confined.read_only();
        let mut folders = std::iter::once(self.confined.root_id()).chain(self.folders.iter().map(|(_, id, _)| *id));
        let is_kept = match self.kind {
            Kind::Missing => self.rest.first().is_some_and(|name| read_only.has_name(self.folder_id(), name)),
            Kind::File => self.folder().symlink_metadata(self.name()).is_ok_and(|meta| read_only.has(&meta)),
            Kind::Folder | Kind::Special(_) => false,
        };
        if is_kept || folders.any(|id| read_only.ids.contains(&id)) { Err(self.is_kept()) } else { Ok(()) }
    }

    /// Opens the file that is about to be replaced.
    pub(crate) fn open_to_change(&self) -> Result<(std::fs::File, Metadata), ToolError> {
        self.may_change()?;
        let (file, meta) = self.open_file()?;
        if self.confined.read_only().has(&meta) {
            return Err(self.is_kept());
        }
        // A rename would replace a write-protected file without asking.
        if meta.permissions().readonly() {
            return Err(ToolError::new(format!("`{}` is write-protected", self.path()))
                .with_tool_code("READ_ONLY")
                .with_hint("somebody protected it on purpose; write another file"));
        }
        Ok((file, meta))
    }

    fn is_kept(&self) -> ToolError {
        ToolError::with_code(Code::Denied, format!("`{}` may be read and not changed", self.asked))
            .with_hint("a configured tool runs it, so the operator must change it")
    }

    pub(crate) fn is_folder(&self) -> ToolError {
        ToolError::new(format!("`{}` is a folder", self.asked))
            .with_tool_code("IS_FOLDER")
            .with_hint("list_files shows what is in it")
    }

    pub(crate) fn is_special(&self, what: &str) -> ToolError {
        ToolError::new(format!("`{}` is {what}, not a file", self.asked))
            .with_tool_code("NOT_A_FILE")
            .with_hint("only regular files can be read and written")
    }

    pub(crate) fn not_found(&self) -> ToolError {
        let missing = self.rest.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let near = nearest(&missing, self.names());
        let hint = if near.is_empty() {
            "list_files shows what is there".to_owned()
        } else {
            let at = self.folders.iter().map(|(_, _, name)| name).collect::<PathBuf>();
            let near = near.iter().map(|name| at.join(name).to_string_lossy().into_owned());
            format!("did you mean {}? list_files shows what is there", ticked(near))
        };
        ToolError::new(format!("`{}` does not exist", self.asked)).with_tool_code("NOT_FOUND").with_hint(hint)
    }

    fn names(&self) -> Vec<String> {
        let Ok(entries) = self.folder().entries() else { return Vec::new() };
        let shown = entries.flatten().take(NAMES_MAX).filter(|entry| {
            let hidden = |meta| self.confined.is_protected(self.folder_id(), &entry.file_name(), &meta);
            !entry.metadata().is_ok_and(hidden)
        });
        shown.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// What the file system said.
    pub(crate) fn failed(&self, error: &io::Error) -> ToolError {
        let failed = ToolError::new(format!("`{}`: {}", self.asked, reason(error)));
        match error.kind() {
            io::ErrorKind::PermissionDenied => failed
                .with_tool_code("PERMISSION")
                .with_hint("the operating system does not allow it to the user that Tollgate runs as"),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failed.with_tool_code("DISK_FULL").with_hint("nothing was changed; free some space first")
            }
            io::ErrorKind::ReadOnlyFilesystem => failed.with_tool_code("READ_ONLY"),
            _ => failed.with_tool_code("IO"),
        }
    }
}

fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn options(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    // Nonblocking, so that a pipe put in the way does not hold the thread.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

/// Opens `name` in `folder` as a folder, following nothing.
pub(crate) fn open_folder(folder: &Dir, name: &OsStr) -> io::Result<(Dir, Metadata)> {
    let folder = Dir::from_std_file(folder.open_with(name, &options(OFlags::DIRECTORY))?.into_std());
    let meta = folder.dir_metadata()?;
    Ok((folder, meta))
}

/// Opens `name` in `folder` for reading, following nothing. The caller looks at what it is.
pub(crate) fn open_file(folder: &Dir, name: &OsStr) -> io::Result<(std::fs::File, Metadata)> {
    let file = folder.open_with(name, &options(OFlags::empty()))?;
    let meta = file.metadata()?;
    Ok((file.into_std(), meta))
}
