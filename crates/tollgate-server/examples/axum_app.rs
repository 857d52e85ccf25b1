//! The gate inside a web application of one's own. A handler asks for a tool in the name of the user who is logged in; for
//! agents, Tollgate's own ways in (`/mcp`, `/api/v1/*`, `/healthz`, …) stand beside it. All pass the one gate, and
//! all are in the one ledger.
//!
//! `cargo run -p tollgate-server --example axum_app` prints what to ask it, and serves until Ctrl-C or the end of its input.

use std::io::{Write as _, stdout};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tollgate::mcp::ServerInfo;
use tollgate::{
    Call, Caller, CancellationToken, Cx, Permission, Risk, Role, Status, Surface, Tollgate, ToolError, tool_fn,
};
use tollgate_server::{ServeOptions, keys, router};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The city's name, such as 北京.
    city: String,
}

async fn weather(args: Weather, _cx: Cx) -> Result<String, ToolError> {
    match args.city.as_str() {
        "北京" | "Beijing" => Ok("北京: 12 °C, cloudy".to_owned()),
        city => Err(ToolError::new(format!("no station is in `{city}`")).with_hint("ask for 北京")),
    }
}

/// A page of the application. Who asks is the application's business; what they may is the gate's.
async fn page(
    State(house): State<Arc<Tollgate>>,
    Path(city): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    let user = headers.get("x-user").and_then(|user| user.to_str().ok()).ok_or(StatusCode::UNAUTHORIZED)?;
    let caller = Caller::new(user, "visitor", Surface::Library);
    let outcome = house.call(&caller, Call::tool("get_weather", json!({ "city": city }))).await;
    let weather = outcome.result().map(|_| outcome.model_text());
    Ok(Json(match outcome.status() {
        Status::Done => json!({ "weather": weather, "attempt": outcome.attempt }),
        Status::Refused | Status::Failed | Status::Waiting | Status::Unknown => json!({ "error": outcome.end.error() }),
    }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let house = Tollgate::builder()
        .workspace(folder.path())
        .data_dir(folder.path().join("data"))
        .without_builtin_tools()
        .tool(
            tool_fn("get_weather", "Says the weather of a city.", weather)
                .risk(Risk::Read)
                .permission(Permission::Read),
        )
        .role(Role::new("visitor").allow("get_*").permission(Permission::Read).risk(Risk::Read))
        .build()
        .await?;
    let house = Arc::new(house);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    if let Some(first) = keys::first(house.data_dir(), Some("visitor"), &*house.clock()).await? {
        writeln!(stdout(), "curl -H 'X-User: alice' http://{address}/weather/北京")?;
        writeln!(
            stdout(),
            "curl -H 'Authorization: Bearer {}' http://{address}/api/v1/tools",
            first.client.secret.expose()
        )?;
    }

    let stop = CancellationToken::new();
    let info = ServerInfo { name: "weather".into(), version: env!("CARGO_PKG_VERSION").into(), instructions: None };
    let tollgate = router(&house, address, ServeOptions::new(info, stop.clone()));
    let app = Router::new()
        .route("/weather/{city}", get(page))
        .with_state(Arc::clone(&house))
        .fallback_service(tollgate.router.clone());
    let ended = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = drained(tokio::io::stdin()) => {}
        }
    };
    axum::serve(listener, app).with_graceful_shutdown(ended).await?;
    // What is under way may end; then every call is in the ledger.
    tollgate.drain(std::time::Duration::from_secs(10)).await;
    house.stop().await;
    Ok(())
}

async fn drained(mut input: tokio::io::Stdin) {
    let _ = input.read_to_end(&mut Vec::new()).await;
}
