//! The streamable HTTP transport without I/O: what the headers of a POST must say, which status belongs to which error,
//! and the sessions of the handshake era. Both eras share one endpoint; a server reads the body, asks
//! [`Endpoint::post`], and writes what it says.

mod conversation;
mod headers;
mod hearing;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{Caller, CancellationToken, Door};

use super::params::{Era, Params};
use super::park::Parking;
use super::seal::StateKeys;
use super::{Action, Answer, Peer, Request, ServerInfo, Session, Tasks, cancel};
use crate::jsonrpc::{self, Id, Message, RpcError};
use crate::stdio::progress;
use headers::{Said, can_stream, check_stateless, one, repeated, trace, wants_stream};
pub use hearing::Hearing;
pub use sessions::fresh_id;
use sessions::{Sessions, Shared, UnderWay};

/// Names a session of the handshake era.
pub const SESSION_ID: &str = "mcp-session-id";

/// One MCP endpoint. Cheap to clone; every clone has the same sessions.
#[derive(Clone)]
pub struct Endpoint {
    info: Arc<ServerInfo>,
    sessions: Arc<Sessions>,
    parking: Arc<Parking>,
    tasks: Option<Arc<Tasks>>,
}

/// What is to be sent back.
pub enum Reply {
    /// A status without a body.
    Empty(u16),
    /// One JSON text.
    Json {
        /// The status.
        status: u16,
        /// The text.
        body: Vec<u8>,
        /// The session that this opens, for the header [`SESSION_ID`].
        session: Option<String>,
    },
    /// The door must be asked.
    Run(Run),
    /// A stream must be opened.
    Hear(Hearing),
}

/// A request that only the door can answer.
pub struct Run {
    request: Request,
    /// The session of the handshake era.
    pub session: Option<String>,
    /// Whether the answer is wanted as a stream of events; otherwise it is one JSON text, unless something must be said
    /// before it.
    pub is_streamed: bool,
    /// Whether the asker can read a stream of events.
    pub can_stream: bool,
    /// Ends the request. The asker may fire it too, by a notification in its session.
    pub cancellation: CancellationToken,
    /// Whether closing the response cancels the request. In the handshake era it should not be taken for that (MCP
    /// 2025-11-25, Transports: sending messages).
    pub ends_with_response: bool,
    under_way: Option<UnderWay>,
}

/// A request that cannot be dispatched: the status and the error.
struct Fault(u16, RpcError);

impl Endpoint {
    /// An endpoint without sessions.
    pub fn new(info: ServerInfo) -> Self {
        Self { info: Arc::new(info), sessions: Arc::default(), parking: Arc::default(), tasks: None }
    }

    /// The same, whose calls may go on as tasks of these.
    #[must_use]
    pub fn with_tasks(self, tasks: Arc<Tasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// The same endpoint, whose clients may go on with their calls at other ones that have these keys.
    #[must_use]
    pub fn sealing(self, keys: StateKeys) -> Self {
        Self { parking: Arc::new(Parking::sealing(keys)), ..self }
    }

    /// Takes the body of one POST. `owner` is the authenticated name of the asker; a session is only ever its opener's.
    /// `now` is of a clock that never goes back.
    pub fn post(&self, headers: &HeaderMap, body: &[u8], owner: &str, now: Duration) -> Reply {
        let asker = Asker { headers, owner, now };
        match jsonrpc::parse(body) {
            Err(malformed) => json(400, jsonrpc::failure(malformed.id.as_ref(), &malformed.error)),
            Ok(Message::Blank) => {
                json(400, jsonrpc::failure(None, &RpcError::invalid_request("the body must be one message")))
            }
            Ok(Message::Request { id, method, params }) => self
                .request(asker, &id, &method, params)
                .unwrap_or_else(|Fault(status, error)| json(status, jsonrpc::failure(Some(&id), &error))),
            Ok(Message::Notification { method, params }) => self.notification(asker, &method, params),
            Ok(Message::Response { id, answer }) => self.in_session(asker, |session| {
                if let Some((id, shared)) = id.zip(self.sessions.shared(session)) {
                    shared.asked.settle(&id, answer);
                }
            }),
        }
    }

    /// Takes a GET: a stream of what the session's client is told unasked, which takes the place of one that is open. The
    /// stateless era has none, and without a session there is nothing to tell (405).
    pub fn get(&self, headers: &HeaderMap, owner: &str, now: Duration) -> Reply {
        if Said::read(headers).is_stateless() || !headers.contains_key(SESSION_ID) {
            return Reply::Empty(405);
        }
        if !can_stream(headers) {
            let error = RpcError::invalid_request("`Accept` must name `text/event-stream`");
            return json(406, jsonrpc::failure(None, &error));
        }
        match self.session(Asker { headers, owner, now }) {
            Ok((session, _)) => match Hearing::open(&self.sessions, session) {
                Some(hearing) => Reply::Hear(hearing),
                None => json(404, jsonrpc::failure(None, &RpcError::session_not_found())),
            },
            Err(Fault(status, error)) => json(status, jsonrpc::failure(None, &error)),
        }
    }

    /// Takes a DELETE: the end of a session. The stateless era has none (405).
    pub fn delete(&self, headers: &HeaderMap, owner: &str, now: Duration) -> Reply {
        match (Said::read(headers), one(headers, SESSION_ID)) {
            (Said::Handshake | Said::Nothing, Ok(Some(session))) => {
                Reply::Empty(if self.sessions.close(session, owner, now) { 204 } else { 404 })
            }
            _ => Reply::Empty(405),
        }
    }

    /// Cancels the calls that wait for their clients: once no request comes in any more, no answer reaches them.
    pub fn cancel_waiting(&self) {
        self.parking.clear();
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    fn request(&self, asker: Asker<'_>, id: &Id, method: &str, params: Option<&RawValue>) -> Result<Reply, Fault> {
        let params = Params::read(params).map_err(bad)?;
        let said = Said::read(asker.headers);
        if said.is_stateless() || params.asked_version().is_some() {
            check_stateless(asker.headers, said, method, &params).map_err(bad)?;
            return self.stateless(asker, id, method, &params);
        }
        if params.era().map_err(bad)? == Era::Stateless {
            return Err(bad(RpcError::header_mismatch("`MCP-Protocol-Version` is missing")));
        }
        if method == "initialize" {
            return self.initialize(asker, id, &params);
        }
        let (session, peer) = self.session(asker)?;
        let shared = self.sessions.shared(&session).unwrap_or_default();
        let mut conversation = self.conversation(Some(peer), shared);
        // In the handshake era an error is an answer like any other.
        let action = conversation.dispatch_in(Era::Handshake, id, method, &params);
        if let Some(said) = conversation.handshake.filter(|said| *said != peer) {
            self.sessions.learn(&session, said);
        }
        let mut request = match action {
            Ok(Action::Run(request)) => request,
            Ok(Action::Reply(body)) => return Ok(json(200, body)),
            Ok(Action::Ignore | Action::Cancel(_)) => return Ok(Reply::Empty(202)),
            Err(error) => return Err(Fault(200, error)),
        };
        request.traced(|| trace(asker.headers));
        let cancellation = CancellationToken::new();
        let under_way =
            self.sessions.enter(&session, id, &cancellation).map_err(|(status, error)| Fault(status, error))?;
        Ok(Reply::Run(Run {
            is_streamed: wants_stream(asker.headers, &request),
            can_stream: can_stream(asker.headers),
            request,
            session: Some(session),
            cancellation,
            ends_with_response: false,
            under_way: Some(under_way),
        }))
    }

    fn stateless(&self, asker: Asker<'_>, id: &Id, method: &str, params: &Params<'_>) -> Result<Reply, Fault> {
        let action = self
            .conversation(None, Shared::default())
            .dispatch_in(Era::Stateless, id, method, params)
            .map_err(|error| {
                // MCP 2026-07-28, Streamable HTTP: protocol version header; Base protocol: error codes.
                Fault(if error.is_method_not_found() { 404 } else { 400 }, error)
            })?;
        Ok(match action {
            Action::Run(request) if request.is_listening() && !can_stream(asker.headers) => {
                let error = RpcError::invalid_request("`Accept` must name `text/event-stream`");
                return Err(Fault(406, error));
            }
            Action::Run(mut request) => {
                request.traced(|| trace(asker.headers));
                request.repeats(|| repeated(asker.headers));
                Reply::Run(Run {
                    is_streamed: wants_stream(asker.headers, &request),
                    can_stream: can_stream(asker.headers),
                    request,
                    session: None,
                    cancellation: CancellationToken::new(),
                    ends_with_response: true,
                    under_way: None,
                })
            }
            Action::Reply(body) => json(200, body),
            Action::Ignore | Action::Cancel(_) => Reply::Empty(202),
        })
    }

    fn initialize(&self, asker: Asker<'_>, id: &Id, params: &Params<'_>) -> Result<Reply, Fault> {
        let mut conversation = self.conversation(None, Shared::default());
        let action = conversation.dispatch_in(Era::Handshake, id, "initialize", params);
        let action = action.map_err(|error| Fault(200, error))?;
        let (Action::Reply(body), Some(peer)) = (action, conversation.handshake) else {
            return Err(Fault(500, RpcError::internal("`initialize` was not answered")));
        };
        let session = self.sessions.open(asker.owner, peer, asker.now).map_err(|error| Fault(429, error))?;
        Ok(Reply::Json { status: 200, body, session: Some(session) })
    }

    fn notification(&self, asker: Asker<'_>, method: &str, params: Option<&RawValue>) -> Reply {
        if Said::read(asker.headers).is_stateless() {
            return Reply::Empty(202);
        }
        self.in_session(asker, |session| {
            if method == "notifications/cancelled"
                && let Action::Cancel(id) = cancel(params)
            {
                self.sessions.cancel(session, &id);
            }
        })
    }

    /// Accepts what needs no answer, if it comes in a session.
    fn in_session(&self, asker: Asker<'_>, take: impl FnOnce(&str)) -> Reply {
        match self.session(asker) {
            Ok((session, _)) => {
                take(&session);
                Reply::Empty(202)
            }
            Err(Fault(status, error)) => json(status, jsonrpc::failure(None, &error)),
        }
    }

    fn session(&self, asker: Asker<'_>) -> Result<(String, Peer), Fault> {
        match one(asker.headers, SESSION_ID) {
            Ok(Some(session)) => self
                .sessions
                .find(session, asker.owner, asker.now)
                .map(|peer| (session.to_owned(), peer))
                .ok_or_else(|| Fault(404, RpcError::session_not_found())),
            Ok(None) => Err(bad(RpcError::invalid_request(
                "`initialize` first and send `Mcp-Session-Id`, or say `MCP-Protocol-Version: 2026-07-28`",
            ))),
            Err(()) => Err(bad(RpcError::invalid_request("`Mcp-Session-Id` must be there once, in visible ASCII"))),
        }
    }

    fn conversation(&self, handshake: Option<Peer>, Shared { asked, news }: Shared) -> Session {
        let (info, parking, tasks) = (Arc::clone(&self.info), Arc::clone(&self.parking), self.tasks.clone());
        Session { info, handshake, is_initialized: false, asked, news, parking, tasks }
    }
}

impl Run {
    /// Whether it stands until its client takes it back, for [`Run::listen`].
    pub fn is_listening(&self) -> bool {
        self.request.is_listening()
    }

    /// Tells to `out` what changes, each a JSON text on one line, until `stop`; the answer that ends it well is returned. None
    /// when the client took it back.
    pub async fn listen(
        self,
        door: Arc<dyn Door>,
        caller: Arc<Caller>,
        out: &mpsc::Sender<Vec<u8>>,
        stop: CancellationToken,
    ) -> Option<Answer> {
        tokio::select! {
            biased;
            () = self.cancellation.cancelled() => None,
            answer = self.request.listen(door, caller, out.downgrade(), stop) => Some(answer),
        }
    }

    /// Asks the door. Progress goes to `out` as it comes, a JSON text on one line, and the answer is returned. None
    /// when the request was cancelled; it must then not be answered.
    pub async fn answer(self, door: Arc<dyn Door>, caller: Arc<Caller>, out: mpsc::Sender<Vec<u8>>) -> Option<Answer> {
        let Self { mut request, can_stream, cancellation, under_way, .. } = self;
        if !can_stream {
            request.mute();
        }
        let answered = tokio::select! {
            biased;
            () = cancellation.cancelled() => None,
            answer = progress::answer(request, door, caller, out) => Some(answer),
        };
        drop(under_way);
        answered
    }
}

#[derive(Clone, Copy)]
struct Asker<'a> {
    headers: &'a HeaderMap,
    owner: &'a str,
    now: Duration,
}

fn bad(error: RpcError) -> Fault {
    Fault(400, error)
}

fn json(status: u16, body: Vec<u8>) -> Reply {
    Reply::Json { status, body, session: None }
}
