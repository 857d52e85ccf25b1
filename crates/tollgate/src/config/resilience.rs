//! `[resilience]`: what can only be checked once the file was read.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_gate::check_resilience;
use tollgate_types::{ToolDefinition, limits};

use super::{ConfigError, Loaded, error};

impl Loaded {
    /// Whether `[resilience]` can hold.
    pub(super) fn check_resilience(&self) -> Result<(), ConfigError> {
        let table = &self.config.resilience;
        check_resilience(table.get_ref()).map_err(|fault| {
            let start = table.span().start;
            // What stands in a table of one line stands on the line of that.
            let lines = fault.key.rsplit('.').map(|key| error::line_of(&self.text, start, key));
            let offset = lines.into_iter().find(|offset| *offset != start).unwrap_or(start);
            let (file, key) = (self.file.clone().unwrap_or_default(), Some(format!("resilience.{}", fault.key)));
            let hint = Some("docs/failure.md has an example of every key".to_owned());
            ConfigError::at(&file, &self.text, offset, key, fault.problem, hint)
        })
    }

    /// How long calls under way may go on at the end.
    pub(crate) fn drain(&self) -> Duration {
        Duration::from_millis(self.config.resilience.get_ref().drain_ms.unwrap_or(limits::DRAIN_MS))
    }

    /// The sources that rules are about and that neither these tools nor a server has: a misspelt one protects nothing.
    pub(crate) fn idle_sources(&self, tools: &[ToolDefinition]) -> Vec<String> {
        let of_tool = |tool: &ToolDefinition| tool.source.server.clone().unwrap_or_else(|| tool.name.clone());
        let known: BTreeSet<String> = tools.iter().map(of_tool).collect();
        let sources = self.config.resilience.get_ref().sources.keys();
        let idle = sources.filter(|name| !known.contains(*name) && !self.config.mcp.contains_key(*name));
        idle.map(|name| format!("[resilience.sources.{name}] is about no server")).collect()
    }
}
