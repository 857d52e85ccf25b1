//! The MCP servers behind the gate, as operators see them, and as nobody else does.

use reqwest::Method;
use serde_json::json;

use crate::world::{World, read};

const CONFIG: &str =
    "[mcp.gone]\ncommand = \"no-such-program-4711\"\n[mcp.\"a-b\"]\ncommand = \"sleep\"\nargs = [\"1000\"]\n";

#[tokio::test]
async fn servers_are_seen_by_operators_and_looking_starts_none() {
    let world = World::configured(CONFIG).await;
    let (status, seen) = read(world.operator(Method::GET, "/api/v1/servers").send().await.unwrap()).await;
    assert_eq!(status, 200);
    let states: Vec<_> =
        seen["servers"].as_array().unwrap().iter().map(|it| (it["name"].clone(), it["state"].clone())).collect();
    assert_eq!(states, [(json!("a-b"), json!("idle")), (json!("gone"), json!("idle"))]);
    // Who calls one has it started.
    world.call("mcp__gone__anything", &json!({})).await;
    let (_, seen) = read(world.operator(Method::GET, "/api/v1/servers").send().await.unwrap()).await;
    let gone = &seen["servers"][1];
    assert_eq!((&gone["state"], &gone["trouble"]), (&json!("down"), &json!("not_found")), "{gone}");
    assert!(gone["last_error"].as_str().unwrap().contains("no-such-program-4711"), "{gone}");
    let (status, _) = read(world.client(Method::GET, "/api/v1/servers").send().await.unwrap()).await;
    assert_eq!(status, 403);

    let metrics = |request: reqwest::RequestBuilder| async { request.send().await.unwrap().text().await.unwrap() };
    let all = metrics(world.operator(Method::GET, "/metrics")).await;
    for line in [
        r#"tollgate_mcp_server_state{server="a-b",state="idle"} 1"#,
        r#"tollgate_mcp_server_state{server="gone",state="down"} 1"#,
        r#"tollgate_mcp_server_restarts_total{server="gone"} "#,
        r#"tollgate_mcp_server_tools{server="gone"} 0"#,
    ] {
        assert!(all.contains(line), "{line}\n{all}");
    }
    assert!(!metrics(world.client(Method::GET, "/metrics")).await.contains("mcp_server"));
    world.end().await;
}
