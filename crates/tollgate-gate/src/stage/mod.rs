//! The stages. Each file holds one: a type that only it can make, and the function that makes it.

pub(crate) mod admit;
pub(crate) mod approve;
pub(crate) mod budget;
pub(crate) mod circles;
pub(crate) mod descend;
pub(crate) mod find;
pub(crate) mod intervene;
pub(crate) mod judge;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod shape;
pub(crate) mod undo;
pub(crate) mod validate;

use tollgate_shape::neutral;
use tollgate_types::{Code, End, ErrorObject, Text, Waiting, limits};

use crate::gate::Inner;

/// When to come back, where the store is full.
const FULL_WAIT_MS: u64 = 60_000;

/// Why a trip ends before its last stage.
pub(crate) enum Stop {
    /// With an error object; its code says how.
    Error(ErrorObject),
    /// Denied by policy.
    Denied(Box<judge::Denied>),
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
            Self::Denied(denied) => End::from_error(denied.error),
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
    // Where the state lies and why it cannot be used is the operator's to know.
    tracing::error!("the state cannot be used: {error}");
    Stop::Error(Text::NoState.error(&[]))
}

/// The store keeps as many of something as it may. Room comes with time.
pub(crate) fn store_full(message: String) -> Stop {
    let mut error = Text::StoreFull.error(&[("what", &message)]);
    error.retry_after_ms = Some(FULL_WAIT_MS);
    Stop::Error(error)
}

/// The ledger failing before anything ran: nothing is done.
pub(crate) fn ledger_unavailable(error: &tollgate_ledger::LedgerError) -> Stop {
    Stop::Error(unrecorded(Text::Unrecorded, error))
}

/// What the model is told of a ledger that does not take records. Why it does not is the operator's to know.
pub(crate) fn unrecorded(text: Text, error: &tollgate_ledger::LedgerError) -> ErrorObject {
    let hint = error.hint().unwrap_or("run `tollgate audit verify`");
    tracing::error!("the record cannot be written: {error} ({hint})");
    text.error(&[]).with_hint(hint)
}

/// What a tool says of its failure, without secrets, with what is hidden made visible, and within a length.
pub(crate) fn presentable(gate: &Inner, mut error: ErrorObject) -> ErrorObject {
    let clean = |text: &str, chars: usize| {
        let text = gate.redactor.text(text);
        let text = neutral(&text);
        match text.char_indices().nth(chars) {
            None => text.into_owned(),
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        }
    };
    error.clean(|text| clean(text, limits::ERROR_CHARS_MAX));
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
