//! The client that a call of a server's is for, as the server may ask it: each question is a call of its own through the
//! gate, to an entry `mcp__x__client/…` of the server, which asks the client.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::{
    BoxFuture, Call, CallKind, ClientCapability, Code, Cx, End, LogMessage, Peer, PeerError, PeerQuestion, Permission,
    Raw, Risk, Source, SourceKind, Tool, ToolDefinition, ToolError, ToolOutput,
};

use super::config::Asks;

/// All that a server may ask for.
const KINDS: [ClientCapability; 3] =
    [ClientCapability::Elicitation, ClientCapability::Sampling, ClientCapability::Roots];
const PREVIEW_CHARS_MAX: usize = 4_000;

/// No parameters.
pub(super) fn nothing() -> &'static RawValue {
    serde_json::from_str("{}").unwrap_or(RawValue::NULL)
}

fn call_kind(kind: ClientCapability) -> CallKind {
    match kind {
        ClientCapability::Elicitation => CallKind::Elicitation,
        ClientCapability::Sampling => CallKind::Sampling,
        ClientCapability::Roots => CallKind::Roots,
    }
}

fn name(server: &str, kind: ClientCapability) -> String {
    format!("mcp__{server}__client/{}", kind.as_str())
}

/// Puts a question of a server to the client of a call. `exact` is the question in the server's own words.
pub(super) async fn ask(server: &str, exact: PeerQuestion, cx: &Cx) -> Result<Box<RawValue>, PeerError> {
    let kind = exact.kind;
    let Some(peer) = &cx.peer else { return Err(PeerError::Lacks(kind)) };
    let name = name(server, kind);
    let arguments = exact.params.get().to_owned();
    let exact = Exact { peer: Arc::clone(peer), question: exact };
    let mut call = Call::raw(name, arguments).with_client(cx.client).with_peer(Some(Arc::new(exact)));
    call.kind = call_kind(kind);
    match cx.door.call(&cx.caller, call).await.end {
        End::Done(result) => {
            let raw = result.raw.map(|raw| raw.value().to_owned());
            let written = || serde_json::value::to_raw_value(&result.structured?).ok();
            raw.or_else(written).ok_or(PeerError::Unanswered)
        }
        End::Refused(error) | End::Failed(error) | End::Waiting(_, error) | End::Unknown(error) => {
            Err(error.client_lacks.map_or_else(|| PeerError::Denied(Box::new(error)), PeerError::Lacks))
        }
    }
}

/// A client that is asked under the server's own name for the question, and in the server's own digits.
#[derive(Debug)]
struct Exact {
    peer: Arc<dyn Peer>,
    question: PeerQuestion,
}

impl Peer for Exact {
    fn ask(&self, mut question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        if value(&question.params) == value(&self.question.params) {
            question.params.clone_from(&self.question.params);
        }
        question.key = question.key.or_else(|| self.question.key.clone());
        question.goes_on = self.question.goes_on.clone();
        self.peer.ask(question)
    }

    fn log(&self, message: LogMessage) {
        self.peer.log(message);
    }
}

/// One thing that a server may ask of clients, as an entry of the gate's.
#[derive(Debug)]
pub(super) struct ClientEntry {
    server: String,
    kind: ClientCapability,
}

/// What a server may ask of clients, where policy permits it.
pub(super) fn entries(server: &str, asks: Asks) -> Vec<Arc<dyn Tool>> {
    let entry = |kind| Arc::new(ClientEntry { server: server.to_owned(), kind }) as Arc<dyn Tool>;
    KINDS.into_iter().filter(|kind| asks.permits(*kind)).map(entry).collect()
}

impl Tool for ClientEntry {
    fn definition(&self) -> ToolDefinition {
        let server = &self.server;
        let (what, risk) = match self.kind {
            ClientCapability::Elicitation => ("puts a question to the user", Risk::Read),
            // The user's model works, and says what it makes of what the server says.
            ClientCapability::Sampling => ("puts a request to the user's model", Risk::Write),
            ClientCapability::Roots => ("asks which folders the client works in", Risk::Read),
        };
        let mut definition = ToolDefinition::new(name(server, self.kind), format!("The server `{server}` {what}."));
        definition.kind = call_kind(self.kind);
        (definition.risk, definition.permission) = (risk, Permission::Read);
        definition.input_schema = json!({ "type": "object" });
        definition.source = Source { server: Some(server.clone()), ..Source::of(SourceKind::Mcp) };
        definition
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        let arguments: String = arguments.to_string().chars().take(PREVIEW_CHARS_MAX).collect();
        Some(format!("the MCP server `{}` asks the client for {}: {arguments}", self.server, self.kind.as_str()))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let Some(peer) = &cx.peer else { return Err(ToolError::client_lacks(self.kind)) };
            let asking = peer.ask(PeerQuestion::new(self.kind, &arguments));
            let answer = tokio::select! {
                answer = asking => answer,
                () = cx.cancellation.cancelled() => {
                    return Err(ToolError::with_code(Code::Cancelled, "cancelled before the client answered"));
                }
            };
            match answer {
                Ok(answer) => {
                    let structured = serde_json::from_str(answer.get()).ok();
                    Ok(ToolOutput { structured, raw: Some(Raw::from(answer)), ..ToolOutput::default() })
                }
                Err(PeerError::Lacks(kind)) => Err(ToolError::client_lacks(kind)),
                Err(error) => Err(ToolError::new(error.to_string())),
            }
        })
    }
}
