//! The MCP servers behind the gate, as operators see them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;

/// `GET /api/v1/servers`: how each does. Nothing is started by asking.
pub(crate) async fn servers(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "servers": app.servers.statuses() }))
}
