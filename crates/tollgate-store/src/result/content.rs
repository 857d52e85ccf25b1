//! What is in the file of a kept result: its digest, its size, and of each block of it the digest and the characters, so
//! that a part can be found and checked without the rest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use crate::StoreError;
use crate::key::{create_private, create_private_folder, hex};

/// One block.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// A block in the table: its SHA-256 and its characters.
const ENTRY_BYTES: usize = 32 + 4;

/// A block of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) sha256: [u8; 32],
    /// Characters that begin in it.
    pub(super) chars: u32,
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) sha256: String,
    pub(super) bytes: u64,
    pub(super) blocks: Vec<Block>,
}

/// Whether a byte begins a character.
pub(super) fn begins(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

impl Content {
    /// Reads all of it.
    pub(super) fn of(reader: impl Read) -> io::Result<Self> {
        Self::through(reader, |_| Ok(()))
    }

    fn through(mut reader: impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Self> {
        let mut whole = Sha256::new();
        let (mut bytes, mut blocks, mut open) = (0, Vec::new(), Vec::new());
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        loop {
            block.clear();
            let read = reader.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
            if read == 0 {
                break;
            }
            check(&mut open, &block)?;
            whole.update(&block);
            let chars = block.iter().filter(|byte| begins(**byte)).count();
            blocks
                .push(Block { sha256: Sha256::digest(&block).into(), chars: u32::try_from(chars).unwrap_or(u32::MAX) });
            bytes += read as u64;
            take(&block)?;
        }
        if !open.is_empty() {
            return Err(not_utf8());
        }
        Ok(Self { sha256: hex(&whole.finalize()), bytes, blocks })
    }

    /// What was noted of a file.
    pub(super) fn find(connection: &Connection, sha256: &str) -> Result<Option<Self>, StoreError> {
        let sql = "select bytes, blocks from contents where sha256 = ?1";
        let found: Option<(i64, Vec<u8>)> =
            connection.query_row(sql, [sha256], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((bytes, blocks)) = found else { return Ok(None) };
        let entry = |entry: &[u8]| {
            let (sha256, chars) = entry.split_at_checked(32)?;
            Some(Block { sha256: sha256.try_into().ok()?, chars: u32::from_le_bytes(chars.try_into().ok()?) })
        };
        let blocks: Option<Vec<Block>> = blocks.chunks(ENTRY_BYTES).map(entry).collect();
        let odd = || StoreError::Corrupt("what is noted of a kept result does not read".into());
        let blocks = blocks.ok_or_else(odd)?;
        Ok(Some(Self { sha256: sha256.to_owned(), bytes: u64::try_from(bytes).map_err(|_| odd())?, blocks }))
    }

    /// Notes it.
    pub(super) fn insert(&self, connection: &Connection) -> Result<(), StoreError> {
        let mut blocks = Vec::with_capacity(self.blocks.len() * ENTRY_BYTES);
        for block in &self.blocks {
            blocks.extend_from_slice(&block.sha256);
            blocks.extend_from_slice(&block.chars.to_le_bytes());
        }
        let bytes = i64::try_from(self.bytes).unwrap_or(i64::MAX);
        connection.execute(
            "insert or replace into contents (sha256, bytes, blocks) values (?1, ?2, ?3)",
            params![self.sha256, bytes, blocks],
        )?;
        Ok(())
    }
}

/// Checks that a block goes on with UTF-8; what is open at its end waits for the next one.
fn check(open: &mut Vec<u8>, block: &[u8]) -> io::Result<()> {
    let mut rest = block;
    while !open.is_empty() {
        let Some((first, after)) = rest.split_first() else { return Ok(()) };
        open.push(*first);
        rest = after;
        match std::str::from_utf8(open) {
            Ok(_) => open.clear(),
            Err(error) if error.error_len().is_some() => return Err(not_utf8()),
            Err(_) => {}
        }
    }
    match std::str::from_utf8(rest) {
        Ok(_) => Ok(()),
        Err(error) if error.error_len().is_some() => Err(not_utf8()),
        Err(error) => {
            open.extend_from_slice(rest.get(error.valid_up_to()..).unwrap_or_default());
            Ok(())
        }
    }
}

fn not_utf8() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the result is not UTF-8")
}

/// A file that is written and not yet in its place. Dropped, it is removed.
pub(super) struct Aside {
    path: PathBuf,
    content: Content,
}

impl Aside {
    /// Writes a file for its owner alone, and syncs it.
    pub(super) fn write(folder: &Path, text: impl Read, bytes_max: u64) -> Result<Self, StoreError> {
        let failed = |source| StoreError::io(folder, source);
        create_private_folder(folder).map_err(failed)?;
        let mut name = [0_u8; 8];
        getrandom::fill(&mut name).map_err(|error| failed(io::Error::other(error)))?;
        let path = folder.join(format!(".{}", hex(&name)));
        create_private(&path, &[]).map_err(failed)?;
        let empty = Content { sha256: String::new(), bytes: 0, blocks: Vec::new() };
        let mut aside = Self { path, content: empty };
        let mut file = OpenOptions::new().append(true).open(&aside.path).map_err(failed)?;
        // One byte more tells that it is too much.
        let text = text.take(bytes_max.saturating_add(1));
        let content = Content::through(text, |block| file.write_all(block)).map_err(failed)?;
        if content.bytes > bytes_max {
            let message = format!("a result may have {bytes_max} bytes to be kept, and this one has more");
            return Err(StoreError::Limit(message));
        }
        file.sync_all().map_err(failed)?;
        aside.content = content;
        Ok(aside)
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// Puts it in its place, unless the same is there already.
    pub(super) fn settle(self, folder: &Path) -> Result<Content, StoreError> {
        let path = folder.join(&self.content.sha256);
        if !path.exists() {
            fs::rename(&self.path, &path)
                .and_then(|()| File::open(folder)?.sync_all())
                .map_err(|source| StoreError::io(&path, source))?;
        }
        Ok(self.content.clone())
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Where it is in its place already, there is nothing to remove; where this fails, it is swept.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_checked_across_blocks() {
        let text = format!("{}北京{}", "a".repeat(BLOCK_BYTES - 1), "👍".repeat(BLOCK_BYTES));
        let content = Content::of(text.as_bytes()).unwrap();
        assert_eq!(content.blocks.iter().map(|block| block.chars as usize).sum::<usize>(), text.chars().count());
        for broken in [&text.as_bytes()[..BLOCK_BYTES], &text.as_bytes()[..BLOCK_BYTES + 3], b"\xff", b"\xe5\x8c"] {
            assert_eq!(Content::of(broken).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
