//! The parameters of every method that is served, read once and kept raw; and which era a request belongs to.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use tollgate_types::{CallKind, ClientCapabilities, LogLevel, TraceContext};

use super::client::Retry;
use super::{Ask, EXTENSION, Revision, Want};
use crate::jsonrpc::{RpcError, present};
use crate::wire_name;

pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Our own member of a call's `_meta`: the call happens at most once under it (MCP, Base protocol: `_meta` names).
pub(super) const IDEMPOTENCY_KEY: &str = "tollgate/idempotencyKey";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Marks our own cursors, so that other text is not taken for one.
const CURSOR_PREFIX: &str = "after:";

/// How a request says which revision it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// It does not: the handshake said so.
    Handshake,
    /// In its `_meta`.
    Stateless,
}

/// Every member that some method reads. Raw, because each method says for itself what it must be.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    #[serde(rename = "_meta", borrow, default, deserialize_with = "present")]
    meta_raw: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) uri: Option<&'a RawValue>,
    #[serde(rename = "ref", borrow, default, deserialize_with = "present")]
    of: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    argument: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    context: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    client_info: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) notifications: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) request_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    request_state: Option<&'a RawValue>,
    #[serde(skip)]
    meta: Meta<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Meta<'a> {
    #[serde(rename = "progressToken", borrow, default, deserialize_with = "present")]
    progress_token: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow, default, deserialize_with = "present")]
    protocol_version: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", borrow, default, deserialize_with = "present")]
    client_capabilities: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", borrow, default, deserialize_with = "present")]
    client_info: Option<&'a RawValue>,
    #[serde(rename = "io.modelcontextprotocol/logLevel", borrow, default, deserialize_with = "present")]
    log_level: Option<&'a RawValue>,
    #[serde(rename = "tollgate/idempotencyKey", borrow, default, deserialize_with = "present")]
    idempotency_key: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    tracestate: Option<&'a RawValue>,
}

/// A required part of a stateless request's `_meta` is not there (MCP 2026-07-28, Base protocol: per-request fields).
pub(super) fn missing_meta(key: &str) -> RpcError {
    RpcError::invalid_params(format_args!("`_meta` must have `{key}`"))
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Null in an optional place says the same as nothing: some clients write every field.
fn unless_null(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|raw| raw.get() != "null")
}

/// Reads an object's members; duplicates among those that are read are refused.
pub(super) fn read_object<'a, T: Deserialize<'a> + Default>(
    what: &str,
    raw: Option<&'a RawValue>,
) -> Result<T, RpcError> {
    let Some(raw) = unless_null(raw) else { return Ok(T::default()) };
    if !is_object(raw) {
        return Err(RpcError::invalid_params(format_args!("`{what}` must be an object")));
    }
    serde_json::from_str(raw.get()).map_err(|error| RpcError::invalid_params(format_args!("`{what}`: {error}")))
}

/// A capability is offered by being there; what it holds is for those who use it.
fn offered(what: &str, raw: Option<&RawValue>) -> Result<ClientCapabilities, RpcError> {
    #[derive(Default, Deserialize)]
    struct Offered<'a> {
        #[serde(borrow)]
        elicitation: Option<&'a RawValue>,
        #[serde(borrow)]
        sampling: Option<&'a RawValue>,
        #[serde(borrow)]
        roots: Option<&'a RawValue>,
    }
    /// MCP 2025-11-25, Elicitation: capabilities. Nothing said means a form.
    #[derive(Default, Deserialize)]
    struct Modes<'a> {
        #[serde(borrow)]
        form: Option<&'a RawValue>,
        #[serde(borrow)]
        url: Option<&'a RawValue>,
    }
    #[derive(Default, Deserialize)]
    struct Samples<'a> {
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
    }
    let Offered { elicitation, sampling, roots } = read_object(what, raw)?;
    let modes: Modes<'_> = read_object("elicitation", elicitation)?;
    let samples: Samples<'_> = read_object("sampling", sampling)?;
    Ok(ClientCapabilities {
        elicitation: elicitation.is_some() && (modes.form.is_some() || modes.url.is_none()),
        elicitation_url: modes.url.is_some(),
        sampling: sampling.is_some(),
        sampling_tools: samples.tools.is_some(),
        roots: roots.is_some(),
        images: false,
    })
}

impl<'a> Params<'a> {
    pub(super) fn read(raw: Option<&'a RawValue>) -> Result<Self, RpcError> {
        let mut params: Self = read_object("params", raw)?;
        params.meta = read_object("_meta", params.meta_raw)?;
        Ok(params)
    }

    /// The era, by what `_meta` says; a stateless request is refused here unless it has all that it must have.
    pub(super) fn era(&self) -> Result<Era, RpcError> {
        let Meta { protocol_version, client_capabilities, client_info, .. } = &self.meta;
        if protocol_version.is_none() && client_capabilities.is_none() && client_info.is_none() {
            return Ok(Era::Handshake);
        }
        let Some(version) = *protocol_version else { return Err(missing_meta(PROTOCOL_VERSION)) };
        let version = self.text(PROTOCOL_VERSION, Some(version))?;
        if !Revision::STATELESS.iter().any(|revision| revision.as_str() == version) {
            return Err(RpcError::unsupported_version(&version, &Revision::STATELESS.map(Revision::as_str)));
        }
        match client_capabilities {
            Some(capabilities) if is_object(capabilities) => Ok(Era::Stateless),
            Some(_) => Err(RpcError::invalid_params(format_args!("`{CLIENT_CAPABILITIES}` must be an object"))),
            None => Err(missing_meta(CLIENT_CAPABILITIES)),
        }
    }

    /// Which revision `_meta` names, as it came.
    pub(super) fn asked_version(&self) -> Option<&'a RawValue> {
        self.meta.protocol_version
    }

    /// A member that must be a string.
    pub(super) fn text(&self, key: &str, raw: Option<&RawValue>) -> Result<String, RpcError> {
        raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(|| RpcError::invalid_params(format_args!("`{key}` must be a string")))
    }

    /// The revision that `initialize` asks for, and what the client offers.
    pub(super) fn initialize(&self) -> Result<(String, ClientCapabilities), RpcError> {
        for (key, raw) in [("capabilities", self.capabilities), ("clientInfo", self.client_info)] {
            if !raw.is_some_and(is_object) {
                return Err(RpcError::invalid_params(format_args!("`{key}` must be an object")));
            }
        }
        Ok((self.text("protocolVersion", self.protocol_version)?, offered("capabilities", self.capabilities)?))
    }

    /// What the client of a stateless request offers.
    pub(super) fn stateless_client(&self) -> Result<ClientCapabilities, RpcError> {
        offered(CLIENT_CAPABILITIES, self.meta.client_capabilities)
    }

    /// Whether the client of a stateless request knows tasks (MCP tasks: capability negotiation).
    pub(super) fn knows_tasks(&self) -> Result<bool, RpcError> {
        #[derive(Default, Deserialize)]
        struct Offered<'a> {
            #[serde(borrow)]
            extensions: Option<&'a RawValue>,
        }
        let Offered { extensions } = read_object(CLIENT_CAPABILITIES, self.meta.client_capabilities)?;
        let extensions: HashMap<String, &RawValue> = read_object("extensions", extensions)?;
        Ok(extensions.get(EXTENSION).is_some_and(|settings| is_object(settings)))
    }

    /// Which task a method is about, and what is wanted of it.
    pub(super) fn of_task(&self, method: &str) -> Result<(String, Want), RpcError> {
        if !self.knows_tasks()? {
            return Err(RpcError::missing_extension(EXTENSION));
        }
        let want = match method {
            "tasks/update" => Want::Update(self.responses()?),
            "tasks/cancel" => Want::Cancel,
            _ => Want::Get,
        };
        Ok((self.text("taskId", self.task_id)?, want))
    }

    /// What a method that both eras know asks of the door.
    pub(super) fn ask(&self, method: &str) -> Result<Option<Ask>, RpcError> {
        Ok(Some(match method {
            "tools/list" => self.list(CallKind::Tool)?,
            "resources/list" => self.list(CallKind::Resource)?,
            "resources/templates/list" => self.list(CallKind::Template)?,
            "prompts/list" => self.list(CallKind::Prompt)?,
            "tools/call" => self.call(CallKind::Tool, self.text("name", self.name)?)?,
            "prompts/get" => self.call(CallKind::Prompt, wire_name::prompt_entry(&self.text("name", self.name)?))?,
            "resources/read" => self.of_resource(CallKind::Resource)?,
            "completion/complete" => self.completion()?,
            _ => return Ok(None),
        }))
    }

    fn of_resource(&self, kind: CallKind) -> Result<Ask, RpcError> {
        let uri = self.text("uri", self.uri)?;
        let (entry, own) = wire_name::resource_entry(&uri);
        self.asked(kind, entry, json!({ "uri": own }).to_string(), true)
    }

    /// What an argument may be, of the prompt or the template that `ref` names.
    fn completion(&self) -> Result<Ask, RpcError> {
        #[derive(Default, Deserialize)]
        struct Of {
            #[serde(rename = "type")]
            kind: String,
            name: Option<String>,
            uri: Option<String>,
        }
        let of: Of = read_object("ref", self.of)?;
        let entry = match (of.kind.as_str(), of.name, of.uri) {
            ("ref/prompt", Some(name), _) => wire_name::prompt_entry(&name),
            ("ref/resource", _, Some(uri)) => wire_name::resource_entry(&uri).0,
            _ => {
                let detail = "`ref` must be of the type `ref/prompt` with a `name`, or `ref/resource` with a `uri`";
                return Err(RpcError::invalid_params(detail));
            }
        };
        let member = |name: &str, raw: Option<&RawValue>| unless_null(raw).map(|raw| format!("\"{name}\":{raw}"));
        let members = [member("argument", self.argument), member("context", self.context)];
        let arguments = format!("{{{}}}", members.into_iter().flatten().collect::<Vec<_>>().join(","));
        self.asked(CallKind::Completion, entry, arguments, true)
    }

    fn list(&self, kind: CallKind) -> Result<Ask, RpcError> {
        let Some(cursor) = unless_null(self.cursor) else { return Ok(Ask::List { kind, after: None }) };
        let cursor = self.text("cursor", Some(cursor))?;
        let after = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        match after.as_deref().and_then(|text| text.strip_prefix(CURSOR_PREFIX)) {
            Some(name) => Ok(Ask::List { kind, after: Some(name.to_owned()) }),
            None => Err(RpcError::invalid_params("`cursor` is not one of this server's; list again without it")),
        }
    }

    fn call(&self, kind: CallKind, name: String) -> Result<Ask, RpcError> {
        let raw = unless_null(self.arguments);
        let is_fit = raw.is_none_or(is_object);
        self.asked(kind, name, raw.map_or("{}", RawValue::get).to_owned(), is_fit)
    }

    fn asked(&self, kind: CallKind, name: String, arguments: String, is_fit: bool) -> Result<Ask, RpcError> {
        let key =
            unless_null(self.meta.idempotency_key).map(|key| self.text(IDEMPOTENCY_KEY, Some(key))).transpose()?;
        let progress_token = self.progress_token()?.map(ToOwned::to_owned);
        let (trace, retry) = (self.trace().map(Box::new), Box::new(self.retry()?));
        Ok(Ask::Call { kind, name, arguments, is_fit, key, progress_token, trace, retry })
    }

    /// What the request brings of an earlier round (MCP 2026-07-28, Multi round-trip requests). In the older era these
    /// members mean nothing.
    fn retry(&self) -> Result<Retry, RpcError> {
        if self.meta.protocol_version.is_none() {
            return Ok(Retry::default());
        }
        let state = unless_null(self.request_state).map(|raw| self.text("requestState", Some(raw))).transpose()?;
        Ok(Retry { state, responses: self.responses()? })
    }

    fn responses(&self) -> Result<HashMap<String, Box<RawValue>>, RpcError> {
        let responses: HashMap<String, Box<RawValue>> = read_object("inputResponses", self.input_responses)?;
        match responses.iter().find(|(_, answer)| !is_object(answer)) {
            Some((key, _)) => {
                Err(RpcError::invalid_params(format_args!("`inputResponses`: the answer to `{key}` must be an object")))
            }
            None => Ok(responses),
        }
    }

    /// The level that `logging/setLevel` says.
    pub(super) fn level(&self) -> Result<LogLevel, RpcError> {
        self.log_level_of("level", self.level)
    }

    /// The level that a stateless request says; without one it hears of nothing.
    pub(super) fn log_level(&self) -> Result<Option<LogLevel>, RpcError> {
        unless_null(self.meta.log_level).map(|raw| self.log_level_of(LOG_LEVEL, Some(raw))).transpose()
    }

    fn log_level_of(&self, key: &str, raw: Option<&RawValue>) -> Result<LogLevel, RpcError> {
        LogLevel::read(&self.text(key, raw)?).ok_or_else(|| {
            let known = LogLevel::ALL.map(LogLevel::as_str).join(", ");
            RpcError::invalid_params(format_args!("`{key}` must be one of {known}"))
        })
    }

    /// The asker's place in a trace (MCP 2026-07-28, Base protocol: `_meta` trace context). What is not valid says nothing.
    fn trace(&self) -> Option<TraceContext> {
        let text = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let (parent, state) = (text(self.meta.traceparent)?, text(self.meta.tracestate));
        TraceContext::read([parent.as_str()], state.as_deref())
    }

    /// A string or an integer (MCP, Progress).
    fn progress_token(&self) -> Result<Option<&'a RawValue>, RpcError> {
        let Some(token) = unless_null(self.meta.progress_token) else { return Ok(None) };
        let text = token.get();
        let is_integer = text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
        if is_integer || text.starts_with('"') {
            return Ok(Some(token));
        }
        Err(RpcError::invalid_params("`progressToken` must be a string or an integer"))
    }
}

/// What the door is asked by.
const METHODS: [&str; 8] = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
];

/// Whether the door is asked by this method.
pub(super) fn is_known(method: &str) -> bool {
    METHODS.contains(&method)
}

/// Whether a method is about a task. Only the stateless era has these.
pub(super) fn is_of_task(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

/// The method of a call.
pub(super) fn method(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Resource => "resources/read",
        CallKind::Prompt => "prompts/get",
        CallKind::Completion => "completion/complete",
        CallKind::Subscription => "resources/subscribe",
        _ => "tools/call",
    }
}

/// The cursor of the page that begins after a tool.
pub(super) fn cursor_after(name: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{CURSOR_PREFIX}{name}"))
}
