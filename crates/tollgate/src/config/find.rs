//! Which file is meant.

use std::path::{Path, PathBuf};

use super::{ConfigError, Loaded};

/// The name of the file.
const NAME: &str = "tollgate.toml";

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The file that was named; nothing else is looked at then.
    pub named: Option<PathBuf>,
    /// The folder to look in, and its parents.
    pub folder: PathBuf,
    /// The folder of the user's own configuration, such as `~/.config`.
    pub user_config: Option<PathBuf>,
}

/// Reads the configuration: the named file, else `tollgate.toml` here or in a parent, else the user's own, else none.
///
/// # Errors
/// As [`Loaded::read`].
pub fn find(place: &Found) -> Result<Loaded, ConfigError> {
    if let Some(path) = &place.named {
        let path = std::path::absolute(place.folder.join(path)).unwrap_or_else(|_| path.clone());
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        return Loaded::read(&path, folder);
    }
    if let Some(folder) = place.folder.ancestors().find(|folder| folder.join(NAME).is_file()) {
        return Loaded::read(&folder.join(NAME), folder);
    }
    if let Some(path) = place.user_config.as_ref().map(|folder| folder.join("tollgate").join(NAME))
        && path.is_file()
    {
        // The user's own file belongs to no project: paths are relative to where one stands.
        return Loaded::read(&path, &place.folder);
    }
    Ok(Loaded::defaults(&place.folder))
}
