//! Where a path among the arguments leads: through symbolic links, as the file system has them now. Only the paths of
//! tools that have `security.allowed_paths` are followed. A tool that opens files sees for itself what it opens.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The place that `path`, from `root`, leads to: from `root` again where it is within, and as an absolute path. None where
/// that can not be said.
pub(crate) fn lead(root: &Path, path: &str) -> Option<Vec<String>> {
    let root = std::fs::canonicalize(root).ok()?;
    let real = real(&root.join(path))?;
    let within = real.strip_prefix(&root).ok().map(Path::to_owned);
    Some(within.into_iter().chain([real]).map(|path| path.to_string_lossy().into_owned()).collect())
}

/// A path without links. What of its end does not exist yet stands as it is.
fn real(path: &Path) -> Option<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut place = path;
    loop {
        match std::fs::canonicalize(place) {
            Ok(real) => return Some(missing.into_iter().rev().fold(real, |path, name| path.join(name))),
            // A link that leads nowhere is not missing: what is written through it is made where it points.
            Err(error) if error.kind() == ErrorKind::NotFound && std::fs::symlink_metadata(place).is_err() => {
                let Some(Component::Normal(name)) = place.components().next_back() else { return None };
                missing.push(name.to_owned());
                place = place.parent()?;
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("data/deep")).unwrap();
        std::fs::create_dir(root.join("secret")).unwrap();
        std::fs::write(root.join("secret/key"), "x").unwrap();
        symlink("../secret", root.join("data/away")).unwrap();
        symlink("deep", root.join("data/near")).unwrap();
        symlink("/etc", root.join("data/out")).unwrap();
        symlink("nowhere", root.join("data/dangling")).unwrap();
        symlink("circle", root.join("data/circle")).unwrap();
        let first = |path: &str| lead(&root, path).and_then(|lead| lead.into_iter().next());
        for (path, wanted) in [
            ("data/deep", "data/deep"),
            ("data/new/er", "data/new/er"),
            ("data/away/key", "secret/key"),
            ("data/away/new", "secret/new"),
            ("data/near/x", "data/deep/x"),
            ("data/out/passwd", "/etc/passwd"),
            (".", ""),
        ] {
            assert_eq!(first(path).as_deref(), Some(wanted), "{path}");
        }
        for path in ["data/dangling", "data/dangling/x", "data/circle", "secret/key/x"] {
            assert_eq!(first(path), None, "{path}");
        }
        assert_eq!(lead(&root, "data").unwrap()[1], root.join("data").to_string_lossy());
    }
}
