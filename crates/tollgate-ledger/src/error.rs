//! What can go wrong with the ledger, as the gate and the operator read it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why the ledger could not do it. Nothing that fails this way was acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// The disk did not take it: full, read-only, broken. Works again as soon as the disk does.
    #[error("the ledger cannot {doing}: {cause}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        cause: Arc<io::Error>,
    },
    /// Other writers held the ledger for too long.
    #[error("the ledger was busy for {waited_ms} ms")]
    Busy {
        /// How long this writer waited.
        waited_ms: u64,
    },
    /// A record was changed, removed, inserted or cannot be read.
    #[error("the ledger is damaged at record {seq} (`{segment}`, line {line}): {message}")]
    Damaged {
        /// The first record that is not as it was written.
        seq: u64,
        /// The file's name.
        segment: String,
        /// The line in the file, from 1.
        line: u64,
        /// What is wrong with it.
        message: &'static str,
    },
    /// There is no ledger in this data folder.
    #[error("there is no ledger at `{}`", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// No attempt has this id.
    #[error("no attempt's id begins or ends with `{part}`")]
    UnknownAttempt {
        /// What was asked for.
        part: String,
    },
    /// Several attempts have ids that begin so.
    #[error("`{part}` is in more than one attempt's id: `{first}`, `{second}`")]
    AmbiguousAttempt {
        /// What was asked for.
        part: String,
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
    /// The index over the ledger cannot be made or used. The ledger itself is not concerned.
    #[error("the ledger's index cannot be used: {message}")]
    Index {
        /// What went wrong.
        message: String,
    },
    /// A record would be longer than a reader accepts.
    #[error("a record of {bytes} bytes is too long")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// No checkpoint could be written for too long: a record that is taken now may never be proved.
    #[error("no checkpoint of the ledger could be written for {failing_ms} ms: {cause}")]
    NoCheckpoint {
        /// For how long.
        failing_ms: u64,
        /// Why the last try failed.
        cause: Arc<LedgerError>,
    },
    /// A file of a later release.
    #[error("`{what}` is of format version {version}, which a later release of Tollgate wrote")]
    Later {
        /// Which file.
        what: &'static str,
        /// The version it names.
        version: u64,
    },
    /// The file of the key that signs checkpoints holds none.
    #[error("`{}` does not hold the key that signs checkpoints", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// There is no key to verify checkpoints with.
    #[error("there is no key to verify the ledger's checkpoints with")]
    NoKey,
    /// A text is no verifier key.
    #[error("it is not a verifier key: `<name>+<key id>+<base64>`")]
    NotAKey,
    /// A note is no checkpoint of this ledger.
    #[error("it is not a checkpoint of this ledger: {why}")]
    NotACheckpoint {
        /// Why not.
        why: &'static str,
    },
    /// No checkpoint covers the record.
    #[error("record {seq} cannot be proved: the last checkpoint covers the records up to {size}")]
    NotCovered {
        /// The record.
        seq: u64,
        /// The last one that is covered.
        size: u64,
    },
    /// More is asked for than is erased at once.
    #[error("more than {most} attempts are asked for")]
    TooMany {
        /// How many are.
        most: usize,
    },
    /// Damage cannot be accepted while others write.
    #[error("other processes have the damaged ledger open")]
    InUse,
    /// The ledger was closed.
    #[error("the ledger is closed")]
    Closed,
}

impl LedgerError {
    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable { cause, .. } if cause.kind() == io::ErrorKind::InvalidInput => {
                Some("something else stands in its place: put the ledger's own file back")
            }
            Self::Unavailable { .. } => Some("free space or make the disk writable; no restart is needed"),
            Self::Busy { .. } => Some("try again; if it stays so, see which process holds `audit/lock`"),
            Self::Damaged { .. } => {
                Some("`tollgate audit verify` says what is wrong, `tollgate audit recover` how to go on in spite of it")
            }
            Self::NoCheckpoint { cause, .. } => cause.hint(),
            Self::Later { .. } => Some("use that release, or a later one"),
            Self::Key { .. } => Some("put the key's own file back; `tollgate audit recover` goes on without it"),
            Self::NoKey => Some("say which: `tollgate audit verify --pubkey KEY`"),
            Self::NotAKey => Some("`tollgate audit key` prints the one of a data folder"),
            Self::NotCovered { .. } => Some("a record is covered within a second, while a process has the ledger open"),
            Self::UnknownAttempt { .. } => Some("`tollgate audit tail` shows the latest attempts"),
            Self::AmbiguousAttempt { .. } => Some("give more of the id"),
            Self::Missing { .. } => {
                Some("the first call makes it: `tollgate call calculate '{\"expression\": \"1 + 1\"}'`")
            }
            Self::Index { .. } => Some("delete `audit/index.sqlite` in the data folder; it is made again"),
            Self::TooMany { .. } => Some("ask for a shorter time, and again for the next"),
            Self::InUse => Some("stop them first: each has a file in `boot/`"),
            Self::NotACheckpoint { .. } | Self::TooLarge { .. } | Self::Closed => None,
        }
    }

    /// Whether it is space that is missing.
    pub(crate) fn is_disk_full(&self) -> bool {
        let Self::Unavailable { cause, .. } = self else { return false };
        matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Unavailable { doing, cause: Arc::new(cause) }
    }
}
