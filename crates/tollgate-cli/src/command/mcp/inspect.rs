//! `tollgate mcp inspect`: everything that one server gives, and what is set aside.

use std::io::IsTerminal;
use std::sync::Arc;

use serde::Serialize;
use tollgate::mcp::upstream::{UpstreamState, UpstreamStatus};
use tollgate::{CallKind, ToolDefinition};

use super::{AILING, known, only, trouble_lines};
use crate::args::{Format, Global};
use crate::command::{configuration, open};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// Characters of a description that stand in a table.
const DESCRIPTION_CHARS: usize = 80;
/// What a server gives, as it is headed.
const KINDS: [(CallKind, &str); 4] = [
    (CallKind::Tool, "tool"),
    (CallKind::Prompt, "prompt"),
    (CallKind::Resource, "resource"),
    (CallKind::Template, "template of resources"),
];

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    server: UpstreamStatus,
    /// Everything that may be asked of it, by its name here.
    gives: Vec<Arc<ToolDefinition>>,
}

pub(super) async fn run(global: &Global, name: &str) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    known(&loaded, name)?;
    let house = open(global, only(loaded, &[name.to_owned()])).await?;
    let server = house.servers().await.into_iter().find(|server| server.name == name);
    let prefix = format!("mcp__{name}__");
    let all = house.gate().catalog().all().into_iter();
    // Beside them are the questions that it may ask of clients.
    let is_given =
        |it: &Arc<ToolDefinition>| it.name.starts_with(&prefix) && KINDS.iter().any(|(kind, _)| *kind == it.kind);
    let gives = all.map(|entry| Arc::clone(&entry.definition)).filter(is_given).collect();
    house.stop().await;
    // A server that lacks a secret was warned of, and is not there.
    let Some(server) = server else { return Ok(AILING) };
    let is_well = server.state == UpstreamState::Ready;
    let report = Report { server, gives };
    match output::format(global) {
        Format::Json => output::json_hiding(&report)?,
        Format::Text => output::out(&for_people(&report, &prefix))?,
    }
    Ok(if is_well { 0 } else { AILING })
}

fn for_people(Report { server, gives }: &Report, prefix: &str) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let told = &server.introduction;
    let says = |text: &Option<String>| text.as_deref().map(visible).unwrap_or_else(|| "-".to_owned());
    let mut text = format!(
        "{} {}, revision {}\nsays it is {} {}\n",
        style(Style::Bold, &server.name, is_terminal),
        server.state.as_str(),
        server.era.unwrap_or("-"),
        says(&told.name),
        says(&told.version),
    );
    if let Some(capabilities) = told.capabilities.as_object() {
        let names: Vec<&str> = capabilities.keys().map(String::as_str).collect();
        text.push_str(&format!("can {}\n", visible(&names.join(", "))));
    }
    if let Some(instructions) = &told.instructions {
        text.push_str(&format!("wants to be used so: {}\n", visible(instructions.trim())));
    }
    for (kind, title) in KINDS {
        let rows: Vec<Vec<String>> = gives.iter().filter(|it| it.kind == kind).map(|it| row(it, prefix)).collect();
        if !rows.is_empty() {
            text.push_str(&output::table(&[title, "risk", "permission", "what it says of itself"], rows));
        }
    }
    text.push_str(&trouble_lines(server, is_terminal));
    text
}

fn row(definition: &ToolDefinition, prefix: &str) -> Vec<String> {
    let line = definition.description.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(DESCRIPTION_CHARS).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    let name = definition.name.strip_prefix(prefix).unwrap_or(&definition.name);
    let name = ["prompts/", "resources/"].iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    let (risk, permission) = (definition.risk.as_str().to_owned(), definition.permission.as_str().to_owned());
    vec![visible(name), risk, permission, visible(&short)]
}
