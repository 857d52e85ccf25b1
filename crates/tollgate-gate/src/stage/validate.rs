//! Validate: one value for policy, approval and tool, mended as far as the house, the role and the tool allow.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tollgate_types::{
    BeforeImages, Code, Cx, Digest, Door, ErrorObject, RepairLevel, RepairRule, Text, Undo, Violation, limits,
};
use tollgate_wire::repair::{self, JsonFault, Parsed};

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

/// `exact` is the text as it stands, which nearly always is right.
pub(crate) fn validate(trip: Trip<'_>, admitted: Admitted, exact: Result<Parsed, JsonFault>) -> Result<Valid, Stop> {
    let level = level(trip, &admitted);
    let Parsed { mut value, repairs } = mended(trip, level, exact).map_err(|fault| Stop::Error(fault.into()))?;
    trip.attempt.repaired(repairs);
    let schema = &admitted.entry().input;
    if level > RepairLevel::Off {
        trip.attempt.repaired(schema.coerce(&mut value));
    }
    // Before defaults are there: an absent flag must not look as if it was given.
    let mut violations = schema.misnamed(&value);
    schema.fill_defaults(&mut value);
    violations.extend(schema.validate(&value));
    violations.truncate(limits::VIOLATIONS_MAX);
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

/// How far the arguments may be mended: the strictest of what the house, the caller's role and the tool say.
fn level(trip: Trip<'_>, admitted: &Admitted) -> RepairLevel {
    let gate = trip.gate.inner();
    let definition = &admitted.entry().definition;
    let role = gate.policy.now().repair(&trip.attempt.caller.role);
    RepairLevel::strictest([gate.repair, role, definition.repair], definition.risk)
}

fn mended(trip: Trip<'_>, level: RepairLevel, exact: Result<Parsed, JsonFault>) -> Result<Parsed, JsonFault> {
    let call = trip.call;
    let is_object = call.repairs.iter().any(|repair| repair.rule == RepairRule::ObjectArguments.as_str());
    match exact {
        Ok(_) if level == RepairLevel::Off && is_object => Err(JsonFault {
            code: Code::InvalidJson,
            message: "the arguments came as an object, and not as the text of one".to_owned(),
            hint: Some("send them as a JSON text".to_owned()),
            offset: 0,
        }),
        Err(_) if level > RepairLevel::Off => repair::arguments(&call.arguments, level),
        exact => exact,
    }
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
        kind: trip.call.kind,
        attempt: trip.attempt.id.clone(),
        workspace: Arc::clone(&gate.workspace),
        env: Arc::clone(&gate.env),
        handed_key: None,
        images: keeps.then(|| Arc::new(gate.store.clone()) as Arc<dyn BeforeImages>),
        deadline: Duration::from_millis(admitted.entry().definition.execution.timeout_ms),
        cancellation: trip.cancellation.child_token(),
        progress: trip.call.progress.clone(),
        client: trip.call.client,
        peer: trip.peer(),
        trace: door.trace.clone(),
        clock: Arc::clone(&gate.clock),
        door: Arc::new(door) as Arc<dyn Door>,
    }
}
