//! What can go wrong with the state of a data folder.

use std::io;
use std::path::PathBuf;

/// Why the store could not do it. In the gate each of these refuses the call.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database could not be opened.
    #[error("the store `{}` cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// SQLite's word.
        source: rusqlite::Error,
    },
    /// A statement failed.
    #[error("the store cannot be used: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A file of the store failed.
    #[error("`{}` cannot be used: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The database was written by a newer version.
    #[error("the store has format version {found}, and this program reads up to {known}: use the newer program")]
    TooNew {
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// A stored value does not read back.
    #[error("the store holds a value that does not read: {0}")]
    Corrupt(String),
    /// A limit is reached.
    #[error("{0}")]
    Limit(String),
    /// No row answers to this.
    #[error("{0}")]
    NotFound(String),
    /// What must be typed with a yes was not, or not exactly.
    #[error("to approve this, `{expected}` must be typed exactly")]
    NotTyped {
        /// What must be typed.
        expected: String,
    },
    /// A message came before.
    #[error("the message `{id}` came before, and counts once")]
    Replayed {
        /// Its id.
        id: String,
    },
    /// A message is about something else.
    #[error("{0}")]
    Foreign(String),
    /// Somebody says yes to their own call.
    #[error("`{by}` asks for this call, and cannot approve it")]
    OwnCall {
        /// Who.
        by: String,
    },
    /// The row is not in a state in which this can be done.
    #[error("{0}")]
    Conflict(String),
}

impl StoreError {
    /// An I/O error on a file.
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}
