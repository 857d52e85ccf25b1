//! A real server of both eras: FastMCP, which `scripts/test` installs.

use tollgate_guard::client::Credentials;
use tollgate_mcp::upstream::UpstreamState;
use tollgate_sandbox::{Spawn, base_env, spawn};

use super::*;

const SERVER: &str = r#"
import sys
from fastmcp import FastMCP
server = FastMCP("real")

@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@server.tool
def fail() -> str:
    """Fails."""
    raise ValueError("it failed")

if len(sys.argv) > 1:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run(show_banner=False)
"#;

/// The interpreter of the installed clients and servers.
fn python() -> String {
    let home = std::env::var("HOME").unwrap();
    let cache = std::env::var("TOLLGATE_CACHE").unwrap_or(format!("{home}/.cache/tollgate"));
    let python = format!("{cache}/clients/bin/python");
    assert!(Path::new(&python).exists(), "FastMCP is not in {cache}/clients: `scripts/test tests` installs it");
    python
}

async fn check(house: &House, era: &str) {
    let status = house.status();
    assert_eq!((status.state, status.era), (UpstreamState::Ready, Some(era)), "{status:?}");
    let output = house.call("mcp__real__add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!((text(&output), output.structured.clone()), ("5", Some(json!({"result": 5}))));
    let error = house.call("mcp__real__fail", json!({})).await.unwrap_err();
    assert!(error.message.contains("it failed"), "{error:?}");
}

fn stdio(folder: &Path, python: String) -> Vec<UpstreamConfig> {
    let args = vec!["-c".into(), SERVER.into()];
    vec![UpstreamConfig::new(
        "real",
        UpstreamKind::Stdio { command: python, args, env: BTreeMap::new(), cwd: folder.to_owned() },
    )]
}

#[tokio::test]
async fn fastmcp_over_stdio_with_a_patient_and_a_hasty_probe() {
    let python = python();
    for probe in [Duration::from_secs(20), Duration::from_millis(1)] {
        let limits = Limits { probe, handshake: NEVER, list: NEVER, ..limits() };
        let house = House::of(|folder| stdio(folder, python.clone()), limits);
        house.upstreams.settle(NEVER).await;
        let era = house.status().era.unwrap_or("none");
        assert!(probe < Duration::from_secs(1) || era == "2026-07-28", "{:?}", house.status());
        check(&house, era).await;
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn fastmcp_over_http() {
    let python = python();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let args = vec!["-c".to_owned(), SERVER.to_owned(), port.to_string()];
    let (server, pipes) = spawn(Spawn { program: python, args, cwd: "/".into(), env: base_env() }).await.unwrap();
    // Whatever it says goes into files of its own pipe buffers; it is little.
    until("it listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let kind = UpstreamKind::Http { url: format!("http://127.0.0.1:{port}/mcp"), headers: Credentials::default() };
    let house = House::of(|_| vec![UpstreamConfig::new("real", kind)], limits());
    house.upstreams.settle(NEVER).await;
    check(&house, "2026-07-28").await;
    house.upstreams.stop().await;
    server.stop(Duration::from_secs(1)).await;
    drop(pipes);
}
