//! The house of the configuration with a data folder that is thrown away: what would keep it from opening is seen, and the
//! real one is left alone.

use tempfile::TempDir;
use tollgate::Tollgate;
use tollgate::config::Loaded;

use super::Finding;
use crate::failure::Failure;

/// A house for a moment.
pub(super) struct Scratch {
    pub(super) house: Tollgate,
    // Its files last as long as it does.
    _folder: TempDir,
}

impl Scratch {
    /// Opens it. What keeps it from opening is a finding on `what`.
    pub(super) async fn open(what: &str, loaded: Loaded) -> Result<Self, Finding> {
        let nowhere = |error: std::io::Error| {
            Finding::ailing(what, format!("no folder for a moment: {error}"), "export TMPDIR=\"$HOME\"")
        };
        let folder = tempfile::tempdir().map_err(nowhere)?;
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).map_err(nowhere)?;
        // A login that is renewed must not be renewed into a folder that is thrown away.
        let logins = loaded.data_dir().join("logins");
        let builder =
            Tollgate::builder().logins(logins).config(loaded).workspace(workspace).data_dir(folder.path().join("data"));
        match builder.build().await {
            Ok(house) => Ok(Self { house, _folder: folder }),
            Err(error) => {
                let failure = Failure::from(error);
                let mend = failure.advice().unwrap_or("correct it in tollgate.toml; docs/config.md lists the keys");
                Err(Finding::ailing(what, failure.to_string(), mend))
            }
        }
    }
}
