//! `[mcp.NAME.oauth]`: how Tollgate logs in at an MCP server's authorization server. Without it a server that wants a login
//! gets one all the same; it is for those where nothing can be found out, and for those without a human.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::client::{Origin, socket_address};
use toml::Spanned;

use super::{ConfigError, Loaded, McpServer, SecretSource, TextOrSecret};

/// `[mcp.NAME.oauth]`: the login to a server that wants one; docs/logins.md.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpOauth {
    /// Who Tollgate is at the authorization server: what it was registered as, or the `https` address of a client metadata
    /// document; unsaid: it registers itself.
    pub client_id: Option<String>,
    /// The secret that goes with it.
    pub client_secret: Option<SecretSource>,
    /// The private key that goes with it, PKCS #8 as PEM: P-256 or RSA.
    pub private_key: Option<SecretSource>,
    /// The authorization server, exactly as it names itself; unsaid: the one that the server names. A secret or a key is
    /// shown to no other.
    pub issuer: Option<String>,
    /// What the login may permit at most; unsaid: what the server wants.
    pub scopes: Vec<String>,
    /// By what right a token is asked for.
    pub grant: McpGrant,
    /// The port of this machine that the browser is sent to in the end; unsaid: any that is free.
    pub redirect_port: Option<u16>,
}

/// By what right a token is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpGrant {
    /// A human agrees in a browser: `tollgate mcp login NAME`.
    #[default]
    Code,
    /// Tollgate speaks for itself, with `client_id` and a secret or key.
    ClientCredentials,
}

impl McpOauth {
    /// The secrets, by their keys.
    pub fn secrets(&self) -> BTreeMap<String, TextOrSecret> {
        let named = [("client_secret", &self.client_secret), ("private_key", &self.private_key)];
        let secret = |(name, source): (&str, &Option<SecretSource>)| {
            Some((name.to_owned(), TextOrSecret::Secret(source.clone()?)))
        };
        named.into_iter().filter_map(secret).collect()
    }
}

impl McpServer {
    /// Whether `headers` say who Tollgate is, so that there is nothing to log in for.
    pub fn is_known_by_header(&self) -> bool {
        self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }
}

impl Loaded {
    /// What is wrong with the `oauth` of a server that is reached at `url`.
    pub(super) fn check_oauth(&self, name: &str, server: &Spanned<McpServer>, url: &str) -> Result<(), ConfigError> {
        let Some(oauth) = &server.get_ref().oauth else { return Ok(()) };
        let fault =
            |message: &str, hint: &str| Err(self.fault(server, format!("mcp.{name}.oauth"), message.into(), hint));
        let has_proof = oauth.client_secret.is_some() || oauth.private_key.is_some();
        let is_address = |text: &String| Origin::of(text).is_ok_and(|origin| !origin.is_plain_to_afar());
        if server.get_ref().is_known_by_header() {
            fault("`headers` say who asks already", "keep `oauth`, or the `Authorization` among `headers`")
        } else if Origin::of(&socket_address(url)).is_ok_and(|origin| origin.is_plain_to_afar()) {
            fault("a token would go to another machine in plain text", "a login takes url = \"https://…\"")
        } else if oauth.client_secret.is_some() && oauth.private_key.is_some() {
            fault("it has both `client_secret` and `private_key`", "keep one of them")
        } else if has_proof && oauth.client_id.is_none() {
            fault("a secret or key without `client_id`", "client_id = \"…\", as Tollgate was registered")
        } else if has_proof && oauth.issuer.is_none() {
            fault(
                "nobody says whose `client_id` that is",
                "issuer = \"https://…\": the authorization server that it was registered at, to which alone it is shown",
            )
        } else if oauth.issuer.as_ref().is_some_and(|issuer| !is_address(issuer)) {
            fault(
                "`issuer` is no `https` address",
                "issuer = \"https://…\", exactly as the authorization server names itself",
            )
        } else if oauth.grant == McpGrant::ClientCredentials && !has_proof {
            fault("`client_credentials` without a secret or key", "client_secret = { env = \"NAME\" }, or private_key")
        } else if oauth.grant == McpGrant::ClientCredentials && oauth.redirect_port.is_some() {
            fault("`redirect_port` is for a human's browser", "leave it out: `client_credentials` takes no human")
        } else {
            Ok(())
        }
    }
}
