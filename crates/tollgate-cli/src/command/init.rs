//! `tollgate init`: a commented configuration to start from, with the servers that other MCP clients know.

use std::io::IsTerminal;
use std::path::Path;

use serde::Serialize;
use tollgate::config::Loaded;

use crate::args::{Format, Global, InitArgs};
use crate::failure::Failure;
use crate::import::{self, Became, Import, ListReport, Seen, ServerReport, World};
use crate::output::{self, Style, style, visible};

/// What is written. A test reads it back.
pub(crate) const TEMPLATE: &str = include_str!("../../assets/tollgate.toml");

/// Exit status when something of a list was left out for a reason.
const LEFT: u8 = 1;

/// What came of it.
#[derive(Serialize)]
struct Report {
    file: String,
    /// Whether the file was written now.
    written: bool,
    lists: Vec<ListReport>,
    /// The files that hold the secrets of the lists.
    secrets: Vec<String>,
    /// The lists that were not asked for.
    seen: Vec<Seen>,
    /// What would be written, where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

pub(crate) fn run(global: &Global, args: &InitArgs) -> Result<u8, Failure> {
    let path = global.config.clone().unwrap_or_else(|| "tollgate.toml".into());
    let world = World::here()?;
    let absolute = world.folder.join(&path);
    let folder = absolute.parent().unwrap_or(&world.folder);
    let before = before(&absolute, &path, args)?;
    let (loaded, start) = match &before {
        Some(bytes) if !args.force => {
            let loaded = Loaded::read(&absolute, folder)?;
            (loaded, String::from_utf8_lossy(bytes).into_owned())
        }
        _ => (Loaded::defaults(folder), TEMPLATE.to_owned()),
    };
    let asked = world.asked(&args.import)?;
    let mut import = Import::new(&world, &loaded, folder);
    for place in &asked {
        import.list(place);
    }
    let seen = import.seen(&asked);
    let Import { text: added, secrets, lists, .. } = import;
    let is_new = before.is_none() || args.force;
    let is_writing = !args.dry_run && (is_new || !added.is_empty());
    if is_writing {
        let staged = import::stage(&absolute, before.as_deref(), &appended(&start, &added))?;
        import::keep(&secrets)?;
        staged.commit()?;
    }
    let report = Report {
        file: path.display().to_string(),
        written: is_writing,
        lists,
        secrets: secrets.iter().map(|kept| kept.file.display().to_string()).collect(),
        seen,
        text: args.dry_run.then(|| if is_new { appended(&start, &added) } else { added }),
    };
    show(global, &report)?;
    let is_left =
        |list: &ListReport| list.fault.is_some() || list.servers.iter().any(|server| server.outcome == Became::Refused);
    Ok(if report.lists.iter().any(is_left) { LEFT } else { 0 })
}

/// The file of before, when there is one and it may be changed.
fn before(absolute: &Path, path: &Path, args: &InitArgs) -> Result<Option<Vec<u8>>, Failure> {
    if absolute.symlink_metadata().is_err() {
        return Ok(None);
    }
    if !args.force && args.import.is_empty() {
        return Err(Failure::usage(format!("`{}` exists already", path.display())).hint(
            "add the servers of other MCP clients with --import project (or claude, cursor, …), or write over it with --force",
        ));
    }
    if !absolute.is_file() {
        return Err(Failure::usage(format!("`{}` is not a file", path.display())));
    }
    let bytes = std::fs::read(absolute);
    bytes.map(Some).map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", path.display())))
}

/// The text with more at its end, in the line ends that it has.
fn appended(start: &str, added: &str) -> String {
    let line_end = if start.contains("\r\n") { "\r\n" } else { "\n" };
    let mut text = start.to_owned();
    if !text.is_empty() && !text.ends_with('\n') && !added.is_empty() {
        text.push_str(line_end);
    }
    text.push_str(&added.replace('\n', line_end));
    text
}

fn show(global: &Global, report: &Report) -> Result<(), Failure> {
    match (output::format(global), &report.text) {
        (Format::Json, _) => output::json(report)?,
        (Format::Text, None) => output::out(&for_people(report, std::io::stdout().is_terminal()))?,
        (Format::Text, Some(text)) => {
            output::err(&for_people(report, std::io::stderr().is_terminal()));
            output::out(text)?;
        }
    }
    if report.written {
        output::err(&format!("wrote {}\n", report.file));
    }
    Ok(())
}

fn for_people(report: &Report, is_terminal: bool) -> String {
    let mut text = String::new();
    for list in &report.lists {
        let count = match list.servers.len() {
            1 => "1 server".to_owned(),
            count => format!("{count} servers"),
        };
        text.push_str(&format!("{} ({}): ", style(Style::Bold, &list.file, is_terminal), list.title));
        match &list.fault {
            Some(fault) => {
                let line = fault.line.map(|line| format!("line {line}, ")).unwrap_or_default();
                let column = fault.column.map(|column| format!("column {column}: ")).unwrap_or_default();
                let said = format!("{line}{column}{}", visible(&fault.message));
                text.push_str(&format!("{}\n", style(Style::Red, &said, is_terminal)));
            }
            None => text.push_str(&format!("{count}\n")),
        }
        list.servers.iter().for_each(|server| text.push_str(&one(server, is_terminal)));
    }
    if !report.secrets.is_empty() {
        let lead =
            if report.written { "secrets, each in a file for its owner alone" } else { "secrets would be kept in" };
        text.push_str(&format!("{lead}:\n"));
        report.secrets.iter().for_each(|file| text.push_str(&format!("  {file}\n")));
    }
    for seen in &report.seen {
        text.push_str(&format!("{} ({}) has {} more: {}\n", seen.file, seen.title, seen.servers, seen.command));
    }
    if report.lists.iter().flat_map(|list| &list.servers).any(|server| server.outcome == Became::Added) {
        text.push_str(
            "nothing was started: `tollgate doctor` starts each server and says what it has\n\
             a client then needs one server: {\"command\": \"tollgate\", \"args\": [\"serve\", \"--stdio\", \"--role\", \"developer\"]}\n",
        );
    }
    text
}

fn one(server: &ServerReport, is_terminal: bool) -> String {
    let (mark, said) = match server.outcome {
        Became::Added => (style(Style::Green, "+", is_terminal), server.reaches.clone().unwrap_or_default()),
        Became::Present => (style(Style::Dim, "=", is_terminal), "is there already".to_owned()),
        Became::Disabled | Became::Itself => (style(Style::Yellow, "-", is_terminal), "was left out".to_owned()),
        Became::Refused => (style(Style::Red, "✗", is_terminal), "was not taken over".to_owned()),
    };
    let name = style(Style::Bold, server.here.as_deref().unwrap_or(&server.name), is_terminal);
    let mut text = format!("  {mark} {name}: {said}\n");
    for note in &server.notes {
        text.push_str(&format!("      {}\n", visible(note)));
    }
    text
}
