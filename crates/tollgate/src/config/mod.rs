//! `tollgate.toml`: every key has a default, and with no file at all everything works in the current folder.

mod approvals;
mod audit;
mod budget;
mod data;
mod error;
mod fault;
mod find;
mod limit;
mod mcp;
mod model;
mod oauth;
mod page;
mod policy;
mod prompts;
mod redact;
mod resilience;
mod resources;
mod results;
mod run;
mod secret;
mod server;
mod sets;
mod telemetry;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::client::socket_address;
use tollgate_types::{Language, RepairLevel, Resilience, ToolDefinition};
use toml::Spanned;

pub use approvals::{ApprovalWebhook, Approvals};
pub use audit::{Anchor, Audit, Retain};
pub use budget::{Budget, BudgetPer};
pub use data::{Database, DatabaseKind, Engine, Search};
pub use error::ConfigError;
pub use find::{Found, find};
pub use limit::{CountedBy, Limit, period};
pub(crate) use mcp::McpKind;
pub use mcp::{Asks, McpServer, ServerTools, Sessions, Start, Transport};
pub use model::{Api, CallIds, HostedTool, Model, Price};
pub use oauth::{McpGrant, McpOauth};
pub use page::{json_schema, page};
pub use policy::PolicyFile;
pub use prompts::{Prompt, PromptArgument, PromptMessage, Speaker};
pub use redact::{Redact, RedactExamples, RedactProfile, RedactRule};
pub use resources::Resources;
pub use results::Results;
pub use run::{Compaction, Run};
pub use secret::{SecretSource, TextOrSecret};
pub use server::Server;
pub use sets::Set;
pub use telemetry::{Level, Logs, Telemetry};

/// The whole file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "tollgate.toml")]
pub struct Config {
    /// Where the ledger, the state, kept results and keys live. Relative to the file's folder.
    pub data_dir: PathBuf,
    /// What the environment tools may touch; never the data folder or this file. Relative to the file's folder.
    pub workspace: PathBuf,
    /// The role of the local command line.
    #[schemars(with = "String")]
    pub role: Spanned<String>,
    /// The name of this environment, such as `production`; a tool may be bound to some.
    pub environment: Option<String>,
    /// The language of what models are told when a call does not work: `en` or `zh`. Codes and fields stay as they are.
    pub language: Language,
    /// How far arguments are mended that are not exactly right: `off`, `lossless` (unless anybody says more) or `lenient`;
    /// docs/repair.md. A role and a tool may say it too: the strictest counts, and no more than `lossless` where something
    /// changes.
    pub repair: Option<RepairLevel>,
    /// Whether results are wrapped as `{"ok": true, "data": …}` for the model.
    pub envelope: bool,
    /// Environment variables for programs, on top of PATH, HOME, LANG and their like.
    pub env: BTreeMap<String, TextOrSecret>,
    /// The HTTP server.
    pub server: Server,
    /// How the ledger is signed, and where that is kept.
    pub audit: Audit,
    /// Roles: who may do what.
    #[schemars(with = "BTreeMap<String, RoleSchema>")]
    pub roles: BTreeMap<String, Spanned<toml::Table>>,
    /// Rules in Cedar, and what they may read.
    #[schemars(with = "Option<PolicyFile>")]
    pub policy: Option<Spanned<PolicyFile>>,
    /// Where people are told of open questions.
    pub approvals: Approvals,
    /// How often callers may ask.
    #[schemars(with = "Vec<Limit>")]
    pub limit: Vec<Spanned<Limit>>,
    /// How much callers may spend.
    #[schemars(with = "Vec<Budget>")]
    pub budget: Vec<Spanned<Budget>>,
    /// What protects sources, and what is done about failures; docs/failure.md.
    #[schemars(with = "Resilience")]
    pub resilience: Spanned<Resilience>,
    /// What is hidden, and where.
    pub redact: Redact,
    /// Calls as OpenTelemetry spans, and the log.
    #[schemars(with = "Telemetry")]
    pub telemetry: Spanned<Telemetry>,
    /// How long whole results are kept, and how many.
    pub results: Results,
    /// Model servers; `default` is used unless `--model` names another.
    #[schemars(with = "BTreeMap<String, Model>")]
    pub models: BTreeMap<String, Spanned<Model>>,
    /// How models work with the tools in `tollgate run`, and what one run may spend.
    #[schemars(with = "Run")]
    pub run: Spanned<Run>,
    /// Databases that `query_database`, `list_tables` and `describe_table` read.
    #[schemars(with = "BTreeMap<String, Database>")]
    pub databases: BTreeMap<String, Spanned<Database>>,
    /// The search engine; without one there is no `search_web`.
    #[schemars(with = "Option<Search>")]
    pub search: Option<Spanned<Search>>,
    /// Programs and HTTP requests as tools.
    #[schemars(with = "Vec<ToolSchema>")]
    pub tool: Vec<Spanned<toml::Table>>,
    /// Changes to the definitions of tools whose name fits the glob.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub tools: BTreeMap<String, Spanned<toml::Table>>,
    /// MCP servers that Tollgate calls.
    #[schemars(with = "BTreeMap<String, McpServer>")]
    pub mcp: BTreeMap<String, Spanned<McpServer>>,
    /// Prompts, for people to choose in their clients.
    #[schemars(with = "BTreeMap<String, Prompt>")]
    pub prompts: BTreeMap<String, Spanned<Prompt>>,
    /// What MCP clients may read of the house itself.
    #[schemars(with = "Resources")]
    pub resources: Spanned<Resources>,
    /// Parts of all that, as some clients are to see them.
    #[schemars(with = "BTreeMap<String, Set>")]
    pub sets: BTreeMap<String, Spanned<Set>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: ".tollgate".into(),
            workspace: ".".into(),
            role: Spanned::new(0..0, "developer".into()),
            environment: None,
            language: Language::En,
            repair: None,
            envelope: false,
            env: BTreeMap::new(),
            server: Server::default(),
            audit: Audit::default(),
            roles: BTreeMap::new(),
            policy: None,
            approvals: Approvals::default(),
            limit: Vec::new(),
            budget: Vec::new(),
            resilience: Spanned::new(0..0, Resilience::default()),
            redact: Redact::default(),
            telemetry: Spanned::new(0..0, Telemetry::default()),
            results: Results::default(),
            models: BTreeMap::new(),
            run: Spanned::new(0..0, Run::default()),
            databases: BTreeMap::new(),
            search: None,
            tool: Vec::new(),
            tools: BTreeMap::new(),
            mcp: BTreeMap::new(),
            prompts: BTreeMap::new(),
            resources: Spanned::new(0..0, Resources::default()),
            sets: BTreeMap::new(),
        }
    }
}

/// What runs for a `[[tool]]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Runs {
    /// A program: arguments as JSON on its standard input, its standard output is the result.
    Command(Vec<String>),
    /// An HTTP request.
    Http(Http),
}

/// `http = { … }` of a `[[tool]]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// The URL; `{name}` in its path stands for an argument.
    pub url: String,
    /// Headers.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
}

fn get() -> String {
    "GET".into()
}

/// One `[[tool]]`, read.
#[derive(Debug, Clone)]
pub struct ToolConfig {
    /// Its definition.
    pub definition: ToolDefinition,
    /// What runs.
    pub runs: Runs,
}

/// `[[tool]]`: a definition, and `command` or `http`.
#[derive(JsonSchema)]
#[schemars(rename = "Tool")]
#[expect(dead_code, reason = "only its schema is used")]
struct ToolSchema {
    #[schemars(flatten)]
    definition: ToolDefinition,
    /// A program and its arguments.
    command: Option<Vec<String>>,
    /// An HTTP request.
    http: Option<Http>,
}

/// `[roles.NAME]`.
#[derive(JsonSchema)]
#[schemars(rename = "Role")]
#[expect(dead_code, reason = "only its schema is used")]
struct RoleSchema {
    /// Globs of the tools it may use.
    tools: Vec<String>,
    /// Globs of tools it may not use, whatever `tools` says.
    exclude: Vec<String>,
    /// The role whose grants it starts from.
    inherits: Option<String>,
    /// The highest permission it may use.
    permission: Option<tollgate_types::Permission>,
    /// The highest risk it may use.
    risk: Option<tollgate_types::Risk>,
    /// From where on a human is asked: `default`, `never`, `write` or `always`.
    ask: Option<String>,
    /// How often in a row the same call may end in the same way within a session, before it is refused as `no_progress`.
    repeats: Option<std::num::NonZeroU32>,
    /// The language in which its callers are told why a call does not work; unsaid: what `language` says for all.
    language: Option<Language>,
    /// How far arguments are mended at most: `off`, `lossless` or `lenient`; docs/repair.md.
    repair: Option<RepairLevel>,
}

/// A configuration with the file it came from.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The file, when there is one.
    pub file: Option<PathBuf>,
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// The file's text, for messages.
    text: String,
}

impl Loaded {
    /// The defaults, in `folder`.
    pub fn defaults(folder: impl Into<PathBuf>) -> Self {
        Self { config: Config::default(), file: None, folder: folder.into(), text: String::new() }
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is not TOML, or has a key that does not exist or does not fit: with file, line, key and
    /// what would be right.
    pub fn read(path: &Path, folder: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let text = error::read(path)?;
        let config: Config = toml::from_str(&text).map_err(|source| ConfigError::toml(path, &text, &source))?;
        let loaded = Self { config, file: Some(path.to_owned()), folder: folder.into(), text };
        loaded.tools()?;
        loaded.roles()?;
        loaded.config.mcp.iter().try_for_each(|(name, server)| loaded.mcp_kind(name, server).map(drop))?;
        loaded.config.databases.iter().try_for_each(|(name, base)| loaded.database_kind(name, base).map(drop))?;
        loaded.prompts()?;
        loaded.file_globs()?;
        loaded.sets()?;
        loaded.check_state_keys()?;
        loaded.search_url()?;
        loaded.webhook()?;
        loaded.task_rules()?;
        loaded.telemetry()?;
        if !loaded.config.redact.rule.is_empty() {
            loaded.redactor(&[])?;
        }
        loaded.check_resilience()?;
        loaded.checkpoint_idle()?;
        loaded.keeping()?;
        loaded.anchor()?;
        loaded.run()?;
        Ok(loaded)
    }

    /// A path of the file, from the folder it is relative to.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// The data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.path(&self.config.data_dir)
    }

    /// The workspace.
    pub fn workspace(&self) -> PathBuf {
        self.path(&self.config.workspace)
    }

    /// The `[[tool]]`s.
    ///
    /// # Errors
    /// When one has a key that does not exist or does not fit, or runs nothing.
    pub fn tools(&self) -> Result<Vec<ToolConfig>, ConfigError> {
        self.config.tool.iter().map(|table| self.tool(table)).collect()
    }

    fn tool(&self, table: &Spanned<toml::Table>) -> Result<ToolConfig, ConfigError> {
        let name = table.get_ref().get("name").and_then(toml::Value::as_str).unwrap_or("?").to_owned();
        let fault = |message: String, hint: &str| self.fault(table, format!("tool.{name}"), message, hint);
        let mut rest = table.get_ref().clone();
        let runs = match (rest.remove("command"), rest.remove("http")) {
            (Some(command), None) => command.try_into().map(Runs::Command).map_err(|e| {
                fault(format!("`command`: {}", e.message()), "write it as a list: command = [\"python3\", \"tool.py\"]")
            })?,
            (None, Some(http)) => http.try_into().map(Runs::Http).map_err(|e| {
                fault(format!("`http`: {}", e.message()), "write http = { method = \"GET\", url = \"https://…\" }")
            })?,
            (None, None) => {
                // A misspelt key says more than that nothing runs.
                let read: Result<ToolDefinition, _> = serde_path_to_error::deserialize(rest);
                let hint = "add command = [\"PROGRAM\", …] or http = { … }";
                return Err(match read {
                    Err(e) if error::unknown_field(e.inner().message()).is_some() => {
                        self.inner_fault(table, &format!("tool.{name}"), &e, hint)
                    }
                    _ => fault("it runs nothing".into(), hint),
                });
            }
            (Some(_), Some(_)) => return Err(fault("it has both `command` and `http`".into(), "keep one of them")),
        };
        if matches!(&runs, Runs::Command(command) if command.is_empty()) {
            return Err(fault("`command` is empty".into(), "write it as a list: command = [\"python3\", \"tool.py\"]"));
        }
        let definition = serde_path_to_error::deserialize(rest).map_err(|e| {
            self.inner_fault(table, &format!("tool.{name}"), &e, "the keys of a tool are in docs/config.md")
        })?;
        Ok(ToolConfig { definition, runs })
    }

    /// The roles.
    ///
    /// # Errors
    /// When one has a key that does not exist or does not fit.
    pub fn roles(&self) -> Result<Vec<tollgate_policy::Role>, ConfigError> {
        let mut roles = Vec::new();
        for (name, table) in &self.config.roles {
            let role: tollgate_policy::Role =
                serde_path_to_error::deserialize(table.get_ref().clone()).map_err(|e| {
                    let hint =
                        "a role has tools, exclude, inherits, permission, risk, ask, repeats, language and repair";
                    self.inner_fault(table, &format!("roles.{name}"), &e, hint)
                })?;
            roles.push(role.named(name));
        }
        Ok(roles)
    }

    /// How the MCP server `name` is reached.
    ///
    /// # Errors
    /// When it says of both ways, or of none, or one way has what belongs to the other.
    pub(crate) fn mcp_kind<'a>(&self, name: &str, server: &'a Spanned<McpServer>) -> Result<McpKind<'a>, ConfigError> {
        const HINT: &str = "command = \"PROGRAM\" with args and env, or url = \"https://…\" with headers";
        let fault = |message: &str| Err(self.fault(server, format!("mcp.{name}"), message.into(), HINT));
        let McpServer { command, url, args, env, headers, transport, oauth, .. } = server.get_ref();
        match (command, url) {
            (Some(_), Some(_)) => fault("it has both `command` and `url`"),
            (None, None) => fault("it has neither `command` nor `url`"),
            (Some(_), None) if !headers.is_empty() => fault("`headers` go with a `url`, not with a program"),
            (Some(_), None) if oauth.is_some() => fault("`oauth` goes with a `url`, not with a program"),
            (Some(_), None) if transport.is_some() => fault("`transport` goes with a `url`, not with a program"),
            (None, Some(url)) if transport.is_some() && socket_address(url) != *url => {
                fault("`transport` is for `http`: the address of a WebSocket says it all")
            }
            (None, Some(_)) if !args.is_empty() || !env.is_empty() => fault("`args` and `env` go with a `command`"),
            (Some(command), None) => Ok(McpKind::Program(command)),
            (None, Some(url)) => self.check_oauth(name, server, url).map(|()| McpKind::Endpoint(url)),
        }
    }
}
