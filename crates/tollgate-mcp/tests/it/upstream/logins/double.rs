//! An authorization server and an MCP server that takes its tokens, on one origin or two. It checks what the protocol asks of
//! a client on every request, and misbehaves as it is told.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use url::form_urlencoded;

use super::*;

type Parts = BTreeMap<String, String>;

/// How it misbehaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Vice {
    #[default]
    None,
    /// It says that it is another.
    OtherIssuer,
    /// The MCP server says that it is another.
    OtherResource,
    NoPkce,
    /// Its token endpoint is in a private network.
    PrivateToken,
    /// The MCP server says that its metadata are in one.
    PrivateMetadata,
    /// It sends whoever asks for its metadata to a private network.
    PrivateRedirect,
    /// Its metadata go round in a circle.
    EndlessRedirects,
    /// Its metadata never end.
    HugeMetadata,
    /// Another answers for it.
    MixedUp,
    /// It does not say who answers, and said it would.
    NoIss,
    /// Its token is of another kind.
    OddToken,
    /// It registers nobody.
    NoRegistration,
    /// It refuses whoever registers.
    RefusesRegistration,
    /// It has no words for it.
    Rubbish,
    /// The human says no.
    Denied,
    /// It gives no refresh tokens.
    NoRefresh,
}

#[derive(Default)]
pub(super) struct Seen {
    pub(super) vice: Vice,
    /// What is asked for at each path.
    pub(super) asked: Vec<String>,
    pub(super) authorized: Vec<Parts>,
    pub(super) tokens: Vec<Parts>,
    pub(super) revoked: Vec<Parts>,
    pub(super) registered: Vec<Value>,
    /// Access tokens that are good, with what they permit.
    good: BTreeMap<String, BTreeSet<String>>,
    /// Refresh tokens that are good; each is so once.
    fresh: BTreeMap<String, BTreeSet<String>>,
    challenge: String,
    issued: usize,
    /// Calls that were let through.
    pub(super) calls: usize,
    /// Requests that were refused for their token.
    pub(super) refused: usize,
    /// Whether the token endpoint is out of order.
    pub(super) is_down: bool,
}

pub(super) struct Double {
    seen: Mutex<Seen>,
    pub(super) origin: String,
    _serving: JoinSet<()>,
}

type Shared = Arc<Double>;

impl Double {
    pub(super) async fn serve(vice: Vice) -> Shared {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        Arc::new_cyclic(|double: &std::sync::Weak<Self>| {
            let app = Router::new()
                .route("/mcp", any(endpoint))
                .route("/.well-known/oauth-protected-resource/mcp", get(resource))
                .route("/.well-known/oauth-authorization-server", get(metadata))
                .route("/authorize", get(authorize))
                .route("/token", post(token))
                .route("/register", post(register))
                .route("/revoke", post(revoke))
                .with_state(double.clone());
            serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
            let seen = Mutex::new(Seen { vice, ..Seen::default() });
            Self { seen, origin, _serving: serving }
        })
    }

    pub(super) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Several things at one moment.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen())
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// No access token is good any more.
    pub(super) fn end_tokens(&self) {
        self.seen().good.clear();
    }

    /// Nor any refresh token.
    pub(super) fn take_back(&self) {
        let mut seen = self.seen();
        seen.good.clear();
        seen.fresh.clear();
    }

    fn give(&self, seen: &mut Seen, scopes: &BTreeSet<String>) -> Value {
        seen.issued += 1;
        let (access, refresh) = (format!("access-token-{}", seen.issued), format!("refresh-token-{}", seen.issued));
        seen.good.insert(access.clone(), scopes.clone());
        let kind = if seen.vice == Vice::OddToken { "DPoP" } else { "Bearer" };
        let mut given = json!({"access_token": access, "token_type": kind, "expires_in": 3600});
        if seen.vice != Vice::NoRefresh {
            seen.fresh.insert(refresh.clone(), scopes.clone());
            given["refresh_token"] = json!(refresh);
        }
        given
    }
}

type It = State<std::sync::Weak<Double>>;

fn parts(text: &[u8]) -> Parts {
    let mut parts = Parts::new();
    for (name, value) in form_urlencoded::parse(text).into_owned() {
        assert!(parts.insert(name.clone(), value).is_none(), "`{name}` stands twice");
    }
    parts
}

fn scopes(parts: &Parts) -> BTreeSet<String> {
    parts.get("scope").into_iter().flat_map(|list| list.split(' ')).map(ToOwned::to_owned).collect()
}

fn body(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

fn error(status: StatusCode, code: &str) -> Response {
    (status, body(&json!({"error": code, "error_description": "the double says so"}))).into_response()
}

async fn endpoint(State(it): It, headers: HeaderMap, bytes: Bytes) -> Response {
    let it = it.upgrade().unwrap();
    let mut seen = it.seen();
    let message: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let asked = message["method"].as_str().unwrap_or_default().to_owned();
    seen.asked.push(asked.clone());
    let token = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let permits = token.as_ref().and_then(|token| seen.good.get(token.strip_prefix("Bearer ").unwrap())).cloned();
    let metadata = match seen.vice {
        Vice::PrivateMetadata => "http://169.254.169.254/latest/meta-data".to_owned(),
        _ => format!("{}/.well-known/oauth-protected-resource/mcp", it.origin),
    };
    let challenged = |status: StatusCode, more: &str| {
        let challenge = format!("Basic realm=\"x\", Bearer resource_metadata=\"{metadata}\", {more}");
        (status, [("www-authenticate", challenge)], "who are you?").into_response()
    };
    let Some(permits) = permits else {
        seen.refused += 1;
        return challenged(StatusCode::UNAUTHORIZED, "scope=\"read\"");
    };
    let reply = |result: Value| body(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    match (asked.as_str(), message["params"]["name"].as_str()) {
        ("server/discover", _) => reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})),
        ("tools/list", _) => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            reply(json!({"tools": [tool("read"), tool("write")]}))
        }
        ("tools/call", Some("write")) if !permits.contains("write") => {
            challenged(StatusCode::FORBIDDEN, "error=\"insufficient_scope\", scope=\"write\"")
        }
        ("tools/call", _) => {
            seen.calls += 1;
            reply(json!({"content": [{"type": "text", "text": message["params"]["arguments"].to_string()}]}))
        }
        _ => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn resource(State(it): It) -> Response {
    let it = it.upgrade().unwrap();
    let vice = it.seen().vice;
    let resource = if vice == Vice::OtherResource { "https://evil.example/mcp".to_owned() } else { it.url() };
    body(&json!({"resource": resource, "authorization_servers": [it.origin], "scopes_supported": ["unused"]}))
}

async fn metadata(State(it): It) -> Response {
    let it = it.upgrade().unwrap();
    let vice = it.seen().vice;
    let at = |path: &str| format!("{}{path}", it.origin);
    let mut metadata = json!({
        "issuer": it.origin,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "revocation_endpoint": at("/revoke"),
        "registration_endpoint": at("/register"),
        "scopes_supported": ["read", "write", "offline_access"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "authorization_response_iss_parameter_supported": true,
    });
    let members = metadata.as_object_mut().unwrap();
    match vice {
        Vice::OtherIssuer => drop(members.insert("issuer".into(), json!("https://evil.example"))),
        Vice::NoPkce => drop(members.remove("code_challenge_methods_supported")),
        Vice::NoRegistration => drop(members.remove("registration_endpoint")),
        Vice::PrivateToken => drop(members.insert("token_endpoint".into(), json!("http://10.0.0.1/token"))),
        Vice::PrivateRedirect => return Redirect::temporary("http://169.254.169.254/latest/meta-data").into_response(),
        Vice::EndlessRedirects => {
            return Redirect::temporary(&at("/.well-known/oauth-authorization-server")).into_response();
        }
        Vice::HugeMetadata => drop(members.insert("more".into(), json!("x".repeat(1024 * 1024)))),
        _ => {}
    }
    body(&metadata)
}

async fn register(State(it): It, bytes: Bytes) -> Response {
    let it = it.upgrade().unwrap();
    let mut seen = it.seen();
    let asked: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&asked["application_type"], &asked["response_types"]), (&json!("native"), &json!(["code"])));
    assert_eq!(asked["grant_types"], json!(["authorization_code", "refresh_token"]));
    let vice = seen.vice;
    seen.registered.push(asked.clone());
    if vice == Vice::RefusesRegistration {
        return error(StatusCode::BAD_REQUEST, "invalid_redirect_uri");
    }
    let id = format!("client-{}", seen.registered.len());
    let registered = json!({"client_id": id, "client_secret": "client-secret-1", "redirect_uris": asked["redirect_uris"],
        "token_endpoint_auth_method": asked["token_endpoint_auth_method"]});
    (StatusCode::CREATED, body(&registered)).into_response()
}

async fn authorize(State(it): It, RawQuery(query): RawQuery) -> Response {
    let it = it.upgrade().unwrap();
    let mut seen = it.seen();
    let asked = parts(query.unwrap_or_default().as_bytes());
    assert_eq!((asked["response_type"].as_str(), asked["code_challenge_method"].as_str()), ("code", "S256"));
    assert_eq!(asked["resource"], it.url());
    seen.challenge.clone_from(&asked["code_challenge"]);
    seen.authorized.push(asked.clone());
    let mut answer = form_urlencoded::Serializer::new(String::new());
    answer.append_pair("state", &asked["state"]);
    let said = if seen.vice == Vice::Denied { ("error", "access_denied") } else { ("code", "the-code") };
    answer.append_pair(said.0, said.1);
    let issuer = if seen.vice == Vice::MixedUp { "https://evil.example" } else { &it.origin };
    if seen.vice != Vice::NoIss {
        answer.append_pair("iss", issuer);
    }
    Redirect::to(&format!("{}?{}", asked["redirect_uri"], answer.finish())).into_response()
}

async fn token(State(it): It, bytes: Bytes) -> Response {
    let it = it.upgrade().unwrap();
    let mut seen = it.seen();
    let asked = parts(&bytes);
    seen.tokens.push(asked.clone());
    if seen.is_down {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    if seen.vice == Vice::Rubbish {
        return (StatusCode::OK, "<html>hello</html>").into_response();
    }
    assert_eq!(asked["resource"], it.url());
    let permits = match asked["grant_type"].as_str() {
        "authorization_code" => {
            assert_eq!((asked["code"].as_str(), asked["client_secret"].as_str()), ("the-code", "client-secret-1"));
            assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(&asked["code_verifier"])), seen.challenge);
            scopes(seen.authorized.last().unwrap())
        }
        "refresh_token" => match seen.fresh.remove(&asked["refresh_token"]) {
            Some(permits) => permits,
            // Used twice: whoever stole it is put out, and with them everybody (OAuth 2.1 §4.3.1).
            None => {
                seen.good.clear();
                seen.fresh.clear();
                return error(StatusCode::BAD_REQUEST, "invalid_grant");
            }
        },
        other => panic!("{other}"),
    };
    body(&it.give(&mut seen, &permits))
}

async fn revoke(State(it): It, uri: Uri, bytes: Bytes) -> Response {
    let it = it.upgrade().unwrap();
    assert!(uri.query().is_none());
    it.seen().revoked.push(parts(&bytes));
    StatusCode::OK.into_response()
}
