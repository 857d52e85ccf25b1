//! Why there is no token. Every text is fit for a model and for the ledger: it names addresses without their queries, and
//! never a token, a code or a secret.

use tollgate_guard::client::ClientError;
use tollgate_guard::public::PublicError;

/// Characters of what an authorization server says.
const SAID_CHARS_MAX: usize = 200;

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// An address that a server named is not asked.
    #[error("`{url}` is not asked: {why}")]
    NotAsked {
        /// The address, as much of it as may be shown.
        url: String,
        /// Why not.
        why: String,
    },
    /// Nobody answered, or not in a way that can be read.
    #[error("{0}")]
    Unreachable(String),
    /// What a server says of itself is wrong, or missing.
    #[error("{0}")]
    Metadata(String),
    /// The authorization server does not say that it checks PKCE.
    #[error(
        "the authorization server `{issuer}` does not say that it checks PKCE with S256 \
         (`code_challenge_methods_supported`), so that a stolen code could be used"
    )]
    NoPkce {
        /// The authorization server.
        issuer: String,
    },
    /// Nobody can be known there without being registered by hand.
    #[error(
        "the authorization server `{issuer}` registers nobody by itself: register Tollgate there, and give its `client_id`"
    )]
    NoClient {
        /// The authorization server.
        issuer: String,
    },
    /// The credentials of the configuration are another authorization server's.
    #[error("the server names the authorization server `{found}`, and the `client_id` belongs to `{expected}`")]
    OtherIssuer {
        /// Whom the server names.
        found: String,
        /// Whom the operator named, or the last login was at.
        expected: String,
    },
    /// What came back from the authorization server is not the answer to what was asked.
    #[error("{0}")]
    NoAnswer(&'static str),
    /// The authorization server said no.
    #[error("`{by}` says `{code}`{}", said(.text))]
    Refused {
        /// Who.
        by: String,
        /// Its word for it (RFC 6749 §4.1.2.1, §5.2).
        code: String,
        /// What it says besides.
        text: String,
    },
    /// The token is none that can be used.
    #[error("`{by}` gives no token that can be used: {why}")]
    BadToken {
        /// Who.
        by: String,
        /// What is wrong with it.
        why: String,
    },
    /// The login cannot be kept, or the kept one not be read.
    #[error("{0}")]
    File(String),
    /// The human did not agree in time, or cannot be asked.
    #[error("{0}")]
    Human(String),
}

impl AuthError {
    /// What an authorization server says in place of an answer.
    pub(super) fn refused(by: &str, code: &str, text: &str) -> Self {
        Self::Refused { by: by.to_owned(), code: shown(code), text: shown(text) }
    }

    /// Whether the authorization server took the login back, so that only another one helps (RFC 6749 §5.2).
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if matches!(code.as_str(), "invalid_grant" | "invalid_client" | "unauthorized_client"))
    }
}

/// What outsiders wrote, as one short line.
fn shown(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    line.join(" ").chars().take(SAID_CHARS_MAX).flat_map(char::escape_debug).collect()
}

fn said(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl From<ClientError> for AuthError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::BadUrl { url, reason } => Self::NotAsked { url, why: reason },
            other => Self::Unreachable(other.to_string()),
        }
    }
}

impl From<PublicError> for AuthError {
    fn from(error: PublicError) -> Self {
        Self::Unreachable(error.to_string())
    }
}
