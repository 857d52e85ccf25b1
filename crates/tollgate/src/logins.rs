//! The logins to MCP servers: whose `Authorization` is not configured, and who wants one, is known by what `tollgate mcp
//! login` brought, or by a token that Tollgate asks for in its own name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_guard::client::{Credentials, socket_address};
use tollgate_guard::redact::Redactor;
use tollgate_mcp::oauth::{ClientIdentity, ClientProof, Grant, LoginFile, Oauth, OauthConfig, SigningKey};
use tollgate_types::Clock;

use crate::config::{Loaded, McpGrant, McpOauth, McpServer};
use crate::servers::values;

/// The logins of one house, by server.
pub(crate) struct Logins {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    kept: BTreeMap<String, Arc<Oauth>>,
}

impl Logins {
    /// Those that are kept in a folder.
    pub(crate) fn new(folder: PathBuf, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self { folder, clock, redactor, kept: BTreeMap::new() }
    }

    /// The login of a server, if it can have one.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<Oauth>> {
        self.kept.get(name).cloned()
    }

    /// What a server is to be shown: `headers`, and the login to it. A key in `headers` alone says who asks.
    pub(crate) async fn credentials(
        &mut self,
        name: &str,
        server: &McpServer,
        headers: Credentials,
        loaded: &Loaded,
    ) -> Result<Credentials, String> {
        let is_keyed = server.oauth.is_none() && !server.headers.is_empty();
        let Some(url) = server.url.as_deref().filter(|_| !is_keyed) else { return Ok(headers) };
        let oauth = server.oauth.clone().unwrap_or_default();
        let proof = proof(&oauth, loaded, &self.redactor).await?;
        let config = OauthConfig {
            url: socket_address(url).into_owned(),
            identity: identity(&oauth, proof),
            issuer: oauth.issuer,
            scopes: oauth.scopes,
            grant: match oauth.grant {
                McpGrant::Code => Grant::Code,
                McpGrant::ClientCredentials => Grant::ClientCredentials,
            },
        };
        let file = LoginFile::new(&self.folder, name);
        let Ok(login) = Oauth::new(config, file, headers.clone(), self.redactor.clone(), Arc::clone(&self.clock))
        else {
            // Whoever starts the server says what is wrong with its address.
            return Ok(headers);
        };
        let login = Arc::new(login);
        self.kept.insert(name.to_owned(), Arc::clone(&login));
        Ok(login.credentials())
    }
}

async fn proof(oauth: &McpOauth, loaded: &Loaded, redactor: &Redactor) -> Result<ClientProof, String> {
    let mut secrets = values(&oauth.secrets(), loaded, redactor).await?;
    match secrets.pop() {
        Some((name, pem)) if name == "private_key" => {
            let key = SigningKey::from_pem(&pem).map_err(|why| format!("`private_key`: {why}"))?;
            Ok(ClientProof::Key(Arc::new(key)))
        }
        Some((_, secret)) => Ok(ClientProof::Secret(secret)),
        None => Ok(ClientProof::Nothing),
    }
}

fn identity(oauth: &McpOauth, proof: ClientProof) -> ClientIdentity {
    match (&oauth.client_id, &proof) {
        (None, _) => ClientIdentity::Unknown,
        (Some(id), ClientProof::Nothing) if id.starts_with("https://") => ClientIdentity::Document(id.clone()),
        (Some(id), _) => ClientIdentity::Registered { id: id.clone(), proof },
    }
}
