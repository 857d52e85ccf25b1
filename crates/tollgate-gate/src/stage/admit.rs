//! Admit: what may not be listed does not exist for this caller.

use std::sync::Arc;

use tollgate_catalog::nearest;
use tollgate_types::{Caller, Code, ErrorObject, ToolDefinition};

use super::Stop;
use super::find::Found;
use crate::gate::{Inner, Trip, is_allowed};

/// A tool that this caller may see.
pub(crate) struct Admitted(Found);

impl std::ops::Deref for Admitted {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.0
    }
}

pub(crate) fn admit(trip: Trip<'_>, found: Found) -> Result<Admitted, Stop> {
    let gate = trip.gate.inner();
    let policy = gate.policy.now();
    let decision = gate.decide_listing(&policy, &trip.attempt.caller, &found.entry().definition);
    if is_allowed(decision.effect) {
        return Ok(Admitted(found));
    }
    // The caller is told what everybody is told of a tool that does not exist; the ledger knows better.
    trip.attempt.decided(gate, policy.hash(), &decision, None);
    trip.attempt.record_as(Code::Forbidden);
    Err(unknown(trip))
}

/// Counts the call under the limits that concern it.
pub(crate) async fn take_turn(trip: Trip<'_>, admitted: &Admitted) -> Result<(), Stop> {
    let name = &admitted.entry().definition.name;
    trip.gate.inner().quotas.take(&trip.attempt.caller, name).await.map_err(Stop::Error)
}

/// The tools that `caller` may use, by name. The same decision as for calls: allowed means listed.
pub(crate) fn listed(gate: &Inner, caller: &Caller) -> Vec<Arc<ToolDefinition>> {
    let policy = gate.policy.now();
    gate.catalog
        .all()
        .into_iter()
        .filter(|entry| is_allowed(gate.decide_listing(&policy, caller, &entry.definition).effect))
        .map(|entry| Arc::clone(&entry.definition))
        .collect()
}

/// The one text for a tool that does not exist and for one that this caller may not see.
pub(super) fn unknown(trip: Trip<'_>) -> Stop {
    let name: String = trip.call.name.chars().take(tollgate_types::limits::TOOL_NAME_CHARS_MAX).collect();
    let name = name.escape_debug();
    let definitions = listed(trip.gate.inner(), &trip.attempt.caller);
    let near = nearest(&trip.call.name, definitions.iter().map(|definition| definition.name.as_str()));
    let error = ErrorObject::new(Code::UnknownTool, format!("no tool is named `{name}`"));
    let hint = if near.is_empty() {
        "use one of the tools that are listed".to_owned()
    } else {
        let names: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        format!("did you mean {}?", names.join(" or "))
    };
    Stop::Error(error.with_hint(hint))
}
