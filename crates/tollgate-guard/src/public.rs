//! The client for the open web: it asks addresses that nobody configured, so each is judged, each connection goes to an
//! address that was judged, and each redirect is judged again before it is followed. It knows no ambient proxy, keeps no
//! cookies, and reads; what it posts is what a login takes.

mod error;
mod pin;

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use percent_encoding::{CONTROLS, percent_encode};
use reqwest::header::{HeaderName, HeaderValue, LOCATION};
use reqwest::redirect;
use tokio::time::timeout;
use tollgate_types::limits;

use crate::address::{self, Policy, Refusal, Target};
use crate::client::ClientError;

pub use error::PublicError;
pub use pin::Lookup;

/// Redirects of one request.
pub const REDIRECTS_MAX: usize = 5;

/// Headers that say nothing about who asks. Across origins no other header is sent on.
const IMPERSONAL: [&str; 5] = ["accept", "accept-language", "cache-control", "pragma", "user-agent"];

/// Headers that steer the connection or name the host: the client sets them itself, after the judgement.
const OURS: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Asks the open web. A clone is cheap and shares the connections.
///
/// A kept connection is only ever used for the name it was made for, and was judged when it was made.
#[derive(Clone)]
pub struct PublicClient {
    shared: Arc<Shared>,
}

struct Shared {
    policy: Policy,
    lookup: Arc<dyn Lookup>,
    http: OnceLock<reqwest::Client>,
}

/// One `GET`, or the head of a `POST`.
#[derive(Clone)]
pub struct PublicRequest {
    /// An absolute `http` or `https` address.
    pub url: String,
    /// Sent to the origin of `url`. Another origin that it redirects to gets none that says who asks.
    pub headers: Vec<(String, String)>,
    /// The largest body to read, decoded.
    pub body_bytes_max: usize,
    /// How long the whole may take, redirects and body included.
    pub timeout: Duration,
}

/// What one address answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// With a page.
    Page(PublicResponse),
    /// With another address. It was judged as a redirect is, and not asked.
    Redirect {
        /// Where it leads, in normal form.
        url: String,
    },
}

/// The answer, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicResponse {
    /// As the last server sent it.
    pub status: u16,
    /// The address that answered, after all redirects.
    pub url: String,
    /// Names in lower case. Bytes that are no UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// Decoded.
    pub body: Vec<u8>,
}

impl Default for PublicClient {
    fn default() -> Self {
        Self::new()
    }
}

impl PublicClient {
    /// A client with the default [`Policy`] and the system's resolver.
    pub fn new() -> Self {
        Self::with(Policy::default(), Arc::new(pin::SystemLookup))
    }

    /// A client with its own policy and resolver.
    pub fn with(policy: Policy, lookup: Arc<dyn Lookup>) -> Self {
        Self { shared: Arc::new(Shared { policy, lookup, http: OnceLock::new() }) }
    }

    /// Whether an address would be asked, as far as that can be said without asking a resolver.
    ///
    /// # Errors
    /// Why it would not.
    pub fn judge(&self, url: &str) -> Result<Target, Refusal> {
        address::judge_url(url, &self.shared.policy)
    }

    /// Asks, follows up to [`REDIRECTS_MAX`] redirects, and reads the body. A status that says failure is an answer like
    /// any other.
    ///
    /// # Errors
    /// When the address or one it redirects to is refused, no server answers, or a limit is reached. No error carries a
    /// header, or the query or user information of an address.
    pub async fn get(&self, request: PublicRequest) -> Result<PublicResponse, PublicError> {
        let wait = request.timeout;
        timeout(wait, self.follow(request)).await.unwrap_or_else(|_elapsed| Err(timed_out(wait)))
    }

    /// Asks one address and follows no redirect: for who must look at each address before it is asked. Counting the
    /// hops is the caller's part, as is sending no header to another origin that says who asks.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn hop(&self, request: PublicRequest) -> Result<Hop, PublicError> {
        let wait = request.timeout;
        let hop = async {
            let headers = headers(&request.headers)?;
            let target = address::judge_url(&request.url, &self.shared.policy)?;
            Ok(match self.step(&target, &headers, request.body_bytes_max).await? {
                Step::Page(page) => Hop::Page(page),
                Step::Redirect(next) => Hop::Redirect { url: next.url().to_string() },
            })
        };
        timeout(wait, hop).await.unwrap_or_else(|_elapsed| Err(timed_out(wait)))
    }

    /// Posts `body` to one address. A redirect is an answer like any other: what was meant for one address goes to no other.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn post(&self, request: PublicRequest, body: Vec<u8>) -> Result<PublicResponse, PublicError> {
        let wait = request.timeout;
        let posted = async {
            let headers = headers(&request.headers)?;
            let target = address::judge_url(&request.url, &self.shared.policy)?;
            let response = self.ask(&target, &headers, Some(body)).await?;
            read(response, &target, request.body_bytes_max).await
        };
        timeout(wait, posted).await.unwrap_or_else(|_elapsed| Err(timed_out(wait)))
    }

    async fn follow(&self, request: PublicRequest) -> Result<PublicResponse, PublicError> {
        let mut headers = headers(&request.headers)?;
        let mut target = address::judge_url(&request.url, &self.shared.policy)?;
        for _ in 0..=REDIRECTS_MAX {
            let next = match self.step(&target, &headers, request.body_bytes_max).await? {
                Step::Page(page) => return Ok(page),
                Step::Redirect(next) => next,
            };
            if next.url().origin() != target.url().origin() {
                headers.retain(|(name, _)| IMPERSONAL.contains(&name.as_str()));
            }
            target = next;
        }
        Err(PublicError::TooManyRedirects { limit: REDIRECTS_MAX })
    }

    async fn step(
        &self,
        target: &Target,
        headers: &[(HeaderName, HeaderValue)],
        body_bytes_max: usize,
    ) -> Result<Step, PublicError> {
        let response = self.ask(target, headers, None).await?;
        let Some(location) = location(&response) else {
            return read(response, target, body_bytes_max).await.map(Step::Page);
        };
        address::judge_hop(target, &location, &self.shared.policy)
            .map(Step::Redirect)
            .map_err(|refusal| PublicError::RedirectRefused { from: origin(target), refusal })
    }

    /// One exchange, up to the head of the answer: a `GET`, or a `POST` of what is posted.
    async fn ask(
        &self,
        target: &Target,
        headers: &[(HeaderName, HeaderValue)],
        body: Option<Vec<u8>>,
    ) -> Result<reqwest::Response, PublicError> {
        let failed = |error: reqwest::Error| match refusal(&error) {
            Some(refusal) => PublicError::Refused(refusal.clone()),
            None => PublicError::Exchange(ClientError::from_http(origin(target), &error)),
        };
        let method = if body.is_some() { reqwest::Method::POST } else { reqwest::Method::GET };
        let mut request = reqwest::Request::new(method, target.url().clone());
        *request.body_mut() = body.map(Into::into);
        for (name, value) in headers {
            request.headers_mut().append(name, value.clone());
        }
        let response = self.http().map_err(failed)?.execute(request).await.map_err(failed)?;
        // INVARIANT: whatever the layers below did, nothing is read from an address that was not judged.
        match response.remote_addr() {
            Some(peer) => address::judge_ip(peer.ip(), &self.shared.policy)?,
            None => {
                let reason = "nobody can say which address answered".to_owned();
                return Err(ClientError::Closed { origin: origin(target), reason }.into());
            }
        }
        Ok(response)
    }

    fn http(&self) -> Result<&reqwest::Client, reqwest::Error> {
        if let Some(http) = self.shared.http.get() {
            return Ok(http);
        }
        // An error means that somebody installed one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let pinned = pin::Pinned { lookup: Arc::clone(&self.shared.lookup), policy: self.shared.policy.clone() };
        let http = reqwest::Client::builder()
            .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .dns_resolver(Arc::new(pinned))
            .connect_timeout(Duration::from_millis(limits::HTTP_CONNECT_TIMEOUT_MS))
            .build()?;
        Ok(self.shared.http.get_or_init(|| http))
    }
}

/// What one exchange came to.
enum Step {
    Page(PublicResponse),
    Redirect(Target),
}

fn timed_out(wait: Duration) -> PublicError {
    PublicError::TimedOut { ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }
}

/// The headers as they go out.
fn headers(given: &[(String, String)]) -> Result<Vec<(HeaderName, HeaderValue)>, PublicError> {
    let bad = |reason: String| PublicError::BadRequest { reason };
    let mut headers = Vec::with_capacity(given.len());
    for (name, value) in given {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(format!("`{}` is not a header name", name.escape_debug())))?;
        if OURS.contains(&key.as_str()) || key.as_str().starts_with("proxy-") {
            return Err(bad(format!("the header `{key}` is not the caller's to set")));
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| bad(format!("the value of the header `{key}` has characters that HTTP does not allow")))?;
        value.set_sensitive(!IMPERSONAL.contains(&key.as_str()));
        headers.push((key, value));
    }
    Ok(headers)
}

/// Where the server sends us, if it does.
fn location(response: &reqwest::Response) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.as_bytes();
    // Bytes of an unknown encoding stay the bytes they are, as browsers do it.
    let encoded = || percent_encode(location, CONTROLS).to_string();
    Some(str::from_utf8(location).map_or_else(|_| encoded(), str::to_owned))
}

async fn read(
    mut response: reqwest::Response,
    target: &Target,
    body_bytes_max: usize,
) -> Result<PublicResponse, PublicError> {
    let too_large = || PublicError::Exchange(ClientError::TooLarge { limit_bytes: body_bytes_max });
    // What is announced is a server's word: refuse by it, but do not set memory aside for it.
    if response.content_length().is_some_and(|announced| announced > u64::try_from(body_bytes_max).unwrap_or(u64::MAX))
    {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| ClientError::from_http(origin(target), &error))? {
        if chunk.len() > body_bytes_max - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    let shown = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(PublicResponse {
        status: response.status().as_u16(),
        url: target.url().to_string(),
        headers: response.headers().iter().map(|(name, value)| (name.to_string(), shown(value))).collect(),
        body,
    })
}

fn origin(target: &Target) -> String {
    target.url().origin().ascii_serialization()
}

/// The refusal that the connector ran into, if that is what happened.
fn refusal(error: &reqwest::Error) -> Option<&Refusal> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref() {
            return Some(refusal);
        }
        cause = error.source();
    }
    None
}

impl fmt::Debug for PublicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicClient").field("policy", &self.shared.policy).finish_non_exhaustive()
    }
}

impl fmt::Debug for PublicRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A header may carry a credential: names only.
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("PublicRequest")
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes_max", &self.body_bytes_max)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A connector that does not ask our resolver stands for every fault of the layers below.
    #[tokio::test]
    async fn nothing_is_read_from_an_address_that_was_not_judged() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = reqwest::Client::builder().no_proxy().resolve("pub.example.test", address).build().unwrap();
        let policy = Policy { ports: vec![address.port()], exempt: vec![] };
        let shared = Shared { policy, lookup: Arc::new(pin::SystemLookup), http: OnceLock::from(http) };
        let client = PublicClient { shared: Arc::new(shared) };
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        };
        let get = client.get(PublicRequest {
            url: format!("http://pub.example.test:{}/", address.port()),
            headers: vec![],
            body_bytes_max: 1,
            timeout: Duration::from_secs(30),
        });
        let (answer, ()) = tokio::join!(get, serve);
        assert!(matches!(answer, Err(PublicError::Refused(Refusal::Address { .. }))), "{answer:?}");
    }
}
