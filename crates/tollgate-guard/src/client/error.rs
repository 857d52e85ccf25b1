//! Why a request came to nothing. Whatever the cause, the text is fit for a model and for the ledger: it names the
//! origin and never a header, a secret, or the query or user information of an address.

use std::error::Error;
use std::time::Duration;

use tollgate_types::limits;

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The address is not one this client can ask.
    #[error("cannot use the address `{url}`: {reason}")]
    BadUrl {
        /// The address without query and user information.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address is fine and the rest of the request is not.
    #[error("cannot ask `{origin}`: {reason}")]
    BadRequest {
        /// Whom it was for.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operator did not configure this origin. It was not contacted.
    #[error("`{origin}` is not among the addresses the operator configured")]
    NotAllowed {
        /// Whom the request was for.
        origin: String,
    },
    /// No connection; the request was not sent.
    #[error("no connection to `{origin}`: {reason}")]
    Connect {
        /// Whom the request was for.
        origin: String,
        /// What the system or TLS said.
        reason: String,
    },
    /// The server was silent for too long.
    #[error("`{origin}` was silent for {ms} ms")]
    TimedOut {
        /// Whom the request was for.
        origin: String,
        /// How long we waited.
        ms: u64,
    },
    /// The connection broke after the request was sent, perhaps in the middle of the answer.
    #[error("`{origin}` broke off: {reason}")]
    Closed {
        /// Whom the request was for.
        origin: String,
        /// What the connection said.
        reason: String,
    },
    /// The body is larger than its reader allows.
    #[error("the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// What was allowed.
        limit_bytes: usize,
    },
}

impl ClientError {
    pub(super) fn timed_out(origin: String, waited: Duration) -> Self {
        Self::TimedOut { origin, ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }
    }

    pub(crate) fn from_http(origin: String, error: &reqwest::Error) -> Self {
        if error.is_timeout() {
            return Self::timed_out(origin, Duration::from_millis(limits::HTTP_CONNECT_TIMEOUT_MS));
        }
        // The innermost cause says what happened; the outer ones repeat the address, query and all.
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let reason = match cause.downcast_ref::<reqwest::Error>() {
            Some(_) => "the HTTP exchange failed".to_owned(),
            None => cause.to_string(),
        };
        if error.is_connect() || error.is_builder() {
            Self::Connect { origin, reason }
        } else {
            Self::Closed { origin, reason }
        }
    }
}
