//! A copy of a session up to one of its turns.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{SessionMeta, find, insert};
use crate::{Store, StoreError};

impl Store {
    /// Copies a session up to its turn number `turn`, from one, or to the last one whose calls all have an outcome. The
    /// copy has an id of its own, and so do the calls that come after.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session or turn, [`StoreError::Conflict`] when a call of the turn has
    /// no outcome or the name is given already, or the store fails.
    pub async fn fork_session(
        &self,
        wanted: &str,
        (id, name): (String, Option<String>),
        turn: Option<u32>,
        now: Timestamp,
    ) -> Result<SessionMeta, StoreError> {
        let (wanted, store) = (wanted.to_owned(), self.clone());
        self.write(move |transaction| {
            let from = find(transaction, &wanted)?;
            let seq = last_step(transaction, &from.id, turn)?;
            store.make_room(transaction)?;
            let mut copy =
                SessionMeta { id, name, created: now, updated: now, bytes: 0, forked_from: Some(from.id), ..from };
            copy.caller.session = None;
            let origin = copy.forked_from.as_deref().unwrap_or_default();
            copy.bytes = transaction.query_row(
                "select coalesce((select sum(length(cast(body as blob))) from session_steps where session = ?1 and seq <= ?2), 0) \
                 + coalesce((select sum(length(cast(outcome as blob))) from session_calls where session = ?1 and seq <= ?2), 0)",
                params![origin, seq],
                |row| row.get(0),
            )?;
            insert(transaction, &copy)?;
            transaction.execute(
                "insert into session_steps (session, seq, kind, body) \
                 select ?3, seq, kind, body from session_steps where session = ?1 and seq <= ?2",
                params![origin, seq, copy.id],
            )?;
            // The keys stay behind: what was answered is never asked for again.
            transaction.execute(
                "insert into session_calls (session, seq, position, is_whole, outcome) \
                 select ?3, seq, position, is_whole, outcome from session_calls where session = ?1 and seq <= ?2",
                params![origin, seq, copy.id],
            )?;
            Ok(copy)
        })
        .await
    }
}

/// The step that is the turn, all of whose calls have an outcome.
fn last_step(transaction: &Transaction<'_>, session: &str, turn: Option<u32>) -> Result<u32, StoreError> {
    const OPEN: &str =
        "exists (select 1 from session_calls c where c.session = s.session and c.seq = s.seq and c.outcome is null)";
    let Some(turn) = turn else {
        let sql = format!("select max(seq) from session_steps s where session = ?1 and kind = 'turn' and not {OPEN}");
        let last: Option<u32> = transaction.query_row(&sql, params![session], |row| row.get(0))?;
        return last.ok_or_else(|| StoreError::NotFound("the session has no turn that is whole".into()));
    };
    let sql = format!(
        "select seq, {OPEN} from session_steps s where session = ?1 and kind = 'turn' order by seq limit 1 offset ?2"
    );
    let found: Option<(u32, bool)> = match turn.checked_sub(1) {
        Some(offset) => {
            transaction.query_row(&sql, params![session, offset], |row| Ok((row.get(0)?, row.get(1)?))).optional()?
        }
        None => None,
    };
    match found {
        None => Err(StoreError::NotFound(format!("the session has no turn {turn}"))),
        Some((_, true)) => Err(StoreError::Conflict(format!("turn {turn} has calls without an outcome"))),
        Some((seq, false)) => Ok(seq),
    }
}
