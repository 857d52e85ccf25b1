//! Attempts that were started and never finished, until a human says what became of them.

use rusqlite::{Connection, params};
use serde::Serialize;
use tollgate_types::AttemptId;

use crate::{Store, StoreError, spending, undo};

/// One attempt whose outcome nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsettled {
    /// The attempt.
    pub attempt: AttemptId,
    /// The asker's id for the call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// When it was started, RFC 3339.
    pub time: String,
    /// Who asked.
    pub caller: String,
}

impl Store {
    /// Takes over what dead processes left, before anything else runs: remembers what was started, and gives back the
    /// idempotency keys of what was not, what it held of budgets, and an undo that it took. Doing it twice is doing it once.
    ///
    /// # Errors
    /// When the store fails.
    pub fn take_over(&self, unknown: &[Unsettled], never_started: &[AttemptId]) -> Result<(), StoreError> {
        if unknown.is_empty() && (never_started.is_empty() || !self.exists()) {
            return Ok(());
        }
        self.write_blocking(|transaction| {
            for one in unknown {
                insert(transaction, one)?;
            }
            for attempt in never_started {
                transaction.execute(
                    "delete from idempotency where attempt = ?1 and outcome is null",
                    params![attempt.as_str()],
                )?;
                spending::give_back(transaction, attempt)?;
                undo::release(transaction, attempt)?;
            }
            Ok(())
        })
    }

    /// The attempts whose outcome nobody knows, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached("select attempt, call_id, tool, time, caller from unsettled order by time")?;
            let rows = statement.query_map([], |row| {
                Ok(Unsettled {
                    attempt: AttemptId::new(row.get::<_, String>(0)?),
                    call_id: row.get(1)?,
                    tool: row.get(2)?,
                    time: row.get(3)?,
                    caller: row.get(4)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Whether nobody knows the attempt's outcome.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_unsettled(&self, attempt: AttemptId) -> Result<bool, StoreError> {
        self.with(move |connection| {
            let sql = "select exists (select 1 from unsettled where attempt = ?1)";
            Ok(connection.prepare_cached(sql)?.query_row(params![attempt.as_str()], |row| row.get(0))?)
        })
        .await
    }

    /// Forgets an attempt whose outcome is known now. False when it was not unsettled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settle(&self, attempt: AttemptId) -> Result<bool, StoreError> {
        self.write(move |connection| {
            Ok(connection.execute("delete from unsettled where attempt = ?1", params![attempt.as_str()])? > 0)
        })
        .await
    }
}

fn insert(connection: &Connection, one: &Unsettled) -> Result<(), StoreError> {
    connection.execute(
        "insert or ignore into unsettled (attempt, call_id, tool, time, caller) values (?1, ?2, ?3, ?4, ?5)",
        params![one.attempt.as_str(), one.call_id, one.tool, one.time, one.caller],
    )?;
    Ok(())
}
