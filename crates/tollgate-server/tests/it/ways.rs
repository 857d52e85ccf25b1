//! The ways by which MCP comes in: streamable HTTP, stdio, a WebSocket, and the event stream of 2024-11-05.

mod client;

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use tollgate::Surface;
use tollgate_server::keys::{self, KeyKind};
use tollgate_testkit::RecordingDoor;

use crate::world::{World, door, read};
use client::{Socket, Stream, Told, Way, Ways};

/// Longer than any test may take: it turns a hang into a failure.
const NEVER: Duration = Duration::from_secs(60);

async fn world() -> (Arc<RecordingDoor>, World) {
    let door = door();
    let world = World::before(&door, Duration::from_secs(20)).await;
    (door, world)
}

fn request(id: &str, method: &str, params: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

fn initialize(id: &str) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    request(id, "initialize", &params)
}

/// What other servers stumble over: each message is answered under its id, and the next one is served.
#[tokio::test]
async fn every_way_stands_the_same_rubbish() {
    let (door, world) = world().await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{{"name":"echo","arguments":{deep}}}}}"#
    );
    for way in Ways::ALL {
        let mut client = Way::open(way, &world, &door).await;
        // Before anything else: some clients do.
        for early in ["notifications/initialized", "notifications/cancelled", "notifications/made_up"] {
            client.tell(&format!(r#"{{"jsonrpc":"2.0","method":"{early}"}}"#)).await;
        }
        let Told { id, .. } = client.ask(&initialize("18446744073709551616")).await;
        assert_eq!(id, "18446744073709551616", "{way:?}");
        for (message, code, id) in [
            (deep.as_str(), -32600, r#""deep""#),
            ("{\"jsonrpc\":", -32700, "null"),
            ("rubbish", -32700, "null"),
            ("[]", -32600, "null"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, "null"),
            (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, -32600, "null"),
            (r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[1]}"#, -32602, "3"),
            (r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":7}}"#, -32602, "4"),
            (r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#, -32601, "5"),
            (r#"{"id":6,"method":"ping"}"#, -32600, "6"),
        ] {
            let told = client.ask(message).await;
            assert_eq!((told.code, told.id.as_str()), (Some(code), id), "{way:?} {message}");
        }
        for id in ["1.5", "-0", "1e400", "18446744073709551615", r#""\u5f20""#, r#""""#] {
            let told = client.ask(&request(id, "ping", &json!({}))).await;
            let same = told.id == id || told.id == "\"张\"";
            assert!(same && told.code.is_none(), "{way:?} {id}: {told:?}");
        }
        let told =
            client.ask(&request("7", "tools/call", &json!({ "name": "echo", "arguments": { "x": "好" } }))).await;
        assert_eq!(told.result["structuredContent"]["x"], "好", "{way:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_conversation_has_a_session_and_its_end_cancels() {
    for way in [Ways::Socket, Ways::Stream] {
        let (door, world) = world().await;
        let mut client = Way::open(way, &world, &door).await;
        client.ask(&initialize("1")).await;
        let told = client.ask(&request("2", "tools/call", &json!({ "name": "fail" }))).await;
        assert_eq!(told.result["isError"], true);
        // Both eras share a connection, and progress comes before its answer.
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}, "progressToken": "t" });
        client.tell(&request("3", "tools/call", &json!({ "name": "step", "_meta": meta }))).await;
        for step in [1.0, 2.0] {
            assert_eq!(client.next().await.message["params"]["progress"], step, "{way:?}");
        }
        assert_eq!(client.next().await.result["resultType"], "complete");
        let calls = door.calls();
        let (caller, _) = &calls[0];
        assert_eq!((caller.subject.as_str(), caller.surface), ("client", Surface::McpHttp));
        assert!(caller.session.as_ref().is_some_and(|session| session.len() == 32), "{caller:?}");
        // A call is cancelled by a notice, and by the end of the connection.
        client.tell(&request("4", "tools/call", &json!({ "name": "wait" }))).await;
        client.tell(&request("5", "tools/call", &json!({ "name": "wait" }))).await;
        door.wait_for_calls(4).await;
        client.tell(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#).await;
        until(|| door.cancelled().len() == 1).await;
        drop(client);
        until(|| door.cancelled().len() == 2).await;
        world.end().await;
    }
}

#[tokio::test]
async fn a_conversation_is_told_what_changed_in_either_era() {
    for way in [Ways::Socket, Ways::Stream] {
        let world = World::new().await;
        for fixture in tollgate_testkit::entry_fixtures() {
            world.house.gate().register(Arc::new(fixture)).unwrap();
        }
        let mut client = Way::open(way, &world, &door()).await;
        client.ask(&initialize("1")).await;
        client.tell(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let watched = json!({ "uri": "test://watched-resource" });
        assert_eq!(client.ask(&request("2", "resources/subscribe", &watched)).await.result, json!({}), "{way:?}");
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} });
        let wanted = json!({ "notifications": { "promptsListChanged": true }, "_meta": meta });
        let told = client.ask(&request("3", "subscriptions/listen", &wanted)).await;
        assert_eq!(told.message["method"], "notifications/subscriptions/acknowledged", "{way:?}");
        world.house.gate().changes().updated("resources/test://watched-resource", None);
        assert_eq!(client.next().await.message["params"], watched, "{way:?}");
        assert!(world.house.gate().unregister("prompts/test_simple_prompt"));
        // Each era is told in its own way.
        let mut told = [client.next().await.message, client.next().await.message];
        told.sort_by_key(|told| told["params"]["_meta"].is_object());
        for told in &told {
            assert_eq!(told["method"], "notifications/prompts/list_changed", "{way:?}");
        }
        assert_eq!(told[1]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 3, "{way:?}");
        drop(client);
        until(|| world.house.gate().changes().count() == (0, 0)).await;
        world.end().await;
    }
}

async fn until(mut look: impl FnMut() -> bool) {
    let looked = async {
        while !look() {
            tokio::task::yield_now().await;
        }
    };
    timeout(NEVER, looked).await.unwrap();
}

#[tokio::test]
async fn a_flood_comes_through_as_fast_as_it_is_read() {
    const MESSAGES: usize = 3_000;
    let (door, world) = world().await;
    let Way::Socket(mut socket) = Way::open(Ways::Socket, &world, &door).await else { unreachable!() };
    let (mut say, mut hear) = client::split(&mut socket);
    let saying = async {
        for id in 0..MESSAGES {
            say.say(&request(&id.to_string(), "ping", &json!({}))).await;
        }
    };
    let hearing = async {
        for id in 0..MESSAGES {
            assert_eq!(hear.hear().await.id, id.to_string());
        }
    };
    timeout(NEVER, async { tokio::join!(saying, hearing) }).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn giants_and_bytes_cost_little() {
    let (door, world) = world().await;
    let Way::Socket(mut socket) = Way::open(Ways::Socket, &world, &door).await else { unreachable!() };
    let giant = request(r#""giant""#, "ping", &json!({ "x": "x".repeat(5 * 1024 * 1024) }));
    socket.say(&giant).await;
    let told = socket.hear().await;
    assert_eq!((told.id.as_str(), told.code), (r#""giant""#, Some(-32600)));
    socket.say(&request("1", "ping", &json!({}))).await;
    assert_eq!(socket.hear().await.id, "1");
    socket.say_bytes(b"{}").await;
    assert_eq!(socket.goodbye().await, Some(1003));
    world.end().await;
}

#[tokio::test]
async fn a_stream_is_its_openers_until_it_closes() {
    let (door, world) = world().await;
    let Way::Stream(mut stream) = Way::open(Ways::Stream, &world, &door).await else { unreachable!() };
    let place = stream.place().to_owned();
    let ping = request("1", "ping", &json!({}));
    let post =
        |path: &str| world.client(Method::POST, path).header("content-type", "application/json").body(ping.clone());
    let send = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    let other =
        keys::create(world.house.data_dir(), "other", KeyKind::Client, None, &*world.house.clock()).await.unwrap();
    let stolen = world.bare(Method::POST, &place).bearer_auth(other.secret.expose());
    assert_eq!(send(stolen.header("content-type", "application/json").body(ping.clone())).await, 404);
    assert_eq!(send(world.bare(Method::POST, &place)).await, 401);
    assert_eq!(send(world.client(Method::POST, &place).body(ping.clone())).await, 415);
    for (path, status) in
        [("/messages", 400), ("/messages?sessionId=", 404), ("/messages?sessionid=x", 400), (place.as_str(), 202)]
    {
        assert_eq!(send(post(path)).await, status, "{path}");
    }
    assert_eq!(stream.hear().await.id, "1");
    drop(stream);
    let closed = async { while send(post(&place)).await != 404 {} };
    timeout(NEVER, closed).await.unwrap();
    world.end().await;
}

/// It skips the handshake, mixes the eras, takes ids twice and cancels everything; it is still answered, as are others.
#[tokio::test]
async fn a_client_that_does_everything_wrong_costs_nobody_an_answer() {
    let (door, world) = world().await;
    let list = request("1", "tools/list", &json!({}));
    let cancel =
        |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    for way in Ways::ALL {
        let mut client = Way::open(way, &world, &door).await;
        assert!(client.ask(&list).await.code.is_some(), "{way:?}: nothing is listed before the handshake");
        for id in ["1", r#""1""#, "null", "{}", "99999999999999999999999999"] {
            client.tell(&cancel(id)).await;
        }
        client.tell(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#).await;
        client.tell(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#).await;
        assert!(client.ask(&initialize("1")).await.code.is_none(), "{way:?}");
        assert!(client.ask(&initialize("1")).await.code.is_none(), "{way:?}: it may begin anew");
        assert_eq!(client.ask(&list).await.result["tools"].as_array().unwrap().len(), 4, "{way:?}");
        assert_eq!(client.ask(&request("2", "server/discover", &json!({}))).await.code, Some(-32602), "{way:?}");
        if way != Ways::Http {
            let seen = door.calls().len();
            for id in ["3", "3", "4", "4"] {
                client.tell(&request(id, "tools/call", &json!({ "name": "wait" }))).await;
            }
            for id in ["3", "4"] {
                let told = client.next().await;
                assert_eq!((told.id.as_str(), told.code), (id, Some(-32600)), "{way:?}: an id is taken");
            }
            door.wait_for_calls(seen + 2).await;
            let gone = door.cancelled().len();
            for id in ["3", "4", "3", "5"] {
                client.tell(&cancel(id)).await;
            }
            until(|| door.cancelled().len() == gone + 2).await;
        }
        let told = client.ask(&request("3", "tools/call", &json!({ "name": "echo", "arguments": { "x": 1 } }))).await;
        assert_eq!(told.result["structuredContent"]["x"], 1, "{way:?}: the id is free again");
    }
    world.end().await;
}

/// Each way has the same guard, and no refusal is plain text.
#[tokio::test]
async fn nobody_comes_in_by_a_side_door() {
    let (_, world) = world().await;
    let ways = [(Method::GET, "/mcp/ws"), (Method::GET, "/sse"), (Method::POST, "/messages?sessionId=x")];
    for (method, path) in ways {
        let refused = [
            (world.bare(method.clone(), path), 401),
            (world.operator(method.clone(), path), 403),
            (world.client(method.clone(), path).header("host", "evil.example.com"), 403),
            (world.client(method.clone(), path).header("origin", "http://evil.example.com"), 403),
            (world.client(method.clone(), path).header("origin", "null"), 403),
        ];
        for (request, expected) in refused {
            let response = request.send().await.unwrap();
            assert_eq!(response.headers()["content-type"], "application/json", "{path}");
            let (status, problem) = read(response).await;
            assert_eq!((status, &problem["ok"]), (expected, &json!(false)), "{path}: {problem}");
        }
    }
    let (status, problem) = read(world.client(Method::GET, "/mcp/ws").send().await.unwrap()).await;
    assert_eq!((status, &problem["error"]), (400, &json!("bad_request")), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("/mcp/ws"));
    world.end().await;
}

/// What `/mcp/NAME` has is what `/mcp/NAME/ws` and `/sse/NAME` have.
#[tokio::test]
async fn a_set_is_the_same_by_every_way() {
    let config = "[sets.sums]\ntools = [\"calc*\"]\nprompts = [\"prompts/greet\"]\nbind = { \"prompts/*\" = { who = \"北京\" } }\n\
                  [prompts.greet]\ndescription = \"d\"\ntemplate = \"hello {{ who }}\"\narguments = [{ name = \"who\" }]\n\
                  [prompts.other]\ndescription = \"d\"\ntemplate = \"t\"\n";
    let world = World::configured(config).await;
    let clients =
        [Way::Socket(Socket::open(&world, "/mcp/sums/ws").await), Way::Stream(Stream::open(&world, "/sse/sums").await)];
    for mut client in clients {
        client.ask(&initialize("0")).await;
        let listed = client.ask(&request("1", "tools/list", &json!({}))).await.result;
        let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["calculate", "read_result"]);
        let listed = client.ask(&request("2", "prompts/list", &json!({}))).await.result;
        assert_eq!(listed["prompts"], json!([{ "name": "greet", "description": "d", "arguments": [] }]));
        let got = client.ask(&request("3", "prompts/get", &json!({ "name": "greet" }))).await.result;
        assert_eq!(got["messages"][0]["content"]["text"], "hello 北京", "what is bound is put in");
        let bound = json!({ "name": "greet", "arguments": { "who": "me" } });
        assert_eq!(client.ask(&request("4", "prompts/get", &bound)).await.code, Some(-32602));
        let other = client.ask(&request("5", "tools/call", &json!({ "name": "list_files", "arguments": {} }))).await;
        assert_eq!(other.result["structuredContent"]["error"], "unknown_tool");
    }
    let (status, problem) = read(world.client(Method::GET, "/sse/none").send().await.unwrap()).await;
    assert_eq!((status, &problem["message"]), (404, &json!("no set has this name")));
    for path in ["/sse/sums", "/mcp/sums/ws"] {
        assert_eq!(world.bare(Method::GET, path).send().await.unwrap().status(), 401, "{path}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_server_that_goes_down_says_goodbye() {
    let (door, world) = world().await;
    let Way::Socket(mut socket) = Way::open(Ways::Socket, &world, &door).await else { unreachable!() };
    let Way::Stream(mut stream) = Way::open(Ways::Stream, &world, &door).await else { unreachable!() };
    world.stop.cancel();
    assert_eq!(timeout(NEVER, socket.goodbye()).await.unwrap(), Some(1001));
    assert!(timeout(NEVER, stream.event()).await.unwrap().is_none());
    world.ended().await;
}
