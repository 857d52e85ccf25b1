//! Checking the whole chain and every checkpoint of it, and naming the first record that is not as it was written.

use std::collections::VecDeque;
use std::path::Path;

use serde::Serialize;
use tollgate_types::limits::LEDGER_LOCK_WAIT_MS;

use crate::LedgerError;
use crate::claims::{Claim, Claims};
use crate::disk::Opened;
use crate::line::{self, Flaw, Head, LINE_BYTES_MAX, Link};
use crate::lines::Lines;
use crate::note::VerifierKey;
use crate::segment::{Folder, segment_name};
use crate::stub::{Erasures, Trace};
use crate::tree::{self, Frontier};
use crate::turn::{Turn, patiently};

/// How far behind a fault its explanation is looked for.
const LOOK_AHEAD_LINES_MAX: usize = 100_000;

/// What a check believes beyond the data folder itself.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The key that signed the checkpoints, kept elsewhere; without one it is the data folder's own.
    pub key: Option<VerifierKey>,
    /// Checkpoints that were kept elsewhere: lines of JSON with a member `note`, or notes as they are.
    pub anchor: Option<String>,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every record is as it was written. That records are missing at the end can be seen from checkpoints that
    /// were kept elsewhere.
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
    /// What was erased, as the ledger itself says; none where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erased: Option<ErasedRecords>,
    /// What the checkpoints cover; none for a ledger from before there were any.
    pub checkpoints: Option<Covered>,
    /// The first thing that is wrong.
    pub fault: Option<Fault>,
}

/// What was erased.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ErasedRecords {
    /// Records of which only a part, or only the place in the chain, is left.
    pub records: u64,
    /// Records that say what was erased, by whom and why.
    pub erasures: u64,
    /// Of those, how many a process died over before it did what it said. The next erasure does it.
    pub undone: u64,
}

/// What the checkpoints cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// The key that they were verified with.
    pub key: String,
    /// How many there are in the ledger's own file.
    pub count: usize,
    /// Records that the last one covers.
    pub size: u64,
    /// When it was signed.
    pub time: Option<String>,
    /// Records behind it, which no signature covers yet.
    pub unproven: u64,
    /// How many there were of those that were kept elsewhere, if they were asked.
    pub anchored: Option<usize>,
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
    /// The last line is not finished: a process died while writing, or the file was cut; opening the ledger mends it. Or
    /// a checkpoint covers more records than there are.
    Truncated,
    /// Content is missing, and no record says that it was erased; or what was left of it was changed.
    Erased,
    /// The chain is whole, and is not the one that was signed.
    Rewritten,
    /// A checkpoint was changed, removed, put in, or signed by somebody else.
    Checkpoint,
}

/// Checks every record up to the end of the moment, in bounded memory. Writers may go on meanwhile.
///
/// # Errors
/// [`LedgerError::Missing`] when there is no ledger, or that it cannot be read. A fault is not an error.
pub fn verify(data_dir: &Path) -> Result<Report, LedgerError> {
    verify_with(data_dir, &Trust::default())
}

/// [`verify`], with a key and checkpoints that were kept elsewhere: whoever may write the data folder may also write it
/// anew, and only what is out of their reach shows it.
///
/// # Errors
/// As [`verify`]; [`LedgerError::NoKey`] when there are checkpoints and no key to verify them with.
pub fn verify_with(data_dir: &Path, trust: &Trust) -> Result<Report, LedgerError> {
    let folder = Folder::of(data_dir);
    folder.existing_segments()?;
    // Nobody erases meanwhile.
    let still = folder.to_keep_still().map_err(LedgerError::io("be read"))?;
    let _still = patiently(LEDGER_LOCK_WAIT_MS, || Turn::take_to_read(&still))?;
    let claims = Claims::read(&folder, trust)?;
    let mut walker = Walker::snapshot(&folder)?;
    let firsts: Vec<u64> = walker.left.iter().map(|(first, _)| *first).collect();
    let mut erasures = Erasures::default();
    let mut trail = Trail { before: Head::GENESIS, head: Head::GENESIS, place: Place::default() };
    let mut tree = Tree::new(claims);
    let mut bytes = 0;
    let mut fault = tree.compare();
    while fault.is_none()
        && let Some(found) = walker.next()?
    {
        match found.link {
            Ok(link) if link.follows(&trail.head) && found.has_its_name(link.head.seq) => {
                trail = Trail { before: trail.head, head: link.head, place: found.place };
                bytes += found.bytes;
                let unsaid = erasures.push(link.head.seq, &found.trace);
                fault = tree.push(&link.head).or_else(|| unsaid.map(|unsaid| erased(unsaid, &firsts)));
            }
            Ok(_) | Err(_) => fault = Some(explain(&trail, &found, &mut walker)?),
        }
    }
    let fault = fault.or_else(|| walker.missing_end(&trail.head));
    let fault = fault.or_else(|| erasures.unsaid().map(|unsaid| erased(unsaid, &firsts)));
    let (checkpoints, fault) = tree.finish(fault, trail.head.seq);
    Ok(Report {
        ok: fault.is_none(),
        records: trail.head.seq,
        segments: firsts.len(),
        bytes,
        head: trail.head.hash.map(char::from).iter().collect(),
        torn_files: folder.torn_files().map_err(LedgerError::io("list its files"))?,
        erased: erasures.sum(),
        checkpoints,
        fault,
    })
}

/// The fault at a record that is erased and should not be. All before it are there, so that its place follows from its number.
fn erased((seq, message): (u64, String), firsts: &[u64]) -> Fault {
    let first = firsts.iter().copied().rfind(|first| *first <= seq).unwrap_or(1);
    Place { first, line: (seq + 1).saturating_sub(first) }.fault(FaultKind::Erased, seq, message)
}

/// The tree of the records that were read, and what the checkpoints say of it.
struct Tree {
    frontier: Frontier,
    claims: Option<Claims>,
    /// Records that a checkpoint was found to be right about.
    proven: u64,
}

impl Tree {
    fn new(claims: Option<Claims>) -> Self {
        Self { frontier: Frontier::default(), claims, proven: 0 }
    }

    fn push(&mut self, head: &Head) -> Option<Fault> {
        // Behind the last checkpoint nobody asks for the tree.
        self.claims.as_ref().filter(|claims| !claims.left.is_empty())?;
        self.frontier.push(tree::leaf(&line::bytes_of(&head.hash)?));
        self.compare()
    }

    /// Compares the tree with all that is said of one so large.
    fn compare(&mut self) -> Option<Fault> {
        let left = &mut self.claims.as_mut()?.left;
        let size = self.frontier.size();
        left.front().filter(|claim| claim.size == size)?;
        let root = self.frontier.root();
        while let Some(claim) = left.pop_front_if(|claim| claim.size == size) {
            if claim.root != root {
                let message = match size.saturating_sub(self.proven) {
                    0 | 1 => format!("record {size} is not the one that was signed ({})", claim.time),
                    _ => {
                        format!("records {} to {size} are not those that were signed ({})", self.proven + 1, claim.time)
                    }
                };
                return Some(claim.fault(FaultKind::Rewritten, self.proven + 1, message));
            }
        }
        self.proven = size;
        None
    }

    /// What is found once every record was read, or the first bad one.
    fn finish(self, fault: Option<Fault>, records: u64) -> (Option<Covered>, Option<Fault>) {
        let Some(mut claims) = self.claims else { return (None, fault) };
        let missing = claims.left.pop_front().filter(|_| fault.is_none()).map(|claim| {
            let message = format!("{} records were signed ({}), and there are {records}", claim.size, claim.time);
            claim.fault(FaultKind::Truncated, records + 1, message)
        });
        let of_records = fault.or(missing);
        let of_checkpoints = claims.fault.map(|fault| Fault { seq: fault.seq.min(records.max(1)), ..fault });
        let first = match (of_records, of_checkpoints) {
            (Some(records), Some(checkpoints)) if checkpoints.seq < records.seq => Some(checkpoints),
            (records, checkpoints) => records.or(checkpoints),
        };
        let (size, time) = claims.last.unzip();
        let size = size.unwrap_or(0);
        let covered = Covered {
            key: claims.key.to_string(),
            count: claims.count,
            size,
            time,
            unproven: records.saturating_sub(size),
            anchored: claims.anchored,
        };
        (Some(covered), first)
    }
}

impl Claim {
    fn fault(&self, kind: FaultKind, seq: u64, message: String) -> Fault {
        Fault { kind, seq, segment: self.place.0.to_owned(), line: self.place.1, message }
    }
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
struct Found {
    place: Place,
    link: Result<Link, Flaw>,
    trace: Trace,
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
    lines: Option<(Lines<Box<Opened>>, Place)>,
}

impl Walker {
    /// The segments as they stand between two turns of writers.
    fn snapshot(folder: &Folder) -> Result<Self, LedgerError> {
        let listing = || -> Result<VecDeque<(u64, u64)>, LedgerError> {
            let segments = folder.existing_segments()?.into_iter();
            let with_len = segments.map(|first| Ok((first, folder.len_of(first)?)));
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
                    let traced = line.link().and_then(|link| Ok((link, Trace::of(line.bytes)?)));
                    let (link, trace) = match traced {
                        Ok((link, trace)) => (Ok(link), trace),
                        Err(flaw) => (Err(flaw), Trace::None),
                    };
                    return Ok(Some(Found {
                        place: *place,
                        link,
                        trace,
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
