//! Validate: one value for policy, approval and tool, mended only where nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tollgate_types::{BeforeImages, Cx, Digest, Door, ErrorObject, Text, Undo, Violation};
use tollgate_wire::repair::{JsonFault, Parsed};

use super::admit::Admitted;
use super::{Stop, presentable, store_unavailable};
use crate::gate::Trip;
use crate::nested::Nested;

/// A call whose arguments fit.
pub(crate) struct Valid {
    admitted: Admitted,
    arguments: Value,
    digest: Digest,
    cx: Cx,
}

impl std::ops::Deref for Valid {
    type Target = Admitted;

    fn deref(&self) -> &Admitted {
        &self.admitted
    }
}

impl Valid {
    pub(super) fn arguments(&self) -> &Value {
        &self.arguments
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    pub(super) fn cx(&self) -> &Cx {
        &self.cx
    }
}

pub(crate) fn validate(trip: Trip<'_>, admitted: Admitted, parsed: Result<Parsed, JsonFault>) -> Result<Valid, Stop> {
    let Parsed { mut value, repairs } = parsed.map_err(|fault| Stop::Error(fault.into()))?;
    trip.attempt.repaired(repairs);
    let schema = &admitted.entry().input;
    trip.attempt.repaired(schema.coerce(&mut value));
    schema.fill_defaults(&mut value);
    let violations = schema.validate(&value);
    if !violations.is_empty() {
        return Err(Stop::Error(invalid(&admitted.entry().definition.name, violations)));
    }
    let cx = cx(trip, &admitted);
    admitted
        .executor()
        .tool
        .check(&value, &cx)
        .map_err(|error| Stop::Error(presentable(trip.gate.inner(), error.into())))?;
    let digest = trip.gate.inner().key.digest(&value).map_err(|error| store_unavailable(&error))?;
    Ok(Valid { admitted, arguments: value, digest, cx })
}

fn invalid(tool: &str, violations: Vec<Violation>) -> ErrorObject {
    let text = if violations.len() > 1 { Text::MisfitMany } else { Text::Misfit };
    let more = violations.len().saturating_sub(1);
    text.error(&[("tool", &tool), ("more", &more)]).with_details(violations)
}

fn cx(trip: Trip<'_>, admitted: &Admitted) -> Cx {
    let gate = trip.gate.inner();
    let keeps = admitted.entry().definition.undo == Undo::BeforeImage;
    let door = Nested::of(trip);
    Cx {
        caller: Arc::clone(&trip.attempt.caller),
        attempt: trip.attempt.id.clone(),
        workspace: Arc::clone(&gate.workspace),
        env: Arc::clone(&gate.env),
        handed_key: None,
        images: keeps.then(|| Arc::new(gate.store.clone()) as Arc<dyn BeforeImages>),
        deadline: Duration::from_millis(admitted.entry().definition.execution.timeout_ms),
        cancellation: trip.cancellation.child_token(),
        progress: trip.call.progress.clone(),
        client: trip.call.client,
        trace: door.trace.clone(),
        clock: Arc::clone(&gate.clock),
        door: Arc::new(door) as Arc<dyn Door>,
    }
}
