//! Judge: allow, ask or deny, by the policy of now.

use std::sync::Arc;

use tollgate_policy::{Decision, Effect, Policy};
use tollgate_types::{ErrorObject, Text};

use super::validate::Valid;
use super::{Stop, admit};
use crate::gate::Trip;

/// A call that is not denied.
pub(crate) struct Judged {
    valid: Valid,
    decision: Decision,
    policy: Arc<Policy>,
}

/// A call that is denied.
pub(crate) struct Denied {
    pub(super) valid: Valid,
    pub(super) error: ErrorObject,
}

impl std::ops::Deref for Judged {
    type Target = Valid;

    fn deref(&self) -> &Valid {
        &self.valid
    }
}

impl Judged {
    pub(super) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether a human must say yes.
    pub(super) fn asks(&self) -> bool {
        self.decision.effect == Effect::Ask
    }
}

pub(crate) fn judge(trip: Trip<'_>, valid: Valid) -> Result<Judged, Stop> {
    let gate = trip.gate.inner();
    let policy = gate.policy.now();
    let decision = decide(trip, &policy, &valid);
    if decision.effect == Effect::Deny {
        // The policy may have been replaced since the tool was admitted, by one that hides it.
        if let Some(hidden) = admit::kept_back(gate, &trip.attempt.caller, &policy, &valid) {
            return Err(admit::forbidden(trip, &policy, &hidden));
        }
    }
    trip.attempt.decided(gate, policy.hash(), &decision, Some(valid.digest()));
    if decision.effect == Effect::Deny {
        let error = Text::Denied.error(&[("reason", &decision.for_model())]);
        return Err(Stop::Denied(Box::new(Denied { valid, error })));
    }
    Ok(Judged { valid, decision, policy })
}

/// Judges once more what has waited for a human meanwhile: the policy of now counts, not that of the question.
/// Recorded is what is not as it was.
pub(super) fn again(trip: Trip<'_>, judged: Judged) -> Result<Judged, Stop> {
    let policy = trip.gate.inner().policy.now();
    let is_as_before =
        Arc::ptr_eq(&policy, &judged.policy) && decide(trip, &policy, &judged.valid).effect == judged.decision.effect;
    if is_as_before { Ok(judged) } else { judge(trip, judged.valid) }
}

fn decide(trip: Trip<'_>, policy: &Policy, valid: &Valid) -> Decision {
    let (gate, caller) = (trip.gate.inner(), &trip.attempt.caller);
    let decide = |each| gate.decide_call(policy, caller, each, valid.arguments(), &trip.call.said);
    let decision = decide(&valid.entry().definition);
    valid.definitions().skip(1).map(|each| decide(each)).fold(decision, Decision::max)
}
