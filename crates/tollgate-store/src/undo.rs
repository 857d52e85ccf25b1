//! What is needed to undo a call: the call that takes it back, and for a file what stood there before. Files are kept by
//! content. An undo happens once: of several that come for it one gets it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tollgate_types::{AttemptId, BeforeImage, BeforeImages, FileImage, RESTORE_FILE, limits};

use crate::key::{create_private, create_private_folder, hex};
use crate::{Store, StoreError};

/// The folder of the kept files.
const FOLDER: &str = "undo";

/// How a call can be undone.
#[derive(Debug, Clone, PartialEq)]
pub struct UndoPlan {
    /// The tool that takes it back.
    pub tool: String,
    /// Its arguments, or why there are none.
    pub arguments: Result<Value, String>,
    /// The attempt that took it back, or is about to.
    pub undone_by: Option<AttemptId>,
}

/// An attempt that was made instead of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// Its id.
    pub attempt: AttemptId,
    /// Its tool.
    pub tool: String,
}

impl Store {
    /// Keeps how `attempt` can be undone by a call of another tool.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn plan_undo(&self, attempt: AttemptId, plan: UndoPlan, now: Timestamp) -> Result<(), StoreError> {
        let folder = self.folder().join(FOLDER);
        let forgotten = self.write(move |transaction| {
            insert(transaction, &attempt, &plan, now)?;
            forget(transaction, now)
        });
        let gone = forgotten.await?;
        self.with(move |connection| remove(connection, &folder, gone)).await
    }

    /// How an attempt can be undone; none where nothing is kept of it any more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn undo_plan(&self, attempt: AttemptId, now: Timestamp) -> Result<Option<UndoPlan>, StoreError> {
        self.with(move |connection| {
            let sql = "select tool, arguments, fault, undone_by from undos where attempt = ?1 and created > ?2";
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row(params![attempt.as_str(), oldest(now)], |row| Ok(read(row))).optional()?.transpose()
        })
        .await
    }

    /// Keeps that another attempt did what `attempt` was asked for, by this tool: that one is undone in its place.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stands_in(&self, attempt: AttemptId, other: StandIn, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |transaction| {
            let sql = "insert or replace into stand_ins (attempt, other, tool, created) values (?1, ?2, ?3, ?4)";
            let values = params![attempt.as_str(), other.attempt.as_str(), other.tool, now.as_microsecond()];
            transaction.execute(sql, values)?;
            let sql = "select created from stand_ins order by created desc limit 1 offset ?1";
            let surplus = transaction.prepare_cached(sql)?.query_row(params![limits::UNDOS_KEPT_MAX], |row| row.get(0));
            let until = surplus.optional()?.unwrap_or(i64::MIN).max(oldest(now));
            transaction.execute("delete from stand_ins where created <= ?1", params![until])?;
            Ok(())
        })
        .await
    }

    /// The attempt that did what `attempt` was asked for, where that was another one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stand_in(&self, attempt: AttemptId) -> Result<Option<StandIn>, StoreError> {
        self.with(move |connection| {
            let sql = "select other, tool from stand_ins where attempt = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let found = statement.query_row(params![attempt.as_str()], |row| {
                Ok(StandIn { attempt: AttemptId::new(row.get::<_, String>(0)?), tool: row.get(1)? })
            });
            Ok(found.optional()?)
        })
        .await
    }

    /// Takes the undo of `attempt` for the attempt `by`, and says who has it now: that one, or another that was first.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when nothing is kept of `attempt`, or the store fails.
    pub async fn claim_undo(&self, attempt: AttemptId, by: AttemptId) -> Result<AttemptId, StoreError> {
        self.write(move |connection| {
            let sql = "update undos set undone_by = coalesce(undone_by, ?2) where attempt = ?1 returning undone_by";
            let mut statement = connection.prepare_cached(sql)?;
            let holder: Option<String> =
                statement.query_row(params![attempt.as_str(), by.as_str()], |row| row.get(0)).optional()?;
            holder
                .map(AttemptId::new)
                .ok_or_else(|| StoreError::NotFound(format!("nothing is kept of attempt {attempt}")))
        })
        .await
    }

    /// Gives back what `by` took, because it came to nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release_undo(&self, by: AttemptId) -> Result<(), StoreError> {
        self.write(move |connection| release(connection, &by)).await
    }
}

pub(crate) fn release(connection: &Connection, by: &AttemptId) -> Result<(), StoreError> {
    connection
        .prepare_cached("update undos set undone_by = null where undone_by = ?1")?
        .execute(params![by.as_str()])?;
    Ok(())
}

impl BeforeImages for Store {
    fn keep(&self, attempt: &AttemptId, image: BeforeImage, now: Timestamp) -> Result<(), String> {
        let folder = self.folder().join(FOLDER);
        let kept = self.write_blocking(|transaction| {
            let before = image.before.as_ref().map(|file| hex(&Sha256::digest(&file.bytes)));
            if let (Some(sha256), Some(file)) = (&before, &image.before) {
                let path = folder.join(sha256);
                write_once(&folder, &path, &file.bytes).map_err(|source| StoreError::io(&path, source))?;
            }
            let arguments = json!({ "attempt": attempt.as_str(), "path": image.path });
            let plan = UndoPlan { tool: RESTORE_FILE.to_owned(), arguments: Ok(arguments), undone_by: None };
            insert(transaction, attempt, &plan, now)?;
            let size = image.before.as_ref().map_or(0, |file| file.bytes.len());
            transaction.execute(
                "update undos set path = ?2, before = ?3, mode = ?4, bytes = ?5, after = ?6 where attempt = ?1",
                params![
                    attempt.as_str(),
                    image.path,
                    before,
                    image.before.as_ref().map(|file| file.mode),
                    i64::try_from(size).unwrap_or(i64::MAX),
                    image.after,
                ],
            )?;
            forget(transaction, now)
        });
        let kept = kept.and_then(|gone| self.blocking(|connection| remove(connection, &folder, gone)));
        kept.map_err(|error| error.to_string())
    }

    fn image(&self, attempt: &AttemptId) -> Result<Option<BeforeImage>, String> {
        let folder = self.folder().join(FOLDER);
        let found = self.blocking(|connection| {
            let sql = "select path, before, mode, after from undos where attempt = ?1 and path is not null";
            let row = connection.prepare_cached(sql)?.query_row(params![attempt.as_str()], |row| {
                Ok((row.get(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, Option<u32>>(2)?, row.get(3)?))
            });
            let Some((path, before, mode, after)) = row.optional()? else { return Ok(None) };
            let before = before.map(|sha256| file(&folder, &sha256, mode.unwrap_or_default())).transpose()?;
            Ok(Some(BeforeImage { path, before, after }))
        });
        found.map_err(|error| error.to_string())
    }
}

fn file(folder: &Path, sha256: &str, mode: u32) -> Result<FileImage, StoreError> {
    let path = folder.join(sha256);
    let bytes = fs::read(&path).map_err(|source| StoreError::io(&path, source))?;
    if hex(&Sha256::digest(&bytes)) != sha256 {
        return Err(StoreError::Corrupt("a file that was kept for an undo was changed on the disk".into()));
    }
    Ok(FileImage { bytes, mode })
}

fn insert(
    transaction: &Transaction<'_>,
    attempt: &AttemptId,
    plan: &UndoPlan,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (arguments, fault) = match &plan.arguments {
        Ok(arguments) => (Some(arguments.to_string()), None),
        Err(fault) => (None, Some(fault)),
    };
    // A tool that is tried again keeps what stood there before its first try.
    transaction.execute(
        "insert into undos (attempt, tool, arguments, fault, created) values (?1, ?2, ?3, ?4, ?5) \
         on conflict (attempt) do update set tool = ?2, arguments = ?3, fault = ?4",
        params![attempt.as_str(), plan.tool, arguments, fault, now.as_microsecond()],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<UndoPlan, StoreError> {
    let (arguments, fault): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    let arguments = match (arguments, fault) {
        (Some(text), _) => Ok(serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))?),
        (None, fault) => Err(fault.unwrap_or_default()),
    };
    let by: Option<String> = row.get(3)?;
    Ok(UndoPlan { tool: row.get(0)?, arguments, undone_by: by.map(AttemptId::new) })
}

fn oldest(now: Timestamp) -> i64 {
    let kept = SignedDuration::from_millis_i128(i128::from(limits::UNDO_TTL_MS));
    (now - kept).as_microsecond()
}

/// The age from which on calls are too many, counted from the newest.
const TOO_MANY: &str = "select created from undos order by created desc limit 1 offset ?1";
/// The same for what their files come to.
const TOO_LARGE: &str = "select created from (select created, sum(bytes) over (order by created desc, attempt) as total \
                         from undos) where total > ?1 order by created desc limit 1";
const FORGETS: &str = "delete from undos where created <= ?1 returning before";

/// Forgets what is too old, and the oldest where there is too much. Says which files may go with it.
fn forget(transaction: &Transaction<'_>, now: Timestamp) -> Result<Vec<String>, StoreError> {
    let bytes_max = i64::try_from(limits::UNDO_IMAGES_BYTES_MAX).unwrap_or(i64::MAX);
    let mut until = oldest(now);
    for (sql, limit) in [(TOO_MANY, i64::from(limits::UNDOS_KEPT_MAX)), (TOO_LARGE, bytes_max)] {
        let found: Option<i64> =
            transaction.prepare_cached(sql)?.query_row(params![limit], |row| row.get(0)).optional()?;
        until = found.map_or(until, |found| found.max(until));
    }
    let mut statement = transaction.prepare_cached(FORGETS)?;
    let gone = statement.query_map(params![until], |row| row.get::<_, Option<String>>(0))?;
    Ok(gone.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Removes the files that nothing points to any more.
fn remove(connection: &Connection, folder: &Path, gone: Vec<String>) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("select exists (select 1 from undos where before = ?1)")?;
    for sha256 in gone {
        if statement.query_row(params![sha256], |row| row.get(0))? {
            continue;
        }
        match fs::remove_file(folder.join(&sha256)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io(folder.join(sha256), error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Writes a file that is there as a whole or not at all; one of this name has this content.
fn write_once(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    create_private_folder(folder)?;
    let mut name = [0_u8; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let aside = folder.join(format!(".{}", hex(&name)));
    create_private(&aside, &[])?;
    let written = fs::OpenOptions::new().write(true).open(&aside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&aside, path)) {
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    Ok(())
}
