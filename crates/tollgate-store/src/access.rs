//! The keys that clients and operators of the server hold. What is stored is a hash: a key itself is shown once.

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use crate::{Store, StoreError};

/// Keys of one data folder, the revoked ones too.
const KEYS_MAX: i64 = 10_000;

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// Lists tools and calls them, within its role.
    Client,
    /// Answers approvals, reads the ledger, and calls nothing.
    Operator,
}

impl KeyKind {
    /// The name in tables and interfaces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Operator => "operator",
        }
    }
}

/// One key, without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessKey {
    /// Who holds it: the subject of its calls. A name is never given twice, also after its key was revoked.
    pub name: String,
    /// What it is good for.
    pub kind: KeyKind,
    /// The role of its calls; empty for an operator's.
    pub role: String,
    /// Lower-case hex SHA-256 of the key.
    #[serde(skip)]
    pub hash: String,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it counts for nothing.
    pub revoked: Option<Timestamp>,
}

impl Store {
    /// Keeps a new key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the name was given before, or the store fails.
    pub async fn add_access_key(&self, key: AccessKey) -> Result<(), StoreError> {
        self.write(move |transaction| {
            insert(transaction, &key)?;
            Ok(())
        })
        .await
    }

    /// Keeps the first keys of a data folder. False, and nothing is kept, where there are keys already: of processes that
    /// start together one makes them. `before` runs before they count.
    ///
    /// # Errors
    /// What `before` says, or that the store fails.
    pub async fn add_first_access_keys(
        &self,
        keys: Vec<AccessKey>,
        before: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            if count(transaction)? > 0 {
                return Ok(false);
            }
            for key in &keys {
                insert(transaction, key)?;
            }
            before()?;
            Ok(true)
        })
        .await
    }

    /// Every key, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn access_keys(&self) -> Result<Vec<AccessKey>, StoreError> {
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached("select name, kind, role, hash, created, revoked from keys order by created, name")?;
            let rows = statement.query_map([], |row| Ok(read(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// Makes a key count for nothing from `now` on. Doing it twice keeps the first time.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when no key has this name, or the store fails.
    pub async fn revoke_access_key(&self, name: String, now: Timestamp) -> Result<AccessKey, StoreError> {
        self.write(move |connection| {
            let sql = "update keys set revoked = coalesce(revoked, ?2) where name = ?1 \
                       returning name, kind, role, hash, created, revoked";
            let mut statement = connection.prepare_cached(sql)?;
            let revoked = statement.query_row(params![name, now.as_millisecond()], |row| Ok(read(row))).optional()?;
            revoked.unwrap_or_else(|| Err(StoreError::NotFound(format!("no key is named `{name}`"))))
        })
        .await
    }
}

fn count(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.query_row("select count(*) from keys", [], |row| row.get(0))?)
}

fn insert(connection: &Connection, key: &AccessKey) -> Result<(), StoreError> {
    if count(connection)? >= KEYS_MAX {
        return Err(StoreError::Limit(format!("{KEYS_MAX} keys were made in this data folder, and no more can be")));
    }
    let sql = "insert into keys (name, kind, role, hash, created) values (?1, ?2, ?3, ?4, ?5)";
    let values = params![key.name, key.kind.as_str(), key.role, key.hash, key.created.as_millisecond()];
    match connection.execute(sql, values) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(StoreError::Conflict(format!("a key was named `{}` before: take another name", key.name)))
        }
        inserted => Ok(inserted.map(|_| ())?),
    }
}

fn read(row: &Row<'_>) -> Result<AccessKey, StoreError> {
    let kind: String = row.get(1)?;
    let kind = [KeyKind::Client, KeyKind::Operator].into_iter().find(|known| known.as_str() == kind);
    let time = |millisecond| {
        Timestamp::from_millisecond(millisecond).map_err(|_| StoreError::Corrupt("a key's time is out of range".into()))
    };
    Ok(AccessKey {
        name: row.get(0)?,
        kind: kind.ok_or_else(|| StoreError::Corrupt("a key is of a kind that is not known".into()))?,
        role: row.get(2)?,
        hash: row.get(3)?,
        created: time(row.get(4)?)?,
        revoked: row.get::<_, Option<i64>>(5)?.map(time).transpose()?,
    })
}
