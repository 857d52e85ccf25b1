//! A call to a server of the stateless era, which asks the client by its result and is called again with the answers (MCP
//! 2026-07-28, Multi round-trip requests). Since the server holds nothing meanwhile, whoever has what it asked and the
//! answers can call it again: a call may begin in one process and go on in another.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::{ClientCapability, Code, Cx, GoesOn, PeerError, PeerQuestion, ToolError};

use super::client;
use super::fault::Fault;
use super::hearing;
use super::link::Link;
use super::message::{Ask, RpcFailure};
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
pub(super) struct Required<'a> {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(borrow, default)]
    input_requests: Option<BTreeMap<String, Asked<'a>>>,
    #[serde(default)]
    request_state: Option<String>,
}

impl<'a> Required<'a> {
    /// That these are asked, and nothing is to be given back.
    pub(super) fn of(requests: BTreeMap<String, Asked<'a>>) -> Self {
        Self { result_type: None, input_requests: Some(requests), request_state: None }
    }
}

#[derive(Deserialize)]
pub(super) struct Asked<'a> {
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// What is left of a call that stands still, for going on elsewhere: which question to which server, and what it wants to
/// know.
#[derive(Serialize, Deserialize)]
struct Left<'a> {
    server: Cow<'a, str>,
    method: Cow<'a, str>,
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    required: &'a RawValue,
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

/// Asks until there is a result; from where the call stood still, if it began elsewhere.
pub(super) async fn ask(link: &Link, server: &str, cx: &Cx, ask: Ask<'_>) -> Result<Box<RawValue>, Ended> {
    let mut retry = Arc::<Retry>::default();
    let left = cx.peer.as_ref().and_then(|peer| peer.resumed());
    if let Some((left, required)) = left.as_ref().and_then(|left| Some((left, begun(left, server, ask)?))) {
        let goes_on = GoesOn::With(Arc::clone(left));
        retry = Arc::new(answered(link, server, cx, required, &goes_on).await.map_err(Ended::Refused)?);
    }
    for _ in 0..ROUNDS_MAX {
        let result = match hearing::ask(link, ask, server, cx, retry).await {
            Err(Fault::Rpc(RpcFailure { needs: Some(kind), .. })) if !offers(cx, kind) => {
                return Err(Ended::Refused(ToolError::client_lacks(kind)));
            }
            asked => asked?,
        };
        let Some(required) = required(&result) else { return Ok(result) };
        let goes_on = to_raw_value(&Left {
            server: server.into(),
            method: ask.method().into(),
            name: ask.name().map(Cow::from),
            required: &result,
        })
        .map_or(GoesOn::Here, |left| GoesOn::With(left.into()));
        retry = Arc::new(answered(link, server, cx, required, &goes_on).await.map_err(Ended::Refused)?);
    }
    Err(Ended::Refused(broken(server, &format!("it asked {ROUNDS_MAX} times without an answer of its own"))))
}

/// Whether the client of a call offers it.
pub(super) fn offers(cx: &Cx, kind: ClientCapability) -> bool {
    cx.peer.is_some() && question::is_offered(cx.client, kind, client::nothing())
}

/// What a result wants to know, if it does. One that cannot be read is for who reads results.
fn required(result: &RawValue) -> Option<Required<'_>> {
    let required = serde_json::from_str::<Required<'_>>(result.get()).ok();
    required.filter(|it| it.result_type.as_deref() == Some("input_required"))
}

/// What was wanted elsewhere, if it was in answer to this.
fn begun<'a>(left: &'a RawValue, server: &str, ask: Ask<'_>) -> Option<Required<'a>> {
    let left: Left<'a> = serde_json::from_str(left.get()).ok()?;
    let is_same = left.server == server && left.method == ask.method() && left.name.as_deref() == ask.name();
    required(left.required).filter(|_| is_same)
}

pub(super) fn broken(server: &str, what: &str) -> ToolError {
    ToolError::with_code(Code::UpstreamError, format!("`{server}`: {what}"))
}

/// The answers of the client to all that was asked.
pub(super) async fn answered(
    link: &Link,
    server: &str,
    cx: &Cx,
    required: Required<'_>,
    goes_on: &GoesOn,
) -> Result<Retry, ToolError> {
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
    let question = |(key, asked): (String, Asked<'_>)| {
        let kind = question::kind(&asked.method)
            .ok_or_else(|| broken(server, &format!("it asks for `{}`", asked.method.escape_debug())))?;
        if !link.asks().permits(kind) {
            return Err(broken(server, &format!("it asks for {}, which it may not (`asks`)", kind.as_str())));
        }
        let params = asked.params.unwrap_or_else(|| client::nothing()).to_owned();
        Ok((key.clone(), PeerQuestion { goes_on: goes_on.clone(), ..PeerQuestion::raw(kind, params).named(key) }))
    };
    // Nobody is asked where something cannot be asked.
    let questions = requests.into_iter().map(question).collect::<Result<Vec<_>, _>>()?;
    let asking = questions.into_iter().map(|(key, question)| async move {
        let kind = question.kind;
        let asked = client::ask(server, question, cx).await;
        asked.map(|answer| (key, answer)).map_err(|error| refused(server, kind, error))
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
