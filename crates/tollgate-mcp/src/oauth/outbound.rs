//! Whom a login asks. The operator named the MCP server and perhaps the authorization server: they are asked wherever they
//! are. Every other address is a server's word, so it must be `https` and public, and is judged before each connection; only
//! a server on this machine may name others on it. Nothing goes to another machine in plain text, and no redirect is
//! followed.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tollgate_guard::client::{Client, Origin, Request};
use tollgate_guard::public::{Hop, PublicClient, PublicRequest};
use tollgate_types::Secret;

use super::error::AuthError;

/// A whole answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
const WAIT: Duration = Duration::from_secs(15);

/// Asks authorization servers, and MCP servers about themselves.
#[derive(Debug)]
pub(super) struct Outbound {
    named: BTreeSet<Origin>,
    is_local: bool,
    public: PublicClient,
}

/// What is posted.
pub(super) struct Post<'a> {
    pub(super) url: &'a str,
    pub(super) content_type: &'static str,
    /// `Authorization`.
    pub(super) authorization: Option<Secret>,
    pub(super) body: String,
}

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// The body, if it is JSON of this shape.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }
}

enum Way {
    /// The operator's, or on this machine.
    Named(Origin),
    Public,
}

impl Outbound {
    /// For the login to `server`, and at `issuer` where the operator named it.
    pub(super) fn new(server: &str, issuer: Option<&str>, public: PublicClient) -> Result<Self, AuthError> {
        let origin = Origin::of(server)?;
        let is_local = origin.is_loopback();
        let named = [Some(origin), issuer.map(Origin::of).transpose()?];
        Ok(Self { named: named.into_iter().flatten().collect(), is_local, public })
    }

    fn way(&self, url: &str) -> Result<Way, AuthError> {
        let origin = Origin::of(url)?;
        let refused = |why: &str| AuthError::NotAsked { url: origin.to_string(), why: why.to_owned() };
        if origin.is_plain_to_afar() {
            return Err(refused("a login takes `https`"));
        }
        if self.named.contains(&origin) || (self.is_local && origin.is_loopback()) {
            return Ok(Way::Named(origin));
        }
        let verdict = self.public.judge(url);
        match verdict {
            _ if !url.starts_with("https://") => Err(refused("a login takes `https`")),
            Err(refusal) => Err(refused(&refusal.to_string())),
            Ok(_) => Ok(Way::Public),
        }
    }

    /// Whether a human may be sent to an address, or it may be asked, as far as that can be said without asking a resolver.
    pub(super) fn judge(&self, url: &str) -> Result<(), AuthError> {
        self.way(url).map(drop)
    }

    /// A document in JSON; none where there is none at this address.
    pub(super) async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<Option<T>, AuthError> {
        let answer = match self.way(url)? {
            Way::Named(origin) => send(origin, "GET", url, None).await?,
            Way::Public => {
                let headers = vec![("accept".to_owned(), "application/json".to_owned())];
                match self.public.hop(public(url, headers)).await? {
                    Hop::Page(page) => Answer { status: page.status, body: page.body },
                    Hop::Redirect { .. } => return Ok(None),
                }
            }
        };
        Ok(answer.json().filter(|_| answer.status == 200))
    }

    /// Posts what a login takes.
    pub(super) async fn post(&self, post: Post<'_>) -> Result<Answer, AuthError> {
        match self.way(post.url)? {
            Way::Named(origin) => {
                let url = post.url;
                send(origin, "POST", url, Some(post)).await
            }
            Way::Public => {
                let mut headers = vec![
                    ("accept".to_owned(), "application/json".to_owned()),
                    ("content-type".to_owned(), post.content_type.to_owned()),
                ];
                headers.extend(post.authorization.map(|value| ("authorization".to_owned(), value.expose().to_owned())));
                let page = self.public.post(public(post.url, headers), post.body.into_bytes()).await?;
                Ok(Answer { status: page.status, body: page.body })
            }
        }
    }
}

fn public(url: &str, headers: Vec<(String, String)>) -> PublicRequest {
    PublicRequest { url: url.to_owned(), headers, body_bytes_max: ANSWER_BYTES_MAX, timeout: WAIT }
}

async fn send(origin: Origin, method: &str, url: &str, post: Option<Post<'_>>) -> Result<Answer, AuthError> {
    let mut headers = vec![("Accept".to_owned(), "application/json".to_owned())];
    headers.extend(post.as_ref().map(|post| ("Content-Type".to_owned(), post.content_type.to_owned())));
    let (authorization, body) =
        post.map(|post| (post.authorization, post.body.into_bytes())).map_or((None, None), |(a, b)| (a, Some(b)));
    let secret_headers = authorization.into_iter().map(|value| ("Authorization".to_owned(), value)).collect();
    let (method, url) = (method.to_owned(), url.to_owned());
    let request = Request { method, url, headers, secret_headers, body, timeout: WAIT };
    let response = Client::new([origin]).send(request).await?;
    let status = response.status;
    Ok(Answer { status, body: response.bytes(ANSWER_BYTES_MAX, WAIT).await? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_operator_named_and_what_is_public_is_asked() {
        let judged = |server: &str, issuer: Option<&str>, url: &str| {
            Outbound::new(server, issuer, PublicClient::new()).unwrap().judge(url).map_err(|error| error.to_string())
        };
        let (afar, inside) = ("https://mcp.example.com/mcp", "https://10.1.2.3/mcp");
        for (server, issuer, url, is_asked) in [
            (afar, None, "https://login.example.com/token", true),
            (afar, None, "https://mcp.example.com/.well-known/x", true),
            (afar, None, "http://login.example.com/token", false),
            (afar, None, "https://10.1.2.3/token", false),
            (afar, None, "https://169.254.169.254/latest", false),
            (afar, None, "https://127.0.0.1/token", false),
            (afar, None, "http://localhost:8080/token", false),
            (afar, None, "https://localhost/token", false),
            (afar, None, "https://[::1]/token", false),
            (afar, None, "https://login.example.com:8443/token", false),
            (afar, None, "https://user:zq4711@login.example.com/", false),
            (afar, None, "file:///etc/passwd", false),
            (afar, None, "javascript:alert(1)", false),
            (afar, Some("https://10.1.2.3"), "https://10.1.2.3/token", true),
            (afar, Some("https://10.1.2.3"), "https://10.1.2.4/token", false),
            (afar, Some("http://10.1.2.3"), "http://10.1.2.3/token", false),
            (inside, None, "https://10.1.2.3/token", true),
            (inside, None, "https://10.1.2.4/token", false),
            ("http://10.1.2.3/mcp", None, "http://10.1.2.3/token", false),
            ("http://127.0.0.1:9000/mcp", None, "http://localhost:9001/token", true),
            ("http://127.0.0.1:9000/mcp", None, "http://10.1.2.3/token", false),
        ] {
            let verdict = judged(server, issuer, url);
            assert_eq!(verdict.is_ok(), is_asked, "{server} {issuer:?} {url}: {verdict:?}");
            assert!(!format!("{verdict:?}").contains("zq4711"), "{verdict:?}");
        }
    }
}
