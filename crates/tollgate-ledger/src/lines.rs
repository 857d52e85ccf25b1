//! Reading lines of a stretch of a file, in bounded memory and without moving the file's own position.

use std::borrow::Borrow;
use std::io::{self, BufRead, BufReader, Read};

use crate::disk::Opened;
use crate::line::{self, Flaw, Hash, Head, LINE_BYTES_MAX, Link};

const BUFFER_BYTES: usize = 128 * 1024;

/// One line of a file.
pub(crate) struct Line<'a> {
    /// Without its line break.
    pub(crate) bytes: &'a [u8],
    /// Whether it ended in a line break within the stretch and was not too long.
    pub(crate) is_whole: bool,
    /// Where it begins in the file.
    pub(crate) start: u64,
}

impl Line<'_> {
    pub(crate) fn link(&self) -> Result<Link, Flaw> {
        if self.is_whole { line::parse(self.bytes) } else { Err(Flaw::Unsealed) }
    }
}

/// The lines of a stretch of a file.
pub(crate) struct Lines<F> {
    reader: BufReader<Stretch<F>>,
    line: Vec<u8>,
    next: u64,
}

impl<F: Borrow<Opened>> Lines<F> {
    pub(crate) fn new(file: F, from: u64, to: u64) -> Self {
        // A stretch is often one record long; a big buffer for it would cost more than the reading.
        let capacity = usize::try_from(to.saturating_sub(from)).unwrap_or(BUFFER_BYTES).clamp(1, BUFFER_BYTES);
        let stretch = Stretch { file, position: from, end: to };
        Self { reader: BufReader::with_capacity(capacity, stretch), line: Vec::new(), next: from }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let start = self.next;
        let read = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        self.next += read as u64;
        let is_whole = self.line.pop_if(|last| *last == b'\n').is_some();
        Ok(Some(Line { bytes: &self.line, is_whole, start }))
    }

    /// Where the next line begins.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }
}

struct Stretch<F> {
    file: F,
    position: u64,
    end: u64,
}

impl<F: Borrow<Opened>> Read for Stretch<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        let read = self.file.borrow().read_at(buffer.get_mut(..wanted).unwrap_or_default(), self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// How far a chain goes.
pub(crate) struct Walk {
    /// Its last record.
    pub(crate) head: Head,
    /// Where that record ends in the file.
    pub(crate) end: u64,
}

/// Follows the chain from `head`, whose record ends at `from`, as long as each line continues it.
pub(crate) fn walk(file: &Opened, from: u64, to: u64, mut head: Head) -> io::Result<Walk> {
    let mut lines = Lines::new(file, from, to);
    let mut end = from;
    while let Some(line) = lines.next()? {
        match line.link() {
            Ok(link) if link.follows(&head) => head = link.head,
            Ok(_) | Err(_) => break,
        }
        end = lines.position();
    }
    Ok(Walk { head, end })
}

/// Whether what stands in the stretch can be what a dying writer or a lost page left: no line is finished, or there are
/// zeros where data never reached the disk. Anything that holds a sealed record was put there by somebody.
pub(crate) fn is_torn(file: &Opened, from: u64, to: u64) -> io::Result<bool> {
    let mut lines = Lines::new(file, from, to);
    let (mut has_end, mut has_zero) = (false, false);
    while let Some(line) = lines.next()? {
        if line.link().is_ok() {
            return Ok(false);
        }
        has_end |= line.is_whole;
        has_zero |= line.bytes.contains(&0);
    }
    Ok(has_zero || !has_end)
}

/// The hash that the line ending at `end` says it has.
pub(crate) fn hash_before(file: &Opened, end: u64) -> io::Result<Option<Hash>> {
    /// `,"hash":"`, 64 digits, `"}` and the line feed.
    const SEAL_BYTES: u64 = 76;
    let Some(start) = end.checked_sub(SEAL_BYTES) else { return Ok(None) };
    let mut lines = Lines::new(file, start, end);
    let line = lines.next()?.filter(|line| line.is_whole);
    Ok(line.and_then(|line| line::hash_said(line.bytes)))
}

/// The number, from 1, of the line that begins at `position`.
pub(crate) fn line_number(file: &Opened, position: u64) -> io::Result<u64> {
    let mut lines = Lines::new(file, 0, position);
    let mut number = 1;
    while let Some(line) = lines.next()? {
        number += u64::from(line.is_whole);
    }
    Ok(number)
}
