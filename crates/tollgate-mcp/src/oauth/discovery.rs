//! Who gives tokens for an MCP server: the server's own metadata (RFC 9728) names the authorization server, whose metadata
//! (RFC 8414, OpenID Connect Discovery) names what to ask. A server without metadata is one of 2025-03-26, which gives its
//! tokens itself.

use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use super::error::AuthError;
use super::outbound::Outbound;
use super::scope;

const RESOURCE: &str = "oauth-protected-resource";
const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";
/// More of them are not looked at.
const ISSUERS_MAX: usize = 16;

/// Who gives tokens for a server, and for what they are.
#[derive(Debug, Clone)]
pub(super) struct Discovered {
    /// The server, as tokens for it name it (RFC 8707).
    pub(super) resource: String,
    /// What the server says tokens may permit.
    pub(super) scopes: Vec<String>,
    pub(super) at: AuthorizationServer,
}

/// An authorization server as it describes itself.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(rename = "scopes_supported", default)]
    pub(super) scopes: Vec<String>,
    #[serde(rename = "code_challenge_methods_supported", default)]
    challenge_methods: Vec<String>,
    #[serde(rename = "token_endpoint_auth_methods_supported")]
    pub(super) auth_methods: Option<Vec<String>>,
    #[serde(rename = "authorization_response_iss_parameter_supported", default)]
    pub(super) names_itself: bool,
    #[serde(rename = "client_id_metadata_document_supported", default)]
    pub(super) takes_documents: bool,
}

#[derive(Deserialize)]
struct ProtectedResource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

impl AuthorizationServer {
    /// Whether it checks PKCE; one that does not say so is not used (MCP 2026-07-28, Authorization Code Protection).
    pub(super) fn check_pkce(&self) -> Result<(), AuthError> {
        match self.challenge_methods.iter().any(|method| method == "S256") {
            true => Ok(()),
            false => Err(AuthError::NoPkce { issuer: self.issuer.clone() }),
        }
    }

    /// Every address that it names must be one that may be asked.
    fn check(self, outbound: &Outbound) -> Result<Self, AuthError> {
        let optional = [&self.authorization_endpoint, &self.registration_endpoint, &self.revocation_endpoint];
        for url in optional.into_iter().flatten().chain([&self.token_endpoint]) {
            outbound.judge(url)?;
        }
        Ok(self)
    }
}

/// Finds out. `named` is the authorization server that the operator wants, or the last login was at.
pub(super) async fn discover(
    outbound: &Outbound,
    server: &str,
    challenge: &Challenge,
    named: Named<'_>,
) -> Result<Discovered, AuthError> {
    let server = Url::parse(server).map_err(|_| AuthError::Metadata("the server's address is none".to_owned()))?;
    let Some(resource) = protected_resource(outbound, &server, challenge).await? else {
        let at = match named {
            Named::Wanted(issuer) => expected(outbound, issuer).await?,
            Named::Known(_) | Named::Nobody => older(outbound, &server).await?,
        };
        return Ok(Discovered { resource: canonical(&server), scopes: Vec::new(), at: at.check(outbound)? });
    };
    if !is_of(&resource.resource, &server) {
        return Err(AuthError::Metadata(format!(
            "the server at `{}` says that it is `{}`: a token for that one is not asked for",
            canonical(&server),
            resource.resource.chars().take(200).flat_map(char::escape_debug).collect::<String>(),
        )));
    }
    let issuer = chosen(&resource.authorization_servers, named)?;
    let at = expected(outbound, issuer).await?.check(outbound)?;
    let scopes = scope::of(resource.scopes_supported.iter().map(String::as_str));
    Ok(Discovered { resource: resource.resource, scopes, at })
}

/// The authorization server that is expected.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named<'a> {
    /// The operator named it: no other will do.
    Wanted(&'a str),
    /// The last login was there: it is taken where the server still names it.
    Known(&'a str),
    /// None is.
    Nobody,
}

fn chosen<'a>(offered: &'a [String], named: Named<'_>) -> Result<&'a str, AuthError> {
    let offered = offered.get(..ISSUERS_MAX).unwrap_or(offered);
    let find = |issuer: &str| offered.iter().find(|it| *it == issuer);
    let first =
        offered.first().ok_or_else(|| AuthError::Metadata("the server names no authorization server".to_owned()))?;
    match named {
        Named::Wanted(issuer) => find(issuer)
            .map(String::as_str)
            .ok_or_else(|| AuthError::OtherIssuer { found: first.clone(), expected: issuer.to_owned() }),
        Named::Known(issuer) => Ok(find(issuer).unwrap_or(first)),
        Named::Nobody => Ok(first),
    }
}

/// What the server says of itself: where its challenge says, else at its well-known addresses, its path's first.
async fn protected_resource(
    outbound: &Outbound,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<ProtectedResource>, AuthError> {
    if let Some(url) = &challenge.resource_metadata {
        let found = outbound.document(url).await?;
        return found.map(Some).ok_or_else(|| {
            AuthError::Metadata("the server's metadata is not where its challenge says that it is".to_owned())
        });
    }
    for url in candidates(server, &[(RESOURCE, At::Path), (RESOURCE, At::Root)]) {
        if let Some(found) = outbound.document(&url).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The metadata of an authorization server, whose own name for itself must be the one it was asked by (RFC 8414 §3.3).
async fn metadata(outbound: &Outbound, issuer: &str) -> Result<Option<AuthorizationServer>, AuthError> {
    outbound.judge(issuer)?;
    let url = Url::parse(issuer).ok().filter(|url| url.query().is_none() && url.fragment().is_none());
    let url = url.ok_or_else(|| AuthError::Metadata("the authorization server's name is no address".to_owned()))?;
    let places = match url.path() {
        "/" => &[(OAUTH, At::Root), (OPENID, At::Root)][..],
        _ => &[(OAUTH, At::Path), (OPENID, At::Path), (OPENID, At::Behind)],
    };
    let mut other = None;
    for place in candidates(&url, places) {
        match outbound.document::<AuthorizationServer>(&place).await? {
            Some(found) if found.issuer == issuer => return Ok(Some(found)),
            Some(found) => other = Some(found.issuer),
            None => {}
        }
    }
    match other {
        None => Ok(None),
        Some(other) => Err(AuthError::Metadata(format!(
            "the authorization server `{issuer}` says that it is `{}`: its metadata is not used",
            other.chars().take(200).flat_map(char::escape_debug).collect::<String>(),
        ))),
    }
}

/// The same where there must be some.
async fn expected(outbound: &Outbound, issuer: &str) -> Result<AuthorizationServer, AuthError> {
    let found = metadata(outbound, issuer).await?;
    found.ok_or_else(|| AuthError::Metadata(format!("the authorization server `{issuer}` has no metadata")))
}

/// A server of 2025-03-26 is its own authorization server: by its metadata, else at addresses that everybody knows. All of
/// them are on the server's own origin.
async fn older(outbound: &Outbound, server: &Url) -> Result<AuthorizationServer, AuthError> {
    let issuer = server.origin().ascii_serialization();
    if let Some(found) = metadata(outbound, &issuer).await? {
        return Ok(found);
    }
    Ok(AuthorizationServer {
        authorization_endpoint: Some(format!("{issuer}/authorize")),
        token_endpoint: format!("{issuer}/token"),
        registration_endpoint: Some(format!("{issuer}/register")),
        revocation_endpoint: None,
        scopes: Vec::new(),
        // MCP 2025-03-26, Authorization: PKCE is required of all.
        challenge_methods: vec!["S256".to_owned()],
        auth_methods: None,
        names_itself: false,
        takes_documents: false,
        issuer,
    })
}

/// Where a well-known name stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the path (RFC 8414 §3.1).
    Path,
    /// In place of the path.
    Root,
    /// Behind the path (OpenID Connect Discovery §4).
    Behind,
}

/// The addresses, each once.
fn candidates(url: &Url, places: &[(&str, At)]) -> Vec<String> {
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let mut all: Vec<String> = Vec::new();
    for (name, at) in places {
        let address = match at {
            At::Path => format!("{origin}/.well-known/{name}{path}"),
            At::Root => format!("{origin}/.well-known/{name}"),
            At::Behind => format!("{origin}{path}/.well-known/{name}"),
        };
        if !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// The server's name for itself, without what is of no account (MCP 2026-07-28, Canonical Server URI).
fn canonical(server: &Url) -> String {
    let mut server = server.clone();
    server.set_fragment(None);
    server.set_query(None);
    server.as_str().trim_end_matches('/').to_owned()
}

/// Whether `resource` is the server or what the server is a part of.
fn is_of(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let is_plain = resource.fragment().is_none() && resource.username().is_empty() && resource.password().is_none();
    let parent = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(parent);
    let is_part = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_plain
        && resource.origin() == server.origin()
        && is_part
        && resource.query().is_none_or(|it| server.query() == Some(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let of = |url: &str, places: &[(&str, At)]| candidates(&Url::parse(url).unwrap(), places);
        let resource = [(RESOURCE, At::Path), (RESOURCE, At::Root)];
        assert_eq!(
            of("https://a.example:8443/public/mcp/", &resource),
            [
                "https://a.example:8443/.well-known/oauth-protected-resource/public/mcp",
                "https://a.example:8443/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(of("https://a.example", &resource), ["https://a.example/.well-known/oauth-protected-resource"]);
        assert_eq!(
            of("https://a.example/tenant1", &[(OAUTH, At::Path), (OPENID, At::Path), (OPENID, At::Behind)]),
            [
                "https://a.example/.well-known/oauth-authorization-server/tenant1",
                "https://a.example/.well-known/openid-configuration/tenant1",
                "https://a.example/tenant1/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_server_is_what_it_says_or_a_part_of_it() {
        let server = Url::parse("https://a.example/team/mcp").unwrap();
        for (resource, is_ours) in [
            ("https://a.example/team/mcp", true),
            ("https://A.example:443/team/mcp/", true),
            ("https://a.example/team", true),
            ("https://a.example", true),
            ("https://a.example/tea", false),
            ("https://a.example/team/mcp/other", false),
            ("https://a.example/other", false),
            ("https://evil.example/team/mcp", false),
            ("http://a.example/team/mcp", false),
            ("https://a.example:8443/team/mcp", false),
            ("https://a.example/team/mcp#x", false),
            ("https://a.example@evil.example/team/mcp", false),
            ("https://u@a.example/team/mcp", false),
            ("https://a.example/team/mcp?tenant=1", false),
            ("nothing", false),
        ] {
            assert_eq!(is_of(resource, &server), is_ours, "{resource}");
        }
        assert_eq!(canonical(&Url::parse("HTTPS://A.example/?x=1#y").unwrap()), "https://a.example");
    }

    #[test]
    fn the_authorization_server_is_the_operators_or_the_last_or_the_first() {
        let offered = ["https://a.example".to_owned(), "https://b.example".to_owned()];
        assert_eq!(chosen(&offered, Named::Nobody).unwrap(), "https://a.example");
        assert_eq!(chosen(&offered, Named::Known("https://b.example")).unwrap(), "https://b.example");
        assert_eq!(chosen(&offered, Named::Known("https://c.example")).unwrap(), "https://a.example");
        assert_eq!(chosen(&offered, Named::Wanted("https://b.example")).unwrap(), "https://b.example");
        for other in ["https://c.example", "https://a.example/", "https://A.example"] {
            let error = chosen(&offered, Named::Wanted(other)).unwrap_err();
            assert!(matches!(error, AuthError::OtherIssuer { .. }), "{other}");
        }
        assert!(chosen(&[], Named::Nobody).is_err());
    }
}
