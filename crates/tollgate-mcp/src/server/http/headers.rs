//! The headers that mirror the body (MCP 2026-07-28, Streamable HTTP: request metadata, server validation).

use http::header::ACCEPT;
use http::{HeaderMap, HeaderName};
use tollgate_types::TraceContext;

use super::super::Request;
use super::super::params::{self, Params};
use crate::encoded;
use crate::jsonrpc::RpcError;
use crate::parameters::Repeated;
use crate::server::Revision;

const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// What `MCP-Protocol-Version` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// It is not there.
    Nothing,
    /// A revision that a handshake chooses.
    Handshake,
    /// A revision without handshake, or one that is not known.
    Other(&'a str),
    /// It is there twice, or not in visible ASCII.
    Rubbish,
}

impl<'a> Said<'a> {
    pub(super) fn read(headers: &'a HeaderMap) -> Self {
        match one(headers, PROTOCOL_VERSION) {
            Ok(None) => Self::Nothing,
            Ok(Some(text)) if Revision::HANDSHAKE.iter().any(|revision| revision.as_str() == text) => Self::Handshake,
            Ok(Some(text)) => Self::Other(text),
            Err(()) => Self::Rubbish,
        }
    }

    /// Whether the request must be one of the stateless era, if it is anything.
    pub(super) fn is_stateless(self) -> bool {
        matches!(self, Self::Other(_) | Self::Rubbish)
    }
}

/// A header that may be there once, without the white space around it (RFC 9110 §5.5).
pub(super) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return if headers.contains_key(name) { Err(()) } else { Ok(None) };
    };
    value.to_str().map(|text| Some(text.trim_matches([' ', '\t']))).map_err(|_| ())
}

/// The asker's place in a trace, where its headers say one (W3C Trace Context).
pub(super) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    // What is no text makes the whole invalid, as it is no valid value either.
    let all = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    TraceContext::read(all("traceparent"), all("tracestate"))
}

/// Whether headers and body of a stateless request say the same.
pub(super) fn check_stateless(
    headers: &HeaderMap,
    said: Said<'_>,
    method: &str,
    params: &Params<'_>,
) -> Result<(), RpcError> {
    let asked = params.asked_version().map(|raw| params.text(params::PROTOCOL_VERSION, Some(raw))).transpose()?;
    match (said, asked) {
        (Said::Rubbish, _) => return Err(RpcError::header_mismatch("`MCP-Protocol-Version` must be there once")),
        (Said::Other(version), None) if Revision::STATELESS.iter().all(|known| known.as_str() != version) => {
            return Err(RpcError::unsupported_version(version, &Revision::STATELESS.map(Revision::as_str)));
        }
        // What `_meta` lacks is said by the one who reads it.
        (_, None) => {}
        (Said::Nothing, Some(_)) => return Err(RpcError::header_mismatch("`MCP-Protocol-Version` is missing")),
        (Said::Other(version), Some(asked)) if version == asked => {}
        (Said::Other(_) | Said::Handshake, Some(_)) => {
            return Err(RpcError::header_mismatch("`MCP-Protocol-Version` is not the version in `_meta`"));
        }
    }
    if params.era()? == params::Era::Handshake {
        return Err(params::missing_meta(params::PROTOCOL_VERSION));
    }
    match one(headers, "mcp-method") {
        Ok(Some(named)) if named == method => {}
        Ok(Some(_)) => return Err(RpcError::header_mismatch("`Mcp-Method` is not the method of the body")),
        Ok(None) => return Err(RpcError::header_mismatch("`Mcp-Method` is missing")),
        Err(()) => return Err(RpcError::header_mismatch("`Mcp-Method` must be there once, in visible ASCII")),
    }
    match method {
        "tools/call" | "prompts/get" => check_name(headers, "name", &params.text("name", params.name)?),
        "resources/read" => check_name(headers, "uri", &params.text("uri", params.uri)?),
        _ if params::is_of_task(method) => check_name(headers, "taskId", &params.text("taskId", params.task_id)?),
        _ => Ok(()),
    }
}

fn check_name(headers: &HeaderMap, member: &str, name: &str) -> Result<(), RpcError> {
    let Ok(Some(said)) = one(headers, "mcp-name") else {
        return Err(RpcError::header_mismatch("`Mcp-Name` must be there once, in visible ASCII"));
    };
    match encoded::text(said) {
        Some(said) if said == name => Ok(()),
        Some(_) => Err(RpcError::header_mismatch(format_args!("`Mcp-Name` is not `params.{member}`"))),
        None => Err(RpcError::header_mismatch("`Mcp-Name` does not decode")),
    }
}

/// The parameters that a request repeats.
pub(super) fn repeated(headers: &HeaderMap) -> Repeated {
    let names = headers.keys().filter_map(|key| Some((key, key.as_str().strip_prefix("mcp-param-")?)));
    let said = |key: &HeaderName| one(headers, key.as_str()).ok().flatten().and_then(encoded::text);
    names.map(|(key, name)| (name.to_owned(), said(key))).collect()
}

/// Whether the answer goes out as a stream: where progress is asked for and can be read, or nothing else can be.
pub(super) fn wants_stream(headers: &HeaderMap, request: &Request) -> bool {
    can_stream(headers)
        && (request.progress_token().is_some() || request.is_listening() || !accepts(headers, "application/json"))
}

/// Whether the answer may go out as a stream.
pub(super) fn can_stream(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// Whether `Accept` names a media type, itself or by a wildcard. Without one everything is accepted as JSON.
fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if values.peek().is_none() {
        return media_type == "application/json";
    }
    values.flat_map(|value| value.split(',')).any(|part| {
        let name = part.split(';').next().unwrap_or_default().trim();
        let is_wild = name == "*/*" || name.strip_suffix("/*").is_some_and(|kind| media_type.starts_with(kind));
        name.eq_ignore_ascii_case(media_type) || is_wild && media_type == "application/json"
    })
}
