//! `/mcp/{set}`: a part of the house, with conversations of its own.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::world::{World, read};

const CONFIG: &str = "[sets.sums]\ntools = [\"calc*\"]\nbind = { calculate = { expression = \"6*7\" } }\n\
                      [sets.long]\ntools = [\"*\"]\nmax_tools = 2\n";

fn post(world: &World, path: &str, session: Option<&str>, body: &Value) -> RequestBuilder {
    let request = world.client(Method::POST, path).header("accept", "application/json, text/event-stream").json(body);
    match session {
        Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25"),
        None => request,
    }
}

async fn shake_hands(world: &World, path: &str) -> String {
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    let response = post(world, path, None, &body).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

async fn ask(world: &World, path: &str, session: &str, method: &str, params: &Value) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    read(post(world, path, Some(session), &body).send().await.unwrap()).await
}

fn names(listed: &Value) -> Vec<&str> {
    listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_set_has_its_path_and_its_conversations() {
    let world = World::configured(CONFIG).await;
    let session = shake_hands(&world, "/mcp/sums").await;
    let (_, listed) = ask(&world, "/mcp/sums", &session, "tools/list", &json!({})).await;
    assert_eq!(names(&listed), ["calculate", "read_result"]);
    let call = json!({ "name": "calculate", "arguments": {} });
    let (_, told) = ask(&world, "/mcp/sums", &session, "tools/call", &call).await;
    assert_eq!(told["result"]["content"][0]["text"], "42");
    let bound = json!({ "name": "calculate", "arguments": { "expression": "1" } });
    let (_, refused) = ask(&world, "/mcp/sums", &session, "tools/call", &bound).await;
    assert_eq!(refused["result"]["structuredContent"]["error"], "invalid_arguments");
    for other in ["/mcp", "/mcp/long"] {
        let (status, _) = ask(&world, other, &session, "tools/list", &json!({})).await;
        assert_eq!(status, 404, "the session is not of {other}");
    }
    let metrics = world.client(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let sessions = metrics.lines().find(|line| line.contains("sessions") && !line.starts_with('#')).unwrap();
    assert!(sessions.ends_with(" 1"), "{sessions}");

    let long = shake_hands(&world, "/mcp/long").await;
    let (_, listed) = ask(&world, "/mcp/long", &long, "tools/list", &json!({})).await;
    assert_eq!(names(&listed), ["call_tool", "read_result", "search_tools"]);
    let inner =
        json!({ "name": "call_tool", "arguments": { "name": "calculate", "arguments": { "expression": "2+3" } } });
    let (_, told) = ask(&world, "/mcp/long", &long, "tools/call", &inner).await;
    assert_eq!(told["result"]["content"][0]["text"], "5");

    let close = world.client(Method::DELETE, "/mcp/sums").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(close.status(), 204);
    world.end().await;
}

#[tokio::test]
async fn a_set_that_is_not_there_and_a_client_without_a_key_get_nothing() {
    let world = World::configured(CONFIG).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let (status, problem) = read(post(&world, "/mcp/none", None, &ping).send().await.unwrap()).await;
    assert_eq!(status, 404, "{problem}");
    for path in ["/mcp/sums", "/mcp/none"] {
        let (status, _) = read(world.bare(Method::POST, path).json(&ping).send().await.unwrap()).await;
        assert_eq!(status, 401, "{path}");
    }
    world.end().await;
}
