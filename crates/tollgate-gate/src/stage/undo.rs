//! Undo: how a call that ran can be taken back is noted; a call that takes one back does so once.

use serde_json::{Value, json};
use tollgate_store::UndoPlan;
use tollgate_types::{Content, ToolOutput, Undo};

use super::run::Ran;
use super::{Stop, store_unavailable};
use crate::gate::Trip;
use crate::undo::undone;

/// Takes the undo for this attempt, so that no other one does it too.
pub(crate) async fn claim(trip: Trip<'_>) -> Result<(), Stop> {
    let Some(first) = trip.undoes else { return Ok(()) };
    let claimed = trip.gate.inner().store.claim_undo(first.clone(), trip.attempt.id.clone()).await;
    let holder = claimed.map_err(|error| store_unavailable(&error))?;
    if holder != trip.attempt.id {
        return Err(Stop::Error(undone(first, &holder)));
    }
    trip.attempt.undoes(first);
    Ok(())
}

/// Notes how the call that just ran can be undone. Without the note the call stands all the same.
pub(crate) async fn note(trip: Trip<'_>, ran: &Ran) {
    let gate = trip.gate.inner();
    let Undo::Tool(compensation) = &ran.cleared().entry().definition.undo else { return };
    let arguments = compensation.arguments(ran.cleared().arguments(), &value(ran.output()));
    let arguments = arguments.and_then(|arguments| {
        let mut shown = arguments.clone();
        gate.redactor.value(&mut shown);
        // What must not be recorded is not stored for an undo either.
        if shown == arguments { Ok(arguments) } else { Err("its arguments hold a secret, which is not kept".into()) }
    });
    let plan = UndoPlan { tool: compensation.tool.clone(), arguments, undone_by: None };
    if let Err(error) = gate.store.plan_undo(trip.attempt.id.clone(), plan, gate.clock.now()).await {
        tracing::warn!("attempt {} cannot be undone later: {error}", trip.attempt.id);
    }
}

/// A result as one value.
fn value(output: &ToolOutput) -> Value {
    match (&output.structured, output.content.as_slice()) {
        (Some(value), _) => value.clone(),
        (None, [Content::Text(text)]) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        (None, _) => Value::Null,
    }
}
