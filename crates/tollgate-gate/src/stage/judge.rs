//! Judge: allow, ask or deny, by the policy of now.

use tollgate_policy::{Decision, Effect};
use tollgate_types::{Code, ErrorObject};

use super::Stop;
use super::validate::Valid;
use crate::gate::Trip;

/// A call that is not denied.
pub(crate) struct Judged {
    valid: Valid,
    decision: Decision,
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
    let definition = &valid.entry().definition;
    let (caller, said) = (&trip.attempt.caller, &trip.call.said);
    let decision = gate.decide_call(&policy, caller, definition, valid.arguments(), said);
    trip.attempt.decided(gate, policy.hash(), &decision, Some(valid.digest()));
    if decision.effect == Effect::Deny {
        let error = ErrorObject::new(Code::Denied, decision.for_model())
            .with_hint("do not ask again unchanged: the rule stands until the operator changes it");
        return Err(Stop::Error(error));
    }
    Ok(Judged { valid, decision })
}
