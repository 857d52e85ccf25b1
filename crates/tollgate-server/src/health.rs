//! Whether the server lives, whether it can do its work, and how much it did.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;

use crate::app::App;
use crate::entrance::Holder;
use crate::metrics::{House, Shown};
use crate::problem::Problem;

/// More than a file system gives away without a free block.
const PROBE: [u8; 4096] = [b'\n'; 4096];

pub(crate) async fn alive() -> Response {
    Json(json!({ "ok": true })).into_response()
}

/// Ready is who can write down what it is asked for: nothing may run without a record.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.stop.is_cancelled() {
        return Problem::unavailable("the server is going down").into_response();
    }
    if let Some(why) = app.ledger.checkpoint_failure() {
        return Problem::unavailable(format!("no checkpoint of the ledger: {why}")).into_response();
    }
    match ledger_state(&app).await {
        Ok(()) => Json(json!({ "ok": true })).into_response(),
        Err(why) => Problem::unavailable(format!("the ledger cannot be written: {why}")).into_response(),
    }
}

/// An operator sees every tool, a client those that it may list.
pub(crate) async fn metrics(State(app): State<Arc<App>>, Extension(holder): Extension<Holder>) -> Response {
    let house = House {
        is_ledger_writable: ledger_state(&app).await.is_ok(),
        is_ledger_signed: app.ledger.checkpoint_failure().is_none(),
        anchors: app.anchors.statuses(),
        sessions: app.sessions(),
        reloads: &app.reloads,
        forbidden: holder.is_operator().then(|| app.gate.forbidden_calls()),
        sent: app.webhook.as_ref().map(|webhook| webhook.counts()),
        sources: if holder.is_operator() { app.gate.sources() } else { Vec::new() },
        servers: if holder.is_operator() { app.servers.statuses() } else { Vec::new() },
        spans: app.spans.as_ref().map(|spans| spans.counts()),
    };
    let shown = if holder.is_operator() { Shown::All } else { Shown::Only(app.names_for(&holder).await) };
    let text = app.metrics.render(&house, &shown);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn ledger_state(app: &App) -> Result<(), String> {
    let folder = app.data_dir.join("audit");
    let probed = tokio::task::spawn_blocking(move || probe(&folder)).await;
    probed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    // On a full disk a probe may fit where no call may begin: into what is kept back for the ends of calls.
    app.ledger.ready().await.map_err(|error| error.to_string())
}

/// Writes beside the ledger what the ledger would, and takes it away.
fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.with_file_name(format!(".ready-{}", std::process::id()));
    if !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its folder is gone"));
    }
    let written = fs::File::create(&path).and_then(|mut file| file.write_all(&PROBE));
    let removed = fs::remove_file(&path);
    written.and(removed)
}
