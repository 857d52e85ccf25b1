//! A scripted model server on 127.0.0.1: each request takes the next step of the script, and the path says which dialect
//! it is in.
//!
//! It checks the protocol on every request, answers 400 to a request that breaks it, and remembers the violation, so
//! that [`ModelServer::assert_clean`] fails the test even where the client swallowed the answer.

mod anthropic;
mod gemini;
mod line;
mod protocol;
mod reply;
mod responses;
mod step;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_types::CancellationToken;

use line::{Cut, Lines};
pub use step::Step;
use step::{Say, Turn};
use wire::Wire;

/// What a request may send; beyond it is a violation.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A model server that says what its script says.
///
/// ```
/// use serde_json::json;
/// use tollgate_testkit::model::{ModelServer, Step};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = ModelServer::start(vec![
///     Step::calls([("call_1", "calculate", json!({"expression": "34817 * 293"}))]),
///     Step::text("10201381"),
/// ])
/// .await;
/// // … point an agent at `server.base_url()` …
/// server.assert_clean();
/// assert_eq!(server.steps_left(), 2);
/// # }
/// ```
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    // Aborts the accepting task when dropped.
    _tasks: JoinSet<()>,
}

struct Shared {
    state: Mutex<Seen>,
    count: watch::Sender<usize>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Seen {
    script: VecDeque<Step>,
    requests: Vec<Value>,
    authorizations: Vec<Option<String>>,
    violations: Vec<String>,
    /// The turns that were said, for what must come back of them.
    said: Vec<Turn>,
}

impl ModelServer {
    /// Starts a server on a free port. It stops when it is dropped, and answers that are under way break off.
    ///
    /// # Panics
    /// When 127.0.0.1 has no free port.
    #[expect(clippy::expect_used, reason = "a test without a port cannot go on, and every caller would unwrap")]
    pub async fn start(script: Vec<Step>) -> Self {
        Self::start_on(0, script).await.expect("127.0.0.1 has a free port")
    }

    /// Starts a server on a port; 0 takes a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn start_on(port: u16, script: Vec<Step>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let seen = Seen { script: script.into(), ..Seen::default() };
        let shared = Arc::new(Shared { state: Mutex::new(seen), count: watch::Sender::new(0), stop: stop.clone() });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let service = app.into_make_service_with_connect_info::<Cut>();
        let serve = axum::serve(Lines(listener), service).with_graceful_shutdown(stop.clone().cancelled_owned());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // axum's accept loop only ends when it is told to.
            let _ = serve.await;
        });
        Ok(Self { address, shared, stop, _tasks: tasks })
    }

    /// What a client is configured with, such as `http://127.0.0.1:40123/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every body that arrived, in order; one that is not JSON stands as a string.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.seen().requests.clone()
    }

    /// The header with the key of every request, in order.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.shared.seen().authorizations.clone()
    }

    /// How many steps of the script nobody has asked for yet.
    pub fn steps_left(&self) -> usize {
        self.shared.seen().script.len()
    }

    /// Every breach of the protocol so far.
    pub fn violations(&self) -> Vec<String> {
        self.shared.seen().violations.clone()
    }

    /// Fails the test when a request broke the protocol or went beyond the script.
    ///
    /// # Panics
    /// When there was a violation, with all of them.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the model server saw: {}", violations.join("; "));
    }

    /// Returns once `count` requests have arrived, be they answered or not.
    pub async fn wait_for_requests(&self, count: usize) {
        // The sender lives in `self.shared`, so waiting cannot fail.
        let _ = self.shared.count.subscribe().wait_for(|seen| *seen >= count).await;
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the request and takes its step, or says with which status it is turned away and why.
    fn take(
        &self,
        wire: Wire,
        body: Value,
        authorization: Option<String>,
        is_fit: Result<(), String>,
    ) -> Result<Step, (StatusCode, Value)> {
        let mut seen = self.seen();
        seen.requests.push(body);
        seen.authorizations.push(authorization);
        let number = seen.requests.len();
        self.count.send_replace(number);
        let (status, message) = match is_fit {
            Ok(()) => match seen.script.pop_front() {
                Some(step) => {
                    if let Say::Turn(turn) = &step.0 {
                        seen.said.push(turn.clone());
                    }
                    return Ok(step);
                }
                None => (StatusCode::INTERNAL_SERVER_ERROR, "goes beyond the script".to_owned()),
            },
            Err(message) => (StatusCode::BAD_REQUEST, message),
        };
        let message = format!("request {number}: {message}");
        seen.violations.push(message.clone());
        Err((status, wire.error(&message)))
    }
}

async fn answer(State(shared): State<Arc<Shared>>, ConnectInfo(cut): ConnectInfo<Cut>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let wire = Wire::of(&head.uri);
    let known = wire.unwrap_or_default();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (authorization, content_type) = (header(known.key_header()), header(CONTENT_TYPE.as_str()).unwrap_or_default());
    let (body, is_json) = match axum::body::to_bytes(body, REQUEST_BYTES_MAX).await {
        Ok(bytes) => match serde_json::from_slice::<Value>(&bytes) {
            Ok(body) => (body, Ok(())),
            Err(error) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                (Value::String(text), Err(format!("the body is not JSON: {error}")))
            }
        },
        Err(error) => (Value::Null, Err(format!("the body cannot be read: {error}"))),
    };
    let is_fit = is_json.and_then(|()| {
        if head.method != Method::POST || wire.is_none() {
            return Err(format!("`{} {}` is not `POST {}`", head.method, head.uri.path(), known.path()));
        }
        if !content_type.starts_with("application/json") {
            return Err(format!("the content type is `{content_type}`, not `application/json`"));
        }
        known.check(&head.headers, &body, &shared.seen().said)
    });
    let asked = reply::Asked::of(known, &head.uri, &body, shared.seen().said.len() + 1);
    match shared.take(known, body, authorization, is_fit) {
        Ok(step) => reply::reply(step, &asked, &cut, &shared.stop).await,
        Err((status, error)) => reply::json(status, &error),
    }
}
