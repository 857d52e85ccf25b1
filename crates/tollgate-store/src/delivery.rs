//! Which open questions were sent to where people are told of them. The questions themselves are the outbox: whoever serves
//! a data folder sends what was asked by any process, also by one that died. Nothing is sent here.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;
use tollgate_types::ApprovalId;

use crate::approval::{Approval, COLUMNS, from_row};
use crate::{Store, StoreError};

/// An open question that is to be sent now.
#[derive(Debug, Clone)]
pub struct Due {
    /// The question.
    pub approval: Approval,
    /// Which try this is, from 1.
    pub tries: u32,
}

/// An open question that could not be sent so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undelivered {
    /// The question.
    pub id: ApprovalId,
    /// How often it was tried.
    pub tries: u32,
    /// What went wrong the last time.
    pub fault: String,
    /// When it is tried again; never, where none.
    pub again: Option<Timestamp>,
}

/// Open, not delivered, and its time has come; given up where a try left no time for another.
const DUE: &str = "from approvals left join deliveries on approval = id where status = 'pending' and expires > ?1 \
                   and delivered is null and (tries is null or due <= ?1)";

impl Store {
    /// Takes at most `count` open questions that are to be sent, oldest first. Nobody else takes them before `until`: when
    /// the process dies meanwhile, another one tries after that.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take_due(&self, count: u32, until: Timestamp, now: Timestamp) -> Result<Vec<Due>, StoreError> {
        let is_any = self.with(move |connection| {
            let look = format!("select 1 {DUE} limit 1");
            let found = connection.prepare_cached(&look)?.query_row(params![now.as_microsecond()], |_| Ok(()));
            Ok(found.optional()?.is_some())
        });
        if !is_any.await? {
            return Ok(Vec::new());
        }
        self.write(move |transaction| {
            transaction.execute("delete from deliveries where approval not in (select id from approvals)", [])?;
            let sql = format!("select {COLUMNS}, coalesce(tries, 0) as tries {DUE} order by created, id limit {count}");
            let due = transaction
                .prepare_cached(&sql)?
                .query_map(params![now.as_microsecond()], |row| {
                    let tries: u32 = row.get("tries")?;
                    Ok(from_row(row)?.map(|approval| Due { approval, tries: tries.saturating_add(1) }))
                })?
                .map(|row| row?)
                .collect::<Result<Vec<_>, StoreError>>()?;
            for Due { approval, tries } in &due {
                transaction.execute(
                    "insert into deliveries (approval, tries, due) values (?1, ?2, ?3) \
                     on conflict (approval) do update set tries = excluded.tries, due = excluded.due",
                    params![approval.id.as_str(), tries, until.as_microsecond()],
                )?;
            }
            Ok(due)
        })
        .await
    }

    /// A question arrived.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delivered(&self, id: ApprovalId, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.execute(
                "update deliveries set delivered = ?2, fault = null where approval = ?1",
                params![id.as_str(), now.as_microsecond()],
            )?;
            Ok(())
        })
        .await
    }

    /// A question did not arrive, and is tried `again` at that time, or never.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn not_delivered(
        &self,
        id: ApprovalId,
        fault: String,
        again: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.execute(
                "update deliveries set due = ?2, fault = ?3 where approval = ?1 and delivered is null",
                params![id.as_str(), again.map(|again| again.as_microsecond()), fault],
            )?;
            Ok(())
        })
        .await
    }

    /// The open questions that were tried and did not arrive, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn undelivered(&self, now: Timestamp) -> Result<Vec<Undelivered>, StoreError> {
        self.with(move |connection| {
            let mut statement = connection.prepare_cached(
                "select id, tries, fault, due from approvals join deliveries on approval = id where status = 'pending' \
                 and expires > ?1 and delivered is null and fault is not null order by created, id",
            )?;
            let rows = statement.query_map(params![now.as_microsecond()], |row| {
                let (id, due): (String, Option<i64>) = (row.get(0)?, row.get(3)?);
                let again = due.and_then(|micros| Timestamp::from_microsecond(micros).ok());
                Ok(Undelivered { id: ApprovalId::new(id), tries: row.get(1)?, fault: row.get(2)?, again })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}
