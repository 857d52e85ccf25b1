//! `[server]`: how HTTP is served, and how long MCP clients are kept waiting.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_mcp::TaskRules;
use toml::Spanned;

use super::limit::period;
use super::{ConfigError, Loaded, SecretSource};

/// One that seals, and the one before it.
const STATE_KEYS_MAX: usize = 2;

/// `[server]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address and port.
    pub bind: String,
    /// Secrets that all replicas have, never themselves, of at least 32 bytes: what MCP clients hold of a call that waits for
    /// them is sealed by the first, and opened by each. Unsaid: by a key of the data folder. docs/replicas.md.
    #[schemars(with = "Vec<SecretSource>")]
    pub state_keys: Spanned<Vec<SecretSource>>,
    /// How long a call may take before an MCP client that knows tasks is given one and may ask how it does: a period such as
    /// `500ms` or `10s`. A tool may say otherwise by `execution.task`; docs/tasks.md.
    #[schemars(with = "String")]
    pub task_after: Spanned<String>,
    /// How long a task is kept after its end: a period such as `30m` or `24h`.
    #[schemars(with = "String")]
    pub task_keep: Spanned<String>,
}

impl Default for Server {
    fn default() -> Self {
        let said = |text: &str| Spanned::new(0..0, text.to_owned());
        let state_keys = Spanned::new(0..0, Vec::new());
        Self { bind: "127.0.0.1:7373".into(), state_keys, task_after: said("10s"), task_keep: said("1h") }
    }
}

impl Loaded {
    /// More keys than a change of keys needs are a list that nobody looks after.
    pub(super) fn check_state_keys(&self) -> Result<(), ConfigError> {
        let keys = &self.config.server.state_keys;
        if keys.get_ref().len() <= STATE_KEYS_MAX {
            return Ok(());
        }
        let message = format!("it has {} keys: one that seals, and the one before it", keys.get_ref().len());
        Err(self.state_key_fault(message, "state_keys = [{ env = \"NEW\" }, { env = \"OLD\" }]"))
    }

    pub(crate) fn state_key_fault(&self, message: String, hint: &str) -> ConfigError {
        self.fault(&self.config.server.state_keys, "server.state_keys".into(), message, hint)
    }

    /// How long calls of MCP clients are waited for, and tasks kept.
    ///
    /// # Errors
    /// When a time is no period.
    pub(crate) fn task_rules(&self) -> Result<TaskRules, ConfigError> {
        let server = &self.config.server;
        let after = self.server_period("server.task_after", &server.task_after, "\"500ms\" or \"10s\"")?;
        let keep = self.server_period("server.task_keep", &server.task_keep, "\"30m\" or \"24h\"")?;
        Ok(TaskRules { after, keep })
    }

    fn server_period(&self, key: &str, said: &Spanned<String>, such_as: &str) -> Result<Duration, ConfigError> {
        period(said.get_ref()).ok_or_else(|| {
            let message = format!("`{}` is not a period of 1 ms to 31 days", said.get_ref());
            self.fault(said, key.into(), message, &format!("write it as {such_as}"))
        })
    }
}
