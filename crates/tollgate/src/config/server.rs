//! `[server]`: how HTTP is served.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

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
}

impl Default for Server {
    fn default() -> Self {
        Self { bind: "127.0.0.1:7373".into(), state_keys: Spanned::new(0..0, Vec::new()) }
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
}
