//! `[resources]`: files of the workspace and schemas of databases, as resources for MCP clients.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_tools::FileGlobs;

use super::{ConfigError, Loaded};

/// `[resources]`: what MCP clients may read of the house itself. Roles name it `resources/URI`. docs/resources.md.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// Globs of the files of the workspace that are resources, `file:///PATH`: `*.md` by name at any depth, `docs/**` by path;
    /// unsaid: none. Hidden ones never are.
    pub files: Vec<String>,
    /// Whether the schemas of `[databases.NAME]` are resources: `sqlite://NAME/schema`, `postgres://NAME/schema`.
    pub schemas: bool,
}

impl Loaded {
    /// Which files are resources, where some are.
    ///
    /// # Errors
    /// When a glob cannot be read.
    pub(crate) fn file_globs(&self) -> Result<Option<FileGlobs>, ConfigError> {
        let resources = &self.config.resources;
        let globs = &resources.get_ref().files;
        let read = (!globs.is_empty()).then(|| FileGlobs::read(globs)).transpose();
        const HINT: &str = "files = [\"*.md\", \"docs/**\"]";
        read.map_err(|why| self.key_fault(resources, "resources", "files", why, HINT))
    }
}
