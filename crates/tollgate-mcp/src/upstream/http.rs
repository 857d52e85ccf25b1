//! A server behind streamable HTTP: one POST a question; the answer is JSON or a stream of events. The older era may
//! hand out a session, which is renewed once when the server forgets it.

mod unasked;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tollgate_guard::client::{Client, Credentials, Current, Renewal, Request, Response};
use tollgate_types::{Clock, ProgressUpdate, limits};

use super::config::{Asks, Limits};
use super::fault::Fault;
use super::handshake;
use super::heard::Heard;
use super::hearing::{Listener, Question};
use super::message::{self, Ask, Incoming, Lists};
use super::sse::Events;
use super::traces::Traces;
use crate::encoded;
use crate::server::Revision;
use unasked::Ears;

/// Whoever asks has a shorter bound of their own.
const WAIT: Duration = Duration::from_millis(limits::TOOL_TIMEOUT_MS_MAX);
/// For what needs no answer.
const TELL_WAIT: Duration = Duration::from_secs(5);
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// The code of a question that cannot be put to anybody.
const INTERNAL_ERROR: i64 = -32603;
const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;
const EXCERPT_CHARS_MAX: usize = 300;
/// How often the answer to one question is taken up again.
const RESUMES_MAX: usize = 100;
/// The pause before that, where the server names none, and the longest that it may name.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
const RESUME_PAUSE_MAX: Duration = Duration::from_secs(300);
/// A session's id: visible ASCII (MCP 2025-11-25, Transports: session management).
const SESSION_CHARS_MAX: usize = 1024;

/// The endpoint.
pub(super) struct HttpLink {
    client: Client,
    clock: Arc<dyn Clock>,
    url: String,
    credentials: Credentials,
    issued: AtomicU64,
    session: Mutex<Option<String>>,
    renewing: tokio::sync::Mutex<()>,
    limits: Limits,
    /// What a new session is told that may be asked.
    asks: Asks,
    traces: Arc<Traces>,
    heard: Arc<Heard>,
    /// Why it must be greeted anew.
    fallen: watch::Sender<Option<String>>,
    /// How often the session was renewed.
    renewals: watch::Sender<u64>,
    /// Something that the server said unasked may not have been heard.
    missed: Notify,
    /// Who hears what it says to no question.
    ears: Ears,
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink").field("url", &self.url).finish_non_exhaustive()
    }
}

impl HttpLink {
    pub(super) fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        (url, credentials): (String, Credentials),
        limits: Limits,
        asks: Asks,
        (traces, heard): (Arc<Traces>, Arc<Heard>),
    ) -> Self {
        let (issued, session, renewing) = (AtomicU64::new(0), Mutex::new(None), tokio::sync::Mutex::new(()));
        let (fallen, renewals, missed) = (watch::Sender::new(None), watch::Sender::new(0), Notify::new());
        Self {
            client,
            clock,
            url,
            credentials,
            issued,
            session,
            renewing,
            limits,
            asks,
            traces,
            heard,
            fallen,
            renewals,
            missed,
            ears: Ears::default(),
        }
    }

    /// Returns why, once the server speaks no longer as was agreed on.
    pub(super) async fn fell(&self) -> String {
        let mut fallen = self.fallen.subscribe();
        // INVARIANT: the sender is ours.
        let why = fallen.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_default()
    }

    fn session(&self) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_session(&self, session: Option<String>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Asks and waits, however long it takes. Dropping the future closes the request.
    pub(super) async fn ask(
        &self,
        ask: Ask<'_>,
        agreed: Option<Revision>,
        listener: &Listener,
    ) -> Result<Box<RawValue>, Fault> {
        let session = self.session().filter(|_| !matches!(ask, Ask::Initialize { .. } | Ask::Discover));
        let lost = match self.exchange(ask, agreed, session.as_deref(), listener).await {
            Err(lost @ Fault::SessionLost { .. }) => lost,
            answered => return answered,
        };
        self.renew(session.as_deref()).await?;
        // What may have happened is asked again by those who know whether it may happen twice.
        if matches!(ask, Ask::Call { .. }) && matches!(lost, Fault::SessionLost { is_certain: false }) {
            return Err(lost);
        }
        self.exchange(ask, agreed, self.session().as_deref(), listener).await
    }

    /// One exchange, and once more with credentials that were read anew where the server does not take those it was shown:
    /// it did nothing then. Once where it does not know who asks, and once where it wants more rights.
    async fn exchange(
        &self,
        ask: Ask<'_>,
        agreed: Option<Revision>,
        session: Option<&str>,
        listener: &Listener,
    ) -> Result<Box<RawValue>, Fault> {
        let (mut known_by, mut renewal) = (self.credentials.fresh().await, Renewal::Fixed);
        let mut statuses = Vec::new();
        loop {
            let fault = match self.exchange_as(&known_by, ask, agreed, session, listener).await {
                Err(fault) => fault,
                answered => return answered,
            };
            let Some(refusal) = fault.refusal().filter(|refusal| !statuses.contains(&refusal.status)) else {
                return Err(fault.after(renewal, None));
            };
            renewal = self.credentials.renew_after(&known_by, &refusal).await;
            known_by = self.credentials.current();
            if renewal != Renewal::Renewed {
                return Err(fault.after(renewal, known_by.why()));
            }
            statuses.push(refusal.status);
        }
    }

    /// A new session in place of `lost`, once for all who lost it.
    async fn renew(&self, lost: Option<&str>) -> Result<(), Fault> {
        let _turn = self.renewing.lock().await;
        if self.session().as_deref() != lost {
            return Ok(());
        }
        self.set_session(None);
        let renewed = async {
            let result = self.exchange(Ask::Initialize { asks: self.asks }, None, None, &Listener::default()).await?;
            self.tell(message::INITIALIZED, Some(handshake::negotiated(&result)?)).await
        };
        match renewed.await {
            // What it has now may be something else.
            Ok(()) => {
                self.heard.add(Lists::ALL);
                self.renewals.send_modify(|renewals| *renewals += 1);
                self.missed.notify_one();
            }
            Err(fault) => {
                self.fallen.send_replace(Some(format!("it forgot the session and opens no other: {fault}")));
                return Err(fault);
            }
        }
        Ok(())
    }

    pub(super) async fn tell(&self, body: &[u8], agreed: Option<Revision>) -> Result<(), Fault> {
        let known_by = self.credentials.fresh().await;
        let mut request = self.request(&known_by, "POST", self.session().as_deref(), Some(body.to_vec()));
        request.timeout = TELL_WAIT;
        request.headers.extend(agreed.map(|revision| header("MCP-Protocol-Version", revision.as_str())));
        let response = self.client.send(request).await?;
        match response.status {
            200..=299 => Ok(()),
            status => {
                let (text, challenge) = (String::new(), response.headers("www-authenticate"));
                Err(Fault::Http { status, text, retry_after: None, challenge, renewal: Renewal::Fixed })
            }
        }
    }

    /// Tells the server that its session is over; it may not care.
    pub(super) async fn end_session(&self) {
        let Some(session) = self.session() else { return };
        let mut request = self.request(&self.credentials.current(), "DELETE", Some(&session), None);
        request.timeout = TELL_WAIT;
        let _ = self.client.send(request).await;
    }

    fn request(&self, known_by: &Current, method: &str, session: Option<&str>, body: Option<Vec<u8>>) -> Request {
        let mut headers = vec![header("Accept", "application/json, text/event-stream")];
        if body.is_some() {
            headers.push(header("Content-Type", "application/json"));
        }
        headers.extend(session.map(|session| header("Mcp-Session-Id", session)));
        let (url, secret_headers) = (self.url.clone(), known_by.headers().to_vec());
        Request { method: method.to_owned(), url, headers, secret_headers, body, timeout: WAIT }
    }

    async fn exchange_as(
        &self,
        known_by: &Current,
        ask: Ask<'_>,
        agreed: Option<Revision>,
        session: Option<&str>,
        listener: &Listener,
    ) -> Result<Box<RawValue>, Fault> {
        let number = self.issued.fetch_add(1, Ordering::Relaxed) + 1;
        let id = number.to_string();
        let body = message::request(&id, number, ask, agreed, listener);
        let _heard = listener.ear.clone().map(|ear| self.ears.enter(number, ear));
        let mut request = self.request(known_by, "POST", session, Some(body));
        if ask.is_stateless(agreed) {
            // MCP 2026-07-28, Transports: request headers.
            request.headers.push(header("MCP-Protocol-Version", Revision::V2026_07_28.as_str()));
            request.headers.push(header("Mcp-Method", ask.method()));
            request.headers.extend(ask.name().map(|name| ("Mcp-Name".to_owned(), encoded::value(name))));
            request.headers.extend_from_slice(ask.headers());
        } else if let Some(revision) = agreed {
            request.headers.push(header("MCP-Protocol-Version", revision.as_str()));
        }
        // Beside `_meta`, for what stands between us and the server.
        request
            .headers
            .extend(ask.trace().into_iter().flat_map(|trace| trace.headers()).map(|(n, v)| (n.to_owned(), v)));
        let response = self.client.send(request).await?;
        match response.status {
            200 => {}
            // MCP 2025-11-25, Transports: session management.
            404 if session.is_some() => return Err(Fault::SessionLost { is_certain: true }),
            status => {
                let fault = refused(response, self.clock.now()).await;
                // Some say it in words.
                let is_lost =
                    status == 400 && session.is_some() && fault.to_string().to_lowercase().contains("session");
                if is_lost {
                    return Err(Fault::SessionLost { is_certain: false });
                }
                // A server need not know how to be listened to.
                let agreed = agreed.filter(|_| !matches!(ask, Ask::Listen { .. }));
                if agreed.is_some_and(|agreed| is_of_another_era(agreed, status, &fault)) {
                    self.fallen.send_replace(Some(format!("it speaks no longer as was agreed on: {fault}")));
                }
                return Err(fault);
            }
        }
        if matches!(ask, Ask::Initialize { .. }) {
            let is_session =
                |text: &&str| text.len() <= SESSION_CHARS_MAX && text.bytes().all(|b| b.is_ascii_graphic());
            self.set_session(response.header("mcp-session-id").filter(is_session).map(ToOwned::to_owned));
        }
        let mut reader = Reader { link: self, id: &id, listener, answer: None };
        if is_stream(&response) {
            let resumable = agreed.filter(|_| !ask.is_stateless(agreed));
            self.follow(response, &mut reader, known_by, session, resumable).await
        } else {
            let body = response.bytes(self.limits.response_bytes_max, WAIT).await?;
            reader.take(&body);
            reader
                .answer
                .unwrap_or_else(|| Err(Fault::Broken("the answer is not the one that was asked for".to_owned())))
        }
    }

    /// Reads a stream to its answer. Where it breaks off, and the server said from where it can be taken up, it is (MCP
    /// 2025-11-25, Transports: resumability; the stateless era has none).
    async fn follow(
        &self,
        mut response: Response,
        reader: &mut Reader<'_>,
        known_by: &Current,
        session: Option<&str>,
        resumable: Option<Revision>,
    ) -> Result<Box<RawValue>, Fault> {
        let mut events = Events::default();
        let mut resumed = 0;
        loop {
            let broken = match reader.read_events(&mut response, &mut events).await {
                Err(fault @ Fault::Closed(_)) => fault,
                answered => return answered,
            };
            let (Some(revision), Some(id), 0..RESUMES_MAX) = (resumable, events.last_id(), resumed) else {
                return Err(broken);
            };
            let mut request = self.request(known_by, "GET", session, None);
            request.headers.push(header("MCP-Protocol-Version", revision.as_str()));
            request.headers.push(header("Last-Event-ID", id));
            sleep(events.retry().unwrap_or(RESUME_PAUSE).min(RESUME_PAUSE_MAX)).await;
            response = self.client.send(request).await?;
            if response.status != 200 || !is_stream(&response) {
                return Err(broken);
            }
            events.broke_off();
            resumed += 1;
        }
    }
}

pub(super) fn is_stream(response: &Response) -> bool {
    response.header("content-type").is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// Whether a question is refused as by a server of the other era (MCP 2026-07-28, Base protocol: error codes).
fn is_of_another_era(agreed: Revision, status: u16, fault: &Fault) -> bool {
    match fault {
        Fault::Rpc(failure) if agreed.is_stateless() => failure.code == UNSUPPORTED_VERSION,
        Fault::Rpc(failure) => status == 400 && matches!(failure.code, HEADER_MISMATCH | UNSUPPORTED_VERSION),
        _ => agreed.is_stateless() && matches!(status, 400 | 404 | 405),
    }
}

pub(super) fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// An answer that HTTP says is none. Its body may still say more.
pub(super) async fn refused(response: Response, now: Timestamp) -> Fault {
    let (status, retry_after) = (response.status, response.retry_after(now));
    let challenge = response.headers("www-authenticate");
    let body = response.bytes(ERROR_BODY_BYTES_MAX, TELL_WAIT).await.unwrap_or_default();
    match message::read(&body) {
        Some(Incoming::Response { answer: Err(failure), .. }) if !matches!(status, 401 | 403) => Fault::Rpc(failure),
        _ => {
            let text = String::from_utf8_lossy(&body);
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_page = line.starts_with('<');
            let text = if is_page { String::new() } else { line.chars().take(EXCERPT_CHARS_MAX).collect() };
            Fault::Http { status, text, retry_after, challenge, renewal: Renewal::Fixed }
        }
    }
}

/// Finds the answer among the messages of one response.
struct Reader<'a> {
    link: &'a HttpLink,
    id: &'a str,
    listener: &'a Listener,
    answer: Option<Result<Box<RawValue>, Fault>>,
}

impl Reader<'_> {
    async fn read_events(&mut self, response: &mut Response, events: &mut Events) -> Result<Box<RawValue>, Fault> {
        let limit_bytes = self.link.limits.response_bytes_max;
        while let Some(piece) = response.next_chunk(WAIT).await? {
            if events.feed(&piece, limit_bytes, |event| self.take(event.data)).is_err() {
                return Err(Fault::TooLarge { limit_bytes });
            }
            if let Some(answer) = self.answer.take() {
                return answer;
            }
        }
        Err(Fault::Closed("the server ended its stream without an answer".to_owned()))
    }

    fn take(&mut self, frame: &[u8]) {
        if frame.is_empty() {
            return;
        }
        match message::read(frame) {
            Some(Incoming::Response { id, answer }) if id == self.id && self.answer.is_none() => {
                self.answer = Some(answer.map_err(Fault::Rpc));
            }
            // An error that could not read our id is still the answer: there is no other question on this response.
            Some(Incoming::Response { id: "null", answer: Err(failure) }) if self.answer.is_none() => {
                self.answer = Some(Err(Fault::Rpc(failure)));
            }
            Some(Incoming::Response { id, .. }) if id == self.id => self.link.traces.stale_answer(),
            Some(Incoming::Response { .. }) => self.link.traces.unknown_id(),
            Some(Incoming::Notification { method, params }) => match &*method {
                "notifications/progress" => self.step(params),
                message::ACKNOWLEDGED => self.listener.acknowledge.say(params),
                "notifications/message" => self.listener.ear.iter().for_each(|ear| ear.log(params)),
                _ => self.link.heard.take(&method, params),
            },
            // What is not a question to a client is not answered, and one that nobody hears neither: the call's end says it.
            Some(Incoming::Request { id, method, params }) => {
                if let Some((ear, question)) = self.listener.ear.as_ref().zip(Question::read(id, &method, params)) {
                    let _ = ear.put(question);
                }
            }
            None => self.link.traces.line(frame),
        }
    }

    fn step(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Step {
            progress: f64,
            total: Option<f64>,
            message: Option<String>,
        }
        if let Some(step) = params.and_then(|raw| serde_json::from_str::<Step>(raw.get()).ok()) {
            let Step { progress, total, message } = step;
            self.listener.progress.report(ProgressUpdate { progress, total, message });
        }
    }
}
