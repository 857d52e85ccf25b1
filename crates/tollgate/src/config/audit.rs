//! `[audit]`: how durable records are, how often the ledger is signed, who else keeps what was signed, and how long content
//! is kept.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_gate::Retention;
use tollgate_guard::client::Origin;
use tollgate_guard::syslog;
use tollgate_ledger::Durability;
use tollgate_types::limits;
use toml::Spanned;

use super::limit::period;
use super::{ConfigError, Loaded, TextOrSecret};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SEGMENT_BYTES: RangeInclusive<u64> = 1024 * 1024..=1024 * 1024 * 1024;
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
    /// How old a segment of the ledger becomes before the next one begins: `1h` to `366d`, in hours, days (`d`) or weeks
    /// (`w`). Unsaid: it goes by `rotate_bytes` alone.
    #[schemars(with = "Option<String>")]
    pub rotate_after: Option<Spanned<String>>,
    /// How long a segment becomes before the next one begins: 1 MiB to 1 GiB.
    #[schemars(with = "u64")]
    pub rotate_bytes: Spanned<u64>,
    /// How long content is kept. Unsaid: as long as the data folder is there.
    #[schemars(with = "Option<Retain>")]
    pub retention: Option<Spanned<Retain>>,
    /// Where checkpoints are kept out of reach of this machine. Without it, whoever may write the data folder may write
    /// the whole ledger anew.
    #[schemars(with = "Option<Anchor>")]
    pub anchor: Option<Spanned<Anchor>>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            reads: AuditReads::Batched,
            checkpoint_idle: Spanned::new(0..0, "1m".into()),
            rotate_after: None,
            rotate_bytes: Spanned::new(0..0, limits::SEGMENT_BYTES_MAX),
            retention: None,
            anchor: None,
        }
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

/// `[audit.retention]`: what is older is erased, by `serve` once a day and by `tollgate audit retain`. The chain stays, and
/// says what was erased. A period is `1d` to `36500d`, in days (`d`) or weeks (`w`).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retain {
    /// How long what was asked and answered is kept. Who asked for which tool, what was decided and how it ended stays.
    #[serde(default)]
    pub contents: Option<String>,
    /// How long the rest is kept. That there was an attempt, when, and how it ended stays.
    #[serde(default)]
    pub keep: Option<String>,
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

/// A number of hours, days or weeks, such as `90d`.
pub(super) fn age(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "h" => HOUR,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return None,
    };
    unit.checked_mul(number.parse().ok()?)
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

    /// When a segment of the ledger ends: by its age and by its bytes.
    ///
    /// # Errors
    /// When one of them is out of its bounds.
    pub(crate) fn rotation(&self) -> Result<(Option<Duration>, u64), ConfigError> {
        let Audit { rotate_after, rotate_bytes, .. } = &self.config.audit;
        let age = |text: &Spanned<String>| {
            let message = || format!("`{}` is not an age of 1 hour to 366 days", text.get_ref());
            age(text.get_ref()).filter(|age| (HOUR..=366 * DAY).contains(age)).ok_or_else(|| {
                self.fault(text, "audit.rotate_after".into(), message(), "write it as \"12h\", \"1d\" or \"4w\"")
            })
        };
        let bytes = *rotate_bytes.get_ref();
        if !SEGMENT_BYTES.contains(&bytes) {
            let message = format!("{bytes} is not a length of 1048576 to 1073741824 bytes");
            return Err(self.fault(rotate_bytes, "audit.rotate_bytes".into(), message, "rotate_bytes = 67108864"));
        }
        Ok((rotate_after.as_ref().map(age).transpose()?, bytes))
    }

    /// How long content is kept.
    ///
    /// # Errors
    /// When a period is none, or content would outlive the rest.
    pub fn retention(&self) -> Result<Retention, ConfigError> {
        let Some(table) = &self.config.audit.retention else { return Ok(Retention::default()) };
        let hint = "write it as \"90d\" or \"52w\"";
        let kept = |key: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            let kept = age(text).filter(|kept| (DAY..=36_500 * DAY).contains(kept));
            let message = || format!("`{text}` is not a period of 1 to 36500 days");
            kept.map(Some).ok_or_else(|| self.key_fault(table, "audit.retention", key, message(), hint))
        };
        let Retain { contents, keep } = table.get_ref();
        let (contents, whole) = (kept("contents", contents)?, kept("keep", keep)?);
        if let (Some(shorter), Some(longer)) = (contents, whole)
            && shorter > longer
        {
            let message = "`contents` would be kept for longer than the records that they stand in".to_owned();
            return Err(self.key_fault(
                table,
                "audit.retention",
                "contents",
                message,
                "leave it out, or make it shorter",
            ));
        }
        Ok(Retention { contents, whole })
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
