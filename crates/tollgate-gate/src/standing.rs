//! The policy of now, which can be replaced as a whole while calls are under way, and what sessions have read.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tollgate_policy::{Circumstances, Decision, Policy, PolicyError};
use tollgate_types::{Caller, Permission, ToolDefinition};

use crate::gate::Inner;
use crate::meta::READ_RESULT;

/// Sessions of which it is remembered that they read from outside.
const SESSIONS_MAX: usize = 100_000;

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
        *current = Arc::new(policy);
        Ok(())
    }
}

/// Which sessions have read content from outside, in this process.
#[derive(Default)]
pub(crate) struct Taint(Mutex<HashSet<(String, Option<String>)>>);

impl Taint {
    /// A tool has answered the caller.
    pub(crate) fn answered(&self, caller: &Caller, tool: &ToolDefinition) {
        let is_outside = tool.annotations.open_world == Some(true) || tool.permission >= Permission::Network;
        // What was kept of an earlier result may be from outside too.
        if is_outside || tool.name == READ_RESULT {
            let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if sessions.len() < SESSIONS_MAX {
                sessions.insert(Self::key(caller));
            }
        }
    }

    /// Whether the caller's session has read from outside. When there are too many sessions to remember, all count as
    /// tainted.
    fn is_tainted(&self, caller: &Caller) -> bool {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.len() >= SESSIONS_MAX || sessions.contains(&Self::key(caller))
    }

    /// Calls without a session share that of their subject.
    fn key(caller: &Caller) -> (String, Option<String>) {
        (caller.subject.clone(), caller.session.clone())
    }
}

impl Inner {
    /// Asks `policy` under the circumstances of now; without arguments, whether the tool may be listed.
    pub(crate) fn decide(
        &self,
        policy: &Policy,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: Option<&serde_json::Value>,
    ) -> Decision {
        let circumstances = Circumstances {
            environment: self.environment.as_deref(),
            now: self.clock.now(),
            is_tainted: policy.reads_taint() && self.taint.is_tainted(caller),
        };
        policy.decide(caller, tool, arguments, &circumstances)
    }
}
