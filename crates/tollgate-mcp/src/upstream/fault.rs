//! Why a question to a server brought no answer that can be used.

use std::time::Duration;

use tollgate_guard::client::{ClientError, Refusal, Renewal};

use super::message::RpcFailure;
use super::status::Trouble;

/// Why a question brought no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server answered with an error.
    #[error("error {}: {}", .0.code, .0.message)]
    Rpc(RpcFailure),
    /// HTTP has a word for it.
    #[error("the server answered HTTP {status}{}", said(.text))]
    Http {
        /// The status.
        status: u16,
        /// The beginning of the body.
        text: String,
        /// How long the server asks to be left alone.
        retry_after: Option<Duration>,
        /// What it wants instead of the credentials that it refused: `WWW-Authenticate`.
        challenge: String,
        /// What reading the credentials anew came to, where it refused them.
        renewal: Renewal,
    },
    /// The session is not known any more; it can be renewed.
    #[error("the server forgot the session")]
    SessionLost {
        /// Whether the server says so before it looks at the question (HTTP 404). Otherwise it is read from its words.
        is_certain: bool,
    },
    /// The server is not there; nothing was asked.
    #[error("{0}")]
    Unreachable(String),
    /// The server went away, before or after it understood the question.
    #[error("{0}")]
    Closed(String),
    /// The answer is none.
    #[error("{0}")]
    Broken(String),
    /// It speaks a revision of the protocol that is not spoken here.
    #[error("the server speaks revision `{0}`, which is not spoken here")]
    Revision(String),
    /// The answer is larger than allowed.
    #[error("the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// What was allowed.
        limit_bytes: usize,
    },
    /// No answer came in time.
    #[error("no answer within {ms} ms")]
    TimedOut {
        /// How long we waited.
        ms: u128,
    },
}

impl Fault {
    /// What is wrong with the server, in a word.
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Http { renewal: Renewal::LoggedOut, .. } => Trouble::NeedsLogin,
            Self::Http { status: 401 | 403 | 407, .. } => Trouble::NeedsAuth,
            Self::Unreachable(_) => Trouble::NotFound,
            Self::TimedOut { .. } => Trouble::TooSlow,
            Self::Revision(_) => Trouble::OtherProtocol,
            Self::Closed(_) => Trouble::Ended,
            Self::Rpc(_) | Self::Http { .. } | Self::SessionLost { .. } | Self::Broken(_) | Self::TooLarge { .. } => {
                Trouble::Refuses
            }
        }
    }

    /// What the server has against the credentials, where others may help: it does not know who asks, or wants more rights
    /// of a login (RFC 6750 §3.1).
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Http { status: status @ (401 | 403), challenge, .. }
                if *status == 401 || challenge.contains("insufficient_scope") =>
            {
                Some(Refusal { status: *status, challenge: challenge.clone() })
            }
            _ => None,
        }
    }

    /// The same where the credentials were read anew before. Why that did not work says more than the server does.
    pub(super) fn after(mut self, read: Renewal, why: Option<&str>) -> Self {
        if let Self::Http { renewal, text, .. } = &mut self {
            *renewal = read;
            if let Some(why) = why {
                why.clone_into(text);
            }
        }
        self
    }
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::TooLarge { limit_bytes } => Self::TooLarge { limit_bytes },
            ClientError::Closed { .. } => Self::Closed(error.to_string()),
            ClientError::TimedOut { .. }
            | ClientError::Connect { .. }
            | ClientError::BadUrl { .. }
            | ClientError::BadRequest { .. }
            | ClientError::NotAllowed { .. } => Self::Unreachable(error.to_string()),
        }
    }
}
