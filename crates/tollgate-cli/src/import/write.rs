//! Writing what was taken over: the whole of `tollgate.toml` aside, then the secrets, each for its owner alone, then the file
//! into place, so that a crash at any moment leaves the file of before or the file of after.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use tollgate::config::Loaded;

use super::KeptSecret;
use crate::failure::Failure;

/// A file below `secrets` for a secret: one that is not there, or has the same content. `taken` are about to be written.
pub(super) fn free_file(folder: &Path, secrets: &Path, name: &str, secret: &str, taken: &[KeptSecret]) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let is_other = |file: &Path| {
        let path = folder.join(file);
        let is_there = path.symlink_metadata().is_ok();
        let is_taken = taken.iter().any(|kept| kept.file == path && kept.secret.expose() != secret);
        let is_same = || path.is_file() && fs::read(&path).is_ok_and(|bytes| bytes == secret.as_bytes());
        is_taken || (is_there && !is_same())
    };
    let mut file = secrets.join(&name);
    let mut number = 1;
    while is_other(&file) {
        number += 1;
        file = secrets.join(format!("{name}-{number}"));
    }
    file
}

/// Keeps secrets in files of their own.
pub(crate) fn keep(secrets: &[KeptSecret]) -> Result<(), Failure> {
    for kept in secrets {
        let fault = |error: io::Error| {
            Failure::usage(format!("`{}` cannot be written: {error}", kept.file.display()))
                .hint("nothing was taken over: make room for it, and ask again")
        };
        keep_one(&kept.file, kept.secret.expose()).map_err(fault)?;
    }
    Ok(())
}

fn keep_one(path: &Path, secret: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let private = |name: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(name);
    // A data folder may lie where somebody adds all files to a repository.
    match private(&folder.join(".gitignore")) {
        Ok(mut file) => file.write_all(b"*\n")?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    match private(path) {
        Ok(mut file) => {
            file.write_all(secret.as_bytes())?;
            file.sync_all()?;
            File::open(folder)?.sync_all()
        }
        // The same content: this is how its name was chosen.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            fs::set_permissions(path, Permissions::from_mode(0o600))
        }
        Err(error) => Err(error),
    }
}

/// A configuration that is written aside and known to be right.
pub(crate) struct Staged<'a> {
    /// The file as it was named.
    path: &'a Path,
    /// The file that is meant.
    target: PathBuf,
    folder: PathBuf,
    before: Option<&'a [u8]>,
    aside: NamedTempFile,
}

/// Writes a configuration aside. `before` is the file as it was read, none when there must be no file.
pub(crate) fn stage<'a>(path: &'a Path, before: Option<&'a [u8]>, text: &str) -> Result<Staged<'a>, Failure> {
    let fault = |error: io::Error| unwritten(path, &error);
    // A link stays a link.
    let target = if before.is_some() { path.canonicalize().map_err(fault)? } else { path.to_owned() };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
    let mut aside = tempfile::Builder::new()
        .prefix(".tollgate-")
        .suffix(".toml")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(&folder)
        .map_err(fault)?;
    aside.write_all(text.as_bytes()).map_err(fault)?;
    if before.is_some() {
        let mode = target.metadata().map_err(fault)?.permissions();
        aside.as_file().set_permissions(mode).map_err(fault)?;
    }
    aside.as_file().sync_all().map_err(fault)?;
    if let Err(error) = Loaded::read(aside.path(), &folder) {
        let (path, why) = (path.display(), error.message);
        let message = format!("`{path}` was left as it is: with the new servers it would not be right: {why}");
        return Err(Failure::usage(message).hint("write `mcp` as tables of their own, [mcp.NAME], and ask again"));
    }
    Ok(Staged { path, target, folder, before, aside })
}

impl Staged<'_> {
    /// Puts it into place, unless somebody else did meanwhile.
    pub(crate) fn commit(self) -> Result<(), Failure> {
        let Self { path, target, folder, before, aside } = self;
        let fault = |error: io::Error| unwritten(path, &error);
        let persisted = match before {
            None => aside.persist_noclobber(&target),
            Some(before) => {
                if fs::read(&target).map_err(fault)? != before {
                    let path = path.display();
                    let message = format!("`{path}` was changed by somebody else meanwhile, and was left as it is");
                    return Err(Failure::usage(message).hint("ask again"));
                }
                aside.persist(&target)
            }
        };
        persisted.map_err(|error| fault(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fault)
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("`{}` cannot be written: {error}", path.display()))
}
