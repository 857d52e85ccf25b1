//! What clients are told unasked over HTTP: the stream of a session, and the question that stands. The four ways beside each
//! other are in `ways`.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tollgate::{Cx, Risk, tool_fn};

use crate::world::{World, read};

const WATCHED: &str = "test://watched-resource";
const ENTRY: &str = "resources/test://watched-resource";

async fn world() -> World {
    let world = World::configured("[sets.few]\ntools = [\"calc*\"]\n").await;
    for fixture in tollgate_testkit::entry_fixtures() {
        world.house.gate().register(Arc::new(fixture)).unwrap();
    }
    world
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Gives the house a tool; one that is dangerous is kept from the client.
fn put(world: &World, name: &str, risk: Risk) {
    let tool = tool_fn(name, "Does nothing.", |_: Nothing, _: Cx| async move { Ok(String::new()) });
    world.house.gate().register(Arc::new(tool.risk(risk))).unwrap();
}

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
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let (_, answer) = read(response).await;
    assert_eq!(answer["result"]["capabilities"]["resources"], json!({ "subscribe": true, "listChanged": true }));
    session
}

async fn ask(world: &World, session: &str, method: &str, params: &Value) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    read(post(world, "/mcp", Some(session), &body).send().await.unwrap()).await
}

fn get(world: &World, path: &str, session: &str) -> RequestBuilder {
    world.client(Method::GET, path).header("accept", "text/event-stream").header("mcp-session-id", session)
}

fn listen(world: &World, notifications: &Value) -> RequestBuilder {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "notifications": notifications, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": params });
    let request = post(world, "/mcp", None, &body);
    request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "subscriptions/listen")
}

/// The events of a stream.
struct Events(Response, String);

impl Events {
    async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-accel-buffering"]),
            (200, &"no".parse().unwrap())
        );
        Self(response, String::new())
    }

    /// The next message; none at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            while let Some((event, rest)) = self.1.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.1 = rest.to_owned();
                if let Some(data) = data {
                    return Some(serde_json::from_str(&data).unwrap());
                }
            }
            let piece = self.0.chunk().await.unwrap()?;
            self.1.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    async fn method(&mut self) -> Value {
        self.next().await.unwrap()["method"].clone()
    }
}

async fn until(mut look: impl FnMut() -> bool) {
    let looked = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap();
}

#[tokio::test]
async fn a_get_opens_the_stream_of_its_session_and_of_no_other() {
    let world = world().await;
    let session = shake_hands(&world, "/mcp").await;
    let stream = || get(&world, "/mcp", &session);
    for (request, status) in [
        (world.client(Method::GET, "/mcp").header("accept", "text/event-stream"), 405),
        (stream().header("mcp-protocol-version", "2026-07-28"), 405),
        (world.client(Method::GET, "/mcp").header("mcp-session-id", &session), 406),
        (
            world.client(Method::GET, "/mcp").header("accept", "application/json").header("mcp-session-id", &session),
            406,
        ),
        (get(&world, "/mcp", "0"), 404),
        (get(&world, "/mcp/few", &session), 404),
        (get(&world, "/mcp/none", &session), 404),
        (world.operator(Method::GET, "/mcp").header("mcp-session-id", &session), 403),
    ] {
        assert_eq!(request.send().await.unwrap().status(), status);
    }
    let mut first = Events::open(stream()).await;
    let mut second = Events::open(stream()).await;
    assert_eq!(first.next().await, None, "another took its place");
    put(&world, "dark", Risk::Dangerous);
    put(&world, "light", Risk::Read);
    assert_eq!(second.method().await, "notifications/tools/list_changed");
    let closed = world.client(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!((closed.status().as_u16(), second.next().await), (204, None));
    until(|| world.house.gate().changes().count() == (0, 0)).await;
    world.end().await;
}

#[tokio::test]
async fn what_happens_while_no_stream_is_open_is_told_on_the_next() {
    let world = world().await;
    let session = shake_hands(&world, "/mcp").await;
    let mut events = Events::open(get(&world, "/mcp", &session)).await;
    let changes = world.house.gate().changes();
    let (_, answer) = ask(&world, &session, "resources/subscribe", &json!({ "uri": WATCHED })).await;
    assert_eq!(answer["result"], json!({}));
    changes.updated(ENTRY, None);
    let told = events.next().await.unwrap();
    assert_eq!((&told["method"], &told["params"]["uri"]), (&json!("notifications/resources/updated"), &json!(WATCHED)));
    drop(events);
    for _ in 0..1_000 {
        changes.updated(ENTRY, None);
    }
    put(&world, "light", Risk::Read);
    let mut events = Events::open(get(&world, "/mcp", &session)).await;
    let mut told = [events.method().await, events.method().await].map(|method| method.to_string());
    told.sort();
    assert_eq!(told, [r#""notifications/resources/updated""#, r#""notifications/tools/list_changed""#]);
    let (_, answer) = ask(&world, &session, "resources/unsubscribe", &json!({ "uri": WATCHED })).await;
    assert_eq!((&answer["result"], changes.count()), (&json!({}), (1, 0)));
    // A set shows its part: what is not of it changes nothing there.
    let few = shake_hands(&world, "/mcp/few").await;
    let mut part = Events::open(get(&world, "/mcp/few", &few)).await;
    put(&world, "lighter", Risk::Read);
    assert_eq!(events.method().await, "notifications/tools/list_changed");
    put(&world, "calculated", Risk::Read);
    assert_eq!(part.method().await, "notifications/tools/list_changed");
    world.stop.cancel();
    assert_eq!(part.next().await, None);
    world.ended().await;
}

#[tokio::test]
async fn a_question_stands_until_its_client_goes_or_the_server_does() {
    let world = world().await;
    let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": [WATCHED, "test://nothing"] });
    let mut events = Events::open(listen(&world, &wanted)).await;
    let told = events.next().await.unwrap();
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    let granted = json!({ "toolsListChanged": true, "resourceSubscriptions": [WATCHED] });
    assert_eq!(told["params"]["notifications"], granted);
    let changes = world.house.gate().changes();
    changes.updated(ENTRY, None);
    let told = events.next().await.unwrap();
    assert_eq!(told["params"], json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": "sub" }, "uri": WATCHED }));
    drop(events);
    until(|| changes.count() == (0, 0)).await;

    let mut events = Events::open(listen(&world, &json!({ "promptsListChanged": true }))).await;
    events.next().await.unwrap();
    world.stop.cancel();
    let ended = events.next().await.unwrap();
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!("sub"), &json!("complete")));
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    assert_eq!(events.next().await, None);
    world.ended().await;
}

#[tokio::test]
async fn clients_that_never_read_cost_nobody_anything() {
    let world = world().await;
    let mut deaf = Vec::new();
    for _ in 0..50 {
        let wanted = json!({ "toolsListChanged": true, "resourceSubscriptions": [WATCHED] });
        let mut events = Events::open(listen(&world, &wanted)).await;
        events.next().await.unwrap();
        deaf.push(events);
    }
    let changes = world.house.gate().changes();
    for n in 0..200 {
        changes.updated(ENTRY, None);
        if n % 50 == 0 {
            put(&world, &format!("tool_{n}"), Risk::Read);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(changes.count(), (50, 50));
    let (status, _) = world.get("/api/v1/tools").await;
    assert_eq!(status, 200);
    drop(deaf);
    until(|| changes.count() == (0, 0)).await;
    world.end().await;
}
