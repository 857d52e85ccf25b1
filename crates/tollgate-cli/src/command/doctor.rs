//! `tollgate doctor`: what is missing and how to mend it; `doctor url`: where a URL from a model or a tool may lead.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::IpAddr;

use serde::Serialize;
use tollgate::config::{Loaded, Runs};
use tollgate::ledger::{self, LedgerError};

use super::configuration;
use crate::args::{DoctorAction, Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style};

/// Exit status when a URL may not be asked.
const BLOCKED: u8 = 3;
/// Exit status when something must be mended.
const AILING: u8 = 1;

pub(crate) async fn run(global: &Global, action: Option<DoctorAction>) -> Result<u8, Failure> {
    match action {
        Some(DoctorAction::Url { url, resolve }) => judge(global, url, &resolve).await,
        None => examine(global).await,
    }
}

async fn judge(global: &Global, url: String, resolve: &[String]) -> Result<u8, Failure> {
    let pinned = pinned(resolve)?;
    let report = tokio::task::spawn_blocking(move || tollgate::check_url(&url, &pinned))
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    match output::format(global) {
        Format::Json => output::json(&report)?,
        Format::Text => {
            let is_terminal = std::io::stdout().is_terminal();
            let (colour, word) = if report.allowed { (Style::Green, "allowed") } else { (Style::Red, "blocked") };
            output::line(&format!("{}: {} ({})", style(colour, word, is_terminal), report.url, report.reason))?;
        }
    }
    Ok(if report.allowed { 0 } else { BLOCKED })
}

/// `HOST=IP`, where one host may have several.
fn pinned(resolve: &[String]) -> Result<BTreeMap<String, Vec<IpAddr>>, Failure> {
    let mut pinned: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for pair in resolve {
        let fault =
            || Failure::usage(format!("`{pair}` is not HOST=IP")).hint("such as --resolve example.com=93.184.216.34");
        let (host, address) = pair.split_once('=').ok_or_else(fault)?;
        let addresses = pinned.entry(host.to_owned()).or_default();
        if !address.is_empty() {
            addresses.push(address.trim_matches(['[', ']']).parse().map_err(|_| fault())?);
        }
    }
    Ok(pinned)
}

/// One thing that was looked at.
#[derive(Serialize)]
struct Finding {
    what: String,
    ok: bool,
    found: String,
    /// What to do about it, where there is something to do.
    mend: Option<String>,
}

impl Finding {
    fn well(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), ok: true, found: found.into(), mend: None }
    }

    fn ailing(what: impl Into<String>, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { what: what.into(), ok: false, found: found.into(), mend: Some(mend.into()) }
    }
}

async fn examine(global: &Global) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let mut findings = vec![match &loaded.file {
        Some(file) => Finding::well("configuration", file.display().to_string()),
        None => Finding::well("configuration", "none: every key has its default (`tollgate init` writes one)"),
    }];
    findings.push(folder("workspace", &loaded.workspace()));
    findings.push(record(&loaded));
    findings.extend(models(&loaded).await);
    findings.extend(programs(&loaded)?);
    findings.push(Finding::well("sandbox", format!("{}: programs run without isolation", tollgate::sandbox_level())));
    match output::format(global) {
        Format::Json => output::json(&findings)?,
        Format::Text => output::out(&for_people(&findings))?,
    }
    Ok(if findings.iter().all(|finding| finding.ok) { 0 } else { AILING })
}

fn folder(what: &str, path: &std::path::Path) -> Finding {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Finding::well(what, path.display().to_string()),
        Ok(_) => Finding::ailing(what, format!("`{}` is not a folder", path.display()), "correct it in tollgate.toml"),
        Err(error) => {
            Finding::ailing(what, format!("`{}`: {error}", path.display()), format!("mkdir -p {}", path.display()))
        }
    }
}

fn record(loaded: &Loaded) -> Finding {
    let data_dir = loaded.data_dir();
    match ledger::verify(&data_dir) {
        Ok(report) if report.ok => {
            Finding::well("ledger", format!("{} records in one unbroken chain, {}", report.records, data_dir.display()))
        }
        Ok(report) => {
            let message = report.fault.map(|fault| fault.message).unwrap_or_default();
            Finding::ailing("ledger", message, "tollgate audit verify")
        }
        Err(LedgerError::Missing { .. }) => Finding::well("ledger", format!("none yet, {}", data_dir.display())),
        Err(error) => Finding::ailing("ledger", error.to_string(), "check the disk and the folder's owner"),
    }
}

async fn models(loaded: &Loaded) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, model) in &loaded.config.models {
        let what = format!("model {name}");
        let found = match &model.api_key {
            Some(source) => source.resolve(&loaded.folder).await.map(|_| ()),
            None => Ok(()),
        };
        findings.push(match found {
            Ok(()) => Finding::well(what, format!("{} at {}", model.model, model.base_url)),
            Err(why) => Finding::ailing(what, why, format!("correct `api_key` of [models.{name}]")),
        });
    }
    findings
}

fn programs(loaded: &Loaded) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    for tool in loaded.tools()? {
        let Runs::Command(command) = &tool.runs else { continue };
        let program = command.first().cloned().unwrap_or_default();
        let what = format!("tool {}", tool.definition.name);
        findings.push(installed(what, &program, command.join(" "), loaded));
    }
    for (name, server) in &loaded.config.mcp {
        let (server, what) = (server.get_ref(), format!("MCP server {name}"));
        match (&server.command, &server.url) {
            (Some(program), _) => {
                let words: Vec<_> = std::iter::once(program).chain(&server.args).map(String::as_str).collect();
                findings.push(installed(what, program, words.join(" "), loaded));
            }
            (None, url) => findings.push(Finding::well(what, url.clone().unwrap_or_default())),
        }
    }
    Ok(findings)
}

fn installed(what: String, program: &str, command: String, loaded: &Loaded) -> Finding {
    if is_there(program, &loaded.folder) {
        return Finding::well(what, command);
    }
    let mend = format!("install `{program}`, or correct `command` in tollgate.toml");
    Finding::ailing(what, format!("the program `{program}` is not there"), mend)
}

fn is_there(program: &str, folder: &std::path::Path) -> bool {
    if program.contains('/') {
        return folder.join(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn for_people(findings: &[Finding]) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for finding in findings {
        let mark =
            if finding.ok { style(Style::Green, "✓", is_terminal) } else { style(Style::Red, "✗", is_terminal) };
        text.push_str(&format!("{mark} {}: {}\n", style(Style::Bold, &finding.what, is_terminal), finding.found));
        if let Some(mend) = &finding.mend {
            text.push_str(&format!("  {} {mend}\n", style(Style::Dim, "mend:", is_terminal)));
        }
    }
    text
}
