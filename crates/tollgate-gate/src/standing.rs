//! The policy of now, which can be replaced as a whole while calls are under way.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tollgate_policy::{Circumstances, Decision, Origins, Policy, PolicyError, Provenance};
use tollgate_types::{Caller, Said, ToolDefinition, ToolError, ToolOutput};

use crate::gate::Inner;
use crate::links;
use crate::memory::Keep;

/// The policy of now.
pub(crate) struct Standing(RwLock<Arc<Policy>>);

impl Standing {
    pub(crate) fn new(policy: Policy) -> Self {
        Self(RwLock::new(Arc::new(policy)))
    }

    /// The policy that a decision is made by, and its hash recorded with.
    pub(crate) fn now(&self) -> Arc<Policy> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a tool while the policy stays what it is, so that no tool is added to a policy that was just replaced.
    pub(crate) fn during<T>(&self, add: impl FnOnce(&Policy) -> T) -> T {
        add(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy in its place, once it has read the rules of every tool. Else the old one stays.
    pub(crate) fn replace(
        &self,
        policy: Policy,
        tools: impl FnOnce() -> Vec<Arc<ToolDefinition>>,
    ) -> Result<(), PolicyError> {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tools().iter().try_for_each(|tool| policy.compile(tool))?;
        let old = std::mem::replace(&mut *current, Arc::new(policy));
        drop(current);
        // Thousands of rules take their time to go, and nobody should wait for that.
        drop(old);
        Ok(())
    }
}

impl Inner {
    /// Asks `policy` under the circumstances of now whether the tool may be listed.
    pub(crate) fn decide_listing(&self, policy: &Policy, caller: &Caller, tool: &ToolDefinition) -> Decision {
        let is_tainted = policy.reads_taint() && self.memory.is_tainted(caller);
        policy.decide(caller, tool, None, &self.circumstances(is_tainted, Provenance::Unknown))
    }

    /// Asks `policy` under the circumstances of now about a call, in a conversation in which people wrote this.
    pub(crate) fn decide_call(
        &self,
        policy: &Policy,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        said: &Said,
    ) -> Decision {
        let origins: Option<Origins> = policy.reads_provenance().then(|| self.memory.origins(caller, said));
        let provenance = origins.as_ref().map_or(Provenance::Unknown, Provenance::Heard);
        let is_tainted = policy.reads_taint() && (said.is_resumed || self.memory.is_tainted(caller));
        let circumstances = self.circumstances(is_tainted, provenance);
        let decision = policy.decide(caller, tool, Some(arguments), &circumstances);
        let lead = |path: &str| links::lead(&self.workspace.root, path);
        match policy.refuses_lead(tool, arguments, lead) {
            Some(refused) => decision.max(refused),
            None => decision,
        }
    }

    /// A tool has answered a caller. An error's text is content as well.
    pub(crate) fn heard(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        answer: &Result<ToolOutput, ToolError>,
    ) {
        let keep = if self.policy.now().reads_provenance() { Keep::Texts } else { Keep::Fact };
        self.memory.answered(caller, tool, arguments, answer, keep);
    }

    fn circumstances<'a>(&'a self, is_tainted: bool, provenance: Provenance<'a>) -> Circumstances<'a> {
        Circumstances { environment: self.environment.as_deref(), now: self.clock.now(), is_tainted, provenance }
    }
}
