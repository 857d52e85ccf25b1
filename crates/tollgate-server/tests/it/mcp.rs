//! `/mcp`, both eras.

use std::sync::Arc;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use tollgate::Surface;
use tollgate_testkit::RecordingDoor;

use crate::world::{World, door, events, read};

/// Headers, body, and the status and code that are answered.
type Case = (&'static [(&'static str, &'static str)], Value, u16, i64);

const MODERN: &str = "2026-07-28";
const VERSION: (&str, &str) = ("mcp-protocol-version", MODERN);

async fn world() -> (Arc<RecordingDoor>, World) {
    let door = door();
    let world = World::before(&door, Duration::from_secs(5)).await;
    (door, world)
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request of the stateless era, headers and all.
fn modern(world: &World, method: &str, params: &Value) -> RequestBuilder {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut request = world
        .client(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN)
        .header("mcp-method", method);
    if let Some(name) = params["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    request.json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

fn legacy(world: &World, session: &str, message: &Value) -> RequestBuilder {
    world
        .client(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .header("mcp-session-id", session)
        .json(message)
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

async fn send(request: RequestBuilder) -> (u16, Value) {
    read(request.send().await.unwrap()).await
}

async fn shake_hands(world: &World) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let response = world
        .client(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .json(&request(0, "initialize", &params))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let (_, answer) = read(response).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(legacy(world, &session, &initialized)).await.0, 202);
    session
}

#[tokio::test]
async fn the_stateless_era_needs_nothing_but_its_request() {
    let (door, world) = world().await;
    let (status, found) = send(modern(&world, "server/discover", &json!({}))).await;
    assert_eq!((status, &found["result"]["supportedVersions"]), (200, &json!([MODERN])));
    let (_, listed) = send(modern(&world, "tools/list", &json!({}))).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4);
    let call = json!({ "name": "echo", "arguments": { "x": 18446744073709551616_f64, "y": "无线" } });
    let (status, answer) = send(modern(&world, "tools/call", &call)).await;
    assert_eq!((status, &answer["result"]["structuredContent"]["y"]), (200, &json!("无线")));
    assert_eq!(answer["result"]["resultType"], "complete");
    let (status, answer) = send(modern(&world, "tools/call", &json!({ "name": "fail" }))).await;
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(true)));
    let (caller, _) = door.calls()[0].clone();
    assert_eq!((caller.subject.as_str(), caller.role.as_str(), caller.surface), ("client", "reader", Surface::McpHttp));
    assert_eq!(caller.session, None);
    world.end().await;
}

/// MCP 2026-07-28, Streamable HTTP: protocol version header, server validation, standard request headers.
#[tokio::test]
async fn headers_and_body_must_say_the_same() {
    let (door, world) = world().await;
    let list = |version: &str| json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": { "_meta": meta(version) } });
    let echo = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": "echo", "_meta": meta(MODERN) } });
    let bare = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {} });
    let unknown = json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": { "_meta": meta(MODERN) } });
    let cases: Vec<Case> = vec![
        (&[VERSION, ("mcp-method", "prompts/list")], list(MODERN), 400, -32020),
        (&[VERSION, ("mcp-method", "TOOLS/LIST")], list(MODERN), 400, -32020),
        (&[VERSION, ("mcp-method", "tools/list"), ("mcp-method", "tools/list")], list(MODERN), 400, -32020),
        (&[VERSION], list(MODERN), 400, -32020),
        (&[("mcp-method", "tools/list")], list(MODERN), 400, -32020),
        (&[("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list")], list(MODERN), 400, -32020),
        (&[VERSION, ("mcp-method", "tools/list")], list("v999"), 400, -32020),
        (&[("mcp-protocol-version", "v999"), ("mcp-method", "tools/list")], list("v999"), 400, -32022),
        (&[("mcp-protocol-version", "v999")], bare.clone(), 400, -32022),
        (&[VERSION, ("mcp-method", "tools/list")], bare.clone(), 400, -32602),
        (&[VERSION, ("mcp-method", "tools/call")], echo.clone(), 400, -32020),
        (&[VERSION, ("mcp-method", "tools/call"), ("mcp-name", "fail")], echo.clone(), 400, -32020),
        (&[VERSION, ("mcp-method", "tools/call"), ("mcp-name", "=?base64?!?=")], echo.clone(), 400, -32020),
        (&[VERSION, ("mcp-method", "initialize")], unknown, 404, -32601),
        (&[], bare, 400, -32600),
        (&[], json!([]), 400, -32600),
    ];
    for (headers, body, status, code) in cases {
        let mut request = world.client(Method::POST, "/mcp").json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (found, answer) = send(request).await;
        assert_eq!((found, answer["error"]["code"].as_i64()), (status, Some(code)), "{headers:?} {body}: {answer}");
        assert!(answer["id"] == json!(7) || body == json!([]), "{answer}");
    }
    assert!(door.calls().is_empty());
    for name in ["echo", "  echo ", "=?base64?ZWNobw==?="] {
        let request = world.client(Method::POST, "/mcp").json(&echo).header("mcp-protocol-version", MODERN);
        let (status, answer) = send(request.header("MCP-METHOD", "tools/call").header("mcp-name", name)).await;
        assert_eq!((status, &answer["result"]["isError"]), (200, &json!(false)), "{name}: {answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn the_stateless_era_knows_one_method_of_http() {
    let (_, world) = world().await;
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let request = world.client(method.clone(), "/mcp").header("mcp-protocol-version", MODERN);
        assert_eq!(request.send().await.unwrap().status(), 405, "{method}");
    }
    let text = world.client(Method::POST, "/mcp").header("content-type", "text/plain").body("{}");
    assert_eq!(text.send().await.unwrap().status(), 415);
    let torn = world.client(Method::POST, "/mcp").header("content-type", "application/json").body("{\"jsonrpc\":");
    let (status, answer) = send(torn).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32700)));
    world.end().await;
}

#[tokio::test]
async fn progress_that_is_asked_for_comes_before_the_answer() {
    let (_, world) = world().await;
    let session = shake_hands(&world).await;
    let params = json!({ "name": "step", "_meta": { "progressToken": "t" } });
    let streamed =
        [modern(&world, "tools/call", &params), legacy(&world, &session, &request(1, "tools/call", &params))];
    for request in streamed {
        let response: Response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let events = events(&response.text().await.unwrap());
        let steps: Vec<_> = events.iter().filter_map(|event| event["params"]["progress"].as_f64()).collect();
        assert_eq!(steps, [1.0, 2.0]);
        assert_eq!(events[2]["id"], 1);
    }
    let only_json = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
    let (status, answer) = send(modern(&world, "tools/call", &params).headers(only_json)).await;
    assert_eq!((status, &answer["id"]), (200, &json!(1)), "who can not read a stream gets none");
    world.end().await;
}

#[tokio::test]
async fn closing_the_response_cancels_in_the_stateless_era_only() {
    let (door, world) = world().await;
    let session = shake_hands(&world).await;
    let wait = json!({ "name": "wait" });
    tokio::select! {
        _ = legacy(&world, &session, &request(5, "tools/call", &wait)).send() => unreachable!(),
        () = door.wait_for_calls(1) => {}
    }
    tokio::select! {
        _ = modern(&world, "tools/call", &wait).send() => unreachable!(),
        () = door.wait_for_calls(2) => {}
    }
    let until = async |count: usize| {
        let cancelled = async {
            while door.cancelled().len() < count {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), cancelled).await.unwrap();
    };
    until(1).await;
    assert_eq!(door.cancelled()[0].as_str(), "1", "the other may be asked for by nobody and still goes on");
    let (status, answer) = send(legacy(&world, &session, &request(5, "tools/call", &wait))).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32600)), "its id is taken as long as it goes on");
    // A stream that is closed before its end does the same.
    let progress = json!({ "name": "wait", "_meta": { "progressToken": 1 } });
    let stream = modern(&world, "tools/call", &progress).send().await.unwrap();
    door.wait_for_calls(3).await;
    drop(stream);
    until(2).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } });
    assert_eq!(send(legacy(&world, &session, &cancel)).await.0, 202);
    until(3).await;
    assert_eq!(door.cancelled()[2].as_str(), "5");
    world.end().await;
}

#[tokio::test]
async fn a_session_is_its_openers_until_it_is_closed() {
    let (door, world) = world().await;
    let session = shake_hands(&world).await;
    let ping = request(1, "ping", &json!({}));
    assert_eq!(send(legacy(&world, &session, &ping)).await, (200, json!({ "jsonrpc": "2.0", "id": 1, "result": {} })));
    let (status, answer) = send(legacy(&world, &session, &request(2, "tools/call", &json!({ "name": "echo" })))).await;
    assert_eq!((status, &answer["result"]["isError"]), (200, &json!(false)));
    assert_eq!(door.calls()[0].0.session.as_ref(), Some(&session));
    let (status, answer) = send(legacy(&world, &session, &request(3, "no/such", &json!({})))).await;
    assert_eq!((status, &answer["error"]["code"]), (200, &json!(-32601)), "an error is an answer in this era");

    let (status, _) = send(legacy(&world, "00112233445566778899aabbccddeeff", &ping)).await;
    assert_eq!(status, 404);
    let (status, _) = send(world.client(Method::POST, "/mcp").json(&ping)).await;
    assert_eq!(status, 400);
    let clock = world.house.clock();
    let kind = tollgate_server::keys::KeyKind::Client;
    let other = tollgate_server::keys::create(world.house.data_dir(), "other", kind, None, &*clock).await.unwrap();
    let stolen = world.bare(Method::POST, "/mcp").bearer_auth(other.secret.expose()).header("mcp-session-id", &session);
    assert_eq!(send(stolen.json(&ping)).await.0, 404, "the name of a session is no key");

    let close = || world.client(Method::DELETE, "/mcp").header("mcp-session-id", &session).send();
    assert_eq!(close().await.unwrap().status(), 204);
    assert_eq!(close().await.unwrap().status(), 404);
    assert_eq!(send(legacy(&world, &session, &ping)).await.0, 404);
    world.end().await;
}
