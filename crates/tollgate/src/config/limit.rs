//! `[[limit]]`: how often callers may ask.

use std::num::NonZeroU32;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_gate::{CallLimit, Per};
use tollgate_policy::Policy;
use tollgate_types::Rate;
use toml::Spanned;

use super::audit::age;
use super::{ConfigError, Loaded};

/// The longest period.
const PERIOD_MAX: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// `[[limit]]`: so many calls in a period; more are refused with `rate_limited` and the time to wait. A call counts under
/// every limit that it fits. Counts are kept by each process and begin anew when it does.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Globs of the tools that it is about.
    #[serde(default = "all_tools")]
    pub tools: Vec<String>,
    /// The roles that it is about; none means all.
    #[serde(default)]
    pub roles: Vec<String>,
    /// What has a count of its own: `caller`, `role`, `tenant`, `session`, `tool`; several for each combination, and an
    /// empty list for one count of all.
    #[serde(default = "each_caller")]
    pub per: Vec<CountedBy>,
    /// How many calls in a period.
    pub calls: NonZeroU32,
    /// The period, such as `10s`, `1m` or `1h`.
    pub every: String,
    /// How many at once after a pause; unsaid: as many as `calls`.
    #[serde(default)]
    pub burst: Option<NonZeroU32>,
}

/// What has a count of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// Each subject.
    Caller,
    /// Each role.
    Role,
    /// Each tenant.
    Tenant,
    /// Each session; callers without one count by their subject.
    Session,
    /// Each tool.
    Tool,
}

pub(super) fn all_tools() -> Vec<String> {
    vec!["*".into()]
}

fn each_caller() -> Vec<CountedBy> {
    vec![CountedBy::Caller]
}

impl From<CountedBy> for Per {
    fn from(counted: CountedBy) -> Self {
        match counted {
            CountedBy::Caller => Self::Caller,
            CountedBy::Role => Self::Role,
            CountedBy::Tenant => Self::Tenant,
            CountedBy::Session => Self::Session,
            CountedBy::Tool => Self::Tool,
        }
    }
}

/// A period as it is written, such as `10s`: 1 ms to 31 days.
pub fn period(text: &str) -> Option<Duration> {
    let parsed = || text.parse::<SignedDuration>().ok().and_then(|period| Duration::try_from(period).ok());
    // A duration of the clock knows no days.
    let period = age(text).or_else(parsed);
    period.filter(|period| (Duration::from_millis(1)..=PERIOD_MAX).contains(period))
}

impl Loaded {
    /// The `[[limit]]`s.
    ///
    /// # Errors
    /// When one has a period that is none, a pattern that is none, or a role that does not exist.
    pub(crate) fn limits(&self, policy: &Policy) -> Result<Vec<CallLimit>, ConfigError> {
        self.config.limit.iter().enumerate().map(|(at, limit)| self.limit(at + 1, limit, policy)).collect()
    }

    fn limit(&self, number: usize, table: &Spanned<Limit>, policy: &Policy) -> Result<CallLimit, ConfigError> {
        let limit = table.get_ref();
        let name = format!("limit {number}");
        let fault = |key: &str, message: String, hint: &str| self.key_fault(table, &name, key, message, hint);
        let Some(period) = period(&limit.every) else {
            let message = format!("`{}` is not a period of 1 ms to 31 days", limit.every);
            return Err(fault("every", message, "write it as \"10s\", \"1m\", \"1h\" or \"1d\""));
        };
        let tools = self.scope(table, &name, (&limit.tools, &limit.roles), policy)?;
        let rate = Rate { count: limit.calls, period, burst: limit.burst.unwrap_or(limit.calls) };
        let per = limit.per.iter().copied().map(Per::from).collect();
        Ok(CallLimit { name, tools, roles: limit.roles.clone(), per, rate })
    }

    /// The tools that a table is about, whose `tools` and `roles` these are.
    pub(super) fn scope<T>(
        &self,
        table: &Spanned<T>,
        name: &str,
        (tools, roles): (&[String], &[String]),
        policy: &Policy,
    ) -> Result<GlobSet, ConfigError> {
        let fault = |key: &str, message: String, hint: &str| self.key_fault(table, name, key, message, hint);
        let mut globs = GlobSetBuilder::new();
        for glob in tools {
            globs.add(Glob::new(glob).map_err(|error| {
                let message = format!("`{glob}` is not a pattern: {}", error.kind());
                fault("tools", message, "use `*`, `?`, `[a-z]` and `{a,b}`")
            })?);
        }
        if let Some(role) = roles.iter().find(|role| !policy.has_role(role)) {
            let hint = format!("there is {}; [roles.…] adds others", policy.role_names().join(", "));
            return Err(fault("roles", format!("no role is named `{role}`"), &hint));
        }
        globs.build().map_err(|error| fault("tools", error.to_string(), "use fewer or shorter patterns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_may_have_days() {
        let hours = |hours: u64| Some(Duration::from_secs(hours * 60 * 60));
        for (text, wanted) in [
            ("1d", hours(24)),
            ("2w", hours(14 * 24)),
            ("12h", hours(12)),
            ("1h 30m", Some(Duration::from_secs(5400))),
            ("10s", Some(Duration::from_secs(10))),
            ("31d", hours(31 * 24)),
        ] {
            assert_eq!(period(text), wanted, "{text}");
        }
        for text in ["", "d", "1", "-1d", "0d", "32d", "1.5d", "天", "99999999999999999999d"] {
            assert_eq!(period(text), None, "{text}");
        }
    }
}
