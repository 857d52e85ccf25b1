//! Keys under which a call happens at most once.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
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

/// A call with the keys under which it happens once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReservation {
    /// The keys; all of them are taken, or none.
    pub keys: Vec<ReservationKey>,
    /// The digest of the call's arguments.
    pub digest: Digest,
    /// The attempt that takes them.
    pub attempt: AttemptId,
    /// How long they are remembered after it ended, in milliseconds.
    pub ttl_ms: u64,
}

/// What stands under a call's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// Nothing did; they are this attempt's now.
    Fresh,
    /// The first call ended, with this outcome as JSON.
    Ended {
        /// The first call's attempt.
        attempt: AttemptId,
        /// The outcome object.
        outcome: String,
    },
    /// A key was used with other arguments.
    OtherArguments,
    /// The first call has no recorded end yet.
    Open {
        /// The first call's attempt.
        attempt: AttemptId,
    },
}

/// Keys that are forgotten at one time, so that no call waits for long.
const FORGOTTEN_AT_ONCE_MAX: u32 = 1_000;
/// Which keys count. An open one outlives its time, and so does one on which a session still waits, and one of an attempt
/// whose outcome nobody has settled: forgetting it could do a thing twice.
const STANDS: &str = "(outcome is null or expires > ?1 \
    or exists (select 1 from session_calls c where c.key = idempotency.key and c.outcome is null) \
    or exists (select 1 from unsettled u where u.attempt = idempotency.attempt))";

impl Store {
    /// Takes the keys for a call that was asked for then, or says what stands under them. What has grown old since still
    /// stands: a call that waited for the first one is told its answer, however long that took.
    ///
    /// # Errors
    /// [`StoreError::Limit`] when the caller has too many keys for the tool, or the store fails.
    pub async fn reserve(&self, new: NewReservation, asked: Timestamp) -> Result<Reservation, StoreError> {
        self.write(move |transaction| {
            forget_old(transaction, asked)?;
            let standing = standing(transaction, &new.keys, &new.digest, asked)?;
            if standing == Reservation::Fresh {
                for key in &new.keys {
                    take(transaction, key, &new, asked)?;
                }
            }
            Ok(standing)
        })
        .await
    }

    /// What stood under the keys when a call was asked for; nothing is taken.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn reservation(
        &self,
        keys: Vec<ReservationKey>,
        digest: Digest,
        asked: Timestamp,
    ) -> Result<Reservation, StoreError> {
        self.with(move |connection| standing(connection, &keys, &digest, asked)).await
    }

    /// Takes open keys over from an attempt whose outcome nobody knows, for another that makes the same call again. False
    /// when they are not that attempt's any more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take_keys_over(&self, from: AttemptId, to: AttemptId) -> Result<bool, StoreError> {
        self.write(move |connection| {
            let sql = "update idempotency set attempt = ?2 where attempt = ?1 and outcome is null \
                       and exists (select 1 from unsettled u where u.attempt = ?1)";
            Ok(connection.execute(sql, params![from.as_str(), to.as_str()])? > 0)
        })
        .await
    }

    /// The attempt that holds a key of this caller for a tool. A fallback holds the same key for another one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn key_holder(&self, caller: &Caller, tool: &str, key: &str) -> Result<Option<AttemptId>, StoreError> {
        let of = ReservationKey::new(caller, tool, key);
        self.with(move |connection| {
            let sql = "select attempt from idempotency where subject = ?1 and tenant = ?2 and tool = ?3 and key = ?4";
            let found = connection.query_row(sql, params![of.subject, of.tenant, of.tool, of.key], |row| row.get(0));
            Ok(found.optional()?.map(|attempt: String| AttemptId::new(attempt)))
        })
        .await
    }

    /// Stores the end of the call that `attempt` made under its keys, if it holds any. From now on they grow old.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fulfil(&self, attempt: AttemptId, outcome: String, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.execute(
                "update idempotency set outcome = ?2, expires = max(expires, ?3 + expires - created) \
                 where attempt = ?1 and outcome is null",
                params![attempt.as_str(), outcome, now.as_microsecond()],
            )?;
            Ok(())
        })
        .await
    }

    /// Keeps the keys of an attempt that somebody has settled: with the answer that stands there already, else with this one.
    /// From now on they grow old.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn fulfil_settled(&self, attempt: AttemptId, outcome: String, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.execute(
                "update idempotency set outcome = coalesce(outcome, ?2), expires = max(expires, ?3 + expires - created) \
                 where attempt = ?1",
                params![attempt.as_str(), outcome, now.as_microsecond()],
            )?;
            Ok(())
        })
        .await
    }

    /// Puts another answer in the place of the one that stands under the keys of `attempt`, if one does.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn amend(&self, attempt: AttemptId, outcome: String) -> Result<(), StoreError> {
        self.write(move |connection| {
            let sql = "update idempotency set outcome = ?2 where attempt = ?1 and outcome is not null";
            connection.execute(sql, params![attempt.as_str(), outcome])?;
            Ok(())
        })
        .await
    }

    /// Gives keys back because nothing happened under them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release(&self, attempts: Vec<AttemptId>) -> Result<(), StoreError> {
        self.write(move |connection| {
            let mut statement = connection.prepare("delete from idempotency where attempt = ?1 and outcome is null")?;
            for attempt in &attempts {
                statement.execute(params![attempt.as_str()])?;
            }
            Ok(())
        })
        .await
    }
}

fn forget_old(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), StoreError> {
    let grace = SignedDuration::from_millis(i64::try_from(limits::IDEMPOTENCY_GRACE_MS).unwrap_or(i64::MAX));
    let long_ago = now.saturating_sub(grace).unwrap_or(Timestamp::MIN);
    let sql = format!(
        "delete from idempotency where rowid in (select rowid from idempotency where outcome is not null \
         and expires <= ?1 and not {STANDS} limit {FORGOTTEN_AT_ONCE_MAX})"
    );
    transaction.prepare_cached(&sql)?.execute(params![long_ago.as_microsecond()])?;
    Ok(())
}

fn take(
    transaction: &Transaction<'_>,
    key: &ReservationKey,
    new: &NewReservation,
    now: Timestamp,
) -> Result<(), StoreError> {
    let most = limits::IDEMPOTENCY_KEYS_MAX;
    let count = |which: &str| -> Result<u32, StoreError> {
        let sql = format!(
            "select count(*) from (select 1 from idempotency where subject = ?1 and tenant = ?2 and tool = ?3 \
             and {which} limit {most})"
        );
        let values = params![key.subject, key.tenant, key.tool, now.as_microsecond()];
        Ok(transaction.prepare_cached(&sql)?.query_row(values, |row| row.get(0))?)
    };
    // The first looks at an index alone, and is nearly always enough: what has grown old does not count.
    if count("?4 is not null")? >= most && count("(outcome is null or expires > ?4)")? >= most {
        let message = format!("{most} idempotency keys of this caller for `{}` are remembered already", key.tool);
        return Err(StoreError::Limit(message));
    }
    let ttl = SignedDuration::from_millis(i64::try_from(new.ttl_ms).unwrap_or(i64::MAX));
    // What has grown old and was not forgotten yet makes room.
    transaction.execute(
        "insert or replace into idempotency (subject, tenant, tool, key, digest, attempt, created, expires) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            key.subject,
            key.tenant,
            key.tool,
            key.key,
            new.digest.as_str(),
            new.attempt.as_str(),
            now.as_microsecond(),
            now.saturating_add(ttl).unwrap_or(Timestamp::MAX).as_microsecond(),
        ],
    )?;
    Ok(())
}

/// What stands under the first key under which anything does.
fn standing(
    connection: &Connection,
    keys: &[ReservationKey],
    digest: &Digest,
    now: Timestamp,
) -> Result<Reservation, StoreError> {
    let sql = format!(
        "select digest, attempt, outcome from idempotency \
         where subject = ?2 and tenant = ?3 and tool = ?4 and key = ?5 and {STANDS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for key in keys {
        let values = params![now.as_microsecond(), key.subject, key.tenant, key.tool, key.key];
        let found: Option<(String, String, Option<String>)> =
            statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((first, attempt, outcome)) = found else { continue };
        let attempt = AttemptId::new(attempt);
        return Ok(match outcome {
            _ if first != digest.as_str() => Reservation::OtherArguments,
            Some(outcome) => Reservation::Ended { attempt, outcome },
            None => Reservation::Open { attempt },
        });
    }
    Ok(Reservation::Fresh)
}
