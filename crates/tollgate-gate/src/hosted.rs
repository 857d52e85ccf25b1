//! Tools that the provider of a model runs itself: who may be offered one, and the record of each call that ran there.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_ledger::{DecisionRef, Durability, Entry, Event, OutcomeRef, ToolRef};
use tollgate_policy::{Decision, Effect};
use tollgate_types::{
    AttemptId, CallId, CallKind, Caller, Code, ErrorObject, ObservedCall, Risk, Said, Status, ToolDefinition,
    ToolOutput, uuid_v7,
};

use crate::gate::Inner;
use crate::recorded::unrecorded;

/// The longest part of its arguments that stands in the record of a call.
const ARGUMENTS_CHARS_MAX: usize = 400;

impl Inner {
    /// Whether the tool may be offered: only what is allowed outright, for nobody can be asked while a provider's turn lasts.
    pub(crate) fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.decide_hosted(caller, tool, &json!({})).1.effect == Effect::Allow
    }

    /// Records a call that is over, with what policy says of it now.
    pub(crate) async fn observe(&self, caller: &Caller, call: ObservedCall) -> Result<AttemptId, ErrorObject> {
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(call.arguments.as_str()));
        let (policy, decision) = self.decide_hosted(caller, &call.tool, &arguments);
        let attempt = AttemptId::new(uuid_v7(self.clock.now()));
        let call_id = CallId::new(self.redactor.text(call.id.as_str()));
        let mut entry = Entry::new(Event::Observed, &attempt, &call_id);
        entry.caller = Some(Arc::new(caller.clone()));
        entry.kind = Some(CallKind::Tool);
        entry.policy = Some(policy);
        entry.tool = Some(ToolRef {
            name: self.redactor.text(&call.tool.name).into_owned(),
            pin: None,
            source: Some(call.tool.source.kind.as_str()),
        });
        entry.risk = Some(call.tool.risk);
        entry.permission = Some(call.tool.permission);
        entry.decision = Some(DecisionRef {
            effect: decision.effect.as_str(),
            rule: decision.rule,
            reason: self.redactor.text(&decision.reason).into_owned(),
        });
        entry.outcome = Some(OutcomeRef {
            status: if call.is_error { Status::Failed } else { Status::Done },
            code: call.is_error.then_some(Code::UpstreamError),
            tool_code: None,
            retryable: None,
        });
        entry.note = Some(self.note_on(&call, arguments.clone()));
        self.ledger.append(vec![entry], Durability::Batched).await.map_err(|error| {
            let end = unrecorded(&error, true, Risk::Read);
            end.error().cloned().unwrap_or_else(|| ErrorObject::new(Code::AuditUnavailable, error.to_string()))
        })?;
        // What it brought is in the conversation now.
        let answer = Ok(ToolOutput::text(call.result.unwrap_or_default()));
        self.heard(caller, &call.tool, &arguments, &answer);
        Ok(attempt)
    }

    fn decide_hosted(&self, caller: &Caller, tool: &ToolDefinition, arguments: &Value) -> (String, Decision) {
        let policy = self.policy.now();
        let decision = self.decide_call(&policy, caller, tool, arguments, &Said::default());
        (policy.hash().to_owned(), decision)
    }

    fn note_on(&self, call: &ObservedCall, mut arguments: Value) -> String {
        self.redactor.value(&mut arguments);
        let offered = if call.is_offered { "" } else { "; it was not offered" };
        format!("ran at the provider of `{}`{offered}: {arguments:.ARGUMENTS_CHARS_MAX$}", call.model)
    }
}
