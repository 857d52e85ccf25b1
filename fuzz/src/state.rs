//! `requestState` as it comes back from a client: what was not sealed here for this request lets nothing go on.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tollgate_mcp::ServerInfo;
use tollgate_mcp::http::{Endpoint, Reply};
use tollgate_testkit::RecordingDoor;
use tollgate_types::{Caller, Surface, ToolDefinition, ToolOutput};

/// The state, as text.
pub fn state(data: &[u8]) {
    let state = String::from_utf8_lossy(data);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    let params = json!({ "name": "x", "arguments": {}, "requestState": state, "inputResponses": {}, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let said = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "x")];
    let headers: HeaderMap =
        said.into_iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect();
    let endpoint = Endpoint::new(ServerInfo { name: "t".into(), version: "1".into(), instructions: None });
    let door = Arc::new(RecordingDoor::new().tool(ToolDefinition::new("x", "…"), |_| Ok(ToolOutput::text("ran"))));
    let answer = match endpoint.post(&headers, body.as_bytes(), "ann", Duration::ZERO) {
        Reply::Run(run) => {
            let caller = Arc::new(Caller::new("ann", "reader", Surface::McpHttp));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let (out, _kept) = tokio::sync::mpsc::channel(1);
            runtime.block_on(run.answer(Arc::clone(&door) as _, caller, out)).unwrap().text
        }
        Reply::Json { body, .. } => body,
        Reply::Empty(status) => panic!("{status} to a request"),
        Reply::Hear(_) => panic!("a POST is answered, and opens nothing to listen to"),
    };
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(door.calls().is_empty());
}
