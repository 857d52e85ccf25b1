//! The Rust SDK of MCP, as a client in front of Tollgate and as a server behind it. `scripts/compatibility.py` builds and runs it.
//!
//! ```text
//! rmcp-peer client legacy|auto stdio|HTTP KEY TARGET…   lists, calls `calculate`, prints the answer
//! rmcp-peer server [PORT]                               on standard input and output, or on a port of 127.0.0.1
//! ```

use std::error::Error;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::transport::{ConfigureCommandExt, StreamableHttpClientTransport, TokioChildProcess, stdio};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceExt, schemars, tool, tool_router};
use serde_json::json;
use tokio::process::Command;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Adder;

#[tool_router(server_handler)]
impl Adder {
    #[tool(description = "Adds two numbers.")]
    fn add(&self, Parameters(Pair { a, b }): Parameters<Pair>) -> String {
        (a + b).to_string()
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", mode, transport, key, ref target @ ..] => client(mode, transport, key, target).await,
        ["server"] => {
            Adder.serve(stdio()).await?.waiting().await?;
            Ok(())
        }
        ["server", port] => served(port.parse()?).await,
        _ => Err("rmcp-peer client MODE TRANSPORT KEY TARGET… | rmcp-peer server [PORT]".into()),
    }
}

async fn client(mode: &str, transport: &str, key: &str, target: &[&str]) -> Outcome<()> {
    let lifecycle = match mode {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::LATEST], legacy_version: None },
    };
    // A handshake can select no revision without one, and yet is offered the newest unless somebody says otherwise.
    let mut info = ClientConfig::default();
    info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let [first, rest @ ..] = target else { return Err("a client wants a target".into()) };
    match transport {
        "stdio" => {
            let command = Command::new(first).configure(|command| {
                command.args(rest);
            });
            asked(info.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?).await
        }
        _ => {
            let config = StreamableHttpClientTransportConfig::with_uri(*first).auth_header(key);
            let transport = StreamableHttpClientTransport::from_config(config);
            asked(info.serve_with_lifecycle(transport, lifecycle).await?).await
        }
    }
}

async fn asked(client: RunningService<RoleClient, ClientConfig>) -> Outcome<()> {
    let tools = client.list_all_tools().await?;
    if !tools.iter().any(|tool| tool.name == "calculate") {
        return Err("`calculate` is not listed".into());
    }
    let arguments = json!({ "expression": "34817 * 293" }).as_object().cloned().unwrap_or_default();
    let told = client.call_tool(CallToolRequestParams::new("calculate").with_arguments(arguments)).await?;
    let text = told.content.first().and_then(|block| block.as_text()).ok_or("no text came")?;
    println!("{}", text.text);
    client.cancel().await?;
    Ok(())
}

async fn served(port: u16) -> Outcome<()> {
    let sessions = LocalSessionManager::default().into();
    let service = StreamableHttpService::new(|| Ok(Adder), sessions, StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?)
}
