//! Why a page did not come. Whatever the cause, the text is fit for a model and for the ledger.

use crate::address::Refusal;
use crate::client::ClientError;

/// Why a page did not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublicError {
    /// The address may not be asked. It was not contacted.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A server sent us to an address that may not be asked. That one was not contacted.
    #[error("`{from}` redirects to where nothing is asked: {refusal}")]
    RedirectRefused {
        /// The origin of the redirect.
        from: String,
        /// What is wrong with where it leads.
        refusal: Refusal,
    },
    /// The servers sent us on and on.
    #[error("more than {limit} redirects")]
    TooManyRedirects {
        /// What was allowed.
        limit: usize,
    },
    /// The request has a header that cannot or may not be sent; no value is named.
    #[error("cannot send the request: {reason}")]
    BadRequest {
        /// What is wrong with it.
        reason: String,
    },
    /// The whole took longer than its reader allows, redirects and body included.
    #[error("no complete answer within {ms} ms")]
    TimedOut {
        /// What was allowed.
        ms: u64,
    },
    /// The exchange with the server failed.
    #[error(transparent)]
    Exchange(#[from] ClientError),
}
