//! The ladder and the sources as people and programs see them.

use serde::Serialize;
use tollgate_types::{BreakerRule, DEFAULT_STRATEGY, NETWORK_ERROR, Retry, RetryBudget};

use super::failure;
use super::ladder::{Ladder, Said};
use super::retry;

/// What happens when a tool fails.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailureReport {
    /// Whether a call that may have happened may be made again.
    pub is_repeatable: bool,
    /// The rungs by code; codes that are not listed are treated as `default`.
    pub ladder: Vec<RungReport>,
    /// What the tool asks, and how it is protected.
    pub source: SourceReport,
}

/// What is done about one code, in this order; after the last the caller is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RungReport {
    /// The code.
    pub code: String,
    /// The pauses before the same call is made again, in milliseconds, before they are shortened by chance.
    pub retry_after_ms: Vec<u64>,
    /// Who says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_by: Option<&'static str>,
    /// The tool that is called instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Who says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_by: Option<&'static str>,
    /// Whether a human is asked.
    pub human: bool,
}

/// One source: a server, or a tool that asks none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceReport {
    /// Its name.
    pub source: String,
    /// `closed`, `open` or `half_open`; none where it has no breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<&'static str>,
    /// When it opens, and for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker_rule: Option<BreakerRule>,
    /// How many of its calls run at once, where that is limited beyond what each tool says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// How many wait now.
    pub waiting: u32,
    /// How many calls may be retries.
    pub retry_budget: RetryBudget,
    /// Calls that were made again since the start.
    pub retries: u64,
    /// Calls that another tool was asked instead of.
    pub fallbacks: u64,
    /// Tries whose time was up.
    pub timeouts: u64,
    /// Calls that were refused because the breaker was open.
    pub refused: u64,
    /// Calls that got no turn: too many ran or waited.
    pub busy: u64,
    /// How often the breaker opened.
    pub opened: u64,
}

/// Every code that something is said of.
pub(crate) fn rungs(ladder: &Ladder) -> Vec<RungReport> {
    let mut keys = ladder.keys();
    keys.retain(|key| *key != DEFAULT_STRATEGY);
    keys.push(DEFAULT_STRATEGY);
    keys.into_iter().map(|key| rung(ladder, key)).collect()
}

fn rung(ladder: &Ladder, key: &str) -> RungReport {
    let network = failure::is_network(key).then_some(NETWORK_ERROR);
    let own = (key != DEFAULT_STRATEGY).then_some(key);
    let keys: Vec<&str> = own.into_iter().chain(network).chain([DEFAULT_STRATEGY]).collect();
    let steps = ladder.steps_for(&keys);
    let pauses = |retry: &Retry| {
        let plain = Retry { jitter: false, ..*retry };
        let ms = |retries| u64::try_from(retry::pause(&plain, retries, 0).as_millis()).unwrap_or(u64::MAX);
        (0..retry.max).map(ms).collect()
    };
    let retry = steps.retry.filter(|retry| retry.what.max > 0);
    RungReport {
        code: key.to_owned(),
        retry_after_ms: retry.map(|retry| pauses(&retry.what)).unwrap_or_default(),
        retry_by: retry.map(by),
        fallback: steps.fallback.map(|other| other.what.tool.clone()),
        fallback_by: steps.fallback.map(by),
        human: steps.asks_human(),
    }
}

fn by<T>(said: Said<T>) -> &'static str {
    said.by.as_str()
}
