//! How the MCP servers do, for those who watch them: nothing is started by looking, and no secret is seen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_guard::redact::Redactor;
use tollgate_mcp::upstream::{LogFile, UpstreamConfig, UpstreamStatus};
use tollgate_types::Clock;

use crate::servers::Servers;

/// The MCP servers as they are now.
#[derive(Clone)]
pub struct ServerWatch {
    pub(crate) servers: Option<Arc<Servers>>,
    pub(crate) redactor: Redactor,
}

impl ServerWatch {
    /// Every server that is configured; one that nobody needed yet is idle.
    pub fn statuses(&self) -> Vec<UpstreamStatus> {
        self.hidden(self.servers.as_ref().map(|servers| servers.seen()).unwrap_or_default())
    }

    /// The same without secrets: a server may print its own.
    pub(crate) fn hidden(&self, mut statuses: Vec<UpstreamStatus>) -> Vec<UpstreamStatus> {
        let hide = |text: &mut String| *text = self.redactor.text(text).into_owned();
        for status in &mut statuses {
            hide(&mut status.stderr_tail);
            status.last_error.iter_mut().for_each(hide);
            status.noise.last_lines.iter_mut().for_each(hide);
            status.introduction.instructions.iter_mut().for_each(hide);
            self.redactor.value(&mut status.introduction.capabilities);
        }
        statuses
    }
}

/// The file in a data folder that keeps what an MCP server prints to standard error.
pub fn server_log(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join("mcp").join(format!("{name}.log"))
}

/// The same servers, each with the file for its standard error.
pub(crate) fn logged(
    mut configs: Vec<UpstreamConfig>,
    data_dir: &Path,
    redactor: &Redactor,
    clock: &Arc<dyn Clock>,
) -> Vec<UpstreamConfig> {
    for config in &mut configs {
        config.log = Some(LogFile::new(server_log(data_dir, &config.name), redactor.clone(), Arc::clone(clock)));
    }
    configs
}
