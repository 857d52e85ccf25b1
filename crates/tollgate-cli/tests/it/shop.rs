//! A folder with a Tollgate in it, and what its commands print.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// One folder.
pub(crate) struct Shop(TempDir);

/// What one command came to.
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.stdout, self.stderr))
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Shop {
    /// A folder without a configuration.
    pub(crate) fn bare() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with this `tollgate.toml`.
    pub(crate) fn with(config: &str) -> Self {
        let shop = Self::bare();
        std::fs::write(shop.path().join("tollgate.toml"), config).unwrap();
        shop
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, with nothing of this machine's user in it.
    #[expect(clippy::disallowed_methods, reason = "the program under test is started, and no tool runs")]
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        command.args(args).current_dir(self.path()).env("HOME", self.path()).env("USER", "bob");
        command.env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
        command
    }

    pub(crate) fn tollgate(&self, args: &[&str]) -> Done {
        self.command(args).output().unwrap().into()
    }

    /// The same with text on standard input.
    pub(crate) fn fed(&self, args: &[&str], input: &[u8]) -> Done {
        use std::io::Write;
        let mut child = self.start(args);
        // A command that does not read its input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }

    /// The command, running, with pipes at all ends.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The lines of the ledger.
    pub(crate) fn ledger(&self) -> Vec<String> {
        let path = self.path().join(".tollgate/audit/segment-000000000001.jsonl");
        std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
    }

    pub(crate) fn write_ledger(&self, lines: &[String]) {
        let path = self.path().join(".tollgate/audit/segment-000000000001.jsonl");
        std::fs::write(path, format!("{}\n", lines.join("\n"))).unwrap();
    }
}
