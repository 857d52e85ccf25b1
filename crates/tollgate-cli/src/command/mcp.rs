//! `tollgate mcp`: the servers that Tollgate calls.

use std::io::IsTerminal;

use tollgate::mcp::upstream::{UpstreamState, UpstreamStatus};

use super::{configuration, open};
use crate::args::{Format, Global, McpAction};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// Exit status when a server does not answer.
const AILING: u8 = 1;
/// How much of a server's standard error is shown.
const STDERR_LINES: usize = 5;

pub(crate) async fn run(global: &Global, action: McpAction) -> Result<u8, Failure> {
    let McpAction::List = action;
    let house = open(global, configuration(global)?).await?;
    let servers = house.servers().await;
    house.stop().await;
    match output::format(global) {
        Format::Json => output::json(&servers)?,
        Format::Text if servers.is_empty() => {
            output::line("no MCP server is configured: [mcp.NAME] with `command` or `url` in tollgate.toml")?;
        }
        Format::Text => output::out(&for_people(&servers))?,
    }
    let all_well = servers.iter().all(|server| server.state == UpstreamState::Ready);
    Ok(if all_well { 0 } else { AILING })
}

fn for_people(servers: &[UpstreamStatus]) -> String {
    let rows = servers.iter().map(|server| {
        vec![
            server.name.clone(),
            server.state.as_str().to_owned(),
            server.era.unwrap_or_default().to_owned(),
            server.tools.len().to_string(),
            server.quarantined.len().to_string(),
            visible(server.last_error.as_deref().unwrap_or_default()),
        ]
    });
    let mut text = output::table(&["server", "state", "revision", "tools", "set aside", "last error"], rows);
    let is_terminal = std::io::stdout().is_terminal();
    for server in servers {
        for aside in &server.quarantined {
            let tool = style(Style::Bold, &visible(&aside.tool), is_terminal);
            text.push_str(&format!("{}: {tool} is set aside: {}\n", server.name, visible(&aside.reason)));
        }
        if server.state != UpstreamState::Ready {
            let lines: Vec<&str> = server.stderr_tail.lines().collect();
            for line in lines.iter().skip(lines.len().saturating_sub(STDERR_LINES)) {
                text.push_str(&format!("{}: stderr: {}\n", server.name, visible(line)));
            }
        }
    }
    text
}
