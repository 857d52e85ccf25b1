//! What the disk itself takes for the two syncs of a strict call.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file that is appended to and synced, as the ledger does it.
pub(crate) struct Bare(File);

/// About what a strict call writes each time, in bytes.
const RECORD_BYTES: usize = 900;

impl Bare {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self(File::options().append(true).create(true).open(folder.join("bare"))?))
    }

    /// Twice: write, fdatasync.
    pub(crate) fn pair(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            self.0.write_all(&[b'x'; RECORD_BYTES])?;
            self.0.sync_data()?;
        }
        Ok(())
    }
}
