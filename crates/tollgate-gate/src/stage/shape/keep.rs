//! The whole of a result, kept for who asked.

use tollgate_policy::Effect;
use tollgate_store::{ResultMeta, StoreError};
use tollgate_types::{Code, ErrorObject, Risk, Text, ToolDefinition};

use super::super::{Stop, store_unavailable};
use crate::gate::Trip;
use crate::meta::READ_RESULT;

/// Keeps the whole. A change whose result cannot be kept must not look as if it could be asked for again.
pub(super) async fn keep(trip: Trip<'_>, definition: &ToolDefinition, whole: String, part: u8) -> Result<String, Stop> {
    let gate = trip.gate.inner();
    let meta = ResultMeta {
        caller: (*trip.attempt.caller).clone(),
        tool: definition.name.clone(),
        attempt: trip.attempt.id.clone(),
        part,
    };
    gate.store.keep_result(meta, whole, gate.clock.now()).await.map_err(|error| {
        if definition.risk == Risk::Read {
            return match error {
                StoreError::Limit(why) => {
                    let error = ErrorObject::new(Code::ResultTooLarge, why);
                    Stop::Error(error.with_hint("ask for less: a filter, a range, fewer rows"))
                }
                error => store_unavailable(&error),
            };
        }
        tracing::error!("the result of attempt {} could not be kept: {error}", trip.attempt.id);
        Stop::Error(Text::ResultUnkept.error(&[]))
    })
}

/// Whether the caller has the tool that a cut result points to.
pub(super) fn may_read_on(trip: Trip<'_>) -> bool {
    let gate = trip.gate.inner();
    gate.catalog.get(READ_RESULT).is_some_and(|entry| {
        let decision = gate.decide_listing(&gate.policy.now(), &trip.attempt.caller, &entry.definition);
        decision.effect != Effect::Deny
    })
}
