//! Who may come in: the host that a request names, the origin that sent it, the key that it carries.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tollgate::{Caller, Surface};
use url::{Host, Url};

use crate::app::App;
use crate::keys::{AccessKey, KeyKind};
use crate::problem::Problem;

/// The names under which the server may be reached. Without them, a page that a browser shows could reach it under a name
/// of its own that resolves to this machine (MCP, Transports: security warning).
pub(crate) struct Names {
    bound: IpAddr,
    /// The address as most clients write it.
    authority: String,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Names {
    pub(crate) fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let origins = origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { bound: address.ip(), authority: address.to_string(), hosts, origins }
    }

    fn knows(&self, host: &str) -> bool {
        match Host::parse(host) {
            Ok(Host::Domain(name)) => name == "localhost" || self.hosts.contains(&name),
            Ok(Host::Ipv4(ip)) => self.knows_ip(IpAddr::V4(ip)) || self.hosts.iter().any(|known| known == host),
            Ok(Host::Ipv6(ip)) => self.knows_ip(IpAddr::V6(ip)) || self.hosts.iter().any(|known| known == host),
            Err(_) => false,
        }
    }

    /// Bound to every address, any of them is its own: a rebound name is never an address.
    fn knows_ip(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || ip == self.bound || self.bound.is_unspecified()
    }

    fn knows_authority(&self, text: &str) -> bool {
        // Parsing a name is dearer than all else that is asked here.
        text == self.authority
            || text.parse::<Authority>().is_ok_and(|authority| !text.contains('@') && self.knows(authority.host()))
    }

    fn knows_origin(&self, origin: &str) -> bool {
        let Ok(url) = Url::parse(origin) else { return false };
        matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| self.knows(host))
            || self.origins.contains(&origin.to_ascii_lowercase())
    }
}

/// Lets in what names a known host and, if a browser sent it, comes from a known origin.
pub(crate) async fn known_host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let text = |value: Option<&HeaderValue>| value.and_then(|value| value.to_str().ok().map(str::to_owned));
    let mut hosts = request.headers().get_all(HOST).iter();
    let named = text(hosts.next());
    let is_known = hosts.next().is_none()
        && named.is_some_and(|host| app.names.knows_authority(&host))
        && request.uri().authority().is_none_or(|authority| app.names.knows_authority(authority.as_str()));
    if !is_known {
        return Problem::forbidden("the `Host` of this request is not this server's")
            .with_hint("use 127.0.0.1 or localhost; a proxy in front must set `Host` to the address of [server]")
            .into_response();
    }
    let mut origins = request.headers().get_all(ORIGIN).iter();
    if !origins.all(|origin| origin.to_str().is_ok_and(|origin| app.names.knows_origin(origin))) {
        return Problem::forbidden("the `Origin` of this request is not known")
            .with_hint("only pages of this server may ask from a browser; a proxy in front must take `Origin` away")
            .into_response();
    }
    next.run(request).await
}

/// Lets in clients' keys.
pub(crate) async fn client(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    admit(&app, request, next, Some(KeyKind::Client)).await
}

/// Lets in operators' keys.
pub(crate) async fn operator(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    admit(&app, request, next, Some(KeyKind::Operator)).await
}

/// Lets in every key.
pub(crate) async fn either(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    admit(&app, request, next, None).await
}

async fn admit(app: &App, mut request: Request, next: Next, kind: Option<KeyKind>) -> Response {
    let holder = match bearer(request.headers()) {
        Some(secret) => app.ring.holder(secret).await,
        None => Ok(None),
    };
    match holder {
        Err(error) => Problem::unavailable(error.to_string()).into_response(),
        Ok(None) => Problem::unauthorized("this needs a key")
            .with_hint("send `Authorization: Bearer <key>`; `tollgate keys create` makes one")
            .into_response(),
        Ok(Some(key)) if kind.is_some_and(|kind| kind != key.kind) => {
            let (needs, hint) = match key.kind {
                KeyKind::Client => ("an operator's", "who asks for a call cannot approve it"),
                KeyKind::Operator => ("a client's", "who approves calls cannot ask for them"),
            };
            Problem::forbidden(format!("this needs {needs} key")).with_hint(hint).into_response()
        }
        Ok(Some(key)) => {
            request.extensions_mut().insert(Holder(key));
            next.run(request).await
        }
    }
}

/// The key that a request carries (RFC 6750 §2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?.to_str().ok()?, values.next()) else { return None };
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Who was let in.
#[derive(Clone)]
pub(crate) struct Holder(Arc<AccessKey>);

impl Holder {
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.0.kind == KeyKind::Operator
    }

    pub(crate) fn caller(&self, surface: Surface) -> Caller {
        Caller::new(&*self.0.name, &*self.0.role, surface)
    }
}
