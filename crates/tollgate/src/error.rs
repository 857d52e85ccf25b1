//! Why Tollgate does not start.

use std::path::PathBuf;

use crate::config::ConfigError;

/// Why Tollgate does not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] Box<ConfigError>),
    /// The workspace or the data folder cannot be used.
    #[error("{what} `{}`: {why}", path.display())]
    Folder {
        /// Which folder.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The ledger cannot be opened.
    #[error("the ledger cannot be opened: {0}")]
    Ledger(#[from] tollgate_ledger::LedgerError),
    /// The state cannot be opened.
    #[error(transparent)]
    Store(#[from] tollgate_store::StoreError),
    /// An operator's word could not be taken.
    #[error(transparent)]
    Operator(#[from] tollgate_gate::OperatorError),
    /// The roles do not fit together.
    #[error(transparent)]
    Policy(#[from] tollgate_policy::PolicyError),
    /// Roles and rules could not be read again.
    #[error("the policy could not be read again: {0}")]
    Unread(String),
    /// A tool cannot be registered.
    #[error(transparent)]
    Tool(#[from] tollgate_gate::BuildError),
    /// A tool of the library is not fit.
    #[error("tool `{name}`: {why}")]
    BadTool {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}
