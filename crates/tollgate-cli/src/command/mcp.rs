//! `tollgate mcp`: the servers that Tollgate calls.

mod add;
mod browser;
mod inspect;
mod login;
mod logs;
mod ping;

use std::io::IsTerminal;

use tollgate::config::Loaded;
use tollgate::mcp::upstream::{Trouble, UpstreamState, UpstreamStatus};

use super::{configuration, open};
use crate::args::{Format, Global, McpAction};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// Exit status when a server does not answer.
const AILING: u8 = 1;
/// How much of a server's standard error is shown.
const STDERR_LINES: usize = 5;

pub(crate) async fn run(global: &Global, action: McpAction) -> Result<u8, Failure> {
    match action {
        McpAction::List => list(global).await,
        McpAction::Add(args) => add::run(global, &args),
        McpAction::Inspect { name } => inspect::run(global, &name).await,
        McpAction::Login(args) => login::log_in(global, args).await,
        McpAction::Logout { name } => login::log_out(global, &name).await,
        McpAction::Ping { names, count } => ping::run(global, names, count).await,
        McpAction::Logs { name, lines } => logs::run(global, &name, lines),
    }
}

async fn list(global: &Global) -> Result<u8, Failure> {
    let house = open(global, configuration(global)?).await?;
    let servers = house.servers().await;
    house.stop().await;
    match output::format(global) {
        Format::Json => output::json(&servers)?,
        Format::Text if servers.is_empty() => {
            output::line("no MCP server is configured: tollgate mcp add adds one")?;
        }
        Format::Text => output::out(&for_people(&servers))?,
    }
    let all_well = servers.iter().all(|server| server.state == UpstreamState::Ready);
    Ok(if all_well { 0 } else { AILING })
}

/// Whether a server has this name.
fn known(loaded: &Loaded, name: &str) -> Result<(), Failure> {
    if loaded.config.mcp.contains_key(name) {
        return Ok(());
    }
    let names: Vec<String> = loaded.config.mcp.keys().map(|name| format!("`{name}`")).collect();
    let hint = match names.is_empty() {
        true => "tollgate mcp add adds one".to_owned(),
        false => format!("there is {}", names.join(", ")),
    };
    Err(Failure::usage(format!("no MCP server is named `{name}`")).hint(hint))
}

/// The configuration with these servers alone.
fn only(mut loaded: Loaded, names: &[String]) -> Loaded {
    loaded.config.mcp.retain(|name, _| names.contains(name));
    loaded
}

fn for_people(servers: &[UpstreamStatus]) -> String {
    let rows = servers.iter().map(|server| {
        vec![
            server.name.clone(),
            server.state.as_str().to_owned(),
            server.era.unwrap_or_default().to_owned(),
            server.tools.len().to_string(),
            server.prompts.len().to_string(),
            server.resources.len().to_string(),
            server.quarantined.len().to_string(),
            visible(server.last_error.as_deref().unwrap_or_default()),
        ]
    });
    let mut text = output::table(
        &["server", "state", "revision", "tools", "prompts", "resources", "set aside", "last error"],
        rows,
    );
    let is_terminal = std::io::stdout().is_terminal();
    servers.iter().for_each(|server| text.push_str(&trouble_lines(server, is_terminal)));
    text
}

/// What is set aside of a server, and its last words where it does not answer.
fn trouble_lines(server: &UpstreamStatus, is_terminal: bool) -> String {
    let mut text = String::new();
    for aside in &server.quarantined {
        let tool = style(Style::Bold, &visible(&aside.tool), is_terminal);
        text.push_str(&format!("{}: {tool} is set aside: {}\n", server.name, visible(&aside.reason)));
    }
    if server.state != UpstreamState::Ready {
        let lines: Vec<&str> = server.stderr_tail.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(STDERR_LINES)) {
            text.push_str(&format!("{}: stderr: {}\n", server.name, visible(line)));
        }
        text.push_str(&match server.trouble {
            Some(Trouble::NeedsLogin) => format!("what mends it: tollgate mcp login {}\n", server.name),
            _ => format!("what mends it: tollgate doctor; all that it said: tollgate mcp logs {}\n", server.name),
        });
    }
    text
}
