//! Ends as they are stored under idempotency keys, and which of them are.

use serde::{Deserialize, Serialize};
use tollgate_store::ResultMeta;
use tollgate_types::{
    AttemptId, CallResult, Caller, Code, Content, End, ErrorObject, Status, ToolDefinition, Truncated, limits,
};

use crate::gate::Inner;

/// An end as it is stored under its key.
#[derive(Serialize, Deserialize)]
struct StoredEnd {
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<CallResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// The stored form of an end.
pub(crate) fn encode(end: &End) -> String {
    let result = match end {
        End::Done(result) => Some(result.clone()),
        End::Refused(_) | End::Failed(_) | End::Waiting(..) | End::Unknown(_) => None,
    };
    let stored = StoredEnd { status: end.status(), result, error: end.error().cloned() };
    serde_json::to_string(&stored).unwrap_or_default()
}

/// The end that is stored.
pub(crate) fn decode(stored: &str) -> Option<End> {
    let stored: StoredEnd = serde_json::from_str(stored).ok()?;
    match (stored.status, stored.result, stored.error) {
        (Status::Done, Some(result), _) => Some(End::Done(result)),
        (_, _, Some(error)) => Some(End::from_error(error)),
        _ => None,
    }
}

/// Whether a call that was started and ended so may be made anew under its key: the tool says that the same call can be made
/// again, or making it twice is making it once. Everything else stays what it was, a timeout above all.
pub(crate) fn may_be_made_anew(definition: &ToolDefinition, end: &End) -> bool {
    let End::Failed(error) = end else { return false };
    match error.error {
        Code::ToolError => error.retryable,
        _ => definition.may_happen_twice() && (error.retryable || error.error.is_retryable()),
    }
}

/// Whose answer is stored.
pub(crate) struct Whose<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) tool: &'a str,
    pub(crate) attempt: &'a AttemptId,
}

/// Stores the end under the keys of `whose`. Of an answer that is too long its text is kept as a whole result.
pub(crate) async fn keep(gate: &Inner, whose: Whose<'_>, end: &End) -> Result<(), tollgate_store::StoreError> {
    let mut stored = encode(end);
    if let (End::Done(result), true) = (end, stored.len() > limits::IDEMPOTENCY_ANSWER_BYTES_MAX) {
        let (tool, attempt) = (whose.tool.to_owned(), whose.attempt.clone());
        let text = result.text();
        let total = text.lines().count();
        let meta = ResultMeta { caller: whose.caller.clone(), tool, attempt, part: 0 };
        let handle = match &result.truncated {
            // The whole was kept when it was cut.
            Some(truncated) => truncated.handle.clone(),
            None => gate.store.keep_result(meta, text, gate.clock.now()).await?,
        };
        let note = format!("the call happened; its answer is long: read_result with handle \"{handle}\"");
        let truncated = Some(Truncated { shown: 0, total, handle });
        stored =
            encode(&End::Done(CallResult { content: vec![Content::Text(note)], truncated, ..CallResult::default() }));
    }
    gate.store.fulfil(whose.attempt.clone(), stored, gate.clock.now()).await
}
