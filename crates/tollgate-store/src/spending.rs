//! What was spent of budgets: one sum for each count, and beside it what each call holds that is under way or whose end
//! nobody knows. A sum holds what is held; giving it back takes it out again.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tollgate_types::{AttemptId, Units, limits};

use crate::{Store, StoreError};

/// One count of one budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The budget, by a name that stays.
    pub budget: String,
    /// Whose count it is.
    pub holder: String,
    /// The day it is about; empty where days do not matter.
    pub day: String,
}

/// What a call costs by one count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The count.
    pub count: Count,
    /// What the call costs.
    pub cost: Units,
    /// What the count may come to.
    pub limit: Units,
}

/// What became of a call's charges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spending {
    /// All of them are held for the call.
    Held,
    /// None is: one does not fit.
    Short {
        /// Its place among them.
        charge: usize,
        /// What its count comes to already.
        spent: Units,
    },
}

/// What a count comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    /// The count.
    pub count: Count,
    /// Its sum, with what is held.
    pub units: Units,
}

impl Store {
    /// Holds every charge for `attempt`, or none of them. Of calls that race for the last unit one gets it.
    ///
    /// # Errors
    /// When the store fails, or keeps too many counts.
    pub async fn spend(
        &self,
        attempt: AttemptId,
        charges: Vec<Charge>,
        now: Timestamp,
    ) -> Result<Spending, StoreError> {
        self.write(move |transaction| {
            transaction.execute_batch("savepoint charges")?;
            for (at, charge) in charges.iter().enumerate() {
                let known = sum(transaction, &charge.count)?;
                let spent = known.unwrap_or_default();
                if spent.plus(charge.cost).is_none_or(|sum| sum > charge.limit) {
                    transaction.execute_batch("rollback to charges")?;
                    return Ok(Spending::Short { charge: at, spent });
                }
                if known.is_none() {
                    make_room(transaction, now)?;
                }
                hold(transaction, &attempt, charge, now)?;
            }
            Ok(Spending::Held)
        })
        .await
    }

    /// What each of these counts comes to.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn spent(&self, counts: Vec<Count>) -> Result<Vec<Units>, StoreError> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            counts.iter().map(|count| Ok(sum(&transaction, count)?.unwrap_or_default())).collect()
        })
        .await
    }

    /// All counts of a budget: the last day first, and of a day the highest.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn spent_of(&self, budget: String) -> Result<Vec<Spent>, StoreError> {
        self.with(move |connection| {
            let sql = "select holder, day, spent from spending where budget = ?1 order by day desc, spent desc, holder";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![budget], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.map(|row| {
                let (holder, day, micro) = row?;
                Ok(Spent { count: Count { budget: budget.clone(), holder, day }, units: units(micro)? })
            })
            .collect()
        })
        .await
    }

    /// The call ran: what it holds is spent for good, or what it came to where that is known to be less.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep_spent(&self, attempt: AttemptId, came_to: Option<Units>) -> Result<(), StoreError> {
        self.write(move |transaction| {
            release(transaction, &attempt, came_to.map_or(i64::MAX, micro))?;
            Ok(())
        })
        .await
    }

    /// The call never ran: what it holds is there again. Doing it twice is doing it once.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn give_back(&self, attempt: AttemptId) -> Result<(), StoreError> {
        self.write(move |transaction| {
            give_back(transaction, &attempt)?;
            Ok(())
        })
        .await
    }
}

/// Gives back all that `attempt` holds.
pub(crate) fn give_back(transaction: &Transaction<'_>, attempt: &AttemptId) -> Result<(), StoreError> {
    release(transaction, attempt, 0)
}

/// Gives back what `attempt` holds of each count beyond what it came to, in millionths.
fn release(transaction: &Transaction<'_>, attempt: &AttemptId, came_to: i64) -> Result<(), StoreError> {
    let sql = "update spending set spent = max(0, spent - (held.cost - ?2)) from spending_held as held \
               where held.attempt = ?1 and held.cost > ?2 \
               and held.budget = spending.budget and held.holder = spending.holder and held.day = spending.day";
    transaction.execute(sql, params![attempt.as_str(), came_to])?;
    transaction.execute("delete from spending_held where attempt = ?1", params![attempt.as_str()])?;
    Ok(())
}

fn hold(transaction: &Transaction<'_>, attempt: &AttemptId, charge: &Charge, now: Timestamp) -> Result<(), StoreError> {
    let Charge { count, cost, .. } = charge;
    let cost = micro(*cost);
    transaction.execute(
        "insert into spending (budget, holder, day, spent, used) values (?1, ?2, ?3, ?4, ?5) \
         on conflict do update set spent = spent + excluded.spent, used = max(used, excluded.used)",
        params![count.budget, count.holder, count.day, cost, now.as_microsecond()],
    )?;
    transaction.execute(
        "insert into spending_held (attempt, budget, holder, day, cost) values (?1, ?2, ?3, ?4, ?5) \
         on conflict do update set cost = cost + excluded.cost",
        params![attempt.as_str(), count.budget, count.holder, count.day, cost],
    )?;
    Ok(())
}

fn sum(connection: &Connection, count: &Count) -> Result<Option<Units>, StoreError> {
    let mut statement =
        connection.prepare_cached("select spent from spending where budget = ?1 and holder = ?2 and day = ?3")?;
    let found = statement.query_row(params![count.budget, count.holder, count.day], |row| row.get(0)).optional()?;
    found.map(units).transpose()
}

/// INVARIANT: `UNITS_MAX` in millionths fits.
fn micro(units: Units) -> i64 {
    i64::try_from(units.micro()).unwrap_or(i64::MAX)
}

fn units(micro: i64) -> Result<Units, StoreError> {
    let units = u64::try_from(micro).ok().and_then(Units::from_micro);
    units.ok_or_else(|| StoreError::Corrupt(format!("what was spent of a budget, {micro} millionths")))
}

/// Forgets what was not used for long, but only where counts are too many: a clock that jumps ahead and back must not
/// make what was spent today unspent.
fn make_room(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
    let count = || transaction.query_row("select count(*) from spending", [], |row| row.get::<_, u32>(0));
    if count()? < limits::SPENDING_COUNTS_MAX {
        return Ok(());
    }
    let kept = SignedDuration::from_millis(i64::try_from(limits::SPENDING_KEPT_MS).unwrap_or(i64::MAX));
    let oldest = now.checked_sub(kept).unwrap_or(Timestamp::MIN);
    transaction.execute("delete from spending where used < ?1", params![oldest.as_microsecond()])?;
    let orphans = "delete from spending_held where not exists (select 1 from spending s where \
                   s.budget = spending_held.budget and s.holder = spending_held.holder and s.day = spending_held.day)";
    transaction.execute(orphans, [])?;
    if count()? < limits::SPENDING_COUNTS_MAX {
        return Ok(());
    }
    let most = limits::SPENDING_COUNTS_MAX;
    Err(StoreError::Limit(format!("{most} counts of budgets are kept already, all of them used of late")))
}
