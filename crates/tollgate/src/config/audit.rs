//! `[audit]`: how durable records are, how often the ledger is signed, and who else keeps what was signed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::client::Origin;
use tollgate_guard::syslog;
use tollgate_ledger::Durability;
use toml::Spanned;

use super::limit::period;
use super::{ConfigError, Loaded, TextOrSecret};

const PERIOD_HINT: &str = "write it as \"10s\", \"1m\", \"1h\" or \"1d\"";

/// `[audit]`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// When the records of calls that only read are on the disk. Those of calls that may change something are there before
    /// the call goes on, whatever this says.
    pub reads: AuditReads,
    /// How often a checkpoint says that nothing happened, while nothing does: a period such as `10s`, `1m` or `1h`.
    #[schemars(with = "String")]
    pub checkpoint_idle: Spanned<String>,
    /// Where checkpoints are kept out of reach of this machine. Without it, whoever may write the data folder may write
    /// the whole ledger anew.
    #[schemars(with = "Option<Anchor>")]
    pub anchor: Option<Spanned<Anchor>>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { reads: AuditReads::Batched, checkpoint_idle: Spanned::new(0..0, "1m".into()), anchor: None }
    }
}

/// How durable the records of calls that only read are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditReads {
    /// Within 50 ms: a power cut may take the last of them, a crash takes none.
    #[default]
    Batched,
    /// `started` before the tool runs, `finished` before the answer goes out. Each call waits for the disk twice.
    Strict,
}

impl From<AuditReads> for Durability {
    fn from(reads: AuditReads) -> Self {
        match reads {
            AuditReads::Batched => Self::Batched,
            AuditReads::Strict => Self::Strict,
        }
    }
}

/// `[audit.anchor]`: one or more of `file`, `syslog` and `http`. A failure costs no call; it is tried again and shown.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// A file that is appended to, best on another machine's disk: one JSON object a line, `{"v":1,"note":"…"}`. Relative
    /// to the configuration's folder.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// A syslog server: `unix:/dev/log`, `udp://HOST:514` or `tcp://HOST:601`. The message is such a JSON object.
    #[serde(default)]
    pub syslog: Option<String>,
    /// An address that such JSON objects are posted to. No other origin is asked.
    #[serde(default)]
    pub http: Option<String>,
    /// What goes with every post.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
    /// The shortest time between two: a period such as `10s`, `1m` or `1h`.
    #[serde(default = "minute")]
    pub every: String,
}

fn minute() -> String {
    "1m".into()
}

impl Loaded {
    /// How often it is signed that nothing happened.
    ///
    /// # Errors
    /// When it is no period.
    pub(crate) fn checkpoint_idle(&self) -> Result<Duration, ConfigError> {
        let text = &self.config.audit.checkpoint_idle;
        let message = || format!("`{}` is not a period of 1 ms to 31 days", text.get_ref());
        period(text.get_ref()).ok_or_else(|| self.fault(text, "audit.checkpoint_idle".into(), message(), PERIOD_HINT))
    }

    /// The anchor with its period, when there is one.
    ///
    /// # Errors
    /// When it names no place, or one that cannot be.
    pub(crate) fn anchor(&self) -> Result<Option<(&Anchor, Duration)>, ConfigError> {
        let Some(table) = &self.config.audit.anchor else { return Ok(None) };
        let anchor = table.get_ref();
        let fault = |key: &str, message: String, hint: &str| self.key_fault(table, "audit.anchor", key, message, hint);
        if anchor.file.is_none() && anchor.syslog.is_none() && anchor.http.is_none() {
            return Err(fault(
                "file",
                "it names no place".into(),
                "file = \"PATH\", syslog = \"udp://HOST:514\" or http = \"https://…\"",
            ));
        }
        if let Some(syslog) = &anchor.syslog {
            let hint = "syslog = \"unix:/dev/log\"";
            syslog.parse::<syslog::Target>().map_err(|message| fault("syslog", message, hint))?;
        }
        if let Some(http) = &anchor.http {
            let hint = "http = \"https://log.example.com/checkpoints\"";
            Origin::of(http).map_err(|error| fault("http", error.to_string(), hint))?;
        } else if !anchor.headers.is_empty() {
            return Err(fault("headers", "`headers` go with `http`".into(), "http = \"https://…\""));
        }
        let message = || format!("`{}` is not a period of 1 ms to 31 days", anchor.every);
        let every = period(&anchor.every).ok_or_else(|| fault("every", message(), PERIOD_HINT))?;
        Ok(Some((anchor, every)))
    }
}
