//! Why a session cannot be worked in.

use tollgate_store::StoreError;
use tollgate_types::{Code, limits};

use crate::run::React;

/// Why a session cannot be begun, read or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A text that names no session.
    #[error(
        "`{given}` cannot be a session's name: 1 to {} letters, digits, `.`, `_` and `-` of ASCII, with a letter or \
         digit first, and no UUID",
        limits::SESSION_NAME_CHARS_MAX
    )]
    BadName {
        /// What was given.
        given: String,
    },
    /// No session answers to it, or several do.
    #[error("{why}")]
    Unknown {
        /// What was given, and what is wrong with it.
        why: String,
        /// Names and ids that may have been meant.
        near: Vec<String>,
    },
    /// Another process works in it.
    #[error("{0}")]
    InUse(String),
    /// It is somebody else's.
    #[error("session `{session}` was begun by `{owner}`, and its calls and approvals are theirs")]
    NotYours {
        /// Which session.
        session: String,
        /// Whose.
        owner: String,
    },
    /// It was begun in another way.
    #[error("session `{session}` was begun {was}")]
    Other {
        /// Which session.
        session: String,
        /// How.
        was: String,
    },
    /// A prompt comes while an answer is missing.
    #[error("session `{session}` has {what} without an answer")]
    Unanswered {
        /// Which session.
        session: String,
        /// What.
        what: String,
    },
    /// A search would go back in it.
    #[error("session `{session}` keeps turns that follow each other, and the strategy goes back")]
    OneLine {
        /// Which session.
        session: String,
    },
    /// Nothing was said, so there is nothing to go on with.
    #[error("nothing was said in session `{session}` yet")]
    Empty {
        /// Which session.
        session: String,
    },
    /// What is stored does not read.
    #[error("step {step} of session `{session}` does not read: {why}")]
    Broken {
        /// Which session.
        session: String,
        /// Which step.
        step: u32,
        /// What is wrong with it.
        why: String,
    },
    /// What is to be stored has no JSON.
    #[error("a step cannot be stored: {0}")]
    Unwritable(String),
    /// A call was to be made that the session does not hold.
    #[error("the session holds no such open call")]
    NotOpen,
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SessionError {
    /// The code.
    pub fn code(&self) -> Code {
        match self {
            Self::InUse(_) => Code::Conflict,
            Self::Store(StoreError::Limit(_)) => Code::BudgetExceeded,
            Self::NotYours { .. } => Code::Denied,
            Self::BadName { .. }
            | Self::Unknown { .. }
            | Self::Other { .. }
            | Self::Unanswered { .. }
            | Self::OneLine { .. }
            | Self::Empty { .. } => Code::InvalidArguments,
            Self::Store(StoreError::NotFound(_) | StoreError::Conflict(_)) => Code::InvalidArguments,
            Self::Broken { .. } | Self::Unwritable(_) | Self::NotOpen | Self::Store(_) => Code::AuditUnavailable,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::BadName { .. } => {
                "such as `--session inventory-2`; `tollgate sessions list` shows those there are".into()
            }
            Self::InUse(_) => "wait until it ends, or work in a copy: `tollgate sessions fork`".into(),
            Self::NotYours { .. } => "go on as that user, or work in a session of your own".into(),
            Self::Other { .. } => "leave the option out, or begin another session".into(),
            Self::Unanswered { session, .. } => {
                format!("go on first, without a prompt: `tollgate run --resume {session}`")
            }
            Self::Unknown { near, .. } if near.is_empty() => "`tollgate sessions list` shows those there are".into(),
            Self::Unknown { near, .. } => {
                format!("did you mean `{}`? `tollgate sessions list` shows those there are", near.join("` or `"))
            }
            Self::OneLine { .. } => format!("`--strategy {}` goes forward only", React::NAME),
            Self::Empty { session } => format!("say something: `tollgate run --resume {session} \"…\"`"),
            Self::Store(StoreError::Limit(_)) => {
                "begin another session, or copy the beginning of this one: `tollgate sessions fork`".into()
            }
            Self::Store(StoreError::NotFound(_) | StoreError::Conflict(_)) => {
                "`tollgate sessions list` shows those there are".into()
            }
            Self::Broken { .. } => "copy what is before it: `tollgate sessions fork --turn N`".into(),
            Self::Unwritable(_) | Self::NotOpen | Self::Store(_) => {
                "check the data folder and the space on its disk: `tollgate doctor`".into()
            }
        }
    }
}
