//! Tools that the provider of a model runs itself. Policy says who may be offered one, and the ledger is told of each call.

use std::sync::Arc;

use serde_json::value::RawValue;
use tollgate_types::{CallId, ObservedCall, Permission, Risk, SourceKind, ToolDefinition};
use tollgate_wire::Turn;

use crate::run::{Agent, Event, RunError};

/// A tool that the provider of a model runs itself.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// What policy judges and the ledger names: `hosted__` and the provider's name for it.
    pub definition: Arc<ToolDefinition>,
    /// The tool as the dialect writes it.
    pub wire: Box<RawValue>,
}

impl Hosted {
    /// What stands before the provider's name.
    pub const PREFIX: &str = "hosted__";

    /// A tool of the provider's own name, and what it does and needs.
    pub fn new(name: &str, risk: Risk, permission: Permission, wire: Box<RawValue>) -> Self {
        let mut definition =
            ToolDefinition::new(format!("{}{name}", Self::PREFIX), "Runs at the provider of the model.");
        definition.risk = risk;
        definition.permission = permission;
        // What it brings comes from outside.
        definition.annotations.open_world = Some(true);
        definition.source.kind = SourceKind::Provider;
        Self { definition: Arc::new(definition), wire }
    }

    /// What is said of a tool that a provider ran and nobody offered.
    pub(crate) fn unknown(name: &str) -> Arc<ToolDefinition> {
        Self::new(name, Risk::Dangerous, Permission::System, RawValue::NULL.to_owned()).definition
    }
}

impl Agent {
    /// The provider's tools that may be offered now.
    pub(crate) fn permitted(&self) -> Vec<Hosted> {
        let may = |tool: &&Hosted| {
            let name = &tool.definition.name;
            self.options.tools.as_ref().is_none_or(|names| names.contains(name))
                && self.door.permits(&self.caller, &tool.definition)
        };
        self.model.hosted().iter().filter(may).cloned().collect()
    }

    /// Records the calls that the provider ran. One that cannot be recorded ends the run.
    pub(crate) async fn observe(
        &self,
        turn: &Turn,
        offered: &[Arc<ToolDefinition>],
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<(), RunError> {
        for call in &turn.hosted {
            let is_it =
                |tool: &&Arc<ToolDefinition>| tool.name.strip_prefix(Hosted::PREFIX) == Some(call.name.as_str());
            let known = offered.iter().find(is_it);
            let tool = known.map_or_else(|| Hosted::unknown(&call.name), Arc::clone);
            let (name, is_offered) = (tool.name.clone(), known.is_some());
            let observed = ObservedCall {
                id: CallId::new(call.id.as_str()),
                tool,
                is_offered,
                model: self.model.name().to_owned(),
                arguments: call.arguments.clone(),
                result: call.result.clone(),
                is_error: call.is_error,
            };
            let attempt = self
                .door
                .observe(&self.caller, observed)
                .await
                .map_err(|error| RunError::Unrecorded { tool: name.clone(), error: Box::new(error) })?;
            on_event(&Event::Observed {
                tool: name,
                attempt: attempt.to_string(),
                is_offered,
                is_error: call.is_error,
            });
        }
        Ok(())
    }
}
