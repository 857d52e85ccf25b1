//! MCP's tasks in front of the real house: a call that waits for a human goes on as a task, and ends once they have answered.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tollgate::store::KeyKind;
use tollgate::{Caller, Door, Surface, TaskSupport};
use tollgate_server::keys;

use crate::world::{World, read};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A client whose role may have what must be asked for.
struct Teller {
    world: World,
    key: keys::NewKey,
}

impl Teller {
    async fn new() -> Self {
        let world = World::new().await;
        let (folder, clock) = (world.house.data_dir(), world.house.clock());
        let key = keys::create(folder, "teller", KeyKind::Client, Some("teller"), &*clock).await.unwrap();
        Self { world, key }
    }
}

async fn ask(Teller { world, key }: &Teller, method: &str, name: &str, params: &Value, header: &str) -> (u16, Value) {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } },
    });
    params[if method == "tools/call" { "name" } else { "taskId" }] = json!(name);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = world
        .bare(Method::POST, "/mcp")
        .bearer_auth(key.secret.expose())
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", header)
        .json(&body);
    read(request.send().await.unwrap()).await
}

async fn get(world: &Teller, task: &str) -> Value {
    let (status, told) = ask(world, "tasks/get", task, &json!({}), task).await;
    assert_eq!(status, 200, "{told}");
    told["result"].clone()
}

async fn ended(world: &Teller, task: &str) -> Value {
    loop {
        let now = get(world, task).await;
        if now["status"] != "working" {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A call that waits for a human: its task, and the question's id.
async fn waiting(world: &Teller) -> (String, String) {
    let said = json!({ "arguments": { "text": "你好" } });
    let (status, begun) = ask(world, "tools/call", "say", &said, "say").await;
    assert_eq!((status, &begun["result"]["resultType"]), (200, &json!("task")), "{begun}");
    let task = begun["result"]["taskId"].as_str().unwrap().to_owned();
    loop {
        let (_, open) = read(world.world.operator(Method::GET, "/api/v1/approvals").send().await.unwrap()).await;
        let open = open.as_array().or(open["approvals"].as_array()).unwrap();
        if let Some(id) = open.first().and_then(|one| one["id"].as_str()) {
            return (task, id.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn answer(world: &World, id: &str, word: &str) {
    let path = format!("/api/v1/approvals/{id}/{word}");
    let answered = world.operator(Method::POST, &path).json(&json!({ "reason": "asked" })).send().await.unwrap();
    assert!(answered.status().is_success(), "{:?}", answered.text().await);
}

#[tokio::test]
async fn a_call_that_waits_for_a_human_is_a_task_until_they_have_answered() {
    let teller = Teller::new().await;
    let world = &teller;
    let (task, id) = waiting(world).await;
    let now = get(world, &task).await;
    assert_eq!(now["status"], "working");
    assert!(now["statusMessage"].as_str().unwrap().contains("approv"), "{now}");
    answer(&world.world, &id, "approve").await;
    let end = ended(world, &task).await;
    assert_eq!((&end["status"], &end["result"]["content"][0]["text"]), (&json!("completed"), &json!("你好")), "{end}");

    let (task, id) = waiting(world).await;
    answer(&world.world, &id, "reject").await;
    let end = ended(world, &task).await;
    assert_eq!(end["result"]["structuredContent"]["error"], "approval_rejected", "{end}");
    // What it came to is read from the store, and by its header too.
    let (status, odd) = ask(world, "tasks/get", &task, &json!({}), "another").await;
    assert_eq!((status, &odd["error"]["code"]), (400, &json!(-32020)));
    teller.world.end().await;
}

#[tokio::test]
async fn of_a_tool_that_a_caller_may_not_see_nothing_is_said() {
    let world = World::configured("[tools.say]\nexecution = { task = \"required\" }\n").await;
    let support = |role: &str| {
        let caller = Caller::new("ann", role, Surface::McpHttp);
        let tools = [world.house.gate().special(&caller, "say"), world.house.door().special(&caller, "none")];
        tools.map(|tool| tool.map(|tool| tool.execution.task))
    };
    assert_eq!(support("teller"), [Some(TaskSupport::Required), None]);
    assert_eq!(support("reader"), [None, None]);
    world.end().await;
}
