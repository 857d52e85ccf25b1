//! The HTTP client for what the operator configured. It asks those origins and no other, follows no redirect, knows no
//! ambient proxy, and lets nobody keep it waiting. It does not judge addresses and does not retry.

mod credentials;
mod error;
mod origin;
mod retry_after;
mod socket;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use tokio::time::timeout;
use tollgate_types::{Progress, Secret, limits};

pub use credentials::{CannotRead, CredentialSource, Credentials, Current, NOT_ALLOWED_ADVICE, Refusal, Renewal};
pub use error::ClientError;
pub use origin::Origin;
pub(crate) use origin::shown;
pub use origin::{join, socket_address};
pub use socket::{Listener, Opened, Speaker, WebSocket};

/// The HTTP client for configured origins. A request goes only to an origin the operator configured.
///
/// A clone is cheap and shares the connections. The TLS machinery is built at the first request, because starting
/// should cost nothing.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    origins: BTreeSet<Origin>,
    connect_timeout: Duration,
    http: OnceLock<reqwest::Client>,
    /// For what becomes a WebSocket: HTTP/1.1 alone, and no connection is kept.
    sockets: OnceLock<reqwest::Client>,
}

impl Shared {
    fn new(origins: BTreeSet<Origin>, connect_timeout: Duration) -> Self {
        Self { origins, connect_timeout, http: OnceLock::new(), sockets: OnceLock::new() }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// An absolute `http` or `https` address, without user information.
    pub url: String,
    /// Headers that may be seen.
    pub headers: Vec<(String, String)>,
    /// Headers whose values are never shown.
    pub secret_headers: Vec<(String, Secret)>,
    /// What is sent.
    pub body: Option<Vec<u8>>,
    /// How long the head of the response may take, connecting included.
    pub timeout: Duration,
}

/// The head of a response. The body follows in [`bytes`](Self::bytes) or [`next_chunk`](Self::next_chunk).
#[derive(Debug)]
pub struct Response {
    /// As the server sent it: a redirect is a response like any other.
    pub status: u16,
    origin: String,
    inner: reqwest::Response,
}

impl Client {
    /// A client for these origins.
    pub fn new(origins: impl IntoIterator<Item = Origin>) -> Self {
        let connect_timeout = Duration::from_millis(limits::HTTP_CONNECT_TIMEOUT_MS);
        Self { shared: Arc::new(Shared::new(origins.into_iter().collect(), connect_timeout)) }
    }

    /// The same, with connections of its own that may take this long to open.
    #[must_use]
    pub fn connecting_within(self, connect_timeout: Duration) -> Self {
        let origins = self.shared.origins.clone();
        Self { shared: Arc::new(Shared::new(origins, connect_timeout)) }
    }

    /// Sends a request and waits for the head of the response.
    ///
    /// # Errors
    /// When the origin is not configured, the request cannot be built, or no head came in time. No error carries a
    /// header, a secret, or the query or user information of an address.
    pub async fn send(&self, request: Request) -> Result<Response, ClientError> {
        self.send_by(request, Self::http).await
    }

    async fn send_by(
        &self,
        request: Request,
        http: impl FnOnce(&Self, &str) -> Result<reqwest::Client, ClientError>,
    ) -> Result<Response, ClientError> {
        let url = origin::parse(&request.url)?;
        let origin = Origin::of(&request.url)?;
        if !self.shared.origins.contains(&origin) {
            return Err(ClientError::NotAllowed { origin: origin.to_string() });
        }
        let origin = origin.to_string();
        let wait = request.timeout;
        let built = build(request, url).map_err(|reason| ClientError::BadRequest { origin: origin.clone(), reason })?;
        let http = http(self, &origin)?;
        match timeout(wait, http.execute(built)).await {
            Ok(Ok(inner)) => Ok(Response { status: inner.status().as_u16(), origin, inner }),
            Ok(Err(error)) => Err(ClientError::from_http(origin, &error)),
            Err(_elapsed) => Err(ClientError::timed_out(origin, wait)),
        }
    }

    fn http(&self, origin: &str) -> Result<reqwest::Client, ClientError> {
        self.kept(&self.shared.http, origin, |builder| builder)
    }

    /// A clone of the client in `place`, which is made for its first request.
    fn kept(
        &self,
        place: &OnceLock<reqwest::Client>,
        origin: &str,
        set: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<reqwest::Client, ClientError> {
        if let Some(http) = place.get() {
            return Ok(http.clone());
        }
        // An error means that somebody installed one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .user_agent(concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(self.shared.connect_timeout);
        let http = set(builder).build().map_err(|error| ClientError::from_http(origin.to_owned(), &error))?;
        Ok(place.get_or_init(|| http).clone())
    }
}

/// The request as it goes out, or which part of it HTTP does not allow; a value is never named.
fn build(request: Request, url: url::Url) -> Result<reqwest::Request, String> {
    let method = reqwest::Method::from_bytes(request.method.as_bytes())
        .map_err(|_| format!("`{}` is not a method", request.method.escape_debug()))?;
    let mut built = reqwest::Request::new(method, url);
    let open = request.headers.iter().map(|(name, value)| (name, value.as_str(), false));
    let secret = request.secret_headers.iter().map(|(name, value)| (name, value.expose(), true));
    for (name, value, is_secret) in open.chain(secret) {
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{}` is not a header name", name.escape_debug()))?;
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| format!("the value of the header `{key}` has characters that HTTP does not allow"))?;
        value.set_sensitive(is_secret);
        built.headers_mut().append(key, value);
    }
    *built.body_mut() = request.body.map(Into::into);
    Ok(built)
}

impl Response {
    /// The first value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.inner.headers().get(name)?.to_str().ok()
    }

    /// All values of a header that are text, as one list.
    pub fn headers(&self, name: &str) -> String {
        let values = self.inner.headers().get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(", ")
    }

    /// How long the server asks to be left alone, from `now`.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        retry_after::read(self.header("retry-after")?, now)
    }

    /// The next piece of the body, or `None` at its end.
    ///
    /// # Errors
    /// When the server is silent for longer than `idle`, or the connection breaks before the end.
    pub async fn next_chunk(&mut self, idle: Duration) -> Result<Option<Bytes>, ClientError> {
        match timeout(idle, self.inner.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(ClientError::from_http(self.origin.clone(), &error)),
            Err(_elapsed) => Err(ClientError::timed_out(self.origin.clone(), idle)),
        }
    }

    /// The whole body, decoded, of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk), and when the body is larger than `limit`.
    pub async fn bytes(self, limit: usize, idle: Duration) -> Result<Vec<u8>, ClientError> {
        self.bytes_telling(limit, idle, &Progress::none()).await
    }

    /// The same, and each piece that comes is a sign of life.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub async fn bytes_telling(
        mut self,
        limit: usize,
        idle: Duration,
        progress: &Progress,
    ) -> Result<Vec<u8>, ClientError> {
        let too_large = || ClientError::TooLarge { limit_bytes: limit };
        let announced = usize::try_from(self.inner.content_length().unwrap_or(0)).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(too_large());
        }
        let mut body = Vec::with_capacity(announced);
        while let Some(chunk) = self.next_chunk(idle).await? {
            progress.alive();
            if chunk.len() > limit - body.len() {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}
