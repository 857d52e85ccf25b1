//! Whole results, kept by content, for those who were shown only a part. A file is named by the SHA-256 of what is in it,
//! and kept as long as a handle refers to it; the rows that do are its references.

mod content;
mod read;

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tollgate_types::{AttemptId, Caller, limits};

use crate::{Store, StoreError};
use content::{Aside, Content};
pub use read::KeptResult;

/// Whose result it is, and what.
#[derive(Debug, Clone)]
pub struct ResultMeta {
    /// Who asked; only the same subject, role and tenant reads it back.
    pub caller: Caller,
    /// The tool's name.
    pub tool: String,
    /// The attempt that made it.
    pub attempt: AttemptId,
    /// Which of the attempt's results it is, from 0.
    pub part: u8,
}

/// How long whole results are kept, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// How long one stays readable, in milliseconds.
    pub ttl_ms: u64,
    /// All of them, in bytes. Beyond it the oldest go.
    pub bytes_max: u64,
    /// Those of one caller, in bytes. Beyond it the caller's oldest go.
    pub caller_bytes_max: u64,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            ttl_ms: limits::RESULT_TTL_MS,
            bytes_max: limits::RESULTS_BYTES_MAX,
            caller_bytes_max: limits::RESULTS_CALLER_BYTES_MAX,
        }
    }
}

impl Keeping {
    /// What was made then or before is forgotten.
    fn oldest(&self, now: Timestamp) -> i64 {
        let ttl = SignedDuration::from_millis(i64::try_from(self.ttl_ms).unwrap_or(i64::MAX));
        now.checked_sub(ttl).map_or(i64::MIN, Timestamp::as_microsecond)
    }
}

impl Store {
    /// Keeps a whole result and returns its handle.
    ///
    /// # Errors
    /// When the file or the row cannot be written, or it is more than may be kept.
    pub async fn keep_result(&self, meta: ResultMeta, text: String, now: Timestamp) -> Result<String, StoreError> {
        self.keep_result_from(meta, Cursor::new(text.into_bytes()), now).await
    }

    /// The same for a text that is read as it is written down.
    ///
    /// # Errors
    /// As [`Store::keep_result`], and when it is not UTF-8.
    pub async fn keep_result_from(
        &self,
        meta: ResultMeta,
        text: impl Read + Send + 'static,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let store = self.clone();
        let keep = move || {
            let folder = store.folder().join("results");
            let most = store.keeping.bytes_max.min(store.keeping.caller_bytes_max);
            let aside = Aside::write(&folder, text, most)?;
            store.write_blocking(|transaction| store.place(transaction, &folder, &meta, aside, now))
        };
        tokio::task::spawn_blocking(keep)
            .await
            .unwrap_or_else(|panic| Err(StoreError::Corrupt(format!("the store's task ended early: {panic}"))))
    }

    /// Looks into a whole result; none when the handle is not this caller's or is forgotten. `look` runs where it may wait
    /// for the disk.
    ///
    /// # Errors
    /// When the store fails, or the file is not what was kept.
    pub async fn with_result<T: Send + 'static>(
        &self,
        caller: &Caller,
        handle: &str,
        now: Timestamp,
        look: impl FnOnce(KeptResult) -> T + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let (folder, oldest) = (self.folder().join("results"), self.keeping.oldest(now));
        let (caller, handle) = (caller.clone(), handle.to_owned());
        let kept = self.with(move |connection| open(connection, &folder, &caller, &handle, oldest)).await?;
        let Some(kept) = kept else { return Ok(None) };
        let looked = tokio::task::spawn_blocking(move || look(kept)).await;
        looked.map(Some).map_err(|panic| StoreError::Corrupt(format!("the look ended early: {panic}")))
    }

    /// Puts a file in its place under a new handle. Room is made, and files go, under the same lock, so that no process
    /// removes what another one is about to refer to.
    fn place(
        &self,
        transaction: &Transaction<'_>,
        folder: &Path,
        meta: &ResultMeta,
        aside: Aside,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let room = Room { transaction, folder };
        room.forget("created <= ?1", params![self.keeping.oldest(now)])?;
        if !self.has_swept.swap(true, Ordering::Relaxed) {
            room.sweep(now)?;
        }
        room.make(&self.keeping, &meta.caller, aside.content())?;
        let content = aside.settle(folder)?;
        content.insert(transaction)?;
        let unique: String = meta.attempt.as_str().chars().filter(char::is_ascii_hexdigit).collect();
        let part = if meta.part == 0 { String::new() } else { format!("{:02x}", meta.part) };
        let handle = format!("res_{unique}{part}");
        transaction.execute(
            "insert or replace into results (handle, sha256, subject, role, tenant, tool, attempt, created) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                handle,
                content.sha256,
                meta.caller.subject,
                meta.caller.role,
                meta.caller.tenant.as_deref().unwrap_or_default(),
                meta.tool,
                meta.attempt.as_str(),
                now.as_microsecond(),
            ],
        )?;
        Ok(handle)
    }
}

fn open(
    connection: &mut Connection,
    folder: &Path,
    caller: &Caller,
    handle: &str,
    oldest: i64,
) -> Result<Option<KeptResult>, StoreError> {
    let found: Option<String> = connection
        .query_row(
            "select sha256 from results where handle = ?1 and subject = ?2 and role = ?3 and tenant = ?4 and created > ?5",
            params![handle, caller.subject, caller.role, caller.tenant.as_deref().unwrap_or_default(), oldest],
            |row| row.get(0),
        )
        .optional()?;
    let Some(sha256) = found else { return Ok(None) };
    let path = folder.join(&sha256);
    let file = match fs::File::open(&path) {
        // Its row outlived it, as where a process died that made room.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|source| StoreError::io(&path, source))?,
    };
    let content = match Content::find(connection, &sha256)? {
        Some(content) => content,
        None => {
            // Kept by an older program.
            let content = Content::of(&file).map_err(|source| StoreError::io(&path, source))?;
            if content.sha256 != sha256 {
                return Err(StoreError::Corrupt(format!("the kept result `{handle}` was changed on the disk")));
            }
            content.insert(connection)?;
            content
        }
    };
    Ok(Some(KeptResult::new(file, content, handle.to_owned())))
}

/// Room for another file.
struct Room<'r> {
    transaction: &'r Transaction<'r>,
    folder: &'r Path,
}

impl Room<'_> {
    /// Makes what there is and `content` fit, the oldest first: the caller's own before those of all.
    fn make(&self, keeping: &Keeping, caller: &Caller, content: &Content) -> Result<(), StoreError> {
        let tenant = caller.tenant.as_deref().unwrap_or_default();
        let own = "subject = ?1 and role = ?2 and tenant = ?3";
        let whose = params![caller.subject, caller.role, tenant];
        self.fit(own, whose, keeping.caller_bytes_max, content)?;
        self.fit("true", params![], keeping.bytes_max, content)
    }

    fn fit(
        &self,
        which: &str,
        whose: &[&dyn rusqlite::ToSql],
        bytes_max: u64,
        content: &Content,
    ) -> Result<(), StoreError> {
        let used = format!(
            "select coalesce(sum(bytes), 0), count(*) filter (where sha256 = '{}') from contents \
             where sha256 in (select sha256 from results where {which})",
            content.sha256
        );
        let oldest = format!("handle = (select handle from results where {which} order by created, handle limit 1)");
        loop {
            let (used, known): (i64, i64) =
                self.transaction.query_row(&used, whose, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let more = if known > 0 { 0 } else { content.bytes };
            if u64::try_from(used).unwrap_or(u64::MAX).saturating_add(more) <= bytes_max {
                return Ok(());
            }
            if self.forget(&oldest, whose)? == 0 {
                return Ok(());
            }
        }
    }

    /// Removes handles, and the files that no other handle refers to.
    fn forget(&self, which: &str, whose: &[&dyn rusqlite::ToSql]) -> Result<usize, StoreError> {
        let mut statement =
            self.transaction.prepare_cached(&format!("delete from results where {which} returning sha256"))?;
        let gone: Vec<String> = statement.query_map(whose, |row| row.get(0))?.collect::<Result<_, _>>()?;
        for sha256 in &gone {
            let left: i64 =
                self.transaction
                    .query_row("select count(*) from results where sha256 = ?1", [sha256], |row| row.get(0))?;
            if left == 0 {
                self.transaction.execute("delete from contents where sha256 = ?1", [sha256])?;
                remove(&self.folder.join(sha256))?;
            }
        }
        Ok(gone.len())
    }

    /// Removes files that no handle refers to, as a process leaves them that died between the file and its row.
    fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let unreadable = |source| StoreError::io(self.folder, source);
        let grace = i64::try_from(limits::RESULT_ORPHAN_MS).unwrap_or(i64::MAX);
        for entry in fs::read_dir(self.folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let written = entry.metadata().and_then(|meta| meta.modified()).ok();
            let written = written.and_then(|written| Timestamp::try_from(written).ok());
            let is_old = written.is_some_and(|written| written.duration_until(now).as_millis() > i128::from(grace));
            let is_known = "select count(*) from results where sha256 = ?1";
            if is_old && self.transaction.query_row(is_known, [&name], |row| row.get::<_, i64>(0))? == 0 {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

fn remove(path: &PathBuf) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(path, error)),
        _ => Ok(()),
    }
}
