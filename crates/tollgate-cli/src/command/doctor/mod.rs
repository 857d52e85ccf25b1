//! `tollgate doctor`: what is missing and the command that mends it. It looks and changes nothing: what must be opened to be
//! looked at is opened in a folder of its own.

mod budgets;
mod program;
mod scratch;
mod secrets;
mod servers;
mod state;
mod trouble;
pub(crate) mod url;

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tollgate::config::{DatabaseKind, Loaded, Runs};
use tollgate::mcp::upstream::{Quarantined, Trouble};

use super::configuration;
use crate::args::{Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// Exit status when something must be mended.
const AILING: u8 = 1;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    ok: bool,
    found: String,
    /// What to do about it, where there is something to do.
    mend: Option<String>,
    /// What an MCP server said, where one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Box<Asked>>,
}

/// An MCP server that was asked.
#[derive(Debug, Serialize)]
struct Asked {
    transport: &'static str,
    /// The revision of the protocol that was agreed on.
    era: Option<&'static str>,
    /// What keeps it from coming up, in a word.
    trouble: Option<Trouble>,
    tools: usize,
    quarantined: Vec<Quarantined>,
    /// The end of what it printed to standard error, where it does not answer.
    stderr: Vec<String>,
}

impl Finding {
    fn well(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), ok: true, found: found.into(), mend: None, server: None }
    }

    fn ailing(what: impl Into<String>, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), ok: false, found: found.into(), mend: Some(mend.into()), server: None }
    }
}

pub(crate) async fn run(global: &Global, offline: bool, wait_seconds: u64) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let mut findings = vec![whole(global, &loaded).await?];
    findings.push(workspace(&loaded.workspace()));
    findings.extend(state::examine(&loaded).await);
    findings.extend(budgets::examine(&loaded).await);
    findings.extend(secrets::examine(&loaded).await);
    findings.extend(databases(&loaded).await?);
    findings.extend(tools(&loaded)?);
    let wait = (!offline).then(|| Duration::from_secs(wait_seconds));
    findings.extend(servers::examine(global, &loaded, wait).await?);
    findings.push(Finding::well("sandbox", format!("{}: programs run without isolation", tollgate::sandbox_level())));
    match output::format(global) {
        Format::Json => output::json(&findings)?,
        Format::Text => output::out(&for_people(&findings))?,
    }
    Ok(if findings.iter().all(|finding| finding.ok) { 0 } else { AILING })
}

/// The configuration as a whole: roles, tools and changes to them fit together.
async fn whole(global: &Global, loaded: &Loaded) -> Result<Finding, Failure> {
    let mut tried = configuration(global)?;
    // These are looked at one by one.
    tried.config.mcp.clear();
    tried.config.env.clear();
    if let Err(finding) = scratch::Scratch::open("configuration", tried).await {
        return Ok(finding);
    }
    Ok(match &loaded.file {
        Some(file) => Finding::well("configuration", file.display().to_string()),
        None => Finding::well("configuration", "none: every key has its default (`tollgate init` writes one)"),
    })
}

async fn databases(loaded: &Loaded) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for (name, database) in &loaded.config.databases {
        findings.push(match loaded.database_kind(name, database)? {
            DatabaseKind::Sqlite(path) => sqlite(name, &loaded.path(path)),
            DatabaseKind::Postgres(source) => secrets::postgres(name, source, loaded).await,
        });
    }
    Ok(findings)
}

fn sqlite(name: &str, path: &Path) -> Finding {
    let what = format!("database {name}");
    let opened = path.metadata().and_then(|metadata| {
        // Whoever opens a pipe waits for its other end.
        metadata.is_file().then(|| std::fs::File::open(path)).transpose()
    });
    match opened {
        Ok(Some(_)) => Finding::well(what, path.display().to_string()),
        Ok(None) => {
            let mend = format!("correct `sqlite` of [databases.{name}]");
            Finding::ailing(what, format!("`{}` is not a file", path.display()), mend)
        }
        Err(error) => {
            let mend = format!("ls -l {}", program::word(&path.display().to_string()));
            Finding::ailing(what, format!("`{}`: {error}", path.display()), mend)
        }
    }
}

fn workspace(path: &Path) -> Finding {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Finding::well("workspace", path.display().to_string()),
        Ok(_) => {
            let found = format!("`{}` is not a folder", path.display());
            Finding::ailing("workspace", found, "correct `workspace` in tollgate.toml")
        }
        Err(error) => {
            let mend = format!("mkdir -p {}", program::word(&path.display().to_string()));
            Finding::ailing("workspace", format!("`{}`: {error}", path.display()), mend)
        }
    }
}

fn tools(loaded: &Loaded) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for tool in loaded.tools()? {
        let Runs::Command(command) = &tool.runs else { continue };
        let what = format!("tool {}", tool.definition.name);
        let name = command.first().map(String::as_str).unwrap_or_default();
        findings.push(match program::missing(name, &loaded.folder) {
            None => Finding::well(what, command.join(" ")),
            Some((found, mend)) => Finding::ailing(what, found, mend),
        });
    }
    Ok(findings)
}

fn for_people(findings: &[Finding]) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for finding in findings {
        let mark =
            if finding.ok { style(Style::Green, "✓", is_terminal) } else { style(Style::Red, "✗", is_terminal) };
        let what = style(Style::Bold, &finding.what, is_terminal);
        text.push_str(&format!("{mark} {what}: {}\n", visible(&finding.found)));
        for aside in finding.server.iter().flat_map(|server| &server.quarantined) {
            text.push_str(&format!("    {} is set aside: {}\n", visible(&aside.tool), visible(&aside.reason)));
        }
        for line in finding.server.iter().flat_map(|server| &server.stderr) {
            text.push_str(&format!("    stderr: {}\n", visible(line)));
        }
        if let Some(mend) = &finding.mend {
            text.push_str(&format!("  {} {}\n", style(Style::Dim, "mend:", is_terminal), visible(mend)));
        }
    }
    text
}
