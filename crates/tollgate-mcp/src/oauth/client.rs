//! Who Tollgate is at an authorization server: registered by hand, described by a document that its operator publishes, or
//! registered by itself (MCP 2026-07-28, Client Registration), and how it shows that it is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::Secret;

use super::assertion::SigningKey;
use super::discovery::AuthorizationServer;
use super::error::AuthError;
use super::outbound::{Outbound, Post};
use super::token;

/// What an operator or an authorization server calls a client may be so long.
const ID_BYTES_MAX: usize = 2048;

/// Who Tollgate is, as the operator says it.
#[derive(Debug, Clone, Default)]
pub enum ClientIdentity {
    /// Nobody yet: it registers itself.
    #[default]
    Unknown,
    /// Registered by hand.
    Registered {
        /// Its name there.
        id: String,
        /// How it shows that it is.
        proof: ClientProof,
    },
    /// Described by a document at this address, which is its name. Where an authorization server takes no documents, it
    /// registers itself.
    Document(String),
}

/// How a client that was registered by hand shows that it is.
#[derive(Debug, Clone)]
pub enum ClientProof {
    /// Not at all: what it is given is bound to its request by PKCE.
    Nothing,
    /// By a secret.
    Secret(Secret),
    /// By signing (RFC 7523).
    Key(Arc<SigningKey>),
}

/// How a client shows at the token endpoint who it is (RFC 7591 §2, RFC 7523).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl Method {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// A client that an authorization server knows.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) method: Method,
    pub(super) proof: ClientProof,
    /// The one address that it was registered with, where it registered itself.
    pub(super) redirect_uri: Option<String>,
}

/// The client as the operator says it is; none where it must register itself.
pub(super) fn given(identity: &ClientIdentity, at: &AuthorizationServer) -> Result<Option<Client>, AuthError> {
    match identity {
        ClientIdentity::Registered { id, proof } => {
            let method = method(proof, at)?;
            Ok(Some(Client { id: id.clone(), method, proof: proof.clone(), redirect_uri: None }))
        }
        ClientIdentity::Document(url) if at.takes_documents => {
            Ok(Some(Client { id: url.clone(), method: Method::None, proof: ClientProof::Nothing, redirect_uri: None }))
        }
        ClientIdentity::Document(_) | ClientIdentity::Unknown => Ok(None),
    }
}

/// How it is shown, of the ways that the authorization server knows. One that names none knows the first (RFC 8414 §2).
fn method(proof: &ClientProof, at: &AuthorizationServer) -> Result<Method, AuthError> {
    let ways: &[Method] = match proof {
        ClientProof::Nothing => return Ok(Method::None),
        ClientProof::Secret(_) => &[Method::ClientSecretBasic, Method::ClientSecretPost],
        ClientProof::Key(_) => &[Method::PrivateKeyJwt],
    };
    let knows = |way: &&Method| at.auth_methods.as_ref().is_none_or(|known| known.iter().any(|it| it == way.as_str()));
    ways.iter().find(knows).copied().ok_or_else(|| {
        let ways: Vec<&str> = ways.iter().map(|way| way.as_str()).collect();
        AuthError::Metadata(format!("the authorization server `{}` does not take {}", at.issuer, ways.join(" or ")))
    })
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers Tollgate as a native application (RFC 7591; MCP 2026-07-28, Application Type). What it may ask for is left open:
/// a later login may need more.
pub(super) async fn register(
    outbound: &Outbound,
    at: &AuthorizationServer,
    redirect_uri: &str,
) -> Result<Client, AuthError> {
    let Some(url) = &at.registration_endpoint else { return Err(AuthError::NoClient { issuer: at.issuer.clone() }) };
    let knows = |way: &&Method| at.auth_methods.as_ref().is_none_or(|known| known.iter().any(|it| it == way.as_str()));
    let ways = [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost];
    let asked = ways.iter().find(knows).copied().unwrap_or(Method::None);
    let metadata = json!({
        "client_name": "Tollgate",
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": asked.as_str(),
    });
    let post = Post { url, content_type: "application/json", authorization: None, body: metadata.to_string() };
    let answer = outbound.post(post).await?;
    if !matches!(answer.status, 200 | 201) {
        return Err(token::refusal(&at.issuer, &answer));
    }
    let bad = |why: &str| AuthError::Metadata(format!("the authorization server `{}` {why}", at.issuer));
    let Some(registered) = answer.json::<Registered>() else { return Err(bad("answers no registration")) };
    let is_fit =
        |text: &str| (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !is_fit(&registered.client_id) || !registered.client_secret.as_deref().is_none_or(is_fit) {
        return Err(bad("gives a `client_id` or a secret that cannot be used"));
    }
    Ok(known_as(registered, at, redirect_uri, asked))
}

fn known_as(registered: Registered, at: &AuthorizationServer, redirect_uri: &str, asked: Method) -> Client {
    let secret = registered.client_secret.map(|secret| ClientProof::Secret(Secret::new(secret)));
    let proof = secret.unwrap_or(ClientProof::Nothing);
    let ways = [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost];
    let named = registered.token_endpoint_auth_method;
    let named = ways.into_iter().find(|way| named.as_deref() == Some(way.as_str()));
    // Without its word: as was asked for, and with a secret as it takes secrets.
    let method = named.unwrap_or_else(|| match at.auth_methods {
        Some(_) => asked,
        None => method(&proof, at).unwrap_or(asked),
    });
    let method = if matches!(proof, ClientProof::Nothing) { Method::None } else { method };
    Client { id: registered.client_id, method, proof, redirect_uri: Some(redirect_uri.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(methods: Option<&[&str]>) -> AuthorizationServer {
        let methods = methods.map(|methods| json!(methods));
        let mut metadata = json!({"issuer": "https://a.example", "token_endpoint": "https://a.example/token"});
        if let Some(methods) = methods {
            metadata["token_endpoint_auth_methods_supported"] = methods;
        }
        serde_json::from_value(metadata).unwrap()
    }

    #[test]
    fn a_client_shows_who_it_is_as_the_server_takes_it() {
        let secret = ClientProof::Secret(Secret::new("secret"));
        for (methods, expected) in [
            (None, Ok(Method::ClientSecretBasic)),
            (Some(&["client_secret_post"][..]), Ok(Method::ClientSecretPost)),
            (Some(&["client_secret_post", "client_secret_basic"]), Ok(Method::ClientSecretBasic)),
            (Some(&["tls_client_auth"]), Err("does not take client_secret_basic or client_secret_post")),
        ] {
            let found = method(&secret, &server(methods)).map_err(|error| error.to_string());
            match expected {
                Ok(way) => assert_eq!(found, Ok(way), "{methods:?}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{methods:?}"),
            }
        }
        assert_eq!(method(&ClientProof::Nothing, &server(Some(&["tls_client_auth"]))), Ok(Method::None));
    }

    #[test]
    fn a_registration_says_how_the_client_shows_itself_or_it_is_as_was_asked() {
        let registered = |secret: Option<&str>, named: Option<&str>| Registered {
            client_id: "id".into(),
            client_secret: secret.map(ToOwned::to_owned),
            token_endpoint_auth_method: named.map(ToOwned::to_owned),
        };
        for (methods, secret, named, asked, expected) in [
            (Some(&["none"][..]), Some("s"), None, Method::None, Method::None),
            (Some(&["client_secret_basic"]), Some("s"), None, Method::ClientSecretBasic, Method::ClientSecretBasic),
            (None, Some("s"), None, Method::None, Method::ClientSecretBasic),
            (None, None, None, Method::None, Method::None),
            (None, Some("s"), Some("client_secret_post"), Method::None, Method::ClientSecretPost),
            (None, None, Some("client_secret_post"), Method::None, Method::None),
            (None, Some("s"), Some("odd"), Method::None, Method::ClientSecretBasic),
        ] {
            let client = known_as(registered(secret, named), &server(methods), "http://127.0.0.1:1/callback", asked);
            assert_eq!(client.method, expected, "{methods:?} {secret:?} {named:?}");
        }
    }
}
