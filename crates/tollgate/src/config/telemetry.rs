//! `[telemetry]`: where spans of calls go, and how the log is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::client::Origin;
use tollgate_types::limits;

use super::{ConfigError, Loaded, TextOrSecret};

/// `[telemetry]`: calls as OpenTelemetry spans, and the log on standard error. docs/telemetry.md says what is in them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// A collector that speaks OTLP over HTTP, such as `http://127.0.0.1:4318`: spans are posted to `/v1/traces` below it. No
    /// other origin is asked. Unsaid: what `OTEL_EXPORTER_OTLP_ENDPOINT` says; without that, no spans are made.
    pub endpoint: Option<String>,
    /// What goes with every post.
    pub headers: BTreeMap<String, TextOrSecret>,
    /// What this service is called there; unsaid: what `OTEL_SERVICE_NAME` says, else `tollgate`.
    pub service_name: Option<String>,
    /// How many of the traces that begin here are kept, from 0 to 1; unsaid: what `OTEL_TRACES_SAMPLER` says, else all. Who
    /// began a trace elsewhere decides for all of it.
    pub sample_ratio: Option<f64>,
    /// Whether spans have the arguments and results of calls, as the ledger has them: redacted, long ones only measured.
    pub content: bool,
    /// How long the collector may take for one batch, in milliseconds; unsaid: what `OTEL_EXPORTER_OTLP_TIMEOUT` says, else
    /// 10000.
    pub timeout_ms: Option<u64>,
    /// How the log is written.
    pub logs: Logs,
    /// What is logged: this and what is worse. `-v` and `-q` count more. `info` has a line for each call.
    pub level: Level,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Logs {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// What could not be done.
    Error,
    /// What somebody should look at.
    #[default]
    Warn,
    /// Each call.
    Info,
    /// What helps to find a fault.
    Debug,
}

impl Loaded {
    /// What is said of telemetry.
    ///
    /// # Errors
    /// When the address is none, or a number is out of its range.
    pub fn telemetry(&self) -> Result<&Telemetry, ConfigError> {
        let table = &self.config.telemetry;
        let telemetry = table.get_ref();
        let fault =
            |key: &str, message: String, hint: &str| Err(self.key_fault(table, "telemetry", key, message, hint));
        if let Some(Err(error)) = telemetry.endpoint.as_deref().map(Origin::of) {
            return fault("endpoint", error.to_string(), "endpoint = \"http://127.0.0.1:4318\"");
        }
        if telemetry.endpoint.is_none() && !telemetry.headers.is_empty() {
            return fault("headers", "`headers` go with an `endpoint`".into(), "endpoint = \"http://127.0.0.1:4318\"");
        }
        if let Some(ratio) = telemetry.sample_ratio.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
            return fault("sample_ratio", format!("`{ratio}` is no share"), "a number from 0 to 1, such as 0.1");
        }
        let max = limits::TELEMETRY_TIMEOUT_MS_MAX;
        if let Some(ms) = telemetry.timeout_ms.filter(|ms| !(1..=max).contains(ms)) {
            return fault("timeout_ms", format!("`{ms}` ms cannot be waited"), &format!("between 1 and {max}"));
        }
        Ok(telemetry)
    }
}
