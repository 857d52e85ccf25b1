//! Whole results, kept by content, for those who were shown only a part.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{OptionalExtension, params};
use sha2::{Digest as _, Sha256};
use tollgate_types::{AttemptId, Caller, limits};

use crate::key::{create_private, create_private_folder, hex};
use crate::{Store, StoreError};

/// Whose result it is, and what.
#[derive(Debug, Clone)]
pub struct ResultMeta {
    /// Who asked; only the same subject, role and tenant reads it back.
    pub caller: Caller,
    /// The tool's name.
    pub tool: String,
    /// The attempt that made it.
    pub attempt: AttemptId,
}

impl Store {
    /// Keeps a whole result and returns its handle.
    ///
    /// # Errors
    /// When the file or the row cannot be written.
    pub async fn keep_result(&self, meta: ResultMeta, text: String, now: Timestamp) -> Result<String, StoreError> {
        let folder = self.folder().join("results");
        self.with(move |connection| {
            let sha256 = hex(&Sha256::digest(text.as_bytes()));
            let path = folder.join(&sha256);
            write_once(&folder, &path, text.as_bytes()).map_err(|source| StoreError::io(&path, source))?;
            let unique: String = meta.attempt.as_str().chars().filter(char::is_ascii_hexdigit).collect();
            let handle = format!("res_{unique}");
            connection.execute(
                "insert or replace into results (handle, sha256, subject, role, tenant, tool, attempt, created) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    handle,
                    sha256,
                    meta.caller.subject,
                    meta.caller.role,
                    meta.caller.tenant.as_deref().unwrap_or_default(),
                    meta.tool,
                    meta.attempt.as_str(),
                    now.as_microsecond(),
                ],
            )?;
            forget_old(connection, &folder, now)?;
            Ok(handle)
        })
        .await
    }

    /// Reads a whole result back; none when the handle is not this caller's or is forgotten.
    ///
    /// # Errors
    /// When the store fails, or the file is gone or is not what was kept.
    pub async fn read_result(&self, caller: &Caller, handle: &str) -> Result<Option<String>, StoreError> {
        let folder = self.folder().join("results");
        let (caller, handle) = (caller.clone(), handle.to_owned());
        self.with(move |connection| {
            let found: Option<String> = connection
                .query_row(
                    "select sha256 from results where handle = ?1 and subject = ?2 and role = ?3 and tenant = ?4",
                    params![handle, caller.subject, caller.role, caller.tenant.as_deref().unwrap_or_default()],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(sha256) = found else { return Ok(None) };
            let path = folder.join(&sha256);
            let bytes = fs::read(&path).map_err(|source| StoreError::io(&path, source))?;
            if hex(&Sha256::digest(&bytes)) != sha256 {
                return Err(StoreError::Corrupt(format!("the kept result `{handle}` was changed on the disk")));
            }
            let text = String::from_utf8(bytes).map_err(|error| StoreError::Corrupt(error.to_string()))?;
            Ok(Some(text))
        })
        .await
    }
}

pub(crate) fn write_once(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
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

fn forget_old(connection: &rusqlite::Connection, folder: &Path, now: Timestamp) -> Result<(), StoreError> {
    let oldest = now - SignedDuration::from_millis(i64::try_from(limits::RESULT_TTL_MS).unwrap_or(i64::MAX));
    let mut statement = connection.prepare_cached(
        "delete from results where created <= ?1 returning sha256, not exists \
         (select 1 from results r where r.sha256 = results.sha256 and r.created > ?1)",
    )?;
    let old: Vec<(String, bool)> = statement
        .query_map(params![oldest.as_microsecond()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (sha256, is_last) in old {
        let path: PathBuf = folder.join(sha256);
        match if is_last { fs::remove_file(&path) } else { Ok(()) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StoreError::io(path, error)),
            _ => {}
        }
    }
    Ok(())
}
