//! JSON-RPC as a client: what we ask, as text; what comes back, sorted and still raw.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::{ClientCapability, HandedKey, LogLevel, TraceContext};

use super::config::Asks;
use super::hearing::Listener;
use super::offered::Offered;
use crate::jsonrpc::{on_one_line, present};
use crate::server::Revision;

const CLIENT_NAME: &str = "tollgate";
/// An error's text that is kept.
const ERROR_CHARS_MAX: usize = 2_000;
/// A client would have to offer more (MCP 2026-07-28, Base protocol: error codes).
const MISSING_CAPABILITY: i64 = -32021;

/// An error that a server answered.
#[derive(Debug, Clone)]
pub(super) struct RpcFailure {
    pub(super) code: i64,
    pub(super) message: String,
    /// The revisions that the server speaks, where it says so.
    pub(super) supported: Vec<String>,
    /// What a client would have to offer, where it says so.
    pub(super) needs: Option<ClientCapability>,
}

/// A server's answer.
pub(super) type Answer = Result<Box<RawValue>, RpcFailure>;

/// A message from a server. Ids are the raw text they came as.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// An answer to a question of ours, or to none.
    Response { id: &'a str, answer: Answer },
    /// A question to us.
    Request { id: &'a str, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notice.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Failure<'a> {
    code: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "present")]
    data: Option<&'a RawValue>,
}

/// What an error says of revisions (MCP 2026-07-28, Schema: `UnsupportedProtocolVersionError`).
#[derive(Deserialize)]
struct Unsupported {
    supported: Vec<String>,
}

/// What it says of clients (MCP 2026-07-28, Schema: `MissingRequiredClientCapabilityError`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Missing {
    required_capabilities: BTreeMap<String, IgnoredAny>,
}

/// Reads one frame, or none when it is not a message. Nothing is parsed deeper than the envelope.
pub(super) fn read(frame: &[u8]) -> Option<Incoming<'_>> {
    let envelope: Envelope<'_> = serde_json::from_str(std::str::from_utf8(frame).ok()?).ok()?;
    let id = envelope.id.map(RawValue::get);
    match (envelope.method, id) {
        (Some(method), Some(id)) => Some(Incoming::Request { id, method, params: envelope.params }),
        (Some(method), None) => Some(Incoming::Notification { method, params: envelope.params }),
        (None, id) => {
            let answer = match (envelope.error, envelope.result) {
                (Some(error), _) => Err(failure(error)),
                (None, Some(result)) => Ok(result.to_owned()),
                (None, None) => return None,
            };
            Some(Incoming::Response { id: id.unwrap_or("null"), answer })
        }
    }
}

pub(super) fn failure(raw: &RawValue) -> RpcFailure {
    let failure: Failure<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let unsupported = failure.data.and_then(|data| serde_json::from_str::<Unsupported>(data.get()).ok());
    let supported = unsupported.map_or_else(Vec::new, |unsupported| unsupported.supported);
    let missing = failure.data.filter(|_| failure.code == MISSING_CAPABILITY);
    let missing = missing.and_then(|data| serde_json::from_str::<Missing>(data.get()).ok());
    let needs = missing.and_then(|missing| missing.required_capabilities.keys().find_map(|name| capability(name)));
    let message = failure.message.chars().take(ERROR_CHARS_MAX).collect();
    RpcFailure { code: failure.code, message, supported, needs }
}

fn capability(name: &str) -> Option<ClientCapability> {
    let all = [ClientCapability::Elicitation, ClientCapability::Sampling, ClientCapability::Roots];
    all.into_iter().find(|capability| capability.as_str() == name)
}

/// The lists of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lists {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Lists {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    /// The member of the answer that holds them, which is also what people call them.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// A question to a server.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    /// Which era it speaks (2026-07-28).
    Discover,
    /// The handshake of the older era, in which a server is told what it may ask.
    Initialize { asks: Asks },
    /// Whether it is there (the handshake eras).
    Ping,
    /// To be told of changes, those of these resources among them (2026-07-28).
    Listen { resources: &'a [String] },
    /// A page of one of its lists.
    List { what: Lists, cursor: Option<&'a str> },
    /// A resource.
    Read { uri: &'a str, trace: Option<&'a TraceContext> },
    /// A prompt.
    Prompt { name: &'a str, arguments: &'a Value, trace: Option<&'a TraceContext> },
    /// What an argument may be; `params` say of what.
    Complete { params: &'a Value },
    /// To be told, or not any more, when a resource changes (before 2026-07-28).
    Subscribe { uri: &'a str, is_on: bool },
    /// To run a tool.
    Call {
        name: &'a str,
        arguments: &'a Value,
        /// Arguments that are repeated as headers, where there are any.
        headers: &'a [(String, String)],
        key: Option<&'a HandedKey>,
        trace: Option<&'a TraceContext>,
        /// That it is to be a task of 2025-11-25.
        as_task: bool,
    },
    /// About a task that a call became.
    Task { what: TaskAsk, id: &'a str },
}

/// What is asked of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskAsk {
    /// How it does.
    Get,
    /// To take the client's answers.
    Update,
    /// To end.
    Cancel,
    /// What it comes to (2025-11-25 alone).
    Result,
}

impl<'a> Ask<'a> {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Discover => "server/discover",
            Self::Initialize { .. } => "initialize",
            Self::Ping => "ping",
            Self::Listen { .. } => "subscriptions/listen",
            Self::List { what, .. } => what.method(),
            Self::Read { .. } => "resources/read",
            Self::Prompt { .. } => "prompts/get",
            Self::Complete { .. } => "completion/complete",
            Self::Subscribe { is_on: true, .. } => "resources/subscribe",
            Self::Subscribe { is_on: false, .. } => "resources/unsubscribe",
            Self::Call { .. } => "tools/call",
            Self::Task { what: TaskAsk::Get, .. } => "tasks/get",
            Self::Task { what: TaskAsk::Update, .. } => "tasks/update",
            Self::Task { what: TaskAsk::Cancel, .. } => "tasks/cancel",
            Self::Task { what: TaskAsk::Result, .. } => "tasks/result",
        }
    }

    /// What the `Mcp-Name` header repeats.
    pub(super) fn name(self) -> Option<&'a str> {
        match self {
            Self::Call { name, .. } | Self::Prompt { name, .. } => Some(name),
            Self::Read { uri, .. } => Some(uri),
            Self::Task { id, .. } => Some(id),
            _ => None,
        }
    }

    /// The arguments that headers repeat.
    pub(super) fn headers(self) -> &'a [(String, String)] {
        match self {
            Self::Call { headers, .. } => headers,
            _ => &[],
        }
    }

    /// The place in a trace that goes along.
    pub(super) fn trace(self) -> Option<&'a TraceContext> {
        match self {
            Self::Call { trace, .. } | Self::Read { trace, .. } | Self::Prompt { trace, .. } => trace,
            _ => None,
        }
    }

    /// Whether the question itself carries the revision it speaks, given what was agreed on.
    pub(super) fn is_stateless(self, agreed: Option<Revision>) -> bool {
        match self {
            Self::Discover => true,
            Self::Initialize { .. } => false,
            _ => agreed.is_some_and(Revision::is_stateless),
        }
    }
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Wish>,
    /// Members as they are.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    more: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Offered>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_info: Option<Implementation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notifications: Option<Wanted<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: Option<&'a BTreeMap<String, Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
}

/// That a call is to be a task, for as long as the server likes to keep it (MCP 2025-11-25, Tasks: creating tasks).
#[derive(Serialize)]
struct Wish {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wanted<'a> {
    tools_list_changed: bool,
    resources_list_changed: bool,
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resource_subscriptions: &'a [String],
}

#[derive(Serialize)]
struct Implementation {
    name: &'static str,
    version: &'static str,
}

/// MCP 2026-07-28, Base protocol: per-request fields.
#[derive(Default, Serialize)]
struct Meta<'a> {
    /// The idempotency key, under the name that the operator gave it.
    #[serde(flatten)]
    handed: BTreeMap<&'a str, &'a str>,
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    progress_token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'static str>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", skip_serializing_if = "Option::is_none")]
    client_capabilities: Option<Offered>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", skip_serializing_if = "Option::is_none")]
    client_info: Option<Implementation>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", skip_serializing_if = "Option::is_none")]
    log_level: Option<&'static str>,
}

impl<'a> Meta<'a> {
    fn of(number: u64, key: Option<&'a HandedKey>, trace: Option<&'a TraceContext>) -> Self {
        Self {
            handed: key.map(|key| (key.name.as_str(), key.value.as_str())).into_iter().collect(),
            progress_token: Some(number),
            traceparent: trace.map(TraceContext::traceparent),
            tracestate: trace.and_then(TraceContext::tracestate),
            ..Self::default()
        }
    }
}

const SELF: Implementation = Implementation { name: CLIENT_NAME, version: env!("CARGO_PKG_VERSION") };

/// The text of a question, on one line. `id` is raw JSON; `number` is the same as a number, for the progress token.
pub(super) fn request(id: &str, number: u64, ask: Ask<'_>, agreed: Option<Revision>, listener: &Listener) -> Vec<u8> {
    let mut params = Params {
        input_responses: Some(&listener.retry.responses).filter(|responses| !responses.is_empty()),
        request_state: listener.retry.state.as_deref(),
        ..Params::default()
    };
    match ask {
        Ask::Discover | Ask::Ping => {}
        Ask::Initialize { asks } => {
            params.protocol_version = Some(Revision::V2025_11_25.as_str());
            params.capabilities = Some(Offered::some(asks));
            params.client_info = Some(SELF);
        }
        Ask::Listen { resources } => {
            params.notifications = Some(Wanted {
                tools_list_changed: true,
                resources_list_changed: true,
                prompts_list_changed: true,
                resource_subscriptions: resources,
            });
        }
        Ask::List { cursor, .. } => params.cursor = cursor,
        Ask::Read { uri, trace } => (params.uri, params.meta) = (Some(uri), Some(Meta::of(number, None, trace))),
        Ask::Prompt { name, arguments, trace } => {
            (params.name, params.arguments) = (Some(name), Some(arguments));
            params.meta = Some(Meta::of(number, None, trace));
        }
        Ask::Complete { params: asked } => params.more = Some(asked),
        Ask::Subscribe { uri, .. } => params.uri = Some(uri),
        Ask::Call { name, arguments, key, trace, as_task, .. } => {
            (params.name, params.arguments) = (Some(name), Some(arguments));
            params.task = as_task.then_some(Wish {});
            params.meta = Some(Meta::of(number, key, trace));
        }
        Ask::Task { id, .. } => params.task_id = Some(id),
    }
    if ask.is_stateless(agreed) {
        let meta = params.meta.get_or_insert_default();
        meta.protocol_version = Some(Revision::V2026_07_28.as_str());
        let offered = Offered::from(listener.client.unwrap_or_default());
        meta.client_capabilities = Some(offered.knowing_tasks(matches!(ask, Ask::Call { .. } | Ask::Task { .. })));
        meta.log_level = listener.client.map(|_| LogLevel::Info.as_str());
        meta.client_info = Some(SELF);
    }
    let mut line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{}","params":"#, ask.method()).into_bytes();
    // Writing plain values to memory does not fail.
    let _ = serde_json::to_writer(&mut line, &params);
    line.push(b'}');
    on_one_line(line)
}

/// That a server listens, and to what.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The handshake is over.
pub(super) const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Nobody waits for the answer any more.
pub(super) fn cancelled(id: &str) -> Vec<u8> {
    let params = format!(r#"{{"requestId":{id},"reason":"nobody waits for the answer any more"}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#).into_bytes()
}

/// The answer of a client to a question of the server's.
pub(super) fn answer(id: &str, answer: &RawValue) -> Vec<u8> {
    on_one_line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, answer.get()).into_bytes())
}

/// That there is none.
pub(super) fn refusal(id: &str, code: i64, why: &str) -> Vec<u8> {
    let error = serde_json::json!({ "code": code, "message": why });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()
}

/// The answer to any other question of the server's: we are there, and can do nothing else.
pub(super) fn reply(id: &str, method: &str) -> Vec<u8> {
    let body = if method == "ping" {
        r#""result":{}"#
    } else {
        r#""error":{"code":-32601,"message":"Method not found: this client is not asked that"}"#
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},{body}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_handed_on_in_meta_beside_what_the_protocol_wants() {
        let key = HandedKey { name: "example.com/orderKey".into(), value: "0a-1b".into() };
        let arguments = json!({});
        for (agreed, members) in [(Revision::V2025_11_25, 2), (Revision::V2026_07_28, 5)] {
            let ask = Ask::Call {
                name: "order",
                arguments: &arguments,
                headers: &[],
                key: Some(&key),
                trace: None,
                as_task: false,
            };
            let line: Value =
                serde_json::from_slice(&request("7", 7, ask, Some(agreed), &Listener::default())).unwrap();
            let meta = line["params"]["_meta"].as_object().unwrap();
            assert_eq!((meta["example.com/orderKey"].as_str(), meta.len()), (Some("0a-1b"), members), "{line}");
        }
    }

    #[test]
    fn a_place_in_a_trace_goes_along_in_meta() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
        let trace = TraceContext::read([parent], ["a=1"]).unwrap();
        let arguments = json!({});
        let ask = Ask::Call {
            name: "order",
            arguments: &arguments,
            headers: &[],
            key: None,
            trace: Some(&trace),
            as_task: false,
        };
        let line: Value =
            serde_json::from_slice(&request("7", 7, ask, Some(Revision::V2025_11_25), &Listener::default())).unwrap();
        let meta = &line["params"]["_meta"];
        assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(parent), &json!("a=1")), "{line}");
    }
}
