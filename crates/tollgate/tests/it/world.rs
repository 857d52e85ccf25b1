//! A house by a configuration, in a folder of its own, which is its workspace too.

use std::sync::Arc;

use serde_json::Value;
use tollgate::config::{ConfigError, Loaded};
use tollgate::{Builder, CallKind, Caller, Door, Error, Outcome, Surface, Tollgate};

pub(crate) struct World {
    pub(crate) house: Tollgate,
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(config: &str) -> Self {
        Self::having(config, |builder| builder).await
    }

    /// The same with more than the configuration says.
    pub(crate) async fn having(config: &str, add: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = built(&folder, config, add).await.unwrap();
        Self { house, folder }
    }

    /// The door to a set.
    pub(crate) fn set(&self, name: &str) -> Arc<dyn Door> {
        Arc::new(self.house.view(name, self.house.door()).unwrap())
    }

    pub(crate) fn records(&self, outcome: &Outcome) -> Vec<Value> {
        let attempt = outcome.attempt.as_ref().unwrap();
        let records = tollgate::ledger::attempt_records(self.house.data_dir(), attempt.as_str()).unwrap();
        records.into_iter().map(tollgate::ledger::Record::into_value).collect()
    }

    /// A file of the workspace.
    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

async fn built(
    folder: &tempfile::TempDir,
    config: &str,
    add: impl FnOnce(Builder) -> Builder,
) -> Result<Tollgate, Error> {
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, config).unwrap();
    let loaded = Loaded::read(&file, folder.path())?;
    add(Tollgate::builder().config(loaded)).build().await
}

/// Why a configuration is refused.
pub(crate) async fn refused(config: &str) -> ConfigError {
    let folder = tempfile::tempdir().unwrap();
    match built(&folder, config, |builder| builder).await {
        Err(Error::Config(error)) => *error,
        Err(other) => panic!("{config:?}: {other}"),
        Ok(_) => panic!("{config:?} was taken"),
    }
}

/// Ada, who develops.
pub(crate) fn ada() -> Caller {
    Caller::new("ada", "developer", Surface::Library)
}

/// What a door lists of a kind.
pub(crate) async fn names(door: &dyn Door, caller: &Caller, kind: CallKind) -> Vec<String> {
    door.list_kind(caller, kind).await.iter().map(|entry| entry.name.clone()).collect()
}
