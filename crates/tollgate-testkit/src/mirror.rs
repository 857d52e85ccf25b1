//! An MCP server over HTTP that answers with the text that it is told to, as it stands there, and has one of each kind. Every
//! second answer comes as an event stream.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The server. It ends with this.
pub struct Mirror {
    address: SocketAddr,
    told: Arc<Told>,
    _serving: JoinSet<()>,
}

struct Told {
    is_stateless: bool,
    answer: Mutex<String>,
    answered: AtomicUsize,
}

impl Mirror {
    /// A server of this revision.
    ///
    /// # Panics
    /// When there is no port for it.
    #[expect(clippy::unwrap_used, reason = "a test without its server cannot go on")]
    pub async fn start(revision: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_stateless = revision == "2026-07-28";
        let told = Arc::new(Told { is_stateless, answer: Mutex::default(), answered: AtomicUsize::default() });
        let router = Router::new().route("/mcp", post(take)).with_state(Arc::clone(&told));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, told, _serving: serving }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What the next answers are.
    pub fn answers(&self, text: &str) {
        text.clone_into(&mut self.told.answer.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the double checks what it is told: no JSON fails the test"
)]
async fn take(State(told): State<Arc<Told>>, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
        return StatusCode::ACCEPTED.into_response();
    };
    let text = match told.result(method, &message["params"]) {
        Some(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result.replace('\n', " ")),
        None => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } }).to_string(),
    };
    if told.answered.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
        return ([(CONTENT_TYPE, "application/json")], text).into_response();
    }
    ([(CONTENT_TYPE, "text/event-stream")], format!("event: message\ndata: {text}\n\n")).into_response()
}

impl Told {
    fn result(&self, method: &str, params: &Value) -> Option<String> {
        let capabilities = json!({ "tools": {}, "resources": {}, "prompts": {}, "completions": {} });
        let listed = |list: &str, entry: Value| json!({ (list): [entry], "resultType": "complete" }).to_string();
        let schema = json!({ "type": "object", "properties": {} });
        Some(match method {
            "server/discover" if self.is_stateless => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }).to_string()
            }
            "initialize" if !self.is_stateless => {
                let (version, info) = (params.get("protocolVersion"), json!({ "name": "mirror", "version": "1" }));
                json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": info }).to_string()
            }
            "tools/list" => listed("tools", json!({ "name": "tell", "inputSchema": schema })),
            "resources/list" => listed("resources", json!({ "uri": "demo://1", "name": "one" })),
            "resources/templates/list" => {
                listed("resourceTemplates", json!({ "uriTemplate": "demo://{id}", "name": "any" }))
            }
            "prompts/list" => listed("prompts", json!({ "name": "tell" })),
            "tools/call" | "resources/read" | "prompts/get" | "completion/complete" => {
                self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
            _ => return None,
        })
    }
}
