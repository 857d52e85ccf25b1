//! Closing what is over: questions nobody answered and yeses nobody used, by their end or by a clock that went back. What
//! was seen to be over stays so, whatever the clock says later.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use tollgate_types::limits;

use crate::StoreError;

/// How long an answered question is kept, in microseconds: 30 days.
const KEPT_MICROS: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// [`limits::CLOCK_BACK_MS_MAX`] in microseconds.
pub(crate) const BACK_MICROS: i64 = limits::CLOCK_BACK_MS_MAX.cast_signed() * 1_000;

/// What the clock may close: questions nobody answered, yeses nobody used, and a no that nobody recorded. The `+` keeps
/// SQLite from going through them by their status.
const STANDS: &str = "consumed_at is null and status <> 'expired' \
                      and (+status in ('pending', 'approved') or (+status = 'rejected' and is_recorded = 0))";

const FORGETS: &str = "delete from approvals where expires <= ?1";

fn closes_at_its_end() -> String {
    let index = "approvals_standing_by_end";
    format!("update approvals indexed by {index} set status = 'expired' where {STANDS} and expires <= ?1")
}

/// Nobody knows how old it is: its clock showed a later time than there is now.
fn closes_before_its_beginning() -> String {
    let index = "approvals_standing_by_beginning";
    format!("update approvals indexed by {index} set status = 'expired' where {STANDS} and created > ?1")
}

/// Closes what is over, and forgets what has been for long.
pub(crate) fn expire(connection: &Connection, now: Timestamp) -> Result<(), StoreError> {
    let now = now.as_microsecond();
    connection.prepare_cached(&closes_at_its_end())?.execute(params![now])?;
    connection.prepare_cached(&closes_before_its_beginning())?.execute(params![now.saturating_add(BACK_MICROS)])?;
    connection.prepare_cached(FORGETS)?.execute(params![now.saturating_sub(KEPT_MICROS)])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{CONSUMES, COUNTS_OPEN, newest_of_a_binding, of_an_id};
    use super::*;
    use crate::Store;
    use crate::grant::{ENDS, USES, of_a_session};

    /// What a statement looks at, as SQLite itself says it.
    fn plan(connection: &Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
        let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
        let rows = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get("detail")).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// However many questions wait, a call looks at its own and at what is over.
    #[test]
    fn no_statement_of_a_call_goes_through_the_questions() {
        let folder = tempfile::tempdir().unwrap();
        let statements = [
            closes_at_its_end(),
            closes_before_its_beginning(),
            FORGETS.to_owned(),
            newest_of_a_binding(),
            of_an_id(),
            CONSUMES.to_owned(),
            COUNTS_OPEN.to_owned(),
            of_a_session(),
            ENDS.to_owned(),
            USES.to_owned(),
        ];
        let found =
            Store::new(folder.path()).blocking(|connection| Ok(statements.map(|sql| (plan(connection, &sql), sql))));
        for (plan, sql) in found.unwrap() {
            assert!(!plan.is_empty(), "{sql}");
            for step in &plan {
                assert!(!step.starts_with("SCAN"), "{step}: {sql}");
                assert!(step.starts_with("SEARCH") || step.starts_with("USE TEMP B-TREE"), "{step}: {sql}");
            }
        }
    }
}
