//! Writing a file so that a reader, a crash or a full disk meets the old content or the new, never a part.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions};
use rustix::fs::RenameFlags;
use tollgate_types::ToolError;

use super::place::Place;

/// What the name stands for before the write.
#[derive(Clone, Copy)]
pub(crate) enum Before<'a> {
    /// Nothing.
    Nothing,
    /// This file; it is replaced only while it is still this.
    File(&'a Metadata),
}

static WRITES: AtomicU64 = AtomicU64::new(0);

/// Puts `parts` under the place's name. Folders on the way exist.
pub(crate) fn write(place: &Place<'_>, attempt: &str, parts: &[&[u8]], before: Before<'_>) -> Result<(), ToolError> {
    let folder = place.folder();
    let name = place.name();
    let short: String = attempt.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
    let temp = format!(".tollgate-{}-{short}-{}.tmp", std::process::id(), WRITES.fetch_add(1, Ordering::Relaxed));
    let written = fill(folder, &temp, parts, before).and_then(|()| put(folder, &temp, name, before));
    if let Err(error) = written {
        // The temporary file may not even exist; what went wrong first is what counts.
        let _ = folder.remove_file(&temp);
        return Err(match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&place.path()),
            io::ErrorKind::StaleNetworkFileHandle => changed(&place.path()),
            _ => place.failed(&error),
        });
    }
    // The rename has happened; where folders can not be synced there is nothing better to be had.
    let _ = folder.open(".").and_then(|folder| folder.sync_all());
    Ok(())
}

/// Takes the file at the place away, while it is still this one.
pub(crate) fn remove(place: &Place<'_>, meta: &Metadata) -> Result<(), ToolError> {
    let (folder, name) = (place.folder(), place.name());
    let now = folder.symlink_metadata(name).map_err(|error| place.failed(&error))?;
    if version(&now) != version(meta) {
        return Err(changed(&place.path()));
    }
    folder.remove_file(name).map_err(|error| place.failed(&error))?;
    let _ = folder.open(".").and_then(|folder| folder.sync_all());
    Ok(())
}

fn fill(folder: &Dir, temp: &str, parts: &[&[u8]], before: Before<'_>) -> io::Result<()> {
    let mut file = folder.open_with(temp, OpenOptions::new().write(true).create_new(true))?;
    if let Before::File(meta) = before {
        file.set_permissions(meta.permissions())?;
    }
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()
}

fn put(folder: &Dir, temp: &str, name: &OsStr, before: Before<'_>) -> io::Result<()> {
    match before {
        Before::File(meta) => {
            let now = folder.symlink_metadata(name)?;
            if version(&now) != version(meta) {
                return Err(io::ErrorKind::StaleNetworkFileHandle.into());
            }
            folder.rename(temp, folder, name)
        }
        Before::Nothing => match rustix::fs::renameat_with(folder, temp, folder, name, RenameFlags::NOREPLACE) {
            // Not every file system knows this flag; the name was free when the run began.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP) => {
                folder.rename(temp, folder, name)
            }
            result => Ok(result?),
        },
    }
}

fn version(meta: &Metadata) -> (u64, u64, u64, i64, i64) {
    (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

/// The name is taken.
pub(crate) fn exists(path: &str) -> ToolError {
    ToolError::new(format!("`{path}` already exists"))
        .with_tool_code("EXISTS")
        .with_hint("edit_file changes a part of it; overwrite=true replaces it as a whole")
}

fn changed(path: &str) -> ToolError {
    ToolError::new(format!("`{path}` was changed by somebody else meanwhile"))
        .with_tool_code("CHANGED")
        .with_hint("nothing was written; read it again first")
        .retryable()
}

#[cfg(test)]
mod tests {
    use tollgate_types::Workspace;

    use super::super::workspace::Confined;
    use super::*;

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone_and_nothing_is_left_over() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "old").unwrap();
        let confined =
            Confined::open(&Workspace { root: dir.path().to_owned(), protected: Vec::new(), read_only: vec![] })
                .unwrap();
        let place = confined.locate("a.txt").unwrap();
        let (_, meta) = place.open_file().unwrap();
        std::fs::write(&path, "theirs").unwrap();
        let error = write(&place, "x", &[b"mine"], Before::File(&meta)).unwrap_err();
        assert_eq!((error.tool_code.as_deref(), error.retryable), (Some("CHANGED"), true));
        // A name that was free when the run began.
        let error = write(&place, "x", &[b"mine"], Before::Nothing).unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("EXISTS"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
