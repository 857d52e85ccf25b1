//! `list_roles`: which roles there are, and what each grants.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_gate::WeakGate;
use tollgate_tools::native::tool_fn;
use tollgate_types::{Cx, Tool, ToolError};

use super::tells;

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Nothing {}

pub(super) fn tool(gate: Arc<OnceLock<WeakGate>>) -> Arc<dyn Tool> {
    let list = move |_: Nothing, cx: Cx| {
        let gate = gate.get().and_then(WeakGate::upgrade);
        async move {
            let policy = gate.ok_or_else(|| ToolError::new("the house is closing").retryable())?.policy();
            let role = |name: &str| json!({ "role": name, "grants": policy.role_as_rule(name) });
            let roles: Vec<Value> = policy.role_names().into_iter().map(role).collect();
            Ok(json!({ "yours": cx.caller.role, "roles": roles }))
        }
    };
    let tool = tool_fn("list_roles", "Lists the roles of this house, and what each grants as a rule in Cedar.", list);
    let tool = tool.when("Use it to find out which role a task needs.", "It grants nothing: the operator does.");
    Arc::new(tool.define(tells))
}
