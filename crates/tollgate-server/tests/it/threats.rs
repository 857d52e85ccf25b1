//! The entries of the catalogue of threats (`tollgate/tests/cases/threats.jsonl`) that are about requests, as data.

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, ORIGIN};
use serde_json::{Value, json};

use crate::world::World;

fn entry(id: &str) -> Value {
    let entries = include_str!("../../../tollgate/tests/cases/threats.jsonl").lines();
    entries.map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|entry| entry["id"] == id).unwrap()
}

/// T026: no request makes a command, whoever sends it.
#[tokio::test]
async fn a_browser_reaches_no_command() {
    let world = World::new().await;
    let entry = entry("T026");
    // `GET http://0.0.0.0:PORT/sse?… from a browser origin`
    let url = entry["input"].as_str().unwrap().split(' ').nth(1).unwrap();
    let path = url.split_once("PORT").unwrap().1;
    let trace = path.split("args=").nth(1).unwrap();
    for method in [Method::GET, Method::POST] {
        for path in [path.to_owned(), path.replace("/sse", "/mcp"), path.replace("/sse", "/api/v1/calls")] {
            let bare = world.bare(method.clone(), &path);
            let status = bare.header(ORIGIN, "http://evil.example.com").send().await.unwrap().status();
            assert_eq!(status, 403, "{method} {path}: from another site");
            let response = world.client(method.clone(), &path).send().await.unwrap();
            assert!(response.status().is_client_error(), "{method} {path}: {}", response.status());
        }
    }
    assert!(!std::path::Path::new(trace).exists());
    world.end().await;
}

/// T028: what a page can send without asking first is no call, and no answer may be read by a page.
#[tokio::test]
async fn a_simple_request_is_no_call() {
    let world = World::new().await;
    let entry = entry("T028");
    let input = entry["input"].as_str().unwrap();
    assert!(input.contains("text/plain") && input.contains("/mcp"), "{input}");
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "calculate", "arguments": {"expression": "1+1"}}});
    let rest = json!({"tool": "calculate", "arguments": {"expression": "1+1"}});
    // Those that need no preflight (Fetch, CORS-safelisted request-header), and none at all.
    let types = ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data"];
    for (path, body) in [("/mcp", rpc), ("/api/v1/calls", rest)] {
        for kind in types.into_iter().map(Some).chain([None]) {
            let mut request = world.client(Method::POST, path).body(body.to_string());
            if let Some(kind) = kind {
                request = request.header(CONTENT_TYPE, kind);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 415, "{path} {kind:?}");
            assert!(response.headers().get("access-control-allow-origin").is_none());
        }
    }
    let audit = world.operator(Method::GET, "/api/v1/audit").send().await.unwrap().text().await.unwrap();
    assert!(!audit.contains("calculate"), "{audit}");
    world.end().await;
}
