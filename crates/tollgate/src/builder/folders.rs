//! The folders that a house works in.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::config::Loaded;

/// The workspace, and the data folder beside it.
pub(super) fn folders(
    loaded: &Loaded,
    workspace: Option<PathBuf>,
    data_dir: Option<PathBuf>,
) -> Result<(PathBuf, PathBuf), Error> {
    let workspace = existing("the workspace", &workspace.unwrap_or_else(|| loaded.workspace()))?;
    let data_dir = made(&data_dir.unwrap_or_else(|| loaded.data_dir()), &workspace)?;
    Ok((workspace, data_dir))
}

fn existing(what: &'static str, folder: &Path) -> Result<PathBuf, Error> {
    let fault = |why: String| Error::Folder { what, path: folder.to_owned(), why };
    let real = folder.canonicalize().map_err(|error| fault(error.to_string()))?;
    if real.is_dir() { Ok(real) } else { Err(fault("is not a folder".into())) }
}

fn made(folder: &Path, workspace: &Path) -> Result<PathBuf, Error> {
    let fault = |why: String| Error::Folder { what: "the data folder", path: folder.to_owned(), why };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| fault(error.to_string()))?;
    let real = existing("the data folder", folder)?;
    if workspace.starts_with(&real) {
        return Err(fault(
            "holds the workspace: give the data a folder of its own, such as data_dir = \".tollgate\"".into(),
        ));
    }
    Ok(real)
}
