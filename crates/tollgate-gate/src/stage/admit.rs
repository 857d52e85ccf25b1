//! Admit: what may not be listed does not exist for this caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_catalog::unknown_tool;
use tollgate_policy::{Decision, Policy};
use tollgate_types::{CallKind, Caller, Code, Member, ToolDefinition, visible};

use super::Stop;
use super::find::Found;
use crate::gate::{Inner, Trip, is_allowed};
use crate::undo::is_for_undo;

/// A tool that this caller may see.
pub(crate) struct Admitted(Found);

impl std::ops::Deref for Admitted {
    type Target = Found;

    fn deref(&self) -> &Found {
        &self.0
    }
}

pub(crate) fn admit(trip: Trip<'_>, found: Found) -> Result<Admitted, Stop> {
    let policy = trip.gate.inner().policy.now();
    match kept_back(trip.gate.inner(), &trip.attempt.caller, &policy, &found) {
        None => Ok(Admitted(found)),
        Some(decision) => Err(forbidden(trip, &policy, &decision)),
    }
}

/// Why `policy` keeps what was found from this caller, if it does.
pub(crate) fn kept_back(gate: &Inner, caller: &Caller, policy: &Policy, found: &Found) -> Option<Decision> {
    found.definitions().find_map(|definition| hidden(gate, caller, policy, definition))
}

/// The same of one definition.
pub(super) fn hidden(gate: &Inner, caller: &Caller, policy: &Policy, tool: &ToolDefinition) -> Option<Decision> {
    let decision = gate.decide_listing(policy, caller, tool);
    (!is_allowed(decision.effect)).then_some(decision)
}

/// The caller is told what everybody is told of a tool that does not exist; the ledger knows better.
pub(super) fn forbidden(trip: Trip<'_>, policy: &Policy, decision: &Decision) -> Stop {
    trip.attempt.decided(trip.gate.inner(), policy.hash(), decision, None);
    alert(trip);
    unknown(trip)
}

/// The ledger and the operator are told of what the caller is not.
pub(crate) fn alert(trip: Trip<'_>) {
    trip.attempt.record_as(Code::Forbidden);
    let (attempt, caller) = (trip.attempt, &trip.attempt.caller);
    trip.gate.inner().forbidden.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        "forbidden: `{}` of role `{}` asked for `{}`, which is kept from it (attempt {})",
        visible::line(&caller.subject),
        visible::line(&caller.role),
        visible::line(&trip.call.name),
        attempt.id
    );
}

/// Counts the call under the limits that concern it.
pub(crate) async fn take_turn(trip: Trip<'_>, admitted: &Admitted) -> Result<(), Stop> {
    let name = &admitted.entry().definition.name;
    trip.gate.inner().quotas.take(&trip.attempt.caller, name).await.map_err(Stop::Error)
}

/// The entries of a kind that `caller` may use, by name. The same decision as for calls: allowed means listed.
pub(crate) fn listed(gate: &Inner, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
    let policy = gate.policy.now();
    gate.catalog
        .all()
        .into_iter()
        .filter(|entry| entry.definition.kind == kind)
        .filter(|entry| !is_for_undo(&entry.definition.name))
        .filter(|entry| is_allowed(gate.decide_listing(&policy, caller, &entry.definition).effect))
        .map(|entry| Arc::clone(&entry.definition))
        .collect()
}

/// What the templates that this caller may use have now, as far as it may use that too: resources that stand in no catalog.
/// Listed means allowed here too, for `find` asks for the same two names.
pub(crate) async fn members(gate: &Inner, caller: &Caller) -> Vec<Arc<ToolDefinition>> {
    let mut found = Vec::new();
    for template in listed(gate, caller, CallKind::Template) {
        let (Some(executor), Some((group, _))) = (gate.executors.get(&template.name), template.name.split_once('/'))
        else {
            continue;
        };
        for Member { uri, name: description, listing } in executor.tool.members(&gate.workspace).await {
            let name = format!("{group}/{uri}");
            if gate.catalog.has(&name) {
                continue;
            }
            let (kind, listing) = (CallKind::Resource, Some(listing));
            let known = ToolDefinition { name, kind, description, listing, ..(*template).clone() };
            if is_allowed(gate.decide_listing(&gate.policy.now(), caller, &known).effect) {
                found.push(Arc::new(known));
            }
        }
    }
    found
}

/// A tool that is not called like others. What this caller may not see is like what is not there.
pub(crate) fn special(gate: &Inner, caller: &Caller, name: &str) -> Option<Arc<ToolDefinition>> {
    let tool = Arc::clone(&gate.catalog.get(name).filter(|entry| entry.is_special)?.definition);
    is_allowed(gate.decide_listing(&gate.policy.now(), caller, &tool).effect).then_some(tool)
}

/// The one text for a tool that does not exist and for one that this caller may not see.
pub(super) fn unknown(trip: Trip<'_>) -> Stop {
    let kind = trip.call.kind;
    // Among thousands of URIs nobody looks for what was meant.
    let listed = if kind.is_tool() { listed(trip.gate.inner(), &trip.attempt.caller, kind) } else { Vec::new() };
    Stop::Error(unknown_tool(&trip.call.name, listed.iter().map(|definition| definition.name.as_str())))
}
