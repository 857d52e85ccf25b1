//! The keys that seal what MCP clients hold of calls that wait for them: of the data folder, and those that replicas share.

use tollgate_mcp::StateKeys;
use tollgate_store::InstallKey;
use tollgate_types::Secret;

use crate::config::SecretSource;
use crate::{Error, Tollgate};

const KEY_BYTES_MIN: usize = 32;

impl Tollgate {
    /// The keys under which clients hold what belongs to their calls. Processes with the same data folder have the same, and
    /// so have those with the same `server.state_keys`.
    ///
    /// # Errors
    /// When a configured key is not to be had, or too short to be one.
    pub async fn state_keys(&self) -> Result<StateKeys, Error> {
        let mut keys = Vec::new();
        for source in self.loaded.config.server.state_keys.get_ref() {
            keys.push(self.state_key(source).await?);
        }
        let own = InstallKey::load(&self.data_dir)?;
        let shared = keys.iter().map(|key| key.expose().as_bytes());
        Ok(StateKeys::new(shared.chain([own.as_bytes()]), self.clock()))
    }

    async fn state_key(&self, source: &SecretSource) -> Result<Secret, Error> {
        const HINT: &str = "`openssl rand -hex 32` prints one; every replica needs the same";
        let fault = |message: String| Error::from(self.loaded.state_key_fault(message, HINT));
        let key = source.resolve(&self.loaded.folder).await.map_err(fault)?;
        self.redactor.add_secret(&key);
        if key.expose().len() < KEY_BYTES_MIN {
            return Err(fault(format!("{} gives less than {KEY_BYTES_MIN} bytes", source.describe())));
        }
        Ok(key)
    }
}
