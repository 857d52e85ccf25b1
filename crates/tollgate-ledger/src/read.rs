//! Reading the ledger without being one of its writers.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use crate::disk::Opened;
use crate::line::{self, Head};
use crate::lines::{Lines, hash_before};
use crate::segment::{Folder, segment_name};
use crate::{Filter, LedgerError, Record};

/// How much a backward search reads at once.
const BLOCK_BYTES: u64 = 64 * 1024;
/// The records that one poll of a follower may give.
const POLL_RECORDS_MAX: usize = 10_000;
/// How far back [`tail_of`] looks.
pub const TAIL_RECORDS_MAX: usize = 100_000;

fn reading(error: io::Error) -> LedgerError {
    LedgerError::io("be read")(error)
}

/// Every record, oldest first. It ends at the last whole record of the moment; a line that is no record is an error in
/// its place.
///
/// It does not check the chain; that is what [`crate::verify`] is for.
pub fn read(data_dir: &Path) -> Records {
    let folder = Folder::of(data_dir);
    match folder.existing_segments() {
        Ok(segments) => Records { folder, segments: segments.into(), current: None, seq: 0, failure: None },
        Err(error) => Records { folder, segments: VecDeque::new(), current: None, seq: 0, failure: Some(error) },
    }
}

/// Iterates over every record. See [`read`].
pub struct Records {
    folder: Folder,
    segments: VecDeque<u64>,
    current: Option<Current>,
    seq: u64,
    failure: Option<LedgerError>,
}

struct Current {
    first: u64,
    lines: Lines<Box<Opened>>,
    number: u64,
}

impl Records {
    fn advance(&mut self) -> Result<Option<Record>, LedgerError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(first) = self.segments.pop_front() else { return Ok(None) };
                let file = self.folder.open_to_read(first).map_err(reading)?;
                let len = file.len().map_err(reading)?;
                self.current = Some(Current { first, lines: Lines::new(file, 0, len), number: 0 });
                continue;
            };
            current.number += 1;
            match current.lines.next() {
                Err(error) => {
                    // The rest of this segment would fail in the same way for ever.
                    self.current = None;
                    return Err(reading(error));
                }
                Ok(None) => self.current = None,
                // The last line of all may be on its way.
                Ok(Some(line)) if !line.is_whole && self.segments.is_empty() => self.current = None,
                Ok(Some(line)) => {
                    self.seq += 1;
                    let record = Record::parse(line.bytes).ok_or_else(|| unreadable(self.seq, current))?;
                    self.seq = record.seq();
                    return Ok(Some(record));
                }
            }
        }
    }
}

fn unreadable(seq: u64, current: &Current) -> LedgerError {
    let segment = segment_name(current.first);
    LedgerError::Damaged { seq, segment, line: current.number, message: "the line is not a record" }
}

impl Iterator for Records {
    type Item = Result<Record, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.failure.take() {
            Some(error) => Some(Err(error)),
            None => self.advance().transpose(),
        }
    }
}

/// All records of one attempt, which is named by its id or by a beginning or end of it that no other attempt has.
///
/// # Errors
/// [`LedgerError::UnknownAttempt`], [`LedgerError::AmbiguousAttempt`], or that the ledger cannot be read.
pub fn attempt_records(data_dir: &Path, part: &str) -> Result<Vec<Record>, LedgerError> {
    let mut found: Vec<Record> = Vec::new();
    for record in read(data_dir) {
        let record = record?;
        let Some(attempt) = record.attempt().filter(|attempt| attempt.starts_with(part) || attempt.ends_with(part))
        else {
            continue;
        };
        match found.first().and_then(Record::attempt) {
            Some(first) if first != attempt => {
                let (first, second) = (first.to_owned(), attempt.to_owned());
                return Err(LedgerError::AmbiguousAttempt { part: part.to_owned(), first, second });
            }
            Some(_) | None => found.push(record),
        }
    }
    if found.is_empty() { Err(LedgerError::UnknownAttempt { part: part.to_owned() }) } else { Ok(found) }
}

/// The last `count` records, oldest first, and a follower that gives what comes after them. It reads from the end.
///
/// # Errors
/// [`LedgerError::Missing`] when there is no ledger, or that it cannot be read.
pub fn tail(data_dir: &Path, count: usize) -> Result<(Vec<Record>, Follower), LedgerError> {
    last(data_dir, count, count, |_| true)
}

/// The same of the records alone that are asked for, among the last [`TAIL_RECORDS_MAX`]. The follower gives all.
///
/// # Errors
/// As [`tail`].
pub fn tail_of(data_dir: &Path, count: usize, filter: &Filter) -> Result<(Vec<Record>, Follower), LedgerError> {
    last(data_dir, TAIL_RECORDS_MAX, count, |record| filter.takes_record(record))
}

fn last(
    data_dir: &Path,
    among: usize,
    count: usize,
    takes: impl Fn(&Record) -> bool,
) -> Result<(Vec<Record>, Follower), LedgerError> {
    let folder = Folder::of(data_dir);
    let segments = folder.existing_segments()?;
    let mut missing = among;
    let mut start = (1, 0);
    for &first in segments.iter().rev() {
        let file = folder.open_to_read(first).map_err(reading)?;
        let (offset, lines) = start_of_last(file.as_ref(), missing).map_err(reading)?;
        start = (first, offset);
        missing -= lines;
        if missing == 0 {
            break;
        }
    }
    let mut follower = Follower { folder, first: start.0, offset: start.1, last: None };
    let mut records = VecDeque::new();
    loop {
        let new = follower.poll_new()?;
        if new.is_empty() {
            break;
        }
        records.extend(new.into_iter().filter(&takes));
        let surplus = records.len().saturating_sub(count);
        records.drain(..surplus);
    }
    Ok((records.into(), follower))
}

/// Where the last `count` whole lines begin, and how many there are up to that number.
fn start_of_last(file: &Opened, count: usize) -> io::Result<(u64, usize)> {
    let mut end = file.len()?;
    // One more line break than lines: the one before the first of them.
    let mut breaks = 0;
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        let buffer = file.read_from(start, end - start)?;
        for (index, _) in buffer.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            if breaks == count {
                return Ok((start + index as u64 + 1, count));
            }
            breaks += 1;
        }
        end = start;
    }
    Ok((0, breaks))
}

/// Gives the records that come in.
pub struct Follower {
    folder: Folder,
    first: u64,
    offset: u64,
    /// The record before that offset, once one was given.
    last: Option<Head>,
}

impl Follower {
    /// The records that were written since the last call, oldest first; none when there are none. It does not wait.
    ///
    /// # Errors
    /// When the ledger cannot be read, or a line is no record.
    pub fn poll_new(&mut self) -> Result<Vec<Record>, LedgerError> {
        let mut records = Vec::new();
        loop {
            // Asked before reading: once there is a next segment, this one gets nothing more.
            let segments = self.folder.existing_segments()?;
            let next = segments.into_iter().find(|&first| first > self.first);
            self.read_on(&mut records)?;
            match next {
                Some(next) if records.len() < POLL_RECORDS_MAX => (self.first, self.offset) = (next, 0),
                Some(_) | None => return Ok(records),
            }
        }
    }

    fn read_on(&mut self, records: &mut Vec<Record>) -> Result<(), LedgerError> {
        let file = self.folder.open_to_read(self.first).map_err(reading)?;
        let len = file.len().map_err(reading)?;
        self.find_again(file.as_ref(), len)?;
        let mut lines = Lines::new(file.as_ref(), self.offset, len);
        while records.len() < POLL_RECORDS_MAX {
            match lines.next().map_err(reading)? {
                Some(line) if line.is_whole => {
                    let seq = records.last().map_or(self.first, |record| record.seq() + 1);
                    let record = Record::parse(line.bytes).ok_or_else(|| LedgerError::Damaged {
                        seq,
                        segment: segment_name(self.first),
                        line: crate::lines::line_number(file.as_ref(), line.start).unwrap_or_default(),
                        message: "the line is not a record",
                    })?;
                    self.last = line::hash_said(line.bytes).map(|hash| Head { seq: record.seq(), hash });
                    records.push(record);
                    self.offset = lines.position();
                }
                Some(_) | None => break,
            }
        }
        Ok(())
    }

    /// Where records were erased, those behind them stand elsewhere.
    fn find_again(&mut self, file: &Opened, len: u64) -> Result<(), LedgerError> {
        let is_here = |hash| hash_before(file, self.offset).map(|found| found == Some(hash));
        let Some(last) = self.last.filter(|_| self.offset > 0) else { return Ok(()) };
        if len >= self.offset && is_here(last.hash).map_err(reading)? {
            return Ok(());
        }
        let mut lines = Lines::new(file, 0, len);
        while let Some(line) = lines.next().map_err(reading)? {
            if line.is_whole && line::peek(line.bytes).is_some_and(|link| link.head == last) {
                self.offset = lines.position();
                return Ok(());
            }
        }
        let (seq, segment) = (self.first, segment_name(self.first));
        Err(LedgerError::Damaged { seq, segment, line: 0, message: "records that were read are gone" })
    }
}
