//! What must hold of `[resilience]` and of `on_error` before anything runs.

use tollgate_types::{
    BreakerRule, Code, DEFAULT_STRATEGY, OnError, Resilience, Retry, RetryBudget, Rungs, Strategy, limits,
};

use super::failure::is_final;
use super::mapping;

/// What is wrong with what is declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {problem}")]
pub struct RuleError {
    /// Where, such as `on_error.timeout`.
    pub key: String,
    /// What is wrong there, and what would be right.
    pub problem: String,
}

impl RuleError {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

/// Whether the house's rules can hold.
///
/// # Errors
/// The first that cannot, with its key.
pub fn check(rules: &Resilience) -> Result<(), RuleError> {
    range("drain_ms", rules.drain_ms, 0, limits::DRAIN_MS_MAX)?;
    let house = Scope { prefix: String::new() };
    house.check(rules.max_concurrent, rules.max_waiting, rules.breaker, rules.retry_budget, &rules.on_error)?;
    for (name, source) in &rules.sources {
        let scope = Scope { prefix: format!("sources.{name}.") };
        scope.check(
            source.max_concurrent,
            source.max_waiting,
            source.breaker,
            source.retry_budget,
            &source.on_error,
        )?;
    }
    Ok(())
}

struct Scope {
    prefix: String,
}

impl Scope {
    fn check(
        &self,
        running: Option<u32>,
        waiting: Option<u32>,
        breaker: Option<BreakerRule>,
        budget: Option<RetryBudget>,
        on_error: &OnError,
    ) -> Result<(), RuleError> {
        let key = |name: &str| format!("{}{name}", self.prefix);
        let many = u64::from(u16::MAX);
        range(&key("max_concurrent"), running.map(u64::from), 1, many)?;
        range(&key("max_waiting"), waiting.map(u64::from), 0, many)?;
        range(&key("breaker.failures"), breaker.map(|rule| rule.failures.into()), 0, many)?;
        range(&key("breaker.open_ms"), breaker.map(|rule| rule.open_ms), 1, limits::BREAKER_OPEN_MS_MAX)?;
        range(&key("breaker.probes"), breaker.map(|rule| rule.probes.into()), 1, many)?;
        range(&key("retry_budget.percent"), budget.map(|rule| rule.percent.into()), 0, 100)?;
        let reserve_max = limits::RETRY_BUDGET_RESERVE_MAX.into();
        range(&key("retry_budget.reserve"), budget.map(|rule| rule.reserve.into()), 0, reserve_max)?;
        ladder(on_error).map_err(|error| RuleError::new(key(&error.key), error.problem))
    }
}

fn range(key: &str, value: Option<u64>, min: u64, max: u64) -> Result<(), RuleError> {
    match value {
        Some(value) if value < min || value > max => {
            Err(RuleError::new(key, format!("{value} is not between {min} and {max}")))
        }
        _ => Ok(()),
    }
}

/// Whether what is said of failures can hold.
pub(crate) fn ladder(on_error: &OnError) -> Result<(), RuleError> {
    if !on_error.is_empty() && !on_error.0.contains_key(DEFAULT_STRATEGY) {
        let problem = "it needs a `default`: a table of retry, fallback and human, or \"fail\" or \"human\"";
        return Err(RuleError::new("on_error", problem));
    }
    for (code, strategy) in &on_error.0 {
        let key = format!("on_error.{code}");
        if code == Code::Denied.as_str() {
            escalation(&key, strategy)?;
            continue;
        }
        if Code::ALL.iter().any(|known| known.as_str() == code && is_final(*known)) {
            return Err(RuleError::new(key, "nothing is done about it: the code is final"));
        }
        let Strategy::Rungs(rungs) = strategy else { continue };
        if let Some(retry) = rungs.retry {
            schedule(&key, retry)?;
        }
        if let Some(fallback) = &rungs.fallback {
            let key = format!("{key}.fallback");
            if fallback.tool.is_empty() {
                return Err(RuleError::new(format!("{key}.tool"), "it names no tool"));
            }
            mapping::check(fallback).map_err(|problem| RuleError::new(key, problem))?;
        }
    }
    Ok(())
}

/// What policy denies may be put to a human, and to nobody else.
fn escalation(key: &str, strategy: &Strategy) -> Result<(), RuleError> {
    match strategy {
        Strategy::Word(_) | Strategy::Rungs(Rungs { retry: None, fallback: None, .. }) => Ok(()),
        Strategy::Rungs(_) => Err(RuleError::new(key, "only a human may be asked about it: \"human\" or \"fail\"")),
    }
}

fn schedule(key: &str, retry: Retry) -> Result<(), RuleError> {
    range(&format!("{key}.retry.max"), Some(retry.max.into()), 0, limits::RETRIES_MAX.into())?;
    range(&format!("{key}.retry.pause_ms"), Some(retry.pause_ms), 0, limits::RETRY_PAUSE_MS_MAX)?;
    range(&format!("{key}.retry.pause_ms_max"), Some(retry.pause_ms_max), 0, limits::RETRY_PAUSE_MS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problem(value: Value) -> String {
        match serde_json::from_value::<Resilience>(value) {
            Ok(rules) => check(&rules).map_or_else(|error| error.to_string(), |()| String::new()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_cannot_hold_is_said_with_its_key() {
        let retry = |retry: Value| json!({"on_error": {"default": {}, "timeout": {"retry": retry}}});
        for (rules, wanted) in [
            (json!({}), ""),
            (json!({"on_error": {"default": "fail"}, "sources": {"crm": {"on_error": {"default": "human"}}}}), ""),
            (json!({"drain_ms": 0}), ""),
            (json!({"drain_ms": 3_600_001}), "`drain_ms`: 3600001 is not between 0 and 3600000"),
            (json!({"drain_ms": -1}), "invalid value: integer `-1`"),
            (json!({"max_concurrent": 0}), "`max_concurrent`: 0 is not between 1 and 65535"),
            (json!({"sources": {"crm": {"max_concurrent": 0}}}), "`sources.crm.max_concurrent`: 0"),
            (json!({"breaker": {"open_ms": 0}}), "`breaker.open_ms`: 0 is not between 1"),
            (json!({"breaker": {"probes": 0}}), "`breaker.probes`: 0"),
            (json!({"breaker": {"open_ms": u64::MAX}}), "is not between 1 and 3600000"),
            (json!({"retry_budget": {"percent": 101}}), "`retry_budget.percent`: 101"),
            (json!({"retry_budget": {"reserve": 10_001}}), "`retry_budget.reserve`: 10001"),
            (json!({"on_error": {"timeout": "fail"}}), "`on_error`: it needs a `default`"),
            (json!({"on_error": {"default": "retry"}}), "expected `fail`, `human`, or a table"),
            (json!({"on_error": {"default": 3}}), "expected `fail`, `human`, or a table"),
            (json!({"on_error": {"default": {"retri": {}}}}), "unknown field `retri`"),
            (
                json!({"on_error": {"default": {}, "denied": {"fallback": {"tool": "x"}}}}),
                "`on_error.denied`: only a human",
            ),
            (json!({"on_error": {"default": {}, "denied": "human"}}), ""),
            (json!({"on_error": {"default": {}, "cancelled": "human"}}), "`on_error.cancelled`"),
            (retry(json!({"max": 11})), "`on_error.timeout.retry.max`: 11 is not between 0 and 10"),
            (retry(json!({"max": -1})), "invalid value: integer `-1`"),
            (retry(json!({"pause_ms": 60_001})), "`on_error.timeout.retry.pause_ms`: 60001"),
            (retry(json!({"pause_ms_max": u64::MAX})), "`on_error.timeout.retry.pause_ms_max`"),
            (
                json!({"on_error": {"default": {"fallback": {"tool": ""}}}}),
                "`on_error.default.fallback.tool`: it names no tool",
            ),
            (
                json!({"on_error": {"default": {"fallback": {"tool": "x", "map_args": {"a": {"ponter": "/b"}}}}}}),
                "a table among `map_args` is one of",
            ),
            (
                json!({"on_error": {"default": {"fallback": {"tool": "x", "map_args": {"a": {"pointer": "b"}}}}}}),
                "`on_error.default.fallback`: map_args.a: `b` is not a JSON Pointer",
            ),
        ] {
            let found = problem(rules.clone());
            assert!(found.contains(wanted) && found.is_empty() == wanted.is_empty(), "{rules}: {found}");
        }
    }
}
