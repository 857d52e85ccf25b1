//! `[[budget]]`: how much callers may spend.

use std::fmt;

use globset::Glob;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate_gate::{Budget as GateBudget, Per};
use tollgate_policy::Policy;
use tollgate_types::Units;
use toml::Spanned;

use super::{ConfigError, Loaded, limit};

/// `[[budget]]`: what calls may cost together in a session or on a day; more is refused with `budget_exceeded`. What a call
/// costs says the `cost` of its tool. A call counts under every budget that it fits. Counts are kept in the data folder; a
/// budget whose `tools`, `roles` or `per` change begins anew.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Globs of the tools that it is about.
    #[serde(default = "limit::all_tools")]
    pub tools: Vec<String>,
    /// The roles that it is about; none means all.
    #[serde(default)]
    pub roles: Vec<String>,
    /// What has a count of its own: `session` or `day`, or several for each combination, such as `["caller", "day"]`; the
    /// others are `caller`, `role`, `tenant` and `tool`.
    #[serde(deserialize_with = "one_or_several")]
    pub per: Vec<BudgetPer>,
    /// What a count may come to.
    pub units: Units,
    /// The time zone of `day`, such as `Asia/Shanghai` or `+08:00`.
    #[serde(default = "utc")]
    pub time_zone: String,
}

/// What has a count of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPer {
    /// Each subject.
    Caller,
    /// Each role.
    Role,
    /// Each tenant.
    Tenant,
    /// Each session; callers without one count by their subject, and by days.
    Session,
    /// Each tool.
    Tool,
    /// Each day.
    Day,
}

fn utc() -> String {
    "UTC".into()
}

impl BudgetPer {
    fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Role => "role",
            Self::Tenant => "tenant",
            Self::Session => "session",
            Self::Tool => "tool",
            Self::Day => "day",
        }
    }

    /// The same for the gate, which knows days apart.
    fn per(self) -> Option<Per> {
        match self {
            Self::Caller => Some(Per::Caller),
            Self::Role => Some(Per::Role),
            Self::Tenant => Some(Per::Tenant),
            Self::Session => Some(Per::Session),
            Self::Tool => Some(Per::Tool),
            Self::Day => None,
        }
    }
}

/// One word, or a list of them.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<BudgetPer>, D::Error> {
    struct Words;

    impl<'de> Visitor<'de> for Words {
        type Value = Vec<BudgetPer>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a word such as \"day\", or a list of them")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<Vec<BudgetPer>, E> {
            BudgetPer::deserialize(StrDeserializer::new(word)).map(|word| vec![word])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, words: A) -> Result<Vec<BudgetPer>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(words))
        }
    }

    deserializer.deserialize_any(Words)
}

impl Budget {
    /// What its counts are kept under: what it is about, however it is written and wherever it stands in the file.
    pub fn id(&self) -> String {
        let per: Vec<&str> = sorted(&self.per).into_iter().map(BudgetPer::as_str).collect();
        serde_json::json!({ "tools": sorted(&self.tools), "roles": sorted(&self.roles), "per": per }).to_string()
    }
}

impl Loaded {
    /// The `[[budget]]`s.
    ///
    /// # Errors
    /// When one has a pattern, a role or a time zone that is none, is about neither a session nor a day, lets nothing
    /// through, or is about the same as another.
    pub(crate) fn budgets(&self, policy: &Policy) -> Result<Vec<GateBudget>, ConfigError> {
        let mut budgets: Vec<GateBudget> = Vec::new();
        for (at, table) in self.config.budget.iter().enumerate() {
            let budget = self.budget(at + 1, table, policy)?;
            if let Some(twin) = budgets.iter().find(|other| other.id == budget.id) {
                let message = format!("it is about the same calls as {}", twin.name);
                return Err(self.fault(
                    table,
                    budget.name,
                    message,
                    "keep one of them, or change `tools`, `roles` or `per`",
                ));
            }
            budgets.push(budget);
        }
        Ok(budgets)
    }

    fn budget(&self, number: usize, table: &Spanned<Budget>, policy: &Policy) -> Result<GateBudget, ConfigError> {
        let budget = table.get_ref();
        let name = format!("budget {number}");
        let fault = |key: &str, message: String, hint: &str| self.key_fault(table, &name, key, message, hint);
        let tools = self.scope(table, &name, (&budget.tools, &budget.roles), policy)?;
        let per = sorted(&budget.per);
        if !per.iter().any(|per| matches!(per, BudgetPer::Session | BudgetPer::Day)) {
            let hint = "add \"session\" or \"day\", such as per = [\"caller\", \"day\"]";
            return Err(fault(
                "per",
                "neither a session nor a day is named, so it would never begin anew".into(),
                hint,
            ));
        }
        if budget.units == Units::ZERO {
            let hint = "to forbid tools, leave them out of the roles, or write a rule (docs/policy.md)";
            return Err(fault("units", "a budget of 0 lets nothing through".into(), hint));
        }
        let time_zone = zone(&budget.time_zone).ok_or_else(|| {
            let message = format!("no time zone is named `{}` on this machine", budget.time_zone);
            fault("time_zone", message, "write \"Asia/Shanghai\" or \"+08:00\"; names need the system's tzdata")
        })?;
        Ok(GateBudget {
            id: budget.id(),
            name,
            tools,
            roles: budget.roles.clone(),
            is_daily: per.contains(&BudgetPer::Day),
            per: per.into_iter().filter_map(BudgetPer::per).collect(),
            time_zone,
            units: budget.units,
        })
    }

    /// Globs of budgets that fit none of these names: a misspelt one holds nothing back. What may fit the tools of a server
    /// that did not say yet what it has is no such.
    pub(crate) fn idle_budgets(&self, names: &[String]) -> Vec<String> {
        let is_for_servers = |glob: &str| !self.config.mcp.is_empty() && (glob.starts_with("mcp__") || glob == "*");
        let is_idle = |glob: &str| {
            let matcher = Glob::new(glob).map(|glob| glob.compile_matcher());
            matcher.is_ok_and(|matcher| !names.iter().any(|name| matcher.is_match(name))) && !is_for_servers(glob)
        };
        let budgets = self.config.budget.iter().enumerate();
        let globs = budgets.flat_map(|(at, budget)| budget.get_ref().tools.iter().map(move |glob| (at + 1, glob)));
        let idle = globs.filter(|(_, glob)| is_idle(glob));
        idle.map(|(number, glob)| format!("`{glob}` of budget {number} fits no tool")).collect()
    }
}

/// The words in their order, each once.
fn sorted<T: Clone + Ord>(words: &[T]) -> Vec<T> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words.dedup();
    words
}

fn zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    DateTimeParser::new().parse_time_zone(name).ok().filter(|zone| !zone.is_unknown())
}
