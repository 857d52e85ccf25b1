//! How much callers may spend: units for each session or day, counted in the store, so that a restart forgets nothing and
//! all processes of one data folder share the counts. How often is for [`crate::Quotas`].

use globset::GlobSet;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_store::{Count, StoreError};
use tollgate_types::{Caller, ErrorObject, Text, Units};

use crate::Gate;
use crate::quota::Per;

/// Units that some calls may cost together.
#[derive(Debug, Clone)]
pub struct Budget {
    /// The name for people, such as `budget 1`.
    pub name: String,
    /// What its counts are kept under. Whatever has another id begins with nothing spent.
    pub id: String,
    /// The tools that it is about.
    pub tools: GlobSet,
    /// The roles that it is about; empty means all.
    pub roles: Vec<String>,
    /// Each combination of these has a count of its own; with none there is one count for all.
    pub per: Vec<Per>,
    /// Whether each day has a count of its own.
    pub is_daily: bool,
    /// The time zone in which a day begins and ends.
    pub time_zone: TimeZone,
    /// What a count may come to.
    pub units: Units,
}

/// A count of one budget for one caller, at one time.
#[derive(Debug, Clone)]
pub(crate) struct Account<'a> {
    budget: &'a Budget,
    pub(crate) count: Count,
    /// When the day is over.
    ends: Option<Timestamp>,
}

/// How a budget stands for one caller and tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetReport {
    /// Its name.
    pub budget: String,
    /// What a count may come to.
    pub units: Units,
    /// What this one comes to.
    pub spent: Units,
    /// What is left of it.
    pub left: Units,
    /// When it begins anew, if ever.
    pub ends: Option<Timestamp>,
}

impl Budget {
    fn account(&self, caller: &Caller, tool: &str, now: Timestamp) -> Account<'_> {
        let parts: Vec<&str> = self.per.iter().map(|per| per.part(caller, tool)).collect();
        // A caller without a session counts by its subject, which never ends: so it counts by days.
        let is_daily = self.is_daily || self.per.contains(&Per::Session) && caller.session.is_none();
        let (day, ends) = if is_daily { self.day(now) } else { (String::new(), None) };
        let count = Count { budget: self.id.clone(), holder: serde_json::json!(parts).to_string(), day };
        Account { budget: self, count, ends }
    }

    /// The date of now, and when the next one begins.
    fn day(&self, now: Timestamp) -> (String, Option<Timestamp>) {
        let now = now.to_zoned_datetime(self.time_zone.clone());
        let next = now.tomorrow().and_then(|next| next.start_of_day());
        (now.date().to_string(), next.ok().map(|next| next.timestamp()))
    }
}

impl Account<'_> {
    pub(crate) fn limit(&self) -> Units {
        self.budget.units
    }

    /// What a caller is told whose call does not fit.
    pub(crate) fn refusal(&self, cost: Units, spent: Units) -> ErrorObject {
        let Budget { name, units, time_zone, .. } = self.budget;
        let left = units.less(spent);
        let text = match self.ends {
            _ if cost > *units => Text::BudgetNever,
            None => Text::BudgetSession,
            Some(_) => Text::BudgetDay,
        };
        let ends = self.ends.map(|ends| ends.to_zoned_datetime(time_zone.clone()).to_string()).unwrap_or_default();
        text.error(&[
            ("cost", &cost),
            ("left", &left),
            ("units", units),
            ("spent", &spent),
            ("name", name),
            ("ends", &ends),
        ])
    }

    fn report(&self, spent: Units) -> BudgetReport {
        let Budget { name, units, .. } = self.budget;
        BudgetReport { budget: name.clone(), units: *units, spent, left: units.less(spent), ends: self.ends }
    }
}

/// The counts that a call of `tool` by `caller` is about.
pub(crate) fn accounts<'a>(budgets: &'a [Budget], caller: &Caller, tool: &str, now: Timestamp) -> Vec<Account<'a>> {
    let fits = |budget: &&Budget| crate::quota::fits(&budget.tools, &budget.roles, caller, tool);
    budgets.iter().filter(fits).map(|budget| budget.account(caller, tool, now)).collect()
}

impl Gate {
    /// How the budgets stand that a call of `tool` by `caller` is about. It says nothing of whether the caller may.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn budgets(&self, caller: &Caller, tool: &str) -> Result<Vec<BudgetReport>, StoreError> {
        let gate = self.inner();
        let accounts = accounts(&gate.budgets, caller, tool, gate.clock.now());
        if accounts.is_empty() {
            return Ok(Vec::new());
        }
        let spent = gate.store.spent(accounts.iter().map(|account| account.count.clone()).collect()).await?;
        Ok(accounts.iter().zip(spent).map(|(account, spent)| account.report(spent)).collect())
    }
}
