//! `[sets.NAME]`: views of a house, with real tools and a real server of MCP behind them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::{Call, CallKind, Caller, Code, Cx, Door, Json, Risk, Surface, tool_fn};

use crate::world::{World, ada, refused};

#[derive(Deserialize, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Query {
    /// Whose rows.
    tenant: String,
    /// What to look for.
    words: String,
}

/// A server of two tools, one of a name that the house has too.
const SERVER: &str = r#"
import json, sys
TOOLS = [{"name": name, "description": "Says what it was asked.", "inputSchema": {"type": "object"}} for name in ("echo", "read_result")]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(asked["params"])}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

/// A house with two tools of its own, beside a server.
async fn a_world(config: &str) -> World {
    let ask = tool_fn("ask_rows", "Finds rows of a tenant.", |query: Query, _: Cx| async move { Ok(Json(query)) });
    let send = tool_fn("send_mail", "Sends an email; 发送邮件。", |query: Query, _: Cx| async move { Ok(Json(query)) });
    let world = World::having(config, |house| house.tool(ask.risk(Risk::Read)).tool(send.risk(Risk::Read))).await;
    world.put("server.py", SERVER);
    world
}

async fn names(door: &dyn Door, caller: &Caller) -> Vec<String> {
    crate::world::names(door, caller, CallKind::Tool).await
}

#[tokio::test]
async fn what_is_bound_is_hidden_put_in_and_refused() {
    let world = a_world("[sets.shop]\ntools = [\"ask_*\"]\nbind = { \"ask_*\" = { tenant = \"北京\" } }\n").await;
    let shop = world.set("shop");
    assert_eq!(names(&*shop, &ada()).await, ["ask_rows", "read_result"], "what was cut can be read on everywhere");
    let schema = &shop.list(&ada()).await[0].input_schema;
    assert_eq!((schema["properties"].as_object().unwrap().len(), &schema["required"]), (1, &json!(["words"])));
    assert!(!schema.to_string().contains("tenant"));

    let told = shop.call(&ada(), Call::tool("ask_rows", json!({ "words": "tea" }))).await;
    assert_eq!(told.result().unwrap().structured, Some(json!({ "tenant": "北京", "words": "tea" })));
    let received = &world.records(&told)[0];
    assert_eq!(received["arguments"], json!({ "tenant": "北京", "words": "tea" }), "the record has what ran");

    for theirs in [r#"{"words": "tea", "tenant": "me"}"#, r#"{"words":"tea","\u0074enant":"me"}"#, "{'tenant': 'me'}"] {
        let refused = shop.call(&ada(), Call::raw("ask_rows", theirs)).await;
        assert!(matches!(refused.code(), Some(Code::InvalidArguments | Code::InvalidJson)), "{theirs}");
        assert!(!world.records(&refused).iter().any(|record| record["event"] == "started"), "{theirs}");
    }
    let wrong = shop.call(&ada(), Call::tool("ask_rows", json!({ "word": "tea" }))).await;
    let error = wrong.end.error().unwrap();
    assert_eq!(error.error, Code::InvalidArguments);
    assert!(!serde_json::to_string(error).unwrap().contains("tenant"), "{error:?}");
    let outside = shop.call(&ada(), Call::tool("send_mail", json!({}))).await;
    assert_eq!(outside.code(), Some(Code::UnknownTool));
    assert_eq!(world.records(&outside).last().unwrap()["outcome"]["code"], "forbidden", "the ledger knows better");
}

#[tokio::test]
async fn what_is_bound_wrongly_is_the_operators_fault() {
    let world = a_world("[sets.s]\ntools = [\"ask_*\"]\nbind = { ask_rows = { tenant = 5, far = true } }\n").await;
    let refused = world.set("s").call(&ada(), Call::tool("ask_rows", json!({ "words": "tea" }))).await;
    let error = refused.end.error().unwrap();
    assert_eq!(error.message, "what is set here for `ask_rows` does not fit it");
    assert!(error.details.is_empty() && error.hint.as_ref().unwrap().contains("bind"));
    let text = "language = \"zh\"\n[sets.s]\ntools = [\"ask_*\"]\nbind = { ask_rows = { tenant = \"t\" }, nothing = { x = 1 } }\n";
    let world = a_world(text).await;
    let warnings = world.house.warnings().join("\n");
    assert!(warnings.contains("[sets.s] sets arguments of `nothing`, which fits no tool"), "{warnings}");
    let refused = world.set("s").call(&ada(), Call::tool("ask_rows", json!({ "tenant": "u", "words": "" }))).await;
    assert_eq!(refused.end.error().unwrap().message, "参数 `tenant` 已被固定，不可再给出");
}

#[tokio::test]
async fn one_server_under_its_own_names() {
    let config = "[mcp.x]\ncommand = \"python3\"\nargs = [\"server.py\"]\n[mcp.x.tools.\"*\"]\nrisk = \"read\"\n\
                  [sets.x]\nbare = \"x\"\nbind = { mcp__x__echo = { who = \"we\" } }\n";
    let world = a_world(config).await;
    let x = world.set("x");
    assert_eq!(names(&*x, &ada()).await, ["echo", "mcp__x__read_result", "read_result"], "no two have one name");
    let told = x.call(&ada(), Call::tool("echo", json!({ "say": "茶" }))).await;
    let asked: Value = serde_json::from_str(&told.model_text()).unwrap();
    assert_eq!((&asked["name"], &asked["arguments"]), (&json!("echo"), &json!({ "who": "we", "say": "茶" })));
    assert_eq!(world.records(&told)[0]["tool"]["name"], "mcp__x__echo", "the record has the whole name");
    let theirs = x.call(&ada(), Call::tool("mcp__x__read_result", json!({}))).await;
    assert!(theirs.result().is_some());
    for other in ["mcp__x__echo", "calculate", "ehco"] {
        let refused = x.call(&ada(), Call::tool(other, json!({}))).await;
        assert_eq!(refused.code(), Some(Code::UnknownTool), "{other}");
    }
    world.house.stop().await;
}

#[tokio::test]
async fn a_list_that_is_too_long_is_searched() {
    let config = "[sets.all]\ntools = [\"*\"]\nmax_tools = 3\nbind = { \"*_mail\" = { tenant = \"t\" } }\n\
                  [sets.few]\ntools = [\"*_mail\"]\nmax_tools = 3\n\
                  [roles.blind]\npermission = \"system\"\ntools = [\"ask_*\", \"list_*\", \"read_*\"]\n[roles.clerk]\npermission = \"system\"\ntools = [\"*_mail\", \"search_*\"]\n";
    let world = a_world(config).await;
    let (all, few) = (world.set("all"), world.set("few"));
    assert_eq!(names(&*all, &ada()).await, ["call_tool", "read_result", "search_tools"]);
    assert_eq!(names(&*few, &ada()).await, ["read_result", "search_tools", "send_mail"]);

    let found = all.call(&ada(), Call::tool("search_tools", json!({ "query": "给客户发送邮件" }))).await;
    let tools = found.result().unwrap().structured.as_ref().unwrap()["tools"].clone();
    assert_eq!(tools[0]["name"], "send_mail");
    assert!(!tools.to_string().contains("tenant"), "what is bound stays hidden: {tools}");
    let nothing = all.call(&ada(), Call::tool("search_tools", json!({ "query": "quaternions" }))).await;
    assert_eq!(nothing.result().unwrap().structured, Some(json!({ "tools": [] })));
    let elsewhere = few.call(&ada(), Call::tool("search_tools", json!({ "query": "calculate arithmetic" }))).await;
    assert_eq!(
        elsewhere.result().unwrap().structured,
        Some(json!({ "tools": [] })),
        "it finds only what the set shows"
    );
    let other = few.call(&ada(), Call::tool("search_tools", json!({ "query": "rows", "set": "all" }))).await;
    assert_eq!(other.code(), Some(Code::InvalidArguments));

    let call = |name: &str, arguments: Value| Call::tool("call_tool", json!({ "name": name, "arguments": arguments }));
    let sent = all.call(&ada(), call("send_mail", json!({ "words": "hello" }))).await;
    assert_eq!(sent.result().unwrap().structured, Some(json!({ "tenant": "t", "words": "hello" })));
    assert_eq!(world.records(&sent)[0]["tool"]["name"], "send_mail", "the call inside is what is recorded");
    for (call, code) in [
        (call("send_mail", json!({ "words": "hello", "tenant": "u" })), Code::InvalidArguments),
        (call("send_male", json!({})), Code::UnknownTool),
        (call("call_tool", json!({ "name": "send_mail" })), Code::UnknownTool),
        (Call::tool("call_tool", json!({ "tool": "send_mail" })), Code::InvalidArguments),
        (Call::raw("call_tool", "send_mail"), Code::InvalidArguments),
    ] {
        assert_eq!(all.call(&ada(), call.clone()).await.code(), Some(code), "{}", call.arguments);
    }
    let short = few.call(&ada(), call("send_mail", json!({}))).await;
    assert_eq!(short.code(), Some(Code::UnknownTool), "where it is not listed, it is not there");

    let blind = Caller::new("bob", "blind", Surface::Library);
    let whole = names(&*all, &blind).await;
    assert!(
        whole.len() > 4 && !whole.contains(&"call_tool".to_owned()),
        "nothing is hidden that nobody could find: {whole:?}"
    );
    let clerk = Caller::new("eve", "clerk", Surface::Library);
    let found = all.call(&clerk, Call::tool("search_tools", json!({ "query": "rows of a tenant; email" }))).await;
    let tools = found.result().unwrap().structured.as_ref().unwrap()["tools"].clone();
    assert_eq!((tools.as_array().unwrap().len(), &tools[0]["name"]), (1, &json!("send_mail")), "a set grants nothing");
}

#[tokio::test]
async fn a_house_without_long_lists_has_no_search() {
    let world = a_world("[sets.s]\ntools = [\"*\"]\n").await;
    assert!(!names(&*world.house.door(), &ada()).await.contains(&"search_tools".to_owned()));
    assert_eq!(names(&*world.set("s"), &ada()).await, names(&*world.house.door(), &ada()).await);
    assert!(world.house.view("t", world.house.door()).is_none());
}

#[tokio::test]
async fn what_cannot_be_meant_is_named_by_its_line() {
    let server = "[mcp.x]\ncommand = \"python3\"\n";
    for (text, line, part, right) in [
        ("[sets.s]\n".to_owned(), 1, "it shows nothing", "tools = "),
        ("[sets.\"a b\"]\ntools = [\"*\"]\n".into(), 1, "stands in a path", "[sets.research]"),
        ("[sets.ws]\ntools = [\"*\"]\n".into(), 1, "another way in", "another name"),
        ("[sets.s]\ntools = [\"[\"]\n".into(), 2, "the glob `[` cannot be read", "{a,b}"),
        ("[sets.s]\ntools = [\"*\"]\nbind = { \"[\" = { a = 1 } }\n".into(), 3, "the glob `[`", "{a,b}"),
        ("[sets.s]\ntools = [\"*\"]\nbind = { a = {} }\n".into(), 3, "`a` sets no argument", "bind = "),
        ("[sets.s]\nbare = \"x\"\n".into(), 2, "no MCP server is named `x`", "[mcp.NAME]"),
        (format!("{server}[sets.s]\nbare = \"y\"\n"), 4, "no MCP server is named `y`", "there is x"),
        (
            format!("{server}[sets.s]\nbare = \"x\"\ntools = [\"calc*\"]\n"),
            5,
            "`calc*` is not of the server",
            "mcp__x__",
        ),
        (format!("{server}[sets.s]\nbare = \"x\"\nbind = {{ echo = {{ a = 1 }} }}\n"), 5, "`echo` is not", "mcp__x__"),
        ("[sets.s]\ntools = [\"*\"]\nmax_tools = 0\n".into(), 3, "nonzero", "docs/config.md"),
        ("[sets.s]\ntool = [\"*\"]\n".into(), 2, "unknown field `tool`", "did you mean `tools`?"),
    ] {
        let error = refused(&text).await;
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(part), "{text:?}: {error}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(right), "{text:?}: {error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What is listed can be called and nothing else, and what is listed is a part of what the house lists.
    #[test]
    fn a_view_never_grants(
        globs in prop::collection::vec(prop::sample::select(vec!["*", "read_*", "ask_*", "*_file", "calculate", "x*"]), 1..3),
        excluded in prop::sample::select(vec!["none", "ask_*", "*_file"]),
        max_tools in prop::option::of(1usize..6),
    ) {
        let max_tools = max_tools.map_or_else(String::new, |most| format!("max_tools = {most}\n"));
        let config = format!(
            "[roles.r]\ntools = [\"*\"]\nexclude = [{excluded:?}]\nrisk = \"dangerous\"\npermission = \"system\"\n\
             [sets.s]\ntools = {globs:?}\n{max_tools}"
        );
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let world = a_world(&config).await;
            let (set, caller) = (world.set("s"), Caller::new("ada", "r", Surface::Library));
            let house: BTreeSet<String> = names(&*world.house.door(), &caller).await.into_iter().collect();
            let listed: BTreeSet<String> = names(&*set, &caller).await.into_iter().collect();
            let is_searched = listed.contains("call_tool");
            for name in house.iter().map(String::as_str).chain(["call_tool", "restore_file", "no_such"]) {
                let outcome = set.call(&caller, Call::tool(name, json!({ "no such argument": 1 }))).await;
                let is_known = outcome.code() != Some(Code::UnknownTool);
                prop_assert_eq!(is_known && !is_searched, listed.contains(name) && !is_searched, "{}", name);
                prop_assert!(!is_known || house.contains(name) || is_searched, "{name} is granted by a view");
            }
            prop_assert!(listed.iter().all(|name| house.contains(name) || name == "call_tool"));
            Ok(())
        })?;
    }
}
