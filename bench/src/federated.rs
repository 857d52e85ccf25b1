//! A thousand tools of ten MCP servers: what a client waits for their list, and how soon the gate knows what one more server
//! says that it has now.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tollgate::config::Loaded;
use tollgate::mcp::{Action, Answer, ServerInfo, Session};
use tollgate::{Ask, Call, Caller, Clock, Permission, Progress, Risk, Role, Surface, SystemClock, Tollgate};

use crate::stats::{Aim, Row, median_us};

const SERVERS: usize = 10;
const TOOLS_OF_ONE: usize = 100;
/// The tools of the server that changes, at first.
const TOOLS_THAT_CHANGE: usize = 10;
const LISTS: usize = 200;
const CHANGES: usize = 30;
const LIST_MS: f64 = 5.0;
const REINDEX_MS: f64 = 5.0;

/// Both figures.
pub(crate) async fn measure(folder: &Path) -> Result<Vec<Row>, Box<dyn Error + Send + Sync>> {
    let house = house(folder).await?;
    let rows = vec![list(&house).await?, reindex(&house).await?];
    house.stop().await;
    Ok(rows)
}

async fn house(folder: &Path) -> Result<Tollgate, Box<dyn Error + Send + Sync>> {
    let echo = std::env::current_exe()?.with_file_name("bench-echo");
    let server = |name: &str, count: usize| {
        format!(
            "[mcp.{name}]\ncommand = {echo:?}\nargs = [\"--many\", \"{count}\"]\ntools.grow = {{ risk = \"read\" }}\n"
        )
    };
    // `grow` is one of a server's tools.
    let mut config: String = (0..SERVERS).map(|n| server(&format!("many{n}"), TOOLS_OF_ONE - 1)).collect();
    config.push_str(&server("changes", TOOLS_THAT_CHANGE));
    let file = folder.join("tollgate.toml");
    std::fs::write(&file, config)?;
    let role = |name: &str, tools: &str| {
        Role::new(name).allow(tools).risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Never)
    };
    let house = Tollgate::builder().config(Loaded::read(&file, folder)?);
    Ok(house.role(role("many", "mcp__many*")).role(role("changes", "mcp__changes__*")).build().await?)
}

/// One client's list, as MCP writes it.
async fn list(house: &Tollgate) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, caller) = (SystemClock::new(), Arc::new(Caller::new("bench", "many", Surface::McpStdio)));
    let info = ServerInfo { name: "tollgate".into(), version: "1".into(), instructions: None };
    let mut session = Session::new(info);
    let hello =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "b", "version": "1" } });
    session
        .receive(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }).to_string().as_bytes());
    let mut times = Vec::with_capacity(LISTS);
    for round in 0..LISTS + LISTS / 10 {
        let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        let began = clock.monotonic();
        let Action::Run(request) = session.receive(asked.as_bytes()) else { return Err("a list was refused".into()) };
        let Answer { text, .. } = request.answer(house.door(), Arc::clone(&caller), Progress::none()).await;
        let took = clock.monotonic() - began;
        let listed: serde_json::Value = serde_json::from_slice(&text)?;
        let count = listed.pointer("/result/tools").and_then(|tools| tools.as_array()).map_or(0, Vec::len);
        if count != SERVERS * TOOLS_OF_ONE {
            return Err(format!("{count} tools were listed").into());
        }
        if round >= LISTS / 10 {
            times.push(took);
        }
    }
    Ok(Row {
        what: format!("`tools/list` of {} tools of {SERVERS} servers", SERVERS * TOOLS_OF_ONE),
        value: median_us(times) / 1e3,
        unit: "ms",
        aim: Aim::AtMost(LIST_MS),
        against: format!("p50 of {LISTS}"),
    })
}

/// From the call by which a server gets another tool until the gate has it.
async fn reindex(house: &Tollgate) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, caller) = (SystemClock::new(), Caller::new("bench", "changes", Surface::Library));
    let mut times = Vec::with_capacity(CHANGES);
    for change in 0..CHANGES {
        let name = format!("mcp__changes__tool_{}", TOOLS_THAT_CHANGE + change);
        let began = clock.monotonic();
        let outcome = house.call(&caller, Call::tool("mcp__changes__grow", json!({}))).await;
        if outcome.result().is_none() {
            return Err(format!("a call failed: {:?}", outcome.end).into());
        }
        while !house.gate().catalog().has(&name) {
            tokio::task::yield_now().await;
        }
        times.push(clock.monotonic() - began);
        // One that comes at once is asked about after a pause, which is not what is measured.
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    }
    Ok(Row {
        what: format!("`list_changed` of one server beside {} tools, until the gate has it", SERVERS * TOOLS_OF_ONE),
        value: median_us(times) / 1e3,
        unit: "ms",
        aim: Aim::AtMost(REINDEX_MS),
        against: format!("the call that changes it included, p50 of {CHANGES}"),
    })
}
