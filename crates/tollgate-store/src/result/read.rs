//! Reading a kept result part by part. Each block that is read is checked; the others are not touched.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest as _, Sha256};

use super::content::{BLOCK_BYTES, Content, begins};
use crate::StoreError;

/// A whole result, open.
#[derive(Debug)]
pub struct KeptResult {
    file: File,
    content: Content,
    handle: String,
    /// The next block for [`Read`], and what is left of the one before.
    next: usize,
    left: Vec<u8>,
    at: usize,
}

impl KeptResult {
    pub(super) fn new(file: File, content: Content, handle: String) -> Self {
        Self { file, content, handle, next: 0, left: Vec::new(), at: 0 }
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.content.bytes
    }

    /// Its characters.
    pub fn chars(&self) -> u64 {
        self.content.blocks.iter().map(|block| u64::from(block.chars)).sum()
    }

    /// At most `chars_max` characters from `offset` on, which counts characters as well.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what was kept.
    pub fn page(&mut self, offset: u64, chars_max: usize) -> Result<String, StoreError> {
        let (mut block, mut before) = (0, 0);
        for found in &self.content.blocks {
            if before + u64::from(found.chars) > offset {
                break;
            }
            (block, before) = (block + 1, before + u64::from(found.chars));
        }
        let mut bytes = Vec::new();
        let mut skipped = usize::try_from(offset - before.min(offset)).unwrap_or(usize::MAX);
        let mut left = chars_max;
        while block < self.content.blocks.len() {
            for byte in self.block(block)? {
                if begins(byte) && skipped > 0 {
                    skipped -= 1;
                } else if begins(byte) && skipped == 0 && bytes.is_empty() || !bytes.is_empty() {
                    if begins(byte) {
                        if left == 0 {
                            return text(bytes);
                        }
                        left -= 1;
                    }
                    bytes.push(byte);
                }
            }
            block += 1;
        }
        text(bytes)
    }

    /// All of it, which may be much.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what was kept.
    pub fn text(&mut self) -> Result<String, StoreError> {
        self.page(0, usize::MAX)
    }

    fn block(&mut self, at: usize) -> Result<Vec<u8>, StoreError> {
        let changed = || StoreError::Corrupt(format!("the kept result `{}` was changed on the disk", self.handle));
        let wanted = self.content.blocks.get(at).ok_or_else(changed)?.sha256;
        let from = (at * BLOCK_BYTES) as u64;
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        self.file
            .seek(SeekFrom::Start(from))
            .and_then(|_| self.file.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut bytes))
            .map_err(|source| StoreError::io(std::path::Path::new(&self.handle), source))?;
        if Sha256::digest(&bytes).as_slice() != wanted { Err(changed()) } else { Ok(bytes) }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// From its beginning on, block by block.
impl Read for KeptResult {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.left.len() && self.next < self.content.blocks.len() {
            self.left = self.block(self.next).map_err(io::Error::other)?;
            (self.at, self.next) = (0, self.next + 1);
        }
        let mut rest = self.left.get(self.at..).unwrap_or_default();
        let read = rest.read(buffer)?;
        self.at += read;
        Ok(read)
    }
}
