//! `[results]`: how long whole results are kept, and how many.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_store::Keeping;
use tollgate_types::limits;
use toml::Spanned;

use super::limit::period;
use super::{ConfigError, Loaded};

/// Less than the smallest result that is long.
const BYTES_MIN: u64 = 64 * 1024;

/// `[results]`: what was shown in part is kept whole for `read_result`, in the data folder. docs/results.md says more.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Results {
    /// How long: a period such as `12h` or `168h`, at most 31 days. An answer that is repeated under its idempotency key
    /// names its whole for no longer.
    #[schemars(with = "String")]
    pub keep: Spanned<String>,
    /// How many bytes altogether; beyond it the oldest go.
    pub bytes_max: u64,
    /// How many bytes of one caller; beyond it the caller's oldest go.
    pub caller_bytes_max: u64,
}

impl Default for Results {
    fn default() -> Self {
        Self {
            keep: Spanned::new(0..0, "168h".into()),
            bytes_max: limits::RESULTS_BYTES_MAX,
            caller_bytes_max: limits::RESULTS_CALLER_BYTES_MAX,
        }
    }
}

impl Loaded {
    /// How whole results are kept.
    ///
    /// # Errors
    /// When the time is no period.
    pub(crate) fn keeping(&self) -> Result<Keeping, ConfigError> {
        let results = &self.config.results;
        let Some(kept) = period(results.keep.get_ref()) else {
            let message = format!("`{}` is not a period of 1 ms to 31 days", results.keep.get_ref());
            return Err(self.fault(&results.keep, "results.keep".into(), message, "write it as \"12h\" or \"168h\""));
        };
        for (key, bytes) in [("bytes_max", results.bytes_max), ("caller_bytes_max", results.caller_bytes_max)] {
            if bytes < BYTES_MIN {
                let message = format!("{bytes} is less than {BYTES_MIN}: no long result could be kept");
                return Err(self.fault(
                    &results.keep,
                    format!("results.{key}"),
                    message,
                    "leave it out, or write more",
                ));
            }
        }
        Ok(Keeping {
            ttl_ms: u64::try_from(kept.as_millis()).unwrap_or(u64::MAX),
            bytes_max: results.bytes_max,
            caller_bytes_max: results.caller_bytes_max,
        })
    }
}
