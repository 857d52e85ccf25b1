//! `[databases.NAME]` and `[search]`: what the data and information tools ask.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_tools::SearchKind;
use toml::Spanned;

use super::{ConfigError, Loaded, SecretSource};

/// Where Brave answers.
const BRAVE_URL: &str = "https://api.search.brave.com";

/// `[databases.NAME]`: an SQLite file or a PostgreSQL server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// An SQLite file. Relative to the file's folder.
    #[serde(default)]
    pub sqlite: Option<PathBuf>,
    /// The connection string of a PostgreSQL server, never itself: it holds a password. Such as
    /// `postgres://reader:PASSWORD@db.example.com/shop`; its user should be one that may only read.
    #[serde(default)]
    pub postgres: Option<SecretSource>,
}

/// `[search]`: the engine that `search_web` asks.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// The kind of engine.
    pub kind: Engine,
    /// Where it answers: up to and without `/search` for SearXNG. Brave has a default.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The key, never itself: `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`. Brave wants one.
    #[serde(default)]
    pub api_key: Option<SecretSource>,
}

/// The kinds of search engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// SearXNG, with the format `json` turned on.
    Searxng,
    /// The web search of Brave.
    Brave,
}

impl From<Engine> for SearchKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Searxng => Self::Searxng,
            Engine::Brave => Self::Brave,
        }
    }
}

/// What a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind<'a> {
    /// An SQLite file, as it is written.
    Sqlite(&'a PathBuf),
    /// Where the connection string of a PostgreSQL server is.
    Postgres(&'a SecretSource),
}

impl Loaded {
    /// What the database `name` is.
    ///
    /// # Errors
    /// When it says both, or neither.
    pub fn database_kind<'a>(
        &self,
        name: &str,
        database: &'a Spanned<Database>,
    ) -> Result<DatabaseKind<'a>, ConfigError> {
        const HINT: &str = "sqlite = \"FILE\", or postgres = { env = \"NAME\" } with a connection string in it";
        let fault = |message: &str| Err(self.fault(database, format!("databases.{name}"), message.into(), HINT));
        match (&database.get_ref().sqlite, &database.get_ref().postgres) {
            (Some(path), None) => Ok(DatabaseKind::Sqlite(path)),
            (None, Some(source)) => Ok(DatabaseKind::Postgres(source)),
            (Some(_), Some(_)) => fault("it has both `sqlite` and `postgres`"),
            (None, None) => fault("it has neither `sqlite` nor `postgres`"),
        }
    }

    /// Where the search engine answers, when there is one.
    ///
    /// # Errors
    /// When it says too little, or its address is none.
    pub fn search_url(&self) -> Result<Option<&str>, ConfigError> {
        let Some(table) = &self.config.search else { return Ok(None) };
        let fault = |key: &str, message: String, hint: &str| Err(self.key_fault(table, "search", key, message, hint));
        let search = table.get_ref();
        if search.kind == Engine::Brave && search.api_key.is_none() {
            return fault("api_key", "Brave wants one".into(), "api_key = { env = \"BRAVE_API_KEY\" }");
        }
        const HINT: &str = "base_url = \"https://search.example.com\"";
        let url = match (&search.base_url, search.kind) {
            (Some(url), _) => url,
            (None, Engine::Brave) => BRAVE_URL,
            (None, Engine::Searxng) => return fault("base_url", "SearXNG needs one".into(), HINT),
        };
        match tollgate_guard::client::Origin::of(url) {
            Ok(_) => Ok(Some(url)),
            Err(error) => fault("base_url", error.to_string(), HINT),
        }
    }
}
