//! The protocol without I/O: a [`Session`] takes one message and says what is to be done. It holds the one bit of
//! state that the handshake era has, the negotiated revision; requests of the stateless era neither read nor change it.

mod client;
mod entries;
pub mod http;
mod listen;
pub(crate) mod live;
pub(crate) mod news;
mod params;
mod park;
mod revision;
mod seal;
mod shown;
mod stamp;
mod tasks;
mod tools;

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{
    CallKind, Caller, ClientCapabilities, Door, LogLevel, Outcome, Progress, ProgressUpdate, TraceContext, limits,
};

use crate::jsonrpc::{self, Id, Message, RpcError};
use crate::parameters::Repeated;
use crate::wire_name::Members;
use client::{Client, Retry, Round, Told};
use listen::Filter;
use live::Asked;
use news::News;
use params::{Era, Params};
use park::{Asks, Parking};
pub use revision::Revision;
pub use seal::StateKeys;
use stamp::{Both, Implementation, ResultMeta, Stamped};
pub(crate) use tasks::EXTENSION;
use tasks::Want;
pub use tasks::{TaskRules, Tasks};

/// How long a client of the stateless era may keep a list. Lists depend on the caller, so they are private.
const LIST_TTL_MS: u64 = 60_000;
/// What a client of the handshake era hears of until it says otherwise.
const LOGS_UNASKED: LogLevel = LogLevel::Info;

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The name for programs.
    pub name: String,
    /// The version.
    pub version: String,
    /// What a model should know before it uses the tools.
    pub instructions: Option<String>,
}

/// One conversation with one client, both eras at once.
///
/// ```
/// use tollgate_mcp::{Action, ServerInfo, Session};
///
/// let info = ServerInfo { name: "tollgate".into(), version: "1.0.0".into(), instructions: None };
/// let mut session = Session::new(info);
/// let Action::Reply(line) = session.receive(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#) else {
///     panic!("a ping is answered at once");
/// };
/// assert_eq!(line, br#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
/// ```
#[derive(Debug)]
pub struct Session {
    info: Arc<ServerInfo>,
    handshake: Option<Peer>,
    is_initialized: bool,
    asked: Arc<Asked>,
    news: Arc<News>,
    parking: Arc<Parking>,
    tasks: Option<Arc<Tasks>>,
}

/// What is known of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peer {
    revision: Revision,
    client: ClientCapabilities,
    /// From which level on it wants to hear of what happens.
    logs: Option<LogLevel>,
    /// Whether it knows tasks; in the handshake era nobody does.
    knows_tasks: bool,
}

/// What is to be done about a message. Texts are one line each, without its end.
#[derive(Debug)]
pub enum Action {
    /// Nothing: a notification, or an answer to a question that was never asked.
    Ignore,
    /// This is the answer.
    Reply(Vec<u8>),
    /// The door must be asked; [`Request::answer`] does it. Until then the id is taken.
    Run(Request),
    /// The request of this id, if it is still under way, must be dropped and never answered.
    Cancel(Id),
}

impl Session {
    /// A conversation that has not begun.
    pub fn new(info: ServerInfo) -> Self {
        Self {
            info: Arc::new(info),
            handshake: None,
            is_initialized: false,
            asked: Arc::default(),
            news: Arc::default(),
            parking: Arc::default(),
            tasks: None,
        }
    }

    /// The same, whose calls may go on as tasks of these.
    #[must_use]
    pub fn with_tasks(self, tasks: Arc<Tasks>) -> Self {
        Self { tasks: Some(tasks), ..self }
    }

    /// Takes one message: a line, or a body.
    pub fn receive(&mut self, frame: &[u8]) -> Action {
        match jsonrpc::parse(frame) {
            Ok(Message::Request { id, method, params }) => self
                .dispatch(&id, &method, params)
                .unwrap_or_else(|error| Action::Reply(jsonrpc::failure(Some(&id), &error))),
            Ok(Message::Notification { method, params }) if method == "notifications/cancelled" => cancel(params),
            Ok(Message::Notification { method, .. }) => {
                self.is_initialized |= method == "notifications/initialized" && self.handshake.is_some();
                tracing::debug!(method, "notification without effect");
                Action::Ignore
            }
            Ok(Message::Response { id, answer }) => {
                if let Some(id) = id {
                    self.asked.settle(&id, answer);
                }
                Action::Ignore
            }
            Ok(Message::Blank) => Action::Ignore,
            Err(malformed) => Action::Reply(jsonrpc::failure(malformed.id.as_ref(), &malformed.error)),
        }
    }

    /// What the client is told unasked, once it shook hands.
    pub(crate) fn news(&self) -> Option<&Arc<News>> {
        self.is_initialized.then_some(&self.news)
    }

    /// The answer to a message longer than [`limits::FRAME_BYTES_MAX`], of which only the head was kept.
    pub fn refuse_too_long(&self, head: &[u8]) -> Vec<u8> {
        let detail = format_args!("a message may have {} bytes", limits::FRAME_BYTES_MAX);
        jsonrpc::failure(Id::salvage(head).as_ref(), &RpcError::invalid_request(detail))
    }

    fn dispatch(&mut self, id: &Id, method: &str, params: Option<&RawValue>) -> Result<Action, RpcError> {
        let params = Params::read(params)?;
        self.dispatch_in(params.era()?, id, method, &params)
    }

    fn dispatch_in(&mut self, era: Era, id: &Id, method: &str, params: &Params<'_>) -> Result<Action, RpcError> {
        match era {
            Era::Stateless => self.dispatch_stateless(id, method, params),
            Era::Handshake => self.dispatch_handshake(id, method, params),
        }
    }

    /// 2026-07-28. What the handshake era alone knows (`initialize`, `ping`, `logging/setLevel`) is unknown here.
    fn dispatch_stateless(&self, id: &Id, method: &str, params: &Params<'_>) -> Result<Action, RpcError> {
        let ask = match method {
            "server/discover" => {
                let discovered = json!({
                    "supportedVersions": Revision::STATELESS.map(Revision::as_str),
                    "capabilities": self.capabilities_stateless(),
                    "ttlMs": LIST_TTL_MS,
                    "cacheScope": "private",
                });
                return Ok(self.reply(id, Revision::V2026_07_28, &self.with_instructions(discovered)));
            }
            "subscriptions/listen" => Ask::Listen(Filter::read(params.notifications)?),
            _ if params::is_of_task(method) && self.tasks.is_some() => {
                params.of_task(method).map(|(task, want)| Ask::Task { task, want })?
            }
            _ => params.ask(method)?.ok_or_else(|| RpcError::method_not_found(method))?,
        };
        let (client, logs, knows_tasks) = (params.stateless_client()?, params.log_level()?, params.knows_tasks()?);
        let peer = Peer { revision: Revision::V2026_07_28, client, logs, knows_tasks };
        Ok(self.run(id, peer, ask))
    }

    fn dispatch_handshake(&mut self, id: &Id, method: &str, params: &Params<'_>) -> Result<Action, RpcError> {
        match method {
            "initialize" => {
                let (version, client) = params.initialize()?;
                let revision = Revision::negotiate(&version);
                self.handshake = Some(Peer { revision, client, logs: Some(LOGS_UNASKED), knows_tasks: false });
                let initialized = json!({
                    "protocolVersion": revision.as_str(),
                    "capabilities": capabilities(),
                    "serverInfo": { "name": self.info.name, "version": self.info.version },
                });
                Ok(self.reply(id, revision, &self.with_instructions(initialized)))
            }
            "ping" => Ok(Action::Reply(jsonrpc::answer(id, json!({})))),
            "logging/setLevel" => {
                let peer = Peer { logs: Some(params.level()?), ..self.negotiated(method)? };
                self.handshake = Some(peer);
                Ok(self.reply(id, peer.revision, &json!({})))
            }
            "resources/subscribe" => {
                let (peer, uri) = (self.negotiated(method)?, params.text("uri", params.uri)?);
                Ok(self.run(id, peer, Ask::Follow { uri }))
            }
            "resources/unsubscribe" => {
                let (peer, uri) = (self.negotiated(method)?, params.text("uri", params.uri)?);
                self.news.follower().iter().for_each(|follower| follower.unfollow(&uri));
                Ok(self.reply(id, peer.revision, &json!({})))
            }
            "server/discover" => Err(params::missing_meta(params::PROTOCOL_VERSION)),
            _ if params::is_known(method) => {
                let peer = self.negotiated(method)?;
                let ask = params.ask(method)?.ok_or_else(|| RpcError::method_not_found(method))?;
                Ok(self.run(id, peer, ask))
            }
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    fn negotiated(&self, method: &str) -> Result<Peer, RpcError> {
        self.handshake.ok_or_else(|| {
            RpcError::invalid_params(format_args!(
                "`{method}` needs `initialize` first, or `{}` in `_meta`",
                params::PROTOCOL_VERSION
            ))
        })
    }

    fn with_instructions(&self, mut value: serde_json::Value) -> serde_json::Value {
        if let (Some(object), Some(instructions)) = (value.as_object_mut(), &self.info.instructions) {
            object.insert("instructions".to_owned(), json!(instructions));
        }
        value
    }

    fn reply(&self, id: &Id, revision: Revision, result: &impl Serialize) -> Action {
        Action::Reply(jsonrpc::answer(id, Stamped::new(revision, &self.info, result)))
    }

    /// The same with the extensions, which the handshake era does not have.
    fn capabilities_stateless(&self) -> serde_json::Value {
        let mut all = capabilities();
        if let (Some(members), Some(_)) = (all.as_object_mut(), &self.tasks) {
            members.insert("extensions".to_owned(), json!({ EXTENSION: {} }));
        }
        all
    }

    fn run(&self, id: &Id, peer: Peer, ask: Ask) -> Action {
        let asked = (!peer.revision.is_stateless()).then(|| Arc::clone(&self.asked));
        let (parking, news, tasks) = (Arc::clone(&self.parking), Arc::clone(&self.news), self.tasks.clone());
        let client = Box::new(Client { peer, parking, asked, news, out: None, tasks, offer: None, repeated: None });
        Action::Run(Request { id: id.clone(), client, info: Arc::clone(&self.info), ask })
    }
}

impl From<ServerInfo> for Session {
    fn from(info: ServerInfo) -> Self {
        Self::new(info)
    }
}

/// What is served, to everybody: what a caller may use of it is said by the lists.
fn capabilities() -> serde_json::Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
    })
}

/// A cancellation that makes no sense is ignored (MCP, Cancellation: error handling).
fn cancel(params: Option<&RawValue>) -> Action {
    let id = Params::read(params).ok().and_then(|params| serde_json::from_str(params.request_id?.get()).ok());
    id.map_or(Action::Ignore, Action::Cancel)
}

/// A request that only the door can answer.
#[derive(Debug)]
pub struct Request {
    id: Id,
    client: Box<Client>,
    info: Arc<ServerInfo>,
    ask: Ask,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// One line, without its end.
    pub text: Vec<u8>,
    /// The status under which HTTP gives it, where the answer is all that it gives.
    pub status: u16,
}

#[derive(Debug)]
enum Ask {
    List {
        kind: CallKind,
        after: Option<String>,
    },
    Call {
        kind: CallKind,
        name: String,
        arguments: String,
        is_fit: bool,
        key: Option<String>,
        progress_token: Option<Box<RawValue>>,
        trace: Option<Box<TraceContext>>,
        retry: Box<Retry>,
    },
    Task {
        task: String,
        want: Want,
    },
    /// To be told when a resource changes, in the handshake era.
    Follow {
        uri: String,
    },
    /// To be told what changes, in the stateless era.
    Listen(Filter),
}

impl Request {
    /// The id that the answer will carry.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Under which token the client wants to hear of progress, if it does.
    pub fn progress_token(&self) -> Option<&RawValue> {
        match &self.ask {
            Ask::Call { progress_token, .. } => progress_token.as_deref(),
            Ask::List { .. } | Ask::Task { .. } | Ask::Follow { .. } | Ask::Listen(_) => None,
        }
    }

    /// The same request, whose client can be told and asked this way while it is served.
    pub(crate) fn attach(&mut self, out: &mpsc::Sender<Vec<u8>>) {
        self.client.out = Some(out.downgrade());
    }

    /// The same request, whose asker can be told nothing but the answer.
    fn mute(&mut self) {
        (self.client.asked, self.client.peer.logs) = (None, None);
        if let Ask::Call { progress_token, .. } = &mut self.ask {
            *progress_token = None;
        }
    }

    /// The same request, whose transport knows the asker's place in a trace; what the message says of it counts more.
    fn traced(&mut self, by_transport: impl FnOnce() -> Option<TraceContext>) {
        if let Ask::Call { trace, .. } = &mut self.ask
            && trace.is_none()
        {
            *trace = by_transport().map(Box::new);
        }
    }

    /// The same request, whose transport repeats parameters as headers.
    fn repeats(&mut self, headers: impl FnOnce() -> Repeated) {
        if let Ask::Call { kind: CallKind::Tool, .. } = &self.ask {
            self.client.repeated = Some(headers());
        }
    }

    /// Asks the door and gives the answer. Dropping the future cancels the call.
    pub async fn answer(self, door: Arc<dyn Door>, caller: Arc<Caller>, progress: Progress) -> Answer {
        let Self { id, mut client, info, ask } = self;
        let revision = client.peer.revision;
        let failure = |error: &RpcError| Answer {
            text: jsonrpc::failure(Some(&id), error),
            // In the handshake era an error is an answer like any other.
            status: if revision.is_stateless() { 400 } else { 200 },
        };
        match ask {
            Ask::List { kind, after } => {
                let follower = client.news.follower();
                let page = entries::list(&*door, &caller, kind, after.as_deref(), revision, follower).await;
                let text = jsonrpc::on_one_line(jsonrpc::answer(&id, Stamped::new(revision, &info, &page)));
                Answer { text, status: 200 }
            }
            Ask::Task { task, want } => match tasks::answer(&client, &id, &info, (&task, want), &caller).await {
                Ok(text) => Answer { text, status: 200 },
                Err(error) => failure(&error),
            },
            Ask::Follow { uri } => match listen::subscribe(&id, &uri, *client, door, caller).await {
                Ok(text) => Answer { text, status: 200 },
                Err(error) => failure(&error),
            },
            Ask::Listen(_) => failure(&RpcError::internal("nobody can be told anything but an answer")),
            Ask::Call { kind, name, arguments, is_fit, key, trace, retry, .. } => {
                let mut call = tools::call(&id, name, arguments).with_trace(trace.map(|trace| *trace));
                (call.kind, call.idempotency_key, call.protocol) = (kind, key, Some(revision.as_str()));
                if let Err((recorded, error)) = client.prepare(&*door, &caller, &call, is_fit, &info) {
                    // The protocol's own error; the door only records that it was tried.
                    door.call(&caller, call.refused(*recorded)).await;
                    return failure(&error);
                }
                let round = Round { door, caller, call, method: params::method(kind), retry: *retry, progress };
                let outcome = match client.call(round).await {
                    Ok(Told::Ended(outcome)) => *outcome,
                    Ok(Told::Asks(asks)) => return Answer { text: asking(&id, &info, &asks), status: 200 },
                    Ok(Told::Task(task)) => return Answer { text: tasks::begun(&id, &info, &task), status: 200 },
                    Err(error) => return failure(&error),
                };
                match told(&id, &info, kind, revision, &outcome) {
                    Ok(text) => Answer { text: jsonrpc::on_one_line(text), status: 200 },
                    Err(error) => failure(&error),
                }
            }
        }
    }
}

/// The end of a call, as an answer.
fn told(
    id: &Id,
    info: &ServerInfo,
    kind: CallKind,
    revision: Revision,
    outcome: &Outcome,
) -> Result<Vec<u8>, RpcError> {
    if let Some(lacks) = tools::client_lacks(outcome).filter(|_| revision.is_stateless()) {
        return Err(RpcError::missing_capability(lacks));
    }
    if !kind.is_tool() {
        let raw = entries::result_of(outcome, kind, revision)?;
        let kept = entries::kept(&raw);
        let result = Both { one: &kept.result, other: entries::caching(kind, revision) };
        return Ok(jsonrpc::answer(id, Stamped::new(revision, info, &result).telling(outcome).keeping(kept.meta)));
    }
    if let Some(kept) = entries::Kept::of_tool(outcome, revision) {
        let stamped = Stamped::new(revision, info, &kept.result).telling(outcome).keeping(kept.meta);
        return Ok(jsonrpc::answer(id, stamped));
    }
    let result = tools::result_of(outcome, revision);
    Ok(jsonrpc::answer(id, Stamped::new(revision, info, &result).telling(outcome)))
}

/// The notification of one step under the client's token, one line.
pub(crate) fn progress_notification(token: &RawValue, step: &ProgressUpdate) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Step<'a> {
        progress_token: &'a RawValue,
        progress: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }
    let step = Step {
        progress_token: token,
        progress: step.progress,
        total: step.total.filter(|total| total.is_finite()),
        message: step.message.as_deref(),
    };
    jsonrpc::notification("notifications/progress", step)
}

/// The answer that asks (MCP 2026-07-28, Multi round-trip requests: input required results), on one line.
fn asking(id: &Id, info: &ServerInfo, asks: &Asks) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct InputRequired<'a> {
        result_type: &'static str,
        input_requests: &'a RawValue,
        request_state: &'a str,
        #[serde(rename = "_meta")]
        meta: ResultMeta<'a>,
    }
    let server_info = Some(Implementation { name: &info.name, version: &info.version });
    jsonrpc::on_one_line(jsonrpc::answer(
        id,
        InputRequired {
            result_type: "input_required",
            input_requests: &asks.requests,
            request_state: &asks.state,
            meta: ResultMeta { server_info, outside: false, warnings: &[], more: Members::default() },
        },
    ))
}
