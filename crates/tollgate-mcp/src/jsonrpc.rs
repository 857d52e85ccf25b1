//! JSON-RPC 2.0 as MCP uses it: bytes to one message, and answers to bytes. What is read stays borrowed raw text, so
//! that ids are echoed exactly and arguments reach the gate as they came.

pub(crate) mod frame;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::{ClientCapability, limits};

/// The id of a request: text, or a number in exactly the digits it came in.
#[derive(Debug, Clone)]
pub enum Id {
    /// A string.
    Text(String),
    /// A number of any size and form.
    Number(Box<RawValue>),
}

impl Id {
    /// The id, if `raw` can be one. Null can not (MCP, Base protocol: requests).
    fn read(raw: &RawValue) -> Option<Self> {
        match raw.get().as_bytes().first()? {
            b'"' => serde_json::from_str(raw.get()).ok().map(Self::Text),
            b'-' | b'0'..=b'9' => Some(Self::Number(raw.to_owned())),
            _ => None,
        }
    }

    /// The id of a message that is not a valid one, where it can be read without doubt.
    pub(crate) fn salvage(frame: &[u8]) -> Option<Self> {
        let raw = std::str::from_utf8(scan::top_level_id(frame)?).ok()?;
        Self::read(serde_json::from_str(raw).ok()?)
    }

    /// The text of it, without quotes.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Number(raw) => raw.get(),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.as_str() == other.as_str()
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(&raw).ok_or_else(|| serde::de::Error::custom("expected a string or a number"))
    }
}

/// An error answer's content (JSON-RPC 2.0 §5.1; codes: MCP 2026-07-28, Base protocol: error codes).
#[derive(Debug, Serialize)]
pub(crate) struct RpcError {
    code: i32,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<Value>>,
}

impl RpcError {
    fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The text is not JSON.
    pub(crate) fn parse(detail: impl std::fmt::Display) -> Self {
        Self::new(-32700, format!("Parse error: {detail}"))
    }

    /// The JSON is not a message.
    pub(crate) fn invalid_request(detail: impl std::fmt::Display) -> Self {
        Self::new(-32600, format!("Invalid Request: {detail}"))
    }

    /// The method does not exist in the revision that the request speaks.
    pub(crate) fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("Method not found: {}", shorten(method)))
    }

    /// The parameters do not fit the method.
    pub(crate) fn invalid_params(detail: impl std::fmt::Display) -> Self {
        Self::new(-32602, format!("Invalid params: {detail}"))
    }

    /// A fault of our own.
    pub(crate) fn internal(detail: &'static str) -> Self {
        Self::new(-32603, format!("Internal error: {detail}"))
    }

    /// The headers say something else than the body (MCP 2026-07-28, Streamable HTTP: server validation).
    pub(crate) fn header_mismatch(detail: impl std::fmt::Display) -> Self {
        Self::new(-32020, format!("Header mismatch: {detail}"))
    }

    /// No session of this name, or not this client's.
    pub(crate) fn session_not_found() -> Self {
        Self::new(-32001, "Session not found")
    }

    /// More than may be open at once.
    pub(crate) fn too_many(detail: impl std::fmt::Display) -> Self {
        Self::new(-32000, format!("Too many: {detail}"))
    }

    /// Whether the method does not exist.
    pub(crate) fn is_method_not_found(&self) -> bool {
        self.code == -32601
    }

    /// The client does not offer what the request needs.
    pub(crate) fn missing_capability(capability: ClientCapability) -> Self {
        let name = capability.as_str();
        let data = serde_json::json!({ "requiredCapabilities": { name: {} } });
        let message = format!("Missing required client capability: {name}");
        Self { data: Some(Box::new(data)), ..Self::new(-32021, message) }
    }

    /// The client does not know an extension that the request needs (MCP, tasks: capability negotiation).
    pub(crate) fn missing_extension(name: &str) -> Self {
        let data = serde_json::json!({ "requiredCapabilities": { "extensions": { name: {} } } });
        let message = format!("Missing required client capability: the extension {name}");
        Self { data: Some(Box::new(data)), ..Self::new(-32021, message) }
    }

    /// What it says.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// There is no such resource (MCP, Resources: error handling; the code is another since 2026-07-28).
    pub(crate) fn resource_not_found(uri: &str, is_stateless: bool) -> Self {
        let code = if is_stateless { -32602 } else { -32002 };
        let data = Some(Box::new(serde_json::json!({ "uri": uri })));
        Self { data, ..Self::new(code, format!("Resource not found: {uri}")) }
    }

    /// What was asked for did not come about.
    pub(crate) fn refused(detail: impl std::fmt::Display) -> Self {
        Self::new(-32000, detail.to_string())
    }

    /// The same with all that is known of it.
    pub(crate) fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::to_value(data).ok().map(Box::new);
        self
    }

    /// The request speaks a revision that is not served per request.
    pub(crate) fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let data = serde_json::json!({ "supported": supported, "requested": requested });
        Self { data: Some(Box::new(data)), ..Self::new(-32022, "Unsupported protocol version") }
    }
}

/// Enough of a name that came from outside to recognise it in an error.
fn shorten(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(limits::TOOL_NAME_CHARS_MAX * 2) {
        Some((end, _)) => Cow::Owned(format!("{}…", name.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(name),
    }
}

/// A message that can not be dispatched, and what is answered to it.
#[derive(Debug)]
pub(crate) struct Malformed {
    /// Whom to answer; null on the wire when it could not be read.
    pub(crate) id: Option<Id>,
    /// What to answer.
    pub(crate) error: RpcError,
}

/// One valid message.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Must be answered exactly once.
    Request { id: Id, method: String, params: Option<&'a RawValue> },
    /// Must never be answered.
    Notification { method: String, params: Option<&'a RawValue> },
    /// An answer to a request of ours. Without an id that can be read it is nobody's.
    Response { id: Option<Id>, answer: Result<&'a RawValue, &'a RawValue> },
    /// White space, which some clients send between messages.
    Blank,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, be it null: plain `Option` would take null for absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one frame as one message.
pub(crate) fn parse(frame: &[u8]) -> Result<Message<'_>, Malformed> {
    let malformed = |error| Malformed { id: Id::salvage(frame), error };
    let text = std::str::from_utf8(frame)
        .map_err(|error| malformed(RpcError::parse(format_args!("not UTF-8 at byte {}", error.valid_up_to()))))?
        .trim_ascii();
    if text.is_empty() {
        return Ok(Message::Blank);
    }
    if scan::is_deeper_than(text.as_bytes(), limits::JSON_DEPTH_MAX) {
        let detail = format_args!("nested deeper than {} levels", limits::JSON_DEPTH_MAX);
        return Err(malformed(RpcError::invalid_request(detail)));
    }
    if !text.starts_with('{') {
        // Grammar first, so that rubbish is a parse error and a batch or a bare value an invalid request.
        return Err(malformed(match serde_json::from_str::<&RawValue>(text) {
            Ok(_) if text.starts_with('[') => RpcError::invalid_request("batches are not supported"),
            Ok(_) => RpcError::invalid_request("a message is one JSON object"),
            Err(error) => RpcError::parse(error),
        }));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        malformed(if error.is_data() { RpcError::invalid_request(error) } else { RpcError::parse(error) })
    })?;
    envelope.into_message()
}

impl<'a> Envelope<'a> {
    fn into_message(self) -> Result<Message<'a>, Malformed> {
        let id = self.id.map(Id::read);
        if self.method.is_none()
            && let Some(answer) = self.error.map(Err).or(self.result.map(Ok))
        {
            return Ok(Message::Response { id: id.flatten(), answer });
        }
        let invalid = |id, detail| Malformed { id, error: RpcError::invalid_request(detail) };
        if let Some(None) = id {
            return Err(invalid(None, "`id` must be a string or a number"));
        }
        let id = id.flatten();
        if self.jsonrpc.is_none_or(|version| version.get() != r#""2.0""#) {
            return Err(invalid(id, r#"`jsonrpc` must be "2.0""#));
        }
        let Some(Ok(method)) = self.method.map(|method| serde_json::from_str(method.get())) else {
            return Err(invalid(id, "`method` must be a string"));
        };
        Ok(match id {
            Some(id) => Message::Request { id, method, params: self.params },
            None => Message::Notification { method, params: self.params },
        })
    }
}

const VERSION: &str = "2.0";

#[derive(Serialize)]
struct Answer<'a, R> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: R,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    error: &'a RpcError,
}

#[derive(Serialize)]
struct Notice<P> {
    jsonrpc: &'static str,
    method: &'static str,
    params: P,
}

#[derive(Serialize)]
struct Question<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    method: &'static str,
    params: &'a RawValue,
}

/// The text of a request of ours, on one line.
pub(crate) fn request(id: &Id, method: &'static str, params: &RawValue) -> Vec<u8> {
    on_one_line(serde_json::to_vec(&Question { jsonrpc: VERSION, id, method, params }).unwrap_or_default())
}

/// What is raw may have line ends between its tokens; within strings they are escaped.
pub(crate) fn on_one_line(mut text: Vec<u8>) -> Vec<u8> {
    text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text
}

/// The text of an answer, on one line.
pub(crate) fn answer(id: &Id, result: impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&Answer { jsonrpc: VERSION, id, result })
        .unwrap_or_else(|_| failure(Some(id), &RpcError::internal("the result can not be written as JSON")))
}

/// The text of an error answer, on one line. Without an id it is null (JSON-RPC 2.0 §5).
pub(crate) fn failure(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    // Strings, integers and values: writing these to memory can not fail.
    serde_json::to_vec(&Failure { jsonrpc: VERSION, id, error }).unwrap_or_default()
}

/// The text of a notification, on one line.
pub(crate) fn notification(method: &'static str, params: impl Serialize) -> Vec<u8> {
    serde_json::to_vec(&Notice { jsonrpc: VERSION, method, params }).unwrap_or_default()
}
