//! What MCP's conformance suite talks to, with the real gate and ledger: its fixture tools, resources and prompts over HTTP
//! or on standard input and output, or a house that stands in front of them. The suite carries no key: over HTTP each
//! request is given one on its way in. `cargo run -p tollgate-server --example conformance_server` prints the address of
//! the endpoint and serves until its standard input ends; `… -- --stdio` serves the same there; `… -- CONFIG SET` serves a
//! set of a configuration instead.

use std::error::Error;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::map_request;
use tokio::io::AsyncReadExt as _;
use tollgate::config::Loaded;
use tollgate::mcp::{ServerInfo, Session, serve_stdio};
use tollgate::{CallKind, Caller, CancellationToken, Gate, Surface, Tollgate};
use tollgate_server::{ServeOptions, keys, router};
use tollgate_testkit::Trigger;

/// Tools by which the suite changes what there is, while it listens: a prompt comes or goes, or a tool.
fn changing(gate: &Gate) -> Result<(), Box<dyn Error>> {
    for (trigger, name, kind) in [
        ("test_trigger_tool_change", "test_changed_tool", CallKind::Tool),
        ("test_trigger_prompt_change", "prompts/test_changed_prompt", CallKind::Prompt),
    ] {
        let weak = gate.downgrade();
        gate.register(Arc::new(Trigger::new(trigger, move || {
            let Some(gate) = weak.upgrade() else { return };
            if !gate.unregister(name) {
                // One that came meanwhile changed it as well.
                let _ = gate.register(Arc::new(Trigger::of_kind(name, kind)));
            }
        })))?;
    }
    Ok(())
}

/// A call that asks its client first and then works for longer is a task after the answer.
const TASK_AFTER: &str = "1s";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => over_http(&fixture(folder.path()).await?, "/mcp").await,
        ["--stdio"] => {
            let house = fixture(folder.path()).await?;
            let caller = Caller::new("suite", keys::ROLE, Surface::McpStdio).with_session("suite");
            let session = Session::new(info()).with_tasks(house.tasks());
            Ok(serve_stdio(house.door(), caller, session, tokio::io::stdin(), tokio::io::stdout()).await?)
        }
        [config, set] => {
            let loaded = Loaded::read(config.as_ref(), folder.path())?;
            let house = Tollgate::builder().config(loaded).without_builtin_tools().build().await?;
            let served = over_http(&house, &format!("/mcp/{set}")).await;
            house.stop().await;
            served
        }
        _ => Err("conformance_server [--stdio | CONFIG SET]".into()),
    }
}

fn info() -> ServerInfo {
    ServerInfo { name: "tollgate".into(), version: env!("CARGO_PKG_VERSION").into(), instructions: None }
}

/// A house that has what the suite asks for.
async fn fixture(folder: &Path) -> Result<Tollgate, Box<dyn Error>> {
    let mut loaded = Loaded::defaults(folder);
    *loaded.config.server.task_after.get_mut() = TASK_AFTER.into();
    let mut builder = Tollgate::builder().config(loaded).data_dir(folder.join("data")).workspace(folder);
    builder = builder.without_builtin_tools();
    for fixture in tollgate_testkit::fixtures() {
        builder = builder.tool(fixture);
    }
    for fixture in tollgate_testkit::entry_fixtures() {
        builder = builder.tool(fixture);
    }
    let house = builder.build().await?;
    changing(house.gate())?;
    Ok(house)
}

/// Serves a house until the standard input ends.
async fn over_http(house: &Tollgate, path: &str) -> Result<(), Box<dyn Error>> {
    let Some(first) = keys::first(house.data_dir(), None, &*house.clock()).await? else {
        return Err("keys were made before".into());
    };
    let bearer = HeaderValue::try_from(format!("Bearer {}", first.client.secret.expose()))?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = router(house, address, ServeOptions::new(info(), CancellationToken::new()));
    let keyed = service.router.layer(map_request(move |mut request: Request| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        std::future::ready(request)
    }));
    writeln!(stdout(), "http://{address}{path}")?;
    let input_ends = async {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    };
    tokio::select! {
        served = axum::serve(listener, keyed) => served?,
        () = input_ends => {}
    }
    Ok(())
}
