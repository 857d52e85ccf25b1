//! The MCP servers of the configuration: each is started or asked as Tollgate itself would, with a data folder that is
//! thrown away, and says what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate::config::{Loaded, McpServer};
use tollgate::mcp::upstream::{UpstreamState, UpstreamStatus};

use super::program::{self, line};
use super::scratch::Scratch;
use super::{Asked, Finding, secrets, trouble};
use crate::args::Global;
use crate::command::configuration;
use crate::failure::Failure;

/// How much of a server's standard error is shown.
const STDERR_LINES: usize = 5;

/// Every server; asked within `wait`, or only looked at.
pub(super) async fn examine(global: &Global, loaded: &Loaded, wait: Option<Duration>) -> Result<Vec<Finding>, Failure> {
    let mut findings = BTreeMap::new();
    for (name, server) in &loaded.config.mcp {
        if let Some((found, mend)) = lacks(server.get_ref(), loaded).await {
            findings.insert(name.clone(), Finding::ailing(what(name), found, mend));
        }
    }
    let sound: BTreeSet<String> =
        loaded.config.mcp.keys().filter(|name| !findings.contains_key(*name)).cloned().collect();
    match wait {
        None => {
            let sound = loaded.config.mcp.iter().filter(|(name, _)| sound.contains(*name));
            findings.extend(
                sound.map(|(name, server)| (name.clone(), Finding::well(what(name), reaches(server.get_ref())))),
            );
        }
        Some(wait) if !sound.is_empty() => match ask(global, &sound, wait).await? {
            Ok(statuses) => {
                for status in statuses {
                    let Some(server) = loaded.config.mcp.get(&status.name) else { continue };
                    findings.insert(status.name.clone(), finding(status, server.get_ref(), loaded, wait));
                }
            }
            Err(finding) => drop(findings.insert(String::new(), finding)),
        },
        Some(_) => {}
    }
    Ok(findings.into_values().collect())
}

fn what(name: &str) -> String {
    format!("MCP server {name}")
}

/// What runs, or is asked.
pub(super) fn reaches(server: &McpServer) -> String {
    match (&server.command, &server.url) {
        (Some(program), _) => line(std::iter::once(program).chain(&server.args).map(String::as_str)),
        (None, url) => url.clone().unwrap_or_default(),
    }
}

/// What a server lacks before it can be asked, and what mends it.
async fn lacks(server: &McpServer, loaded: &Loaded) -> Option<(String, String)> {
    if let Some(missing) = server.command.as_ref().and_then(|program| program::missing(program, &loaded.folder)) {
        return Some(missing);
    }
    let mut lacking = secrets::lacking(&server.env, loaded).await;
    lacking.extend(secrets::lacking(&server.headers, loaded).await);
    if let Some(oauth) = &server.oauth {
        lacking.extend(secrets::lacking(&oauth.secrets(), loaded).await);
    }
    let (name, why, mend) = lacking.into_iter().next()?;
    Some((format!("{name}: {why}"), mend))
}

/// Starts the servers and waits for what they say. The inner error is one of the configuration.
async fn ask(
    global: &Global,
    sound: &BTreeSet<String>,
    wait: Duration,
) -> Result<Result<Vec<UpstreamStatus>, Finding>, Failure> {
    let mut loaded = configuration(global)?;
    loaded.config.mcp.retain(|name, _| sound.contains(name));
    loaded.config.tool.clear();
    loaded.config.env.clear();
    let scratch = match Scratch::open("MCP servers", loaded).await {
        Ok(scratch) => scratch,
        Err(finding) => return Ok(Err(finding)),
    };
    let statuses = scratch.house.servers_within(wait).await;
    scratch.house.stop().await;
    Ok(Ok(statuses))
}

fn finding(status: UpstreamStatus, server: &McpServer, loaded: &Loaded, wait: Duration) -> Finding {
    let transport = if server.command.is_some() { "stdio" } else { "http" };
    let tools = status.tools.len();
    let is_ready = status.state == UpstreamState::Ready;
    let mut finding = if is_ready {
        let tools = if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") };
        let aside = match status.quarantined.len() {
            0 => String::new(),
            count => format!(", {count} set aside"),
        };
        let era = status.era.unwrap_or_default();
        let mut finding = Finding::well(what(&status.name), format!("{transport}, revision {era}, {tools}{aside}"));
        if let Some(line) = trouble::printed(&status) {
            finding.found.push_str(&format!("; it prints on standard output what is no message: {line}"));
            finding.mend = Some(trouble::quieter(server, loaded));
        }
        finding
    } else {
        let found = trouble::found(&status, wait);
        Finding::ailing(what(&status.name), found, trouble::mend(&status, server, loaded))
    };
    let mut lines: Vec<&str> = status.stderr_tail.lines().filter(|line| !line.trim().is_empty()).collect();
    // A server that falls at the first question is started twice.
    lines.dedup();
    let stderr = lines.iter().skip(lines.len().saturating_sub(STDERR_LINES)).map(|line| (*line).to_owned());
    let stderr = if is_ready { Vec::new() } else { stderr.collect() };
    let (era, trouble) = (status.era, trouble::of(&status));
    let quarantined = status.quarantined;
    finding.server = Some(Box::new(Asked { transport, era, trouble, tools, quarantined, stderr }));
    finding
}
