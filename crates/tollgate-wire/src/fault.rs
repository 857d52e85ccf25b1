//! Why a reply, or a request, cannot be used.

use std::fmt;

/// What a fault keeps of a server's words: far more than is shown, so that secrets can be hidden before the cut.
pub(crate) const FAULT_CHARS_MAX: usize = 16 * 1024;
/// The code with which a server says that it no longer has the reply that a request goes on from (Responses).
pub const PREVIOUS_GONE: &str = "previous_response_not_found";
const EXCERPT_CHARS_MAX: usize = 120;
const WORDS_CHARS_MAX: usize = 500;

/// Why a reply cannot be used. Shown as text, the server's words are cut; the fields hold more of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireFault {
    /// It is not the JSON of this dialect.
    #[error("the reply is not what this dialect says: {}, in `{}`", Cut(reason, WORDS_CHARS_MAX), Escaped(excerpt))]
    Malformed {
        /// What the JSON reader says.
        reason: String,
        /// The beginning of it.
        excerpt: String,
    },
    /// The server reported an error inside of a reply.
    #[error("the server reports: {}", Cut(message, WORDS_CHARS_MAX))]
    Server {
        /// Its words.
        message: String,
    },
    /// The server ended the turn, and nothing in it can be used.
    #[error("the turn ended with `{}`{}", Cut(word, EXCERPT_CHARS_MAX), Said(message))]
    Ended {
        /// Its word for it, such as `MALFORMED_FUNCTION_CALL`.
        word: String,
        /// What else it said.
        message: String,
        /// What to do about it.
        hint: &'static str,
        /// Whether asking again may bring a turn.
        is_retryable: bool,
    },
    /// It is larger than may be kept.
    #[error("the reply exceeds the limit of {limit} {unit}")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The server no longer has the reply that the request goes on from. The whole conversation can be sent instead.
    #[error("the server no longer has the reply that this goes on from: {}", Cut(message, WORDS_CHARS_MAX))]
    PreviousGone {
        /// Its words.
        message: String,
    },
    /// Somebody's request is not the JSON of this dialect.
    #[error("the request cannot be read: {}", Cut(reason, WORDS_CHARS_MAX))]
    Request {
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The stream ended before the turn did.
    #[error("the stream ended before the reply was complete")]
    Closed,
}

impl WireFault {
    pub(crate) fn malformed(reason: impl ToString, text: &str) -> Self {
        Self::Malformed { reason: kept(&reason.to_string()), excerpt: kept(text) }
    }

    pub(crate) fn ended(word: &str, message: &str, hint: &'static str, is_retryable: bool) -> Self {
        Self::Ended { word: kept(word), message: kept(message), hint, is_retryable }
    }

    pub(crate) fn request(reason: impl ToString) -> Self {
        Self::Request { reason: kept(&reason.to_string()) }
    }
}

fn kept(text: &str) -> String {
    text.chars().take(FAULT_CHARS_MAX).collect()
}

struct Cut<'a>(&'a str, usize);

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.1, self.0)
    }
}

/// What a server adds to a word.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", Cut(self.0, WORDS_CHARS_MAX)) }
    }
}

struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().take(EXCERPT_CHARS_MAX).try_for_each(|c| write!(f, "{}", c.escape_debug()))
    }
}
