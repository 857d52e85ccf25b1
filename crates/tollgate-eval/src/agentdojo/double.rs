//! The tools of a suite: each returns what was recorded for the call that is being made, and says that it ran.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tollgate_policy::ToolFacts;
use tollgate_types::{BoxFuture, Cx, Tool, ToolDefinition, ToolError, ToolOutput};

use super::data::{RecordedSuite, RecordedTool};
use super::play::ReplayError;

/// What the next call returns, and whether it did.
#[derive(Default)]
pub(super) struct Script(Mutex<(String, bool)>);

impl Script {
    /// Says what the next call returns.
    pub(super) fn expect(&self, result: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (result, false);
    }

    /// Whether it ran.
    pub(super) fn has_run(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn run(&self) -> String {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.1 = true;
        script.0.clone()
    }
}

struct Double {
    definition: ToolDefinition,
    script: Arc<Script>,
}

impl Tool for Double {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call(&self, _: Value, _: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let text = self.script.run();
        Box::pin(async move { Ok(ToolOutput::text(text)) })
    }
}

/// The tools of a suite. `facts` say what they are: their risk, their permission, their annotations.
pub(super) fn tools(
    suite: &RecordedSuite,
    facts: &BTreeMap<String, ToolFacts>,
    script: &Arc<Script>,
) -> Result<Vec<Arc<dyn Tool>>, ReplayError> {
    let double = |tool: &RecordedTool| {
        let known = facts.get(&tool.name).ok_or_else(|| ReplayError::UnknownTool { name: tool.name.clone() })?;
        let mut definition = known.definition();
        definition.name.clone_from(&tool.name);
        definition.description.clone_from(&tool.description);
        definition.input_schema = Value::Object(tool.parameters.clone());
        Ok(Arc::new(Double { definition, script: Arc::clone(script) }) as Arc<dyn Tool>)
    };
    suite.tools.iter().map(double).collect()
}
