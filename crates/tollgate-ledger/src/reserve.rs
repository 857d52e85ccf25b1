//! Space that is kept back on the disk for last words: when nothing else fits any more, the ends of calls that run do, and
//! the record that the ledger takes no new ones. Every method is called within a turn at the ledger.

use std::io;
use std::path::PathBuf;

use crate::disk::{Access, Opened};
use crate::segment::Folder;

const BLOCK_BYTES: usize = 64 * 1024;

/// `audit/reserve`: a file that is in nobody's way but for its size.
pub(crate) struct Reserve {
    folder: Folder,
    file: Option<Box<Opened>>,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(folder: Folder, bytes: u64) -> Self {
        Self { folder, file: None, bytes }
    }

    /// Whether it is there in full, so that a call may begin.
    pub(crate) fn is_whole(&mut self) -> io::Result<bool> {
        let state = self.file.as_ref().map(|file| file.state()).transpose()?;
        Ok(state.is_some_and(|state| state.len >= self.bytes && !state.is_removed))
    }

    /// Makes it, once there is space for it twice: a disk that is full again with the next record is no better. Says whether
    /// it had been given up.
    pub(crate) fn make(&mut self) -> io::Result<bool> {
        let is_new = !self.path().exists();
        let file = self.folder.disk().open(&self.path(), Access::AppendOrCreate)?;
        let len = file.len()?;
        if len < self.bytes {
            let filled = fill(file.as_ref(), len, 2 * self.bytes);
            file.set_len(if filled.is_ok() { self.bytes } else { 0 })?;
            filled?;
        }
        self.file = Some(file);
        Ok(!is_new && len < self.bytes)
    }

    /// Gives the space back to the disk. False when there is none to give.
    pub(crate) fn give_up(&self) -> io::Result<bool> {
        let file = match self.folder.disk().open(&self.path(), Access::Append) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        let is_there = file.len()? > 0;
        file.set_len(0)?;
        Ok(is_there)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("reserve")
    }
}

/// Fills it with what no file system makes smaller.
fn fill(file: &Opened, from: u64, to: u64) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let mut dice = from | 1 << 40;
    let mut at = from;
    while at < to {
        block.clear();
        while block.len() < BLOCK_BYTES && at < to {
            // Xorshift64.
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            block.extend_from_slice(&dice.to_le_bytes());
            at += 8;
        }
        file.append_all(&block)?;
    }
    Ok(())
}
