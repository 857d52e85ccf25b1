//! Calls that ask their client over HTTP: on the stream of the request in the handshake era, by the result in the stateless
//! one. Whoever asks nothing is answered by one JSON text all the same.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tollgate::{CallResult, ClientCapability, Content, End, LogLevel, LogMessage, PeerQuestion, ToolDefinition};
use tollgate_testkit::RecordingDoor;

use crate::world::{World, events, read};

async fn world() -> World {
    let tool = |name: &str| ToolDefinition::new(name, "Does what its name says.");
    let done = |text: String| End::Done(CallResult { content: vec![Content::Text(text)], ..CallResult::default() });
    let door = RecordingDoor::new()
        .on(tool("ask"), move |call, _| {
            Box::pin(async move {
                let question = PeerQuestion::new(ClientCapability::Elicitation, &json!({ "message": "Who?" }));
                let asked = call.peer.unwrap().ask(question.named("who")).await;
                done(asked.map_or_else(|error| error.to_string(), |answer| answer.get().to_owned()))
            })
        })
        .on(tool("chat"), move |call, _| {
            Box::pin(async move {
                let message = LogMessage { level: LogLevel::Info, logger: None, data: json!("meanwhile") };
                call.peer.unwrap().log(message);
                done("chatted".to_owned())
            })
        });
    World::before(&Arc::new(door), Duration::from_secs(5)).await
}

fn legacy(world: &World, session: Option<&str>, message: &Value) -> RequestBuilder {
    let request = world.client(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    let request = match session {
        Some(session) => request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25"),
        None => request,
    };
    request.json(message)
}

async fn shake_hands(world: &World) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "t", "version": "1" },
    });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let response = legacy(world, None, &hello).send().await.unwrap();
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

fn call(id: u32, name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": {} } })
}

/// The first event of a stream that goes on.
async fn first(response: &mut Response) -> Value {
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    events(&text).remove(0)
}

fn accepted(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept", "content": { "name": "王" } } })
}

#[tokio::test]
async fn an_old_client_is_asked_on_the_stream_of_its_request() {
    let world = world().await;
    let session = shake_hands(&world).await;
    let mut response = legacy(&world, Some(&session), &call(1, "ask")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let asked = first(&mut response).await;
    assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("Who?")));
    // Another session cannot answer, be it the same client's.
    let other = shake_hands(&world).await;
    for session in [&other, &session] {
        let answered = legacy(&world, Some(session), &accepted(&asked["id"])).send().await.unwrap();
        assert_eq!(answered.status(), 202);
    }
    let answer = events(&response.text().await.unwrap()).remove(0);
    assert_eq!(answer["id"], 1);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("王"), "{answer}");
    world.end().await;
}

#[tokio::test]
async fn who_cannot_read_a_stream_is_asked_nothing() {
    let world = world().await;
    let session = shake_hands(&world).await;
    let mut only_json = legacy(&world, Some(&session), &call(1, "ask")).build().unwrap();
    only_json.headers_mut().insert("accept", "application/json".parse().unwrap());
    let (status, answer) = read(reqwest::Client::new().execute(only_json).await.unwrap()).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(status == 200 && text.contains("does not offer"), "{answer}");
    world.end().await;
}

#[tokio::test]
async fn what_is_told_meanwhile_makes_a_stream_of_the_answer() {
    let world = world().await;
    let session = shake_hands(&world).await;
    let response = legacy(&world, Some(&session), &call(1, "chat")).send().await.unwrap();
    let told = events(&response.text().await.unwrap());
    assert_eq!((&told[0]["params"]["data"], &told[1]["id"], told.len()), (&json!("meanwhile"), &json!(1), 2));
    let level = json!({ "jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": { "level": "error" } });
    assert_eq!(legacy(&world, Some(&session), &level).send().await.unwrap().status(), 200);
    let response = legacy(&world, Some(&session), &call(3, "chat")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(read(response).await.1["id"], 3);
    world.end().await;
}

#[tokio::test]
async fn a_new_client_is_asked_by_the_result() {
    let world = world().await;
    let send = async |params: Value| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        params["name"] = json!("ask");
        let request = world
            .client(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "ask")
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
        read(request.send().await.unwrap()).await
    };
    let (status, asked) = send(json!({})).await;
    let result = &asked["result"];
    assert_eq!((status, &result["resultType"]), (200, &json!("input_required")), "{asked}");
    assert_eq!(result["inputRequests"]["who"]["method"], "elicitation/create");
    let responses = json!({ "who": { "action": "accept", "content": { "name": "王" } } });
    let state = result["requestState"].as_str().unwrap();
    let tampered = send(json!({ "requestState": format!("{state}x"), "inputResponses": responses })).await;
    assert_eq!((tampered.0, &tampered.1["error"]["code"]), (400, &json!(-32602)), "{}", tampered.1);
    let (status, answer) = send(json!({ "requestState": state, "inputResponses": responses })).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(status == 200 && text.contains("王"), "{answer}");
    world.end().await;
}
