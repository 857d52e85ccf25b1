//! The server, its real gate and ledger behind it, with the fixture tools of MCP's conformance suite. The suite carries no
//! key: each request is given one on its way in. `cargo run -p tollgate-server --example conformance_server` prints the
//! address of the endpoint and serves until its standard input ends.

use std::io::{Write as _, stdout};

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::map_request;
use tokio::io::AsyncReadExt as _;
use tollgate::mcp::ServerInfo;
use tollgate::{CancellationToken, Tollgate};
use tollgate_server::{ServeOptions, keys, router};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut builder = Tollgate::builder().data_dir(&data_dir).workspace(folder.path()).without_builtin_tools();
    for fixture in tollgate_testkit::fixtures() {
        builder = builder.tool(fixture);
    }
    for fixture in tollgate_testkit::entry_fixtures() {
        builder = builder.tool(fixture);
    }
    let house = builder.build().await?;
    let Some(first) = keys::first(&data_dir, None, &*house.clock()).await? else {
        return Err("keys were made before".into());
    };
    let bearer = HeaderValue::try_from(format!("Bearer {}", first.client.secret.expose()))?;
    let info = ServerInfo { name: "tollgate".into(), version: env!("CARGO_PKG_VERSION").into(), instructions: None };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = router(&house, address, ServeOptions::new(info, CancellationToken::new()));
    let keyed = service.router.layer(map_request(move |mut request: Request| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        std::future::ready(request)
    }));
    writeln!(stdout(), "http://{address}/mcp")?;
    let input_ends = async {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    };
    tokio::select! {
        served = axum::serve(listener, keyed) => served?,
        () = input_ends => {}
    }
    Ok(())
}
