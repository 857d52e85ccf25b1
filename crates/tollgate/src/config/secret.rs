//! Where a secret comes from. The configuration never holds one.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_guard::redact::SECRET_BYTES_MIN;
use tollgate_sandbox::Launch;
use tollgate_types::{CancellationToken, Progress, Secret};
use toml::Spanned;

use super::{ApprovalWebhook, Loaded, Runs};

/// A secret's source: exactly one of `env`, `file` and `command`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum SecretSource {
    /// The name of an environment variable.
    Env(String),
    /// A file whose content, without the line end, is the secret.
    File(PathBuf),
    /// A program that prints it.
    Command(Vec<String>),
}

/// Derived reading would quote what it finds; here that may be the secret itself.
impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Source {
            Env(String),
            File(PathBuf),
            Command(Vec<String>),
        }
        struct Sources;
        impl<'de> Visitor<'de> for Sources {
            type Value = SecretSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{ env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\", …] }")
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<SecretSource, E> {
                Err(E::custom("a text stands here where the source of a secret belongs"))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SecretSource, A::Error> {
                Ok(match Source::deserialize(MapAccessDeserializer::new(map))? {
                    Source::Env(name) => SecretSource::Env(name),
                    Source::File(path) => SecretSource::File(path),
                    Source::Command(command) => SecretSource::Command(command),
                })
            }
        }
        deserializer.deserialize_any(Sources)
    }
}

/// A plain text, or a secret's source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a text, { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\", …] }"
)]
pub enum TextOrSecret {
    /// Not secret.
    Text(String),
    /// Secret.
    Secret(SecretSource),
}

impl TextOrSecret {
    /// The source, when it is a secret.
    pub(crate) fn source(&self) -> Option<&SecretSource> {
        match self {
            Self::Secret(source) => Some(source),
            Self::Text(_) => None,
        }
    }
}

/// How long a program may take to print a secret.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a secret may be.
const SECRET_BYTES_MAX: usize = 64 * 1024;

impl SecretSource {
    /// Fetches the secret; paths are relative to `folder`.
    ///
    /// # Errors
    /// When it is not there, empty, or the program fails: a text that says which source, never the value.
    pub async fn resolve(&self, folder: &Path) -> Result<Secret, String> {
        let text = match self {
            Self::Env(name) => std::env::var(name).map_err(|error| match error {
                VarError::NotPresent => format!("the environment variable `{name}` is not set"),
                VarError::NotUnicode(_) => format!("the environment variable `{name}` is not UTF-8"),
            })?,
            Self::File(path) => {
                let path = folder.join(path);
                fs::read_to_string(&path)
                    .map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))?
            }
            Self::Command(command) => printed(command, folder).await?,
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.len() < SECRET_BYTES_MIN {
            let what = if text.is_empty() {
                "an empty text".to_owned()
            } else {
                format!("less than {SECRET_BYTES_MIN} bytes")
            };
            return Err(format!("{} gives {what}", self.describe()));
        }
        if text.len() > SECRET_BYTES_MAX {
            return Err(format!("{} gives more than {SECRET_BYTES_MAX} bytes", self.describe()));
        }
        Ok(Secret::new(text))
    }

    /// The file, when it is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Env(_) | Self::Command(_) => None,
        }
    }

    /// Which source it is, for a message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Env(name) => format!("the environment variable `{name}`"),
            Self::File(path) => format!("the file `{}`", path.display()),
            Self::Command(command) => format!("the command `{}`", command.join(" ")),
        }
    }
}

impl Loaded {
    /// The files that secrets are read from.
    pub fn secret_files(&self) -> Vec<PathBuf> {
        let config = &self.config;
        let models = config.models.values().map(Spanned::get_ref);
        let keys = models.clone().filter_map(|model| model.api_key.as_ref());
        let headers = models.flat_map(|model| model.headers.values());
        let tools = self.tools().unwrap_or_default();
        let tool_headers = tools.iter().filter_map(|tool| match &tool.runs {
            Runs::Http(http) => Some(http.headers.values()),
            Runs::Command(_) => None,
        });
        let servers = config.mcp.values().map(Spanned::get_ref);
        let logins = servers.clone().filter_map(|server| server.oauth.as_ref());
        let logins = logins.flat_map(|oauth| oauth.client_secret.iter().chain(&oauth.private_key));
        let in_servers = servers.flat_map(|server| server.env.values().chain(server.headers.values()));
        let anchor = config.audit.anchor.iter().flat_map(|anchor| anchor.get_ref().headers.values());
        let values = headers.chain(config.env.values()).chain(tool_headers.flatten()).chain(in_servers).chain(anchor);
        let values = values.chain(config.telemetry.get_ref().headers.values());
        let databases = config.databases.values().filter_map(|database| database.get_ref().postgres.as_ref());
        let webhook = config.approvals.webhook.iter().map(Spanned::get_ref);
        let webhook_secrets = webhook.clone().flat_map(ApprovalWebhook::secrets);
        let values = values.chain(webhook.flat_map(|webhook| webhook.headers.values()));
        let search = config.search.iter().filter_map(|search| search.get_ref().api_key.as_ref());
        keys.chain(values.filter_map(TextOrSecret::source))
            .chain(config.server.state_keys.get_ref())
            .chain(databases)
            .chain(search)
            .chain(webhook_secrets)
            .chain(logins)
            .filter_map(SecretSource::file)
            .map(|path| self.path(path))
            .collect()
    }
}

async fn printed(command: &[String], folder: &Path) -> Result<String, String> {
    let Some((program, args)) = command.split_first() else { return Err("the command is empty".into()) };
    let launch = Launch {
        program: program.clone(),
        args: args.to_vec(),
        cwd: folder.to_owned(),
        // The operator's own command gets the operator's environment; what is not UTF-8 cannot be handed on.
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect::<BTreeMap<_, _>>(),
        stdin: Vec::new(),
        timeout: COMMAND_TIMEOUT,
        stdout_bytes_max: SECRET_BYTES_MAX,
        stderr_bytes_max: 0,
        progress: Progress::none(),
    };
    let finished = tollgate_sandbox::run(launch, &CancellationToken::new())
        .await
        .map_err(|error| format!("the command `{program}` does not run: {error}"))?;
    if finished.code != Some(0) {
        return Err(format!("the command `{program}` ended with status {}", finished.code.unwrap_or(-1)));
    }
    String::from_utf8(finished.stdout).map_err(|_| format!("the command `{program}` did not print UTF-8"))
}
