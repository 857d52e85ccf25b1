//! The stages. Each file holds one: a type that only it can make, and the function that makes it.

pub(crate) mod admit;
pub(crate) mod approve;
pub(crate) mod budget;
pub(crate) mod circles;
pub(crate) mod descend;
pub(crate) mod find;
pub(crate) mod judge;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod shape;
pub(crate) mod validate;

use tollgate_types::{Code, End, ErrorObject, Waiting, limits};

use crate::gate::Inner;

/// When to come back, where the store is full.
const FULL_WAIT_MS: u64 = 60_000;

/// Why a trip ends before its last stage.
pub(crate) enum Stop {
    /// With an error object; its code says how.
    Error(ErrorObject),
    /// With a question to a human.
    Waiting(Box<(Waiting, ErrorObject)>),
    /// With an end that was made elsewhere: the stored one of an earlier call, or a fallback's.
    Ended(Box<End>),
}

impl Stop {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Error(ErrorObject::new(code, message))
    }

    pub(crate) fn into_end(self) -> End {
        match self {
            Self::Error(error) => End::from_error(error),
            Self::Waiting(question) => End::Waiting(question.0, question.1),
            Self::Ended(end) => *end,
        }
    }
}

impl From<ErrorObject> for Stop {
    fn from(error: ErrorObject) -> Self {
        Self::Error(error)
    }
}

/// The store failing before anything ran: nothing is done.
pub(crate) fn store_unavailable(error: &tollgate_store::StoreError) -> Stop {
    Stop::Error(
        ErrorObject::new(Code::AuditUnavailable, format!("{error}"))
            .with_hint("check the data folder's disk, then ask again"),
    )
}

/// The store keeps as many of something as it may. Room comes with time.
pub(crate) fn store_full(message: String) -> Stop {
    let mut error = ErrorObject::new(Code::RateLimited, message);
    error.retry_after_ms = Some(FULL_WAIT_MS);
    Stop::Error(error.with_hint("ask again in a minute, and tell the operator"))
}

/// The ledger failing before anything ran: nothing is done.
pub(crate) fn ledger_unavailable(error: &tollgate_ledger::LedgerError) -> Stop {
    let message = format!("the record cannot be written, so nothing is done: {error}");
    Stop::Error(ErrorObject::new(Code::AuditUnavailable, message).with_hint(ledger_hint(error)))
}

/// What to do about a ledger that does not take records.
pub(crate) fn ledger_hint(error: &tollgate_ledger::LedgerError) -> &'static str {
    error.hint().unwrap_or("run `tollgate audit verify`")
}

/// What a tool says of its failure, without secrets and within a length.
pub(crate) fn presentable(gate: &Inner, mut error: ErrorObject) -> ErrorObject {
    let clean = |text: &str, chars: usize| {
        let text = gate.redactor.text(text);
        match text.char_indices().nth(chars) {
            None => text.into_owned(),
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        }
    };
    error.message = clean(&error.message, limits::ERROR_CHARS_MAX);
    error.hint = error.hint.map(|hint| clean(&hint, limits::ERROR_CHARS_MAX));
    error.tool_code = error.tool_code.map(|code| clean(&code, limits::TOOL_CODE_CHARS_MAX));
    error.details.truncate(limits::VIOLATIONS_MAX);
    for detail in &mut error.details {
        detail.path = clean(&detail.path, limits::ERROR_CHARS_MAX);
        detail.message = clean(&detail.message, limits::ERROR_CHARS_MAX);
        if let Some(expected) = &mut detail.expected {
            gate.redactor.value(expected);
        }
    }
    error
}

/// The asker stopped waiting.
pub(crate) fn cancelled(message: &str) -> Stop {
    Stop::new(Code::Cancelled, message)
}
