//! Sessions: conversations that outlive their process, step by step. A step is a prompt or a model's turn, kept as the
//! text that its owner gives it; of each call of a turn it is known whether it has an outcome.

mod fork;
mod lock;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use tollgate_types::{ApprovalId, Caller, limits};

use crate::{Store, StoreError};

pub use lock::SessionLock;

/// A session without its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMeta {
    /// Its id, a UUID v7; never given twice.
    pub id: String,
    /// The name it was given, one of a kind in the data folder.
    pub name: Option<String>,
    /// Who asks in it.
    pub caller: Caller,
    /// The model, as it is configured.
    pub model: String,
    /// What the model is told to be.
    pub system: Option<String>,
    /// When it was begun.
    pub created: Timestamp,
    /// When something was stored last.
    pub updated: Timestamp,
    /// How long its steps and outcomes are.
    pub bytes: u32,
    /// The session that it was copied from.
    pub forked_from: Option<String>,
}

/// A session as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The session.
    pub meta: SessionMeta,
    /// How many turns of the model it holds.
    pub turns: u32,
    /// How many calls have no outcome.
    pub open: u32,
    /// How many of those wait for an approval.
    pub waiting: u32,
    /// The first step.
    pub first: Option<String>,
    /// What the last step is.
    pub last: Option<StepKind>,
    /// How many calls the last step asks for.
    pub last_calls: u32,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// What a person says.
    Prompt,
    /// What the model says.
    Turn,
}

impl StepKind {
    /// The name in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Turn => "turn",
        }
    }
}

/// One step, with the calls of a turn in call order.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its place in the session, from one.
    pub seq: u32,
    /// What it is.
    pub kind: StepKind,
    /// The text that its owner gave it.
    pub body: String,
    /// The calls that it asks for.
    pub calls: Vec<StoredCall>,
}

/// A call that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// The key under which it may happen once; none for what may happen twice.
    pub key: Option<String>,
    /// Whether its arguments are stored as they were asked; not so where a secret was taken out of them.
    pub is_whole: bool,
}

/// How a call of a stored turn stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// What was known before it was made.
    pub new: NewCall,
    /// The question that it waits for.
    pub approval: Option<ApprovalId>,
    /// What it brought, as the text that its owner gave it.
    pub outcome: Option<String>,
}

const COLUMNS: &str = "id, name, caller, model, system, created, updated, bytes, forked_from";

impl Store {
    /// Begins a session. Where there are too many, the one that was not used for longest goes, if nothing in it is open.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the name is given already, [`StoreError::Limit`] when none can go, or the store fails.
    pub async fn add_session(&self, meta: SessionMeta) -> Result<(), StoreError> {
        let store = self.clone();
        self.write(move |transaction| {
            store.make_room(transaction)?;
            insert(transaction, &meta)?;
            Ok(())
        })
        .await
    }

    /// One session by its name, its id, or an unambiguous beginning or end of its id.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when none or several answer to it, or the store fails.
    pub async fn session(&self, wanted: &str) -> Result<SessionMeta, StoreError> {
        let wanted = wanted.to_owned();
        self.with(move |connection| find(connection, &wanted)).await
    }

    /// The session of this name, where there is one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn session_named(&self, name: &str) -> Result<Option<SessionMeta>, StoreError> {
        let name = name.to_owned();
        self.with(move |connection| one(connection, "name = ?1", &name)).await
    }

    /// Every session, the one used last first. One without a name in which nothing was said is not worth a line.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sessions(&self) -> Result<Vec<SessionSummary>, StoreError> {
        self.with(|connection| {
            let sql = format!(
                "select {COLUMNS}, \
                 (select count(*) from session_steps s where s.session = id and s.kind = 'turn') as turns, \
                 (select count(*) from session_calls c where c.session = id and c.outcome is null) as open, \
                 (select count(*) from session_calls c where c.session = id and c.outcome is null \
                  and c.approval is not null) as waiting, \
                 (select body from session_steps s where s.session = id order by seq limit 1) as first, \
                 (select kind from session_steps s where s.session = id order by seq desc limit 1) as last, \
                 (select count(*) from session_calls c where c.session = id and c.seq = \
                  (select max(seq) from session_steps s where s.session = id)) as last_calls \
                 from sessions where name is not null or exists (select 1 from session_steps s where s.session = id) \
                 order by updated desc, id desc"
            );
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map([], |row| Ok(summary(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// The steps of a session, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn steps(&self, session: &str) -> Result<Vec<Step>, StoreError> {
        let session = session.to_owned();
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            let mut statement = transaction
                .prepare_cached("select seq, kind, body from session_steps where session = ?1 order by seq")?;
            let rows = statement.query_map(params![session], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })?;
            rows.map(|row| {
                let (seq, kind, body) = row?;
                Ok(Step { seq, kind: kind_of(&kind)?, body, calls: calls(&transaction, &session, seq)? })
            })
            .collect()
        })
        .await
    }

    /// Adds a step. On the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::Limit`] when the session would grow beyond its limit, or the store fails.
    pub async fn add_step(
        &self,
        session: &str,
        (seq, kind): (u32, StepKind),
        body: String,
        calls: Vec<NewCall>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let session = session.to_owned();
        self.write(move |transaction| {
            let bytes = grow(transaction, &session, body.len(), now)?;
            if bytes > limits::SESSION_BYTES_MAX {
                let message = format!("the session would exceed {} bytes", limits::SESSION_BYTES_MAX);
                return Err(StoreError::Limit(message));
            }
            transaction.execute(
                "insert into session_steps (session, seq, kind, body) values (?1, ?2, ?3, ?4)",
                params![session, seq, kind.as_str(), body],
            )?;
            for (position, call) in (0_u32..).zip(&calls) {
                transaction.execute(
                    "insert into session_calls (session, seq, position, key, is_whole) values (?1, ?2, ?3, ?4, ?5)",
                    params![session, seq, position, call.key, call.is_whole],
                )?;
            }
            Ok(())
        })
        .await
    }

    /// Takes a prompt back to which nothing came.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn withdraw_prompt(&self, session: &str, seq: u32) -> Result<(), StoreError> {
        let session = session.to_owned();
        self.write(move |connection| {
            let sql = "delete from session_steps where session = ?1 and seq = ?2 and kind = 'prompt' \
                       and seq = (select max(seq) from session_steps where session = ?1)";
            connection.execute(sql, params![session, seq])?;
            Ok(())
        })
        .await
    }

    /// Stores what a call brought. The first outcome stays. On the disk when this returns.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep_outcome(
        &self,
        session: &str,
        (seq, position): (u32, u32),
        outcome: String,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let session = session.to_owned();
        self.write(move |transaction| {
            grow(transaction, &session, outcome.len(), now)?;
            let kept = transaction.execute(
                "update session_calls set outcome = ?4, approval = null \
                 where session = ?1 and seq = ?2 and position = ?3 and outcome is null",
                params![session, seq, position, outcome],
            )?;
            if kept != 1 {
                let message = format!("session `{session}` has no open call {seq}.{position}");
                return Err(StoreError::Conflict(message));
            }
            Ok(())
        })
        .await
    }

    /// Stores for what a call waits.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep_waiting(
        &self,
        session: &str,
        (seq, position): (u32, u32),
        approval: ApprovalId,
    ) -> Result<(), StoreError> {
        let session = session.to_owned();
        self.write(move |connection| {
            connection.execute(
                "update session_calls set approval = ?4 where session = ?1 and seq = ?2 and position = ?3",
                params![session, seq, position, approval.as_str()],
            )?;
            Ok(())
        })
        .await
    }

    /// Takes another model for a session.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_session_model(&self, session: &str, model: &str) -> Result<(), StoreError> {
        let (session, model) = (session.to_owned(), model.to_owned());
        self.write(move |connection| {
            connection.execute("update sessions set model = ?2 where id = ?1", params![session, model])?;
            Ok(())
        })
        .await
    }

    /// Lets old sessions go until there is room for one more.
    fn make_room(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let kept: u32 = transaction.query_row("select count(*) from sessions", [], |row| row.get(0))?;
        let Some(surplus) = (kept + 1).checked_sub(limits::SESSIONS_KEPT_MAX).filter(|surplus| *surplus > 0) else {
            return Ok(());
        };
        let sql = "select id from sessions where not exists \
                   (select 1 from session_calls c where c.session = id and c.outcome is null) order by updated, id";
        let old: Vec<String> =
            transaction.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, rusqlite::Error>>()?;
        let mut gone = 0;
        for id in old {
            // One that somebody works in stays.
            let Ok(_lock) = self.lock_session(&id) else { continue };
            for (table, column) in [("sessions", "id"), ("session_steps", "session"), ("session_calls", "session")] {
                transaction.execute(&format!("delete from {table} where {column} = ?1"), params![id])?;
            }
            gone += 1;
            if gone == surplus {
                return Ok(());
            }
        }
        Err(StoreError::Limit(format!(
            "{kept} sessions are kept, and each has calls that are open: resume some of them"
        )))
    }
}

fn insert(transaction: &Transaction<'_>, meta: &SessionMeta) -> Result<(), StoreError> {
    if let Some(name) = &meta.name
        && one(transaction, "name = ?1", name)?.is_some()
    {
        return Err(StoreError::Conflict(format!("a session is named `{name}` already")));
    }
    let caller = serde_json::to_string(&meta.caller).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    transaction.execute(
        "insert into sessions (id, name, caller, model, system, created, updated, bytes, forked_from) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            meta.id,
            meta.name,
            caller,
            meta.model,
            meta.system,
            meta.created.as_microsecond(),
            meta.updated.as_microsecond(),
            meta.bytes,
            meta.forked_from,
        ],
    )?;
    Ok(())
}

fn find(connection: &Connection, wanted: &str) -> Result<SessionMeta, StoreError> {
    const SHORTEST: usize = 4;
    for condition in ["name = ?1", "id = ?1"] {
        if let Some(found) = one(connection, condition, wanted)? {
            return Ok(found);
        }
    }
    let none = || StoreError::NotFound(format!("no session is named `{wanted}` or has this id"));
    if wanted.len() < SHORTEST || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Err(none());
    }
    let sql = format!("select {COLUMNS} from sessions where id like ?1 || '%' or id like '%' || ?1 limit 2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_map(params![wanted], |row| Ok(meta(row)))?;
    match (rows.next().transpose()?, rows.next().transpose()?) {
        (Some(found), None) => found,
        (None, _) => Err(none()),
        (Some(_), Some(_)) => {
            Err(StoreError::NotFound(format!("several sessions answer to `{wanted}`: give more of the id")))
        }
    }
}

fn one(connection: &Connection, condition: &str, value: &str) -> Result<Option<SessionMeta>, StoreError> {
    let sql = format!("select {COLUMNS} from sessions where {condition}");
    connection.prepare_cached(&sql)?.query_row(params![value], |row| Ok(meta(row))).optional()?.transpose()
}

/// Counts what is about to be stored; answers how long the session is then.
fn grow(transaction: &Transaction<'_>, session: &str, bytes: usize, now: Timestamp) -> Result<u32, StoreError> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let sql = "update sessions set bytes = bytes + ?2, updated = ?3 where id = ?1 returning bytes";
    let grown = transaction.query_row(sql, params![session, bytes, now.as_microsecond()], |row| row.get(0));
    grown.optional()?.ok_or_else(|| StoreError::NotFound(format!("no session has the id `{session}`")))
}

fn kind_of(kind: &str) -> Result<StepKind, StoreError> {
    let known = [StepKind::Prompt, StepKind::Turn].into_iter().find(|known| known.as_str() == kind);
    known.ok_or_else(|| StoreError::Corrupt(format!("a session's step is a `{kind}`")))
}

fn calls(connection: &Connection, session: &str, seq: u32) -> Result<Vec<StoredCall>, StoreError> {
    let mut statement = connection.prepare_cached(
        "select key, is_whole, approval, outcome from session_calls where session = ?1 and seq = ?2 order by position",
    )?;
    let rows = statement.query_map(params![session, seq], |row| {
        Ok(StoredCall {
            new: NewCall { key: row.get(0)?, is_whole: row.get(1)? },
            approval: row.get::<_, Option<String>>(2)?.map(ApprovalId::new),
            outcome: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn meta(row: &Row<'_>) -> Result<SessionMeta, StoreError> {
    let time = |name: &str| {
        let time = Timestamp::from_microsecond(row.get(name)?);
        time.map_err(|_| StoreError::Corrupt("a session's time is out of range".into()))
    };
    let caller: String = row.get("caller")?;
    Ok(SessionMeta {
        id: row.get("id")?,
        name: row.get("name")?,
        caller: serde_json::from_str(&caller)
            .map_err(|error| StoreError::Corrupt(format!("a session's caller: {error}")))?,
        model: row.get("model")?,
        system: row.get("system")?,
        created: time("created")?,
        updated: time("updated")?,
        bytes: row.get("bytes")?,
        forked_from: row.get("forked_from")?,
    })
}

fn summary(row: &Row<'_>) -> Result<SessionSummary, StoreError> {
    let last: Option<String> = row.get("last")?;
    Ok(SessionSummary {
        meta: meta(row)?,
        turns: row.get("turns")?,
        open: row.get("open")?,
        waiting: row.get("waiting")?,
        first: row.get("first")?,
        last: last.as_deref().map(kind_of).transpose()?,
        last_calls: row.get("last_calls")?,
    })
}
