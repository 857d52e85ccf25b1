//! The client's side of one connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinSet;
use tollgate_mcp::{ServeError, ServerInfo, Session, serve_stdio};
use tollgate_types::{Caller, Door, Surface};

use crate::schema;

pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

pub(crate) struct Peer {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    server: JoinSet<Result<(), ServeError>>,
    asked: BTreeMap<String, (String, &'static str)>,
}

pub(crate) fn info() -> ServerInfo {
    ServerInfo { name: "tollgate".into(), version: "0.1.0".into(), instructions: Some("Ask for less.".into()) }
}

/// A request of the handshake era, or any before `initialize`.
pub(crate) fn bare(id: impl Into<Value>, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params }).to_string()
}

/// A request of the stateless era.
pub(crate) fn modern(id: impl Into<Value>, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"][VERSION] = json!("2026-07-28");
    params["_meta"][CAPABILITIES] = json!({});
    bare(id, method, &params)
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "peer", "version": "1" } })
}

impl Peer {
    pub(crate) fn start(door: Arc<dyn Door>) -> Self {
        Self::with_pipe(door, 64 * 1024)
    }

    /// A client whose pipes hold so many bytes.
    pub(crate) fn with_pipe(door: Arc<dyn Door>, bytes: usize) -> Self {
        let caller = Caller::new("peer", "reader", Surface::McpStdio).with_session("s1");
        Self::of(door, bytes, caller, Session::new(info()))
    }

    /// A client that this caller is, of a server that is like this.
    pub(crate) fn of(door: Arc<dyn Door>, bytes: usize, caller: Caller, session: Session) -> Self {
        let (to, input) = tokio::io::duplex(bytes);
        let (output, from) = tokio::io::duplex(bytes);
        let mut server = JoinSet::new();
        server.spawn(serve_stdio(door, caller, session, input, output));
        Self { to, from: BufReader::new(from).lines(), server, asked: BTreeMap::new() }
    }

    /// A client that has shaken hands.
    pub(crate) async fn handshaken(door: Arc<dyn Door>, version: &str) -> Self {
        let mut peer = Self::start(door);
        peer.ask(&bare("hello", "initialize", &initialize(version))).await;
        peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        peer
    }

    pub(crate) async fn send(&mut self, line: &str) {
        if let Ok(message) = serde_json::from_str::<Value>(line)
            && let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str())
        {
            let revision = if message["params"]["_meta"].get(VERSION).is_some() { "2026-07-28" } else { "2025-11-25" };
            self.asked.insert(id.to_string(), (method.to_owned(), revision));
        }
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.to.write_all(bytes).await.unwrap();
    }

    /// The next line, checked.
    pub(crate) async fn receive(&mut self) -> Value {
        self.try_receive().await.unwrap()
    }

    async fn try_receive(&mut self) -> Option<Value> {
        let line = self.from.next_line().await.unwrap()?;
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        if let Some(method) = message["method"].as_str() {
            for (revision, definition) in schema::sent_as(method) {
                schema::check(revision, definition, &message);
            }
        } else if let Some(error) = message.get("error") {
            schema::check("2026-07-28", "Error", error);
        } else {
            let (method, revision) = &self.asked[&message["id"].to_string()];
            let (revision, definition) = match message["result"]["resultType"].as_str() {
                Some("input_required") => (*revision, "InputRequiredResult"),
                Some("task") => (schema::TASKS, "CreateTaskResult"),
                _ if method.starts_with("tasks/") => (schema::TASKS, schema::result_of(method)),
                _ => (*revision, schema::result_of(method)),
            };
            schema::check(revision, definition, &message["result"]);
        }
        Some(message)
    }

    pub(crate) async fn ask(&mut self, line: &str) -> Value {
        self.send(line).await;
        self.receive().await
    }

    /// Closes the client's writing end and takes what still comes.
    pub(crate) async fn close(mut self) -> (Vec<Value>, Result<(), ServeError>) {
        self.to.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = self.try_receive().await {
            rest.push(message);
        }
        (rest, self.server.join_next().await.unwrap().unwrap())
    }

    /// Closes the client's reading end, and gives how the server ended.
    pub(crate) async fn stop_reading(self) -> Result<(), ServeError> {
        let Self { to, from, mut server, .. } = self;
        drop(from);
        let ended = server.join_next().await.unwrap().unwrap();
        drop(to);
        ended
    }

    /// Closes the writing end and reads nothing, but keeps the pipe open.
    pub(crate) async fn close_without_reading(mut self) -> Result<(), ServeError> {
        self.to.shutdown().await.unwrap();
        self.server.join_next().await.unwrap().unwrap()
    }
}
