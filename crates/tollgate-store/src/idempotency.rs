//! Keys under which a call happens at most once.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tollgate_types::{AttemptId, Caller, Digest, limits};

use crate::{Store, StoreError};

/// The scope of a key: the caller's, for one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationKey {
    /// Who asks.
    pub subject: String,
    /// The tenant of who asks; empty for none.
    pub tenant: String,
    /// The tool's name.
    pub tool: String,
    /// The key as given.
    pub key: String,
}

impl ReservationKey {
    /// The scope of `key` for this caller and tool.
    pub fn new(caller: &Caller, tool: &str, key: &str) -> Self {
        Self {
            subject: caller.subject.clone(),
            tenant: caller.tenant.clone().unwrap_or_default(),
            tool: tool.to_owned(),
            key: key.to_owned(),
        }
    }
}

/// What stands under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// Nothing did; it is this attempt's now.
    Fresh,
    /// The first call ended, with this outcome as JSON.
    Ended {
        /// The outcome object.
        outcome: String,
    },
    /// The key was used with other arguments.
    OtherArguments,
    /// The first call has no recorded end yet.
    Open {
        /// The first call's attempt.
        attempt: AttemptId,
    },
}

impl Store {
    /// Takes the key for `attempt`, or says what stands under it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reserve(
        &self,
        key: ReservationKey,
        digest: Digest,
        attempt: AttemptId,
        now: Timestamp,
    ) -> Result<Reservation, StoreError> {
        self.with(move |connection| {
            let oldest = now - SignedDuration::from_millis(i64::try_from(limits::IDEMPOTENCY_TTL_MS).unwrap_or(i64::MAX));
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // An open key outlives its time, and so does one on which a session still waits: forgetting it could do a
            // thing twice.
            transaction.execute(
                "delete from idempotency where created <= ?1 and outcome is not null and not exists \
                 (select 1 from session_calls c where c.key = idempotency.key and c.outcome is null)",
                params![oldest.as_microsecond()],
            )?;
            let reservation = match standing(&transaction, &key, &digest)? {
                Reservation::Fresh => {
                    transaction.execute(
                        "insert into idempotency (subject, tenant, tool, key, digest, attempt, created) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                        params![key.subject, key.tenant, key.tool, key.key, digest.as_str(), attempt.as_str(), now.as_microsecond()],
                    )?;
                    Reservation::Fresh
                }
                other => other,
            };
            transaction.commit()?;
            Ok(reservation)
        })
        .await
    }

    /// What stands under the key; nothing is taken.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reservation(&self, key: ReservationKey, digest: Digest) -> Result<Reservation, StoreError> {
        self.with(move |connection| standing(connection, &key, &digest)).await
    }

    /// The attempt that holds a key of this caller, whatever the tool.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn key_holder(&self, caller: &Caller, key: &str) -> Result<Option<AttemptId>, StoreError> {
        let (scope, key) = (ReservationKey::new(caller, "", key), key.to_owned());
        self.with(move |connection| {
            let sql = "select attempt from idempotency where subject = ?1 and tenant = ?2 and key = ?3 limit 1";
            let found = connection.query_row(sql, params![scope.subject, scope.tenant, key], |row| row.get(0));
            Ok(found.optional()?.map(|attempt: String| AttemptId::new(attempt)))
        })
        .await
    }

    /// Stores the end of the first call under its key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fulfil(&self, key: ReservationKey, outcome: String) -> Result<(), StoreError> {
        self.with(move |connection| {
            connection.execute(
                "update idempotency set outcome = ?5 where subject = ?1 and tenant = ?2 and tool = ?3 and key = ?4",
                params![key.subject, key.tenant, key.tool, key.key, outcome],
            )?;
            Ok(())
        })
        .await
    }

    /// Stores the end of the call that `attempt` made, if it holds a key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fulfil_attempt(&self, attempt: AttemptId, outcome: String) -> Result<(), StoreError> {
        self.with(move |connection| {
            connection.execute(
                "update idempotency set outcome = ?2 where attempt = ?1 and outcome is null",
                params![attempt.as_str(), outcome],
            )?;
            Ok(())
        })
        .await
    }

    /// Gives a key back because the call under it never started.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(&self, attempts: Vec<AttemptId>) -> Result<(), StoreError> {
        self.with(move |connection| {
            let mut statement = connection.prepare("delete from idempotency where attempt = ?1 and outcome is null")?;
            for attempt in &attempts {
                statement.execute(params![attempt.as_str()])?;
            }
            Ok(())
        })
        .await
    }
}

fn standing(connection: &Connection, key: &ReservationKey, digest: &Digest) -> Result<Reservation, StoreError> {
    let sql = "select digest, attempt, outcome from idempotency where subject = ?1 and tenant = ?2 and tool = ?3 and key = ?4";
    let found: Option<(String, String, Option<String>)> = connection
        .query_row(sql, params![key.subject, key.tenant, key.tool, key.key], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    Ok(match found {
        None => Reservation::Fresh,
        Some((first, ..)) if first != digest.as_str() => Reservation::OtherArguments,
        Some((_, _, Some(outcome))) => Reservation::Ended { outcome },
        Some((_, first, None)) => Reservation::Open { attempt: AttemptId::new(first) },
    })
}
