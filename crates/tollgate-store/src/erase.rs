//! Erasing what is kept of calls beside the ledger: whole results, stored answers, and the arguments of questions that are
//! over. That something happened once, and that somebody answered, stays.

use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde::Serialize;

use crate::{Store, StoreError};

/// A question nobody can answer or use any more.
const IS_OVER: &str = "(consumed_at is not null or status in ('rejected', 'expired') or expires <= ?1)";

/// Of which attempts.
#[derive(Debug, Clone)]
pub enum CopiesOf {
    /// Of these.
    Attempts(Vec<String>),
    /// Of all from before a time.
    Before(Timestamp),
}

/// What was erased beside the ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Copies {
    /// Whole results.
    pub results: usize,
    /// Answers under idempotency keys, and of tasks. The keys stay, so that nothing happens twice.
    pub answers: usize,
    /// Questions whose arguments are gone.
    pub approvals: usize,
    /// Questions that still can be answered or used, and keep their arguments until then.
    pub open_approvals: u32,
    /// Sessions in the store: what is said in them stays.
    pub sessions: u32,
}

impl Store {
    /// Erases what is kept of attempts; `answer` takes the place of stored answers. Doing it twice is doing it once.
    ///
    /// # Errors
    /// When the store fails. What was erased by then stays erased.
    pub async fn erase(&self, of: CopiesOf, answer: String, now: Timestamp) -> Result<Copies, StoreError> {
        let folder = self.folder().join("results");
        let (copies, files) = self.write(move |transaction| erase(transaction, &of, &answer, now)).await?;
        self.with(move |connection| {
            for sha256 in files {
                remove(&folder.join(sha256))?;
            }
            if copies.results + copies.answers + copies.approvals > 0 {
                // What rows held before stands in free pages and in the log, until both are written anew.
                connection.execute_batch("vacuum")?;
                connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
            }
            Ok(copies)
        })
        .await
    }
}

/// What was erased, and the files of results that nobody has a handle of any more.
fn erase(
    transaction: &Transaction<'_>,
    of: &CopiesOf,
    answer: &str,
    now: Timestamp,
) -> Result<(Copies, Vec<String>), StoreError> {
    transaction.execute_batch("create temp table erasing (attempt text primary key) strict")?;
    match of {
        CopiesOf::Attempts(attempts) => {
            let mut insert = transaction.prepare("insert or ignore into erasing values (?1)")?;
            for attempt in attempts {
                insert.execute([attempt])?;
            }
        }
        CopiesOf::Before(end) => {
            let sql = "insert or ignore into erasing select attempt from approvals where created < ?1
                       union select attempt from idempotency where created < ?1
                       union select attempt from results where created < ?1
                       union select attempt from tasks where created < ?1 and attempt is not null";
            transaction.execute(sql, [end.as_microsecond()])?;
        }
    }
    let chosen = "attempt in (select attempt from erasing)";
    let now = now.as_microsecond();
    let approvals = transaction.execute(
        &format!(
            "update approvals set arguments = '\"erased\"', preview = null, reason = 'erased', decision_reason = null,
             typed = null where {chosen} and arguments <> '\"erased\"' and {IS_OVER}"
        ),
        [now],
    )?;
    let sql = format!("select count(*) from approvals where {chosen} and not {IS_OVER}");
    let open_approvals: u32 = transaction.query_row(&sql, [now], |row| row.get(0))?;
    let answers = transaction.execute(
        &format!("update idempotency set outcome = ?1 where {chosen} and outcome is not null and outcome <> ?1"),
        params![answer],
    )?;
    let answers = answers + transaction.execute(&format!("delete from tasks where {chosen}"), [])?;
    let files = {
        let sql = format!("delete from results where {chosen} returning sha256");
        let mut delete = transaction.prepare(&sql)?;
        delete.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?
    };
    let results = files.len();
    let mut unused = Vec::new();
    for sha256 in files {
        let sql = "select not exists (select 1 from results where sha256 = ?1)";
        if transaction.query_row(sql, [&sha256], |row| row.get(0))? {
            unused.push(sha256);
        }
    }
    let sessions: u32 = transaction.query_row("select count(*) from sessions", [], |row| row.get(0))?;
    transaction.execute_batch("drop table temp.erasing")?;
    Ok((Copies { results, answers, approvals, open_approvals, sessions }, unused))
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, error)),
        _ => Ok(()),
    }
}
