//! `tollgate init`: a commented configuration to start from, with the servers that other MCP clients know.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

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
    let before = before(&absolute, &path, args)?;
    let mut target = Target::new(&path, &absolute, TEMPLATE);
    let folder = target.folder(&world.folder);
    let loaded = match &before {
        Some(bytes) if !args.force => {
            target.start = String::from_utf8_lossy(bytes).into_owned();
            target.is_new = false;
            Loaded::read(&absolute, &folder)?
        }
        _ => Loaded::defaults(&folder),
    };
    target.before = before;
    let asked = world.asked(&args.import)?;
    let mut import = Import::new(&world, &loaded, &folder);
    for place in &asked {
        import.some_of_list(place, None);
    }
    let seen = import.seen(&asked);
    finish(global, &target, &import, seen, args.dry_run)
}

/// The configuration that is written.
pub(crate) struct Target {
    /// As it was named.
    path: PathBuf,
    absolute: PathBuf,
    /// As it was read; none when there must be no file.
    before: Option<Vec<u8>>,
    /// What it begins with.
    start: String,
    is_new: bool,
}

impl Target {
    /// A file that is not there yet.
    pub(crate) fn new(path: &Path, absolute: &Path, start: &str) -> Self {
        let (path, absolute) = (path.to_owned(), absolute.to_owned());
        Self { path, absolute, before: None, start: start.to_owned(), is_new: true }
    }

    /// A file that gets more at its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn existing(here: &Path, path: &Path) -> Result<Self, Failure> {
        let absolute = here.join(path);
        let bytes = std::fs::read(&absolute).map_err(|error| unread(path, &error))?;
        let start = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { path: path.to_owned(), absolute, before: Some(bytes), start, is_new: false })
    }

    /// The folder that it stands in.
    pub(crate) fn folder(&self, here: &Path) -> PathBuf {
        self.absolute.parent().unwrap_or(here).to_owned()
    }
}

/// Writes what was taken over, unless it is only tried, and says what came of it.
pub(crate) fn finish(
    global: &Global,
    target: &Target,
    import: &Import<'_>,
    seen: Vec<Seen>,
    is_dry_run: bool,
) -> Result<u8, Failure> {
    let Import { text: added, secrets, lists, .. } = import;
    let is_writing = !is_dry_run && (target.is_new || !added.is_empty());
    if is_writing {
        let whole = appended(&target.start, added);
        let staged = import::stage(&target.absolute, target.before.as_deref(), &whole)?;
        import::keep(secrets)?;
        staged.commit()?;
    }
    let report = Report {
        file: target.path.display().to_string(),
        written: is_writing,
        lists: lists.clone(),
        secrets: secrets.iter().map(|kept| kept.file.display().to_string()).collect(),
        seen,
        text: is_dry_run.then(|| if target.is_new { appended(&target.start, added) } else { added.clone() }),
    };
    show(global, &report)?;
    let is_left =
        |list: &ListReport| list.fault.is_some() || list.servers.iter().any(|server| server.outcome == Became::Refused);
    Ok(if report.lists.iter().any(is_left) { LEFT } else { 0 })
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("`{}` cannot be read: {error}", path.display()))
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
    std::fs::read(absolute).map(Some).map_err(|error| unread(path, &error))
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
