//! A call to a server of the stateless era, which asks the client by its result and is called again with the answers (MCP
//! 2026-07-28, Multi round-trip requests).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_types::{ClientCapability, Code, Cx, PeerError, ToolError};

use super::client;
use super::fault::Fault;
use super::hearing;
use super::link::Link;
use super::message::Ask;
use crate::question;

/// How often a server may ask before it must answer.
const ROUNDS_MAX: usize = 10;
/// What it may ask at once.
const QUESTIONS_MAX: usize = 16;
const STATE_BYTES_MAX: usize = 256 * 1024;

/// What a server is given back with a call.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pub(super) responses: BTreeMap<String, Box<RawValue>>,
    pub(super) state: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Required<'a> {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(borrow, default)]
    input_requests: Option<BTreeMap<String, Asked<'a>>>,
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
struct Asked<'a> {
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Why rounds ended without a result.
pub(super) enum Ended {
    /// The server did not answer.
    Fault(Fault),
    /// It asked what cannot be asked.
    Refused(ToolError),
}

impl From<Fault> for Ended {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Asks until there is a result.
pub(super) async fn ask(link: &Link, server: &str, cx: &Cx, ask: Ask<'_>) -> Result<Box<RawValue>, Ended> {
    let mut retry = Arc::<Retry>::default();
    for _ in 0..ROUNDS_MAX {
        let result = hearing::ask(link, ask, server, cx, retry).await?;
        // A result that cannot be read is for who reads results.
        let required = serde_json::from_str::<Required<'_>>(result.get()).ok();
        match required.filter(|it| it.result_type.as_deref() == Some("input_required")) {
            Some(required) => retry = Arc::new(answered(server, cx, required).await.map_err(Ended::Refused)?),
            None => return Ok(result),
        }
    }
    Err(Ended::Refused(broken(server, &format!("it asked {ROUNDS_MAX} times without an answer of its own"))))
}

fn broken(server: &str, what: &str) -> ToolError {
    ToolError::with_code(Code::UpstreamError, format!("`{server}`: {what}"))
}

/// The answers of the client to all that was asked.
async fn answered(server: &str, cx: &Cx, required: Required<'_>) -> Result<Retry, ToolError> {
    let Required { input_requests, request_state: state, .. } = required;
    let requests = input_requests.unwrap_or_default();
    if requests.len() > QUESTIONS_MAX {
        return Err(broken(server, &format!("it asks more than {QUESTIONS_MAX} things at once")));
    }
    if state.as_ref().is_some_and(|state| state.len() > STATE_BYTES_MAX) {
        return Err(broken(server, &format!("it wants back a state of more than {STATE_BYTES_MAX} bytes")));
    }
    if requests.is_empty() && state.is_none() {
        return Err(broken(server, "it asks for input and does not say which"));
    }
    let asking = requests.iter().map(|(key, asked)| async move {
        let kind = question::kind(&asked.method)
            .ok_or_else(|| broken(server, &format!("it asks for `{}`", asked.method.escape_debug())))?;
        let params = asked.params.unwrap_or_else(|| client::nothing());
        match client::ask(server, kind, Some(key), params, cx).await {
            Ok(answer) => Ok((key.clone(), answer)),
            Err(error) => Err(refused(server, kind, error)),
        }
    });
    let responses = join_all(asking).await.into_iter().collect::<Result<_, _>>()?;
    Ok(Retry { responses, state })
}

/// What the caller reads of a question that brought no answer.
fn refused(server: &str, kind: ClientCapability, error: PeerError) -> ToolError {
    match error {
        PeerError::Lacks(kind) => ToolError::client_lacks(kind),
        error => {
            let message = format!("`{server}` asks the client for {}, and there is no answer: {error}", kind.as_str());
            ToolError { retryable: false, ..ToolError::new(message) }
        }
    }
}
