//! `tollgate mcp logs`: what a server printed to standard error.

use serde::Serialize;
use tollgate::mcp::upstream::tail;

use super::known;
use crate::args::{Format, Global};
use crate::command::configuration;
use crate::failure::Failure;
use crate::output::{self, visible};

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    lines: Vec<String>,
}

pub(super) fn run(global: &Global, name: &str, lines: usize) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    known(&loaded, name)?;
    let path = tollgate::server_log(&loaded.data_dir(), name);
    let file = path.display().to_string();
    let lines =
        tail(&path, lines).map_err(|error| Failure::unavailable(format!("`{file}` cannot be read: {error}")))?;
    if lines.is_empty() {
        let is_program = loaded.config.mcp.get(name).is_some_and(|server| server.get_ref().command.is_some());
        let why = if is_program { "it printed nothing to standard error yet" } else { "it is no program of ours" };
        output::aside(&format!("nothing is kept of `{name}`: {why}\n"));
    }
    match output::format(global) {
        Format::Json => output::json(&Report { file, lines })?,
        Format::Text => lines.iter().try_for_each(|line| output::line(&visible(line)))?,
    }
    Ok(0)
}
