//! Calls that go on as tasks of MCP's extension, as they outlive the process that runs them: whose they are, and what they
//! came to.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, Transaction, params};
use tollgate_types::{AttemptId, BootId, Caller, limits};

use crate::{Store, StoreError};

/// A task that begins.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// Its name, which nobody can guess.
    pub id: String,
    /// Who made it; only the same subject, role and tenant finds it.
    pub caller: Caller,
    /// The run of the process that runs it.
    pub boot: BootId,
}

/// How a task ended.
#[derive(Debug, Clone)]
pub struct TaskEnd {
    /// What it was in the ledger, where that is known.
    pub attempt: Option<AttemptId>,
    /// When.
    pub at: Timestamp,
    /// As its caller is told.
    pub text: String,
    /// Until when that is kept.
    pub expires: Timestamp,
}

/// A task as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTask {
    /// The run of the process that made it.
    pub boot: BootId,
    /// When.
    pub created: Timestamp,
    /// When it ended, and as its caller is told.
    pub end: Option<(Timestamp, String)>,
    /// Until when it is kept.
    pub expires: Timestamp,
}

impl Store {
    /// Keeps that a task began. False where its caller has as many as may be kept, or as much of their results.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin_task(&self, task: NewTask, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |transaction| begin(transaction, &task, now)).await
    }

    /// Keeps how a task ended. The first end stands.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn end_task(&self, id: String, end: TaskEnd) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let TaskEnd { attempt, at, text, expires } = end;
            let (attempt, bytes) = (attempt.map(|attempt| attempt.to_string()), i64::try_from(text.len()));
            let given =
                params![id, attempt, at.as_microsecond(), text, bytes.unwrap_or(i64::MAX), expires.as_microsecond()];
            transaction.execute(
                "update tasks set attempt = ?2, ended = ?3, body = ?4, bytes = ?5, expires = ?6
                 where id = ?1 and ended is null",
                given,
            )?;
            Ok(())
        })
        .await
    }

    /// A task of the caller's that is not expired.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn task(&self, id: String, caller: Caller, now: Timestamp) -> Result<Option<StoredTask>, StoreError> {
        self.with(move |connection| {
            let sql = "select boot, created, ended, body, expires from tasks
                       where id = ?1 and subject = ?2 and role = ?3 and tenant = ?4 and expires > ?5";
            let Caller { subject, role, tenant, surface: _, session: _ } = caller;
            let found = connection
                .query_row(sql, params![id, subject, role, tenant.unwrap_or_default(), now.as_microsecond()], |row| {
                    Ok((
                        row.get::<_, String>(0)?,
                        row.get(1)?,
                        row.get::<_, Option<i64>>(2)?,
                        row.get::<_, Option<String>>(3)?,
                        row.get(4)?,
                    ))
                })
                .optional()?;
            let Some((boot, created, ended, body, expires)) = found else { return Ok(None) };
            let end = ended.zip(body).map(|(ended, body)| Ok::<_, StoreError>((time(ended)?, body))).transpose()?;
            Ok(Some(StoredTask { boot: BootId::new(boot), created: time(created)?, end, expires: time(expires)? }))
        })
        .await
    }
}

fn begin(transaction: &Transaction<'_>, task: &NewTask, now: Timestamp) -> Result<bool, StoreError> {
    transaction.execute("delete from tasks where expires <= ?1", [now.as_microsecond()])?;
    let Caller { subject, role, tenant, surface: _, session: _ } = &task.caller;
    let tenant = tenant.as_deref().unwrap_or_default();
    let (count, bytes): (u32, i64) = transaction.query_row(
        "select count(*), coalesce(sum(bytes), 0) from tasks where subject = ?1 and role = ?2 and tenant = ?3",
        params![subject, role, tenant],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if count >= limits::TASKS_KEPT_MAX || bytes.unsigned_abs() >= limits::TASKS_KEPT_BYTES_MAX {
        return Ok(false);
    }
    let kept = SignedDuration::from_millis(i64::try_from(limits::TASK_UNENDED_MS).unwrap_or(i64::MAX));
    let expires = now.checked_add(kept).unwrap_or(Timestamp::MAX);
    transaction.execute(
        "insert into tasks (id, subject, role, tenant, boot, created, expires, bytes) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0)",
        params![task.id, subject, role, tenant, task.boot.as_str(), now.as_microsecond(), expires.as_microsecond()],
    )?;
    Ok(true)
}

fn time(microseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(microseconds).map_err(|error| StoreError::Corrupt(format!("a time of a task: {error}")))
}
