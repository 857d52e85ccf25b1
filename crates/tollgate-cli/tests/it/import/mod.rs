//! `tollgate init` with the lists of other clients: what comes into `tollgate.toml`, what does not, and that nothing is lost.

mod broken;
mod lists;
mod twice;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::shop::{Done, Shop};

/// What no file but a secret's own may hold, and nothing may print.
const PLANTED: &str = "zq-planted";

/// A project, and the home of its user beside it.
struct Desk {
    shop: Shop,
    home: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self { shop: Shop::bare(), home: tempfile::tempdir().unwrap() }
    }

    /// A project with the lists of all clients.
    fn full() -> Self {
        let desk = Self::new();
        for (file, text) in [
            (".mcp.json", include_str!("../lists/claude.mcp.json")),
            (".cursor/mcp.json", include_str!("../lists/cursor.mcp.json")),
            (".vscode/mcp.json", include_str!("../lists/vscode.mcp.json")),
            (".codex/config.toml", include_str!("../lists/codex.config.toml")),
            (".env", "# for the tracker\nexport TRACKER_KEY='zq-planted-file-4711'\nMODE=fast\n"),
        ] {
            put(desk.shop.path(), file, text);
        }
        desk
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.shop.command(args);
        command.env("HOME", self.home.path());
        let needed = ["DOCS_TOKEN", "GITHUB_TOKEN", "LINEAR_TOKEN", "PERPLEXITY_KEY", "TOOLS_HOME"];
        let codex = ["HTTPS_PROXY", "TRACE_ID"];
        for name in ["CODEX_HOME", "CLAUDE_CONFIG_DIR"].iter().chain(&needed).chain(&codex) {
            command.env_remove(name);
        }
        command.env("CONTEXT7_KEY", "zq-planted-variable-4711");
        command
    }

    fn tollgate(&self, args: &[&str]) -> Done {
        self.command(args).output().unwrap().into()
    }

    fn toml(&self) -> String {
        std::fs::read_to_string(self.shop.path().join("tollgate.toml")).unwrap()
    }

    /// The text without what differs from run to run.
    fn plain(&self, text: &str) -> String {
        let real = self.shop.path().canonicalize().unwrap();
        text.replace(real.to_str().unwrap(), "PROJECT").replace(self.shop.path().to_str().unwrap(), "PROJECT")
    }
}

fn put(folder: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A server of a report, by its name in the list.
fn server<'a>(report: &'a Value, file: &str, name: &str) -> &'a Value {
    let list = report["lists"].as_array().unwrap().iter().find(|list| list["file"] == file).unwrap();
    list["servers"].as_array().unwrap().iter().find(|server| server["name"] == name).unwrap()
}
