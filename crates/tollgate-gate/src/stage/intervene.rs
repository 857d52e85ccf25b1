//! Intervene: what no rung solved, a human may. Their result or their no comes to the one who asks again with the same
//! arguments, once. Until then the call is not tried again.

use serde_json::{Value, json};
use tollgate_ledger::Event;
use tollgate_store::{Approval, Claim, Intervention};
use tollgate_types::{CallResult, Content, End, ErrorObject, Text, ToolOutput, Waiting, WaitingKind};

use super::judge::Denied;
use super::validate::Valid;
use super::{Stop, approve, shape, store_unavailable};
use crate::gate::Trip;
use crate::stored;

/// The result that a human gave for this very call, if one did. Stops where one said no or is still asked.
pub(crate) async fn recall(trip: Trip<'_>, valid: &Valid) -> Result<Option<CallResult>, Stop> {
    if !valid.executor().ladder.may_ask_human() {
        return Ok(None);
    }
    let gate = trip.gate.inner();
    let found = gate.store.intervention(approve::binding(trip, valid), gate.clock.now()).await;
    match found.map_err(|error| store_unavailable(&error))? {
        None => Ok(None),
        Some(Claim::Approved(given)) => deliver(trip, valid, given).await.map(Some),
        Some(Claim::Expired(question)) => {
            // Nobody answered in time: the call is made as if nobody had been asked.
            trip.attempt.answered(gate, Event::Expired, &question, None);
            Ok(None)
        }
        Some(Claim::Rejected(question)) => Err(approve::rejected(trip, &question)),
        Some(Claim::Pending(question) | Claim::Asked(question)) => Err(waiting(trip, &question)),
    }
}

/// Asks a human for the result of a call that failed so.
pub(crate) async fn ask(trip: Trip<'_>, valid: &Valid, told: ErrorObject) -> Stop {
    let gate = trip.gate.inner();
    let (retries, fallback) = trip.attempt.tried();
    let tried = json!({
        "code": told.error, "tool_code": told.tool_code, "message": told.message, "hint": told.hint,
        "retries": retries, "fallback": fallback, "outside": told.outside,
    });
    let definition = &valid.entry().definition;
    let wanted = Intervention { tried, expects: definition.output_schema.clone() };
    let question = approve::question_for(trip, valid, told.message.clone(), Some(wanted));
    match gate.store.claim(question, gate.clock.now()).await {
        Ok(Claim::Asked(question) | Claim::Pending(question) | Claim::Approved(question)) => {
            trip.attempt.gave_up(told);
            waiting(trip, &question)
        }
        Ok(Claim::Rejected(question)) => approve::rejected(trip, &question),
        // Without a human the failure stands as it is.
        Ok(Claim::Expired(_)) | Err(_) => Stop::Error(told),
    }
}

/// A call that policy denies is put to a human where its tool says so. Nothing runs by that: the human gives the result.
pub(crate) async fn escalate(trip: Trip<'_>, denied: Denied) -> Result<CallResult, Stop> {
    let Denied { valid, error } = denied;
    if !valid.executor().ladder.escalates_denied() {
        return Err(Stop::Error(error));
    }
    match recall(trip, &valid).await? {
        Some(result) => Ok(result),
        None => Err(ask(trip, &valid, error).await),
    }
}

async fn deliver(trip: Trip<'_>, valid: &Valid, given: Approval) -> Result<CallResult, Stop> {
    let gate = trip.gate.inner();
    let used = gate.store.consume(given.id.clone(), gate.clock.now()).await;
    if !used.map_err(|error| store_unavailable(&error))? {
        return Err(Stop::Error(Text::ResultTaken.error(&[])));
    }
    let by = given.decided_by.as_deref().unwrap_or("the operator");
    trip.attempt.under(&given.id);
    trip.attempt.given_by(by);
    let mut result = shape::given(trip, valid, output(given.result.unwrap_or_default())).await?;
    result.content.push(Content::Text(format!("[this result was given by {by}, not by the tool]")));
    let end = End::Done(result.clone());
    // Who asks again under the key of the first call is told the same.
    let amended = gate.store.amend(given.attempt.clone(), stored::encode(&end)).await;
    amended.map_err(|error| store_unavailable(&error))?;
    Ok(result)
}

fn output(value: Value) -> ToolOutput {
    match value {
        Value::String(text) => ToolOutput::text(text),
        other => ToolOutput::structured(other),
    }
}

fn waiting(trip: Trip<'_>, question: &Approval) -> Stop {
    trip.attempt.under(&question.id);
    let id = &question.id;
    let waiting = Waiting { kind: WaitingKind::Intervention, id: id.clone(), expires: question.expires.to_string() };
    let mut error = Text::InterventionRequired.error(&[("reason", &question.reason), ("id", id)]);
    if let Some(tried) = &question.tried {
        error.tool_code = tried["tool_code"].as_str().map(str::to_owned);
        // The reason is what the failed tool said.
        error.outside = tried["outside"] == true;
    }
    Stop::Waiting(Box::new((waiting, error)))
}
