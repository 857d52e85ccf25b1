//! Checking the whole chain, and naming the first record that is not as it was written.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;

use serde::Serialize;
use tollgate_types::limits::LEDGER_LOCK_WAIT_MS;

use crate::LedgerError;
use crate::line::{Flaw, Head, LINE_BYTES_MAX, Link};
use crate::lines::Lines;
use crate::segment::{Folder, Turn, patiently, segment_name};

/// How far behind a fault its explanation is looked for.
const LOOK_AHEAD_LINES_MAX: usize = 100_000;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every record is as it was written. That records are missing at the end cannot be seen.
    pub ok: bool,
    /// Records that are right, up to the fault.
    pub records: u64,
    /// Segments that were looked at.
    pub segments: usize,
    /// Bytes of the records that are right.
    pub bytes: u64,
    /// The hash of the last record that is right.
    pub head: String,
    /// Files with what was cut off when a process died.
    pub torn_files: usize,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
}

/// The first thing that is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What was done to it.
    pub kind: FaultKind,
    /// The first record that is not as it was written.
    pub seq: u64,
    /// The file's name.
    pub segment: String,
    /// The line in the file, from 1.
    pub line: u64,
    /// The same for people.
    pub message: String,
}

/// What can be done to a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A record's bytes are not those that were written.
    Changed,
    /// Records are missing.
    Removed,
    /// There is a record that was not written there.
    Inserted,
    /// Records stand in another order.
    Swapped,
    /// The last line is not finished: a process died while writing, or the file was cut. Opening the ledger mends it.
    Truncated,
}

/// Checks every record up to the end of the moment, in bounded memory. Writers may go on meanwhile.
///
/// # Errors
/// [`LedgerError::Missing`] when there is no ledger, or that it cannot be read. A fault is not an error.
pub fn verify(data_dir: &Path) -> Result<Report, LedgerError> {
    let folder = Folder::of(data_dir);
    let mut walker = Walker::snapshot(&folder)?;
    let segments = walker.left.len();
    let mut trail = Trail { before: Head::GENESIS, head: Head::GENESIS, place: Place::default() };
    let mut bytes = 0;
    let mut fault = None;
    while let Some(found) = walker.next()? {
        match found.link {
            Ok(link) if link.follows(&trail.head) && found.has_its_name(link.head.seq) => {
                trail = Trail { before: trail.head, head: link.head, place: found.place };
                bytes += found.bytes;
            }
            Ok(_) | Err(_) => {
                fault = Some(explain(&trail, &found, &mut walker)?);
                break;
            }
        }
    }
    let fault = fault.or_else(|| walker.missing_end(&trail.head));
    Ok(Report {
        ok: fault.is_none(),
        records: trail.head.seq,
        segments,
        bytes,
        head: trail.head.hash.map(char::from).iter().collect(),
        torn_files: folder.torn_files().map_err(LedgerError::io("list its files"))?,
        fault,
    })
}

/// A line's place.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    first: u64,
    line: u64,
}

impl Place {
    fn fault(self, kind: FaultKind, seq: u64, message: impl Into<String>) -> Fault {
        Fault { kind, seq, segment: segment_name(self.first), line: self.line, message: message.into() }
    }
}

/// One line, as far as the chain is concerned.
#[derive(Clone, Copy)]
struct Found {
    place: Place,
    link: Result<Link, Flaw>,
    bytes: u64,
    is_unfinished: bool,
}

impl Found {
    /// A segment's name says its first record.
    fn has_its_name(&self, seq: u64) -> bool {
        self.place.line != 1 || self.place.first == seq
    }
}

/// The last record that was right, and the one before.
struct Trail {
    before: Head,
    head: Head,
    place: Place,
}

/// All lines of all segments.
struct Walker {
    folder: Folder,
    /// Segments that are not finished, with their lengths at the start.
    left: VecDeque<(u64, u64)>,
    last_first: u64,
    lines: Option<(Lines<File>, Place)>,
}

impl Walker {
    /// The segments as they stand between two turns of writers.
    fn snapshot(folder: &Folder) -> Result<Self, LedgerError> {
        let listing = || -> Result<VecDeque<(u64, u64)>, LedgerError> {
            let segments = folder.existing_segments()?.into_iter();
            let with_len = segments.map(|first| Ok((first, folder.open_to_read(first)?.metadata()?.len())));
            with_len.collect::<std::io::Result<_>>().map_err(LedgerError::io("be read"))
        };
        let left = match folder.lock_file_to_read() {
            // A copy without its lock has no writers.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => listing()?,
            opened => {
                let lock = opened.map_err(LedgerError::io("open its lock"))?;
                let _turn = patiently(LEDGER_LOCK_WAIT_MS, || Turn::take_to_read(&lock))?;
                listing()?
            }
        };
        let last_first = left.back().map_or(0, |(first, _)| *first);
        Ok(Self { folder: folder.clone(), left, last_first, lines: None })
    }

    fn next(&mut self) -> Result<Option<Found>, LedgerError> {
        let reading = LedgerError::io;
        loop {
            let Some((lines, place)) = &mut self.lines else {
                let Some((first, len)) = self.left.pop_front() else { return Ok(None) };
                let file = self.folder.open_to_read(first).map_err(reading("be read"))?;
                self.lines = Some((Lines::new(file, 0, len), Place { first, line: 0 }));
                continue;
            };
            place.line += 1;
            match lines.next().map_err(reading("be read"))? {
                None => self.lines = None,
                Some(line) => {
                    return Ok(Some(Found {
                        place: *place,
                        link: line.link(),
                        bytes: line.bytes.len() as u64 + 1,
                        is_unfinished: !line.is_whole && line.bytes.len() <= LINE_BYTES_MAX,
                    }));
                }
            }
        }
    }

    /// An empty last segment whose name says that there were records before it.
    fn missing_end(&self, head: &Head) -> Option<Fault> {
        let place = Place { first: self.last_first, line: 1 };
        let expected = head.seq + 1;
        (self.last_first > expected)
            .then(|| place.fault(FaultKind::Removed, expected, missing(expected, self.last_first)))
    }

    /// The seals of what follows.
    fn look_ahead(&mut self) -> Result<Vec<Option<Link>>, LedgerError> {
        let mut ahead = Vec::new();
        while ahead.len() < LOOK_AHEAD_LINES_MAX
            && let Some(found) = self.next()?
        {
            ahead.push(found.link.ok());
        }
        Ok(ahead)
    }
}

/// Says what must have been done to the chain that `found` does not continue it.
fn explain(trail: &Trail, found: &Found, walker: &mut Walker) -> Result<Fault, LedgerError> {
    use FaultKind::{Changed, Inserted, Removed, Swapped, Truncated};

    let Trail { before, head, place } = trail;
    let expected = head.seq + 1;
    let here = found.place;
    if found.is_unfinished {
        return Ok(here.fault(Truncated, expected, format!("record {expected} is not finished")));
    }
    let ahead = walker.look_ahead()?;
    let is_next_right = ahead.first().is_some_and(|link| link.is_some_and(|link| link.follows(head)));
    let is_ahead = |wanted: &dyn Fn(&Link) -> bool| ahead.iter().flatten().any(wanted);
    Ok(match found.link {
        Err(_) if is_next_right => here.fault(Inserted, expected, "a line stands here that is not of the chain"),
        Err(flaw) => here.fault(Changed, expected, flaw.message()),
        Ok(link) if link.follows(head) => {
            here.fault(Changed, expected, format!("the file's name says that its first record is {}", here.first))
        }
        Ok(link) if link.head.seq > expected => {
            let seq = link.head.seq;
            if !is_ahead(&|link| link.follows(head)) {
                here.fault(Removed, expected, missing(expected, seq))
            } else if is_ahead(&|link| link.head.seq == seq) {
                here.fault(Inserted, expected, format!("record {seq} stands here a second time"))
            } else {
                here.fault(Swapped, expected, format!("record {seq} stands where record {expected} belongs"))
            }
        }
        Ok(link) if is_next_right || link.head == *head => {
            here.fault(Inserted, link.head.seq, "a record stands here that is not of the chain")
        }
        Ok(link) if link.head.seq == head.seq && link.prev == before.hash => {
            place.fault(Inserted, head.seq, "a record stands here that is not of the chain")
        }
        Ok(link) if link.head.seq == expected && head.seq > 0 => {
            place.fault(Changed, head.seq, "the next record does not know this one's hash")
        }
        Ok(link) if link.head.seq == expected => here.fault(Changed, expected, "the first record names one before it"),
        Ok(link) => here.fault(Inserted, link.head.seq, "a record stands here that is not of the chain"),
    })
}

fn missing(from: u64, until: u64) -> String {
    if from + 1 == until {
        format!("record {from} is missing")
    } else {
        format!("records {from} to {} are missing", until - 1)
    }
}
