//! Where in the file something is wrong: errors that are found after the file was read.

use tollgate_mcp::upstream::UpstreamError;
use tollgate_types::visible;
use toml::Spanned;

use super::{ConfigError, Loaded, error};

impl Loaded {
    /// An error at one key of a table that was read in a second step: the line is that of the key, where it has one.
    pub(super) fn inner_fault(
        &self,
        table: &Spanned<toml::Table>,
        key: &str,
        error: &serde_path_to_error::Error<toml::de::Error>,
        hint: &str,
    ) -> ConfigError {
        let path = error.path().to_string();
        let first = path.split(['.', '[']).next().unwrap_or_default();
        let named = error::unknown_field(error.inner().message()).unwrap_or(first);
        let key = if path == "." { key.to_owned() } else { format!("{key}.{path}") };
        let start = table.span().start;
        let offset = match error::line_of(&self.text, start, named) {
            // What stands in a table of one line stands on the line of that.
            offset if offset == start => error::line_of(&self.text, start, first),
            offset => offset,
        };
        let message = error.inner().message().to_owned();
        ConfigError::at(
            &self.file.clone().unwrap_or_default(),
            &self.text,
            offset,
            Some(key),
            message,
            Some(hint.to_owned()),
        )
    }

    /// An error at one table of the file.
    pub(crate) fn fault<T>(&self, at: &Spanned<T>, key: String, message: String, hint: &str) -> ConfigError {
        let file = self.file.clone().unwrap_or_default();
        ConfigError::at(&file, &self.text, at.span().start, Some(key), message, Some(hint.to_owned()))
    }

    /// An error at one key of a table.
    pub(crate) fn key_fault<T>(
        &self,
        table: &Spanned<T>,
        name: &str,
        key: &str,
        message: String,
        hint: &str,
    ) -> ConfigError {
        let file = self.file.clone().unwrap_or_default();
        let offset = error::line_of(&self.text, table.span().start, key);
        ConfigError::at(&file, &self.text, offset, Some(format!("{name}.{key}")), message, Some(hint.to_owned()))
    }

    /// An error of the tool `name`, at its table when the file has one.
    pub(crate) fn tool_fault(&self, name: &str, message: String) -> Option<ConfigError> {
        let is_named =
            |table: &&Spanned<toml::Table>| table.get_ref().get("name").and_then(toml::Value::as_str) == Some(name);
        let table = self.config.tool.iter().rfind(is_named)?;
        Some(self.fault(
            table,
            // It may be the name itself that is odd.
            format!("tool.{}", visible::line(name)),
            message,
            "give the tool another name, or correct its definition",
        ))
    }

    /// What is wrong with an MCP server, at the key that says it.
    pub(crate) fn server_fault(&self, error: &UpstreamError) -> ConfigError {
        let (UpstreamError::BadName { name, .. }
        | UpstreamError::Duplicate { name }
        | UpstreamError::BadUrl { name, .. }
        | UpstreamError::BadGlob { name, .. }) = error;
        let hint = "the keys of an MCP server are in docs/config.md";
        let Some(table) = self.config.mcp.get(name) else {
            return self.fault(&Spanned::new(0..0, ()), "mcp".into(), error.to_string(), hint);
        };
        let full = format!("mcp.{name}");
        match error {
            UpstreamError::BadUrl { .. } => {
                let hint = "an MCP server is at `http://` or `https://`, or at `ws://` or `wss://` by a WebSocket";
                self.key_fault(table, &full, "url", error.to_string(), hint)
            }
            UpstreamError::BadGlob { glob, .. } => {
                let hint = "use `*`, `?`, `[a-z]` and `{a,b}`";
                self.key_fault(table, &format!("{full}.tools"), glob, error.to_string(), hint)
            }
            UpstreamError::BadName { .. } | UpstreamError::Duplicate { .. } => {
                self.fault(table, full, error.to_string(), hint)
            }
        }
    }
}
