//! `[tools."glob"]`: the operator's changes to definitions.

use globset::{Glob, GlobMatcher};
use serde_json::Value;
use std::sync::Arc;

use tollgate_types::{BoxFuture, Cx, Member, Tool, ToolDefinition, ToolError, ToolOutput, Workspace};
use toml::Spanned;

use crate::config::{ConfigError, Loaded};

/// The changes of one configuration, in the order of their globs.
pub(crate) struct Overlays {
    loaded: Arc<Loaded>,
    rules: Vec<(GlobMatcher, String, Spanned<toml::Table>)>,
}

impl Overlays {
    pub(crate) fn read(loaded: &Arc<Loaded>) -> Result<Self, ConfigError> {
        let mut rules = Vec::new();
        for (glob, table) in &loaded.config.tools {
            let fault = |message: String| {
                loaded.fault(
                    table,
                    format!("tools.\"{glob}\""),
                    message,
                    "a glob such as \"read_*\"; any key of a definition but `name` and `kind`",
                )
            };
            if let Some(key) = ["name", "kind"].into_iter().find(|key| table.get_ref().contains_key(*key)) {
                return Err(fault(format!("a {key} cannot be changed")));
            }
            let matcher = Glob::new(glob).map_err(|error| fault(error.to_string()))?.compile_matcher();
            rules.push((matcher, glob.clone(), table.clone()));
        }
        Ok(Self { loaded: Arc::clone(loaded), rules })
    }

    /// The globs that fit none of these names: a misspelt one protects nothing. What may fit the tools of a server that
    /// did not say yet what it has is no such.
    pub(crate) fn idle(&self, names: &[String]) -> Vec<String> {
        let is_for_servers = |glob: &str| !self.loaded.config.mcp.is_empty() && glob.starts_with("mcp__");
        let is_idle =
            |glob: &GlobMatcher, text: &str| !names.iter().any(|name| glob.is_match(name)) && !is_for_servers(text);
        let idle = self.rules.iter().filter(|(glob, text, _)| is_idle(glob, text));
        idle.map(|(_, glob, _)| format!("[tools.\"{glob}\"] fits no tool")).collect()
    }

    /// The tool with every change whose glob fits its name.
    pub(crate) fn apply(&self, tool: Arc<dyn Tool>) -> Result<Arc<dyn Tool>, ConfigError> {
        let definition = tool.definition();
        let fitting: Vec<_> = self.rules.iter().filter(|(glob, ..)| glob.is_match(&definition.name)).collect();
        if fitting.is_empty() {
            return Ok(tool);
        }
        let listing = definition.listing.clone();
        let mut changed = definition;
        for (_, glob, table) in fitting {
            let fault = |message: String| {
                self.loaded.fault(
                    table,
                    format!("tools.\"{glob}\""),
                    message,
                    "the keys of a tool are listed in docs/config.md",
                )
            };
            let change = serde_json::to_value(table.get_ref()).map_err(|error| fault(error.to_string()))?;
            let mut value = serde_json::to_value(&changed).map_err(|error| fault(error.to_string()))?;
            merge(&mut value, change);
            changed = serde_json::from_value(value).map_err(|error| fault(error.to_string()))?;
            if changed.is_too_lenient() {
                let (name, risk) = (&changed.name, changed.risk);
                return Err(fault(format!("`{name}` has the risk `{risk}`: `lenient` is only for tools that read")));
            }
        }
        changed.listing = listing;
        Ok(Arc::new(Overlaid { definition: changed, tool }))
    }
}

/// RFC 7396, but that null does not remove: TOML has none.
fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

struct Overlaid {
    definition: ToolDefinition,
    tool: Arc<dyn Tool>,
}

impl Tool for Overlaid {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn check(&self, arguments: &Value, cx: &Cx) -> Result<(), ToolError> {
        self.tool.check(arguments, cx)
    }

    fn preview(&self, arguments: &Value, cx: &Cx) -> Option<String> {
        self.tool.preview(arguments, cx)
    }

    fn members<'a>(&'a self, workspace: &'a Arc<Workspace>) -> BoxFuture<'a, Vec<Member>> {
        self.tool.members(workspace)
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.tool.call(arguments, cx)
    }
}
