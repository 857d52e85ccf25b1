//! How an attempt ended, as its last record says it.

use serde_json::Value;
use tollgate_ledger::{Abridged, LedgerError, OutcomeRef, abridge, abridge_json};
use tollgate_types::{AttemptId, Code, End, Risk, Text};

use crate::gate::Inner;

/// The outcome; `recorded_code` is what the ledger says instead of what the caller is told.
pub(crate) fn outcome_ref(end: &End, recorded_code: Option<Code>) -> OutcomeRef {
    let error = end.error();
    OutcomeRef {
        status: end.status(),
        code: recorded_code.or_else(|| error.map(|error| error.error)),
        tool_code: error.and_then(|error| error.tool_code.clone()),
        retryable: error.map(|error| error.retryable),
    }
}

/// The result as `finished` shows it. A long one is only measured and hashed, so that it is not gone through by name.
pub(crate) fn recorded_result(gate: &Inner, end: &End) -> Option<Abridged> {
    let mut value = match end {
        End::Done(result) => {
            let json = serde_json::to_string(&result.content).ok()?;
            if let Some(long) = abridge_json(&json) {
                return Some(long);
            }
            serde_json::from_str(&json).ok()?
        }
        End::Refused(error) | End::Failed(error) | End::Unknown(error) | End::Waiting(_, error) => {
            Value::from(error.message.as_str())
        }
    };
    gate.redactor.value(&mut value);
    Some(abridge(&value))
}

/// An undo that came to nothing may be tried again.
pub(crate) async fn give_up_undo(gate: &Inner, attempt: &AttemptId) {
    if let Err(error) = gate.store.release_undo(attempt.clone()).await {
        tracing::warn!("attempt {attempt} did not undo what it should, and nobody else can now: {error}");
    }
}

/// Budgets get back what was held for a call that never started.
pub(crate) async fn give_back(gate: &Inner, attempt: &AttemptId, end: End) -> End {
    match gate.store.give_back(attempt.clone()).await {
        Ok(()) => end,
        Err(error) => {
            tracing::error!("what attempt {attempt} holds of budgets could not be given back: {error}");
            End::Failed(Text::StillHeld.error(&[]))
        }
    }
}

/// The end of a call whose last record could not be written.
pub(crate) fn unrecorded(error: &LedgerError, has_started: bool, risk: Risk) -> End {
    if has_started && risk > Risk::Read {
        tracing::error!("the record cannot be written: {error}");
        return End::Unknown(Text::EndUnrecorded.error(&[]));
    }
    let text = if has_started { Text::Withheld } else { Text::Unrecorded };
    End::Failed(crate::stage::unrecorded(text, error))
}
