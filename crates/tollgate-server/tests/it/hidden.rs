//! What a client may not use is named to it by nothing that the server says; an operator sees all of it.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::{Permission, Risk, Tollgate, ToolDefinition};
use tollgate_server::keys::{self, KeyKind};

use crate::world::{World, read};

const ROLES: &str = r#"
[roles.narrow]
tools = ["see_*"]
risk = "dangerous"
permission = "system"

[roles.wide]
inherits = "narrow"
tools = ["*"]
"#;

struct Named(ToolDefinition);

impl tollgate::Tool for Named {
    fn definition(&self) -> ToolDefinition {
        self.0.clone()
    }

    fn call(
        &self,
        _: Value,
        _: tollgate::Cx,
    ) -> tollgate::BoxFuture<'_, Result<tollgate::ToolOutput, tollgate::ToolError>> {
        Box::pin(std::future::ready(Ok(tollgate::ToolOutput::text("done"))))
    }
}

/// Tools that a narrow client sees, and their neighbours that it does not.
const TOOLS: [(&str, Risk); 5] = [
    ("see_order", Risk::Read),
    ("see_pay", Risk::Dangerous),
    ("hid_order", Risk::Read),
    ("hid_pay", Risk::Dangerous),
    ("see_orders_hid", Risk::Read),
];

async fn world() -> (World, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    std::fs::write(&path, ROLES).unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let builder = Tollgate::builder().config(Loaded::read(&path, folder.path()).unwrap()).without_builtin_tools();
    let builder = builder.data_dir(folder.path().join("data")).workspace(folder.path().join("work"));
    let house = builder.build().await.unwrap();
    for (name, risk) in TOOLS {
        let mut tool = ToolDefinition::new(name, "Does what its name says.");
        (tool.risk, tool.permission) = (risk, Permission::Read);
        house.gate().register(std::sync::Arc::new(Named(tool))).unwrap();
    }
    let world = World::of(house, folder, |_| None, Duration::from_secs(5)).await;
    let key = async |name: &str, role: &str| {
        let clock = world.house.clock();
        let made = keys::create(world.house.data_dir(), name, KeyKind::Client, Some(role), &*clock).await.unwrap();
        made.secret.expose().to_owned()
    };
    let (narrow, wide) = (key("narrow", "narrow").await, key("wide", "wide").await);
    (world, narrow, wide)
}

async fn call(world: &World, key: &str, tool: &str) -> Value {
    let body = json!({ "tool": tool, "arguments": {} });
    let request = world.bare(Method::POST, "/api/v1/calls").bearer_auth(key).json(&body);
    read(request.send().await.unwrap()).await.1
}

async fn text(world: &World, key: &str, path: &str) -> String {
    world.bare(Method::GET, path).bearer_auth(key).send().await.unwrap().text().await.unwrap()
}

/// A request of MCP's stateless era.
async fn mcp(world: &World, key: &str, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut request = world
        .bare(Method::POST, "/mcp")
        .bearer_auth(key)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if !name.is_empty() {
        request = request.header("mcp-name", name);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    request.json(&body).send().await.unwrap().text().await.unwrap()
}

/// Everything that a client can ask for, but by the names of what it may not use.
async fn everything(world: &World, key: &str) -> Vec<(String, String)> {
    let mut said = Vec::new();
    for path in ["/api/v1/tools", "/api/v1/tools?query=order", "/api/v1/tools?query=hid", "/api/v1/tools?query=NAME"] {
        said.push((path.to_owned(), text(world, key, path).await));
    }
    for path in ["/metrics", "/api/v1/approvals", "/api/v1/approvals?all=true", "/api/v1/audit", "/openapi.json"] {
        said.push((path.to_owned(), text(world, key, path).await));
    }
    for name in ["hid_ordxr", "id_order", "hidorder_", "see_order2", "pay", "order_hid", "hi", "functions.hid_pxy"] {
        said.push((format!("call {name}"), call(world, key, name).await.to_string()));
        said.push((format!("mcp {name}"), mcp(world, key, "tools/call", json!({"name": name, "arguments": {}})).await));
    }
    said.push(("tools/list".into(), mcp(world, key, "tools/list", json!({})).await));
    said
}

#[tokio::test]
async fn a_hidden_tool_is_named_by_nothing() {
    let (world, narrow, wide) = world().await;
    for name in ["hid_order", "hid_pay", "see_orders_hid"] {
        call(&world, &wide, name).await;
    }
    for (asked, said) in everything(&world, &narrow).await {
        for hidden in ["hid_order", "hid_pay"] {
            assert!(!said.contains(hidden), "{asked}: {said}");
        }
    }
    let listed = mcp(&world, &narrow, "tools/list", json!({})).await;
    assert!(listed.contains("see_order") && listed.contains("see_orders_hid"), "{listed}");
    let counted = text(&world, &narrow, "/metrics").await;
    assert!(counted.contains(r#"{tool="see_orders_hid",status="done",code=""} 1"#), "{counted}");

    // By its name it is answered as what nobody has; the operator knows better.
    let (hidden, none) = (call(&world, &narrow, "hid_order").await, call(&world, &narrow, "hix_order").await);
    let words = |outcome: &Value, name: &str| outcome["error"].to_string().replace(name, "NAME");
    assert_eq!(words(&hidden, "hid_order"), words(&none, "hix_order"));
    assert_eq!(hidden["error"]["error"], "unknown_tool");
    let path = format!("/api/v1/audit?attempt={}", hidden["attempt"].as_str().unwrap());
    let records = read(world.operator(Method::GET, &path).send().await.unwrap()).await.1;
    assert_eq!(records["records"].as_array().unwrap().last().unwrap()["outcome"]["code"], "forbidden");
    let counted = world.operator(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(counted.contains(r#"{tool="hid_order",status="done",code=""} 1"#), "{counted}");
    world.end().await;
}

/// What a client asked for while it might is its own story no more once it may not.
#[tokio::test]
async fn a_question_about_what_is_hidden_now_is_hidden_too() {
    let (world, _, wide) = world().await;
    let waiting = call(&world, &wide, "hid_pay").await;
    let id = waiting["waiting"]["id"].as_str().unwrap().to_owned();
    assert!(text(&world, &wide, "/api/v1/approvals").await.contains(&id));
    let stricter = ROLES.replace("tools = [\"*\"]", "tools = [\"*\"]\nexclude = [\"hid_*\"]");
    std::fs::write(world.folder().join("tollgate.toml"), stricter).unwrap();
    assert!(world.house.reload_policy().await.unwrap());
    for path in ["/api/v1/approvals", "/api/v1/approvals?all=true"] {
        assert!(!text(&world, &wide, path).await.contains("hid_pay"), "{path}");
    }
    let one = world.bare(Method::GET, &format!("/api/v1/approvals/{id}")).bearer_auth(&wide).send().await.unwrap();
    assert_eq!(one.status(), 404);
    let (status, listed) = read(world.operator(Method::GET, "/api/v1/approvals").send().await.unwrap()).await;
    assert_eq!((status, &listed["approvals"][0]["id"]), (200, &json!(id)), "the operator answers it all the same");
    world.end().await;
}

/// A key whose role is not there any more may use nothing, and is told nothing.
#[tokio::test]
async fn a_key_of_a_role_that_is_gone_may_nothing() {
    let (world, _, wide) = world().await;
    std::fs::write(world.folder().join("tollgate.toml"), "").unwrap();
    assert!(world.house.reload_policy().await.unwrap());
    assert_eq!(text(&world, &wide, "/api/v1/tools").await, r#"{"tools":[]}"#);
    let refused = call(&world, &wide, "see_order").await;
    assert_eq!(refused["error"]["error"], "unknown_tool");
    assert!(!refused.to_string().contains("wide"), "{refused}");
    world.end().await;
}

#[tokio::test]
async fn how_the_policy_is_followed_is_counted() {
    let (world, narrow, _) = world().await;
    let path = world.folder().join("tollgate.toml");
    let counts = async || {
        let text = text(&world, &narrow, "/metrics").await;
        let lines = text.lines().filter(|line| line.starts_with("tollgate_policy_"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect::<Vec<u64>>()
    };
    assert_eq!(counts().await, [0, 0, 0], "taken over, broken, is broken");
    assert!(!world.house.reload_policy().await.unwrap(), "nothing changed");
    std::fs::write(&path, "[roles.narrow]\ntools = [\"see_order\"]\n").unwrap();
    assert!(world.house.reload_policy().await.unwrap());
    assert_eq!(counts().await, [1, 0, 0]);
    for broken in ["[roles.narrow]\ntool = [\"x\"]\n", "[roles", "[roles.narrow]\ninherits = \"nobody\"\n"] {
        std::fs::write(&path, broken).unwrap();
        world.house.reload_policy().await.unwrap_err();
    }
    assert_eq!(counts().await, [1, 3, 1]);
    assert_eq!(call(&world, &narrow, "see_order").await["status"], "done", "the last good one counts");
    std::fs::write(&path, "[roles.narrow]\ntools = [\"see_order\"]\n").unwrap();
    assert!(!world.house.reload_policy().await.unwrap(), "it is what counts already");
    assert_eq!(counts().await, [1, 3, 0]);
    world.end().await;
}
