//! Finding the end of the chain: from the last checkpoint on, or from the last bytes of the last segment, whatever the size
//! of the ledger.

use std::io;

use crate::LedgerError;
use crate::checkpoints::{Kept, damaged};
use crate::disk::Opened;
use crate::line::Head;
use crate::lines::{Lines, is_torn, walk};
use crate::segment::{Folder, Segment};

/// How much of a segment's end is looked at, widened when no good record begins there.
const WINDOWS_BYTES: [u64; 3] = [64 * 1024, 1024 * 1024, 4 * 1024 * 1024];

/// Beyond a checkpoint, as much is read record by record; a longer way is skipped, and its end checked.
const BEYOND_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What is done with records that do not continue the chain, behind those that a checkpoint covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// Somebody lives who may have written them: only what nobody finished is cut off.
    Keep,
    /// Nobody lives: a lost page may be among them, and nothing behind it counts.
    Cut,
    /// The operator said so, however much it is.
    Accept,
}

/// The end of the chain.
pub(crate) struct Tail {
    pub(crate) segment: Segment,
    /// The last record.
    pub(crate) head: Head,
    /// Where it ends in the segment. What lies beyond is torn.
    pub(crate) end: u64,
    /// The segment's length.
    pub(crate) len: u64,
    /// Segments behind it that do not continue the chain.
    pub(crate) beyond: Vec<u64>,
}

/// Finds the end of the chain behind the last checkpoint, which must hold; none when there is no segment, and should be
/// none.
pub(crate) fn find_beyond(folder: &Folder, last: &Kept, unproven: Unproven) -> Result<Option<Tail>, LedgerError> {
    let listing = || LedgerError::io("list its segments");
    let segments = folder.segments().map_err(listing())?;
    let (start, from) = last.checkpoint.end;
    let covered = last.checkpoint.size;
    if segments.is_empty() && covered == 0 {
        return Ok(None);
    }
    must_hold(folder, last)?;
    let segments: Vec<u64> = segments.into_iter().filter(|first| *first >= start).collect();
    let lens = segments.iter().map(|first| folder.len_of(*first)).sum::<io::Result<u64>>().map_err(listing())?;
    let is_far = lens.saturating_sub(from) > BEYOND_BYTES_MAX;
    if is_far && unproven != Unproven::Accept {
        return find(folder);
    }
    let mut tail: Option<Tail> = None;
    let mut head = last.head();
    for &first in &segments {
        let is_next = first == start || first == head.seq + 1;
        if let Some(found) = tail.as_mut().filter(|found| !is_next || found.end < found.len) {
            found.beyond.push(first);
            continue;
        }
        let segment = folder.open(first).map_err(LedgerError::io("open its last segment"))?;
        let len = segment.len().map_err(LedgerError::io("read its last segment"))?;
        let from = if first == start { from } else { 0 };
        let walk = walk(segment.file.as_ref(), from, len, head).map_err(LedgerError::io("read its last segment"))?;
        head = walk.head;
        tail = Some(Tail { segment, head, end: walk.end, len, beyond: Vec::new() });
    }
    let tail = tail.ok_or_else(|| damaged(1, 0, "the first segment is not there"))?;
    // Of a ledger from before there were checkpoints nothing is proven: only a lost page, and what is behind it, is cut.
    let is_cut = match unproven {
        Unproven::Keep => false,
        Unproven::Cut => covered > 0 || tail.has_hole()?,
        Unproven::Accept => true,
    };
    if !is_cut {
        tail.must_be_torn()?;
    }
    Ok(Some(tail))
}

/// The last record that a checkpoint covers stands where it did, and what is before it as far as a glance goes.
pub(crate) fn must_hold(folder: &Folder, kept: &Kept) -> Result<(), LedgerError> {
    let reading = || LedgerError::io("read what a checkpoint covers");
    let segments = folder.segments().map_err(reading())?;
    let (first, end) = kept.checkpoint.end;
    if kept.checkpoint.size == 0 {
        let is_there = segments.first().is_none_or(|earliest| *earliest == 1);
        return if is_there { Ok(()) } else { Err(damaged(1, 0, "the first segment is not there")) };
    }
    if !segments.contains(&first) {
        return Err(damaged(kept.checkpoint.size, 0, "records that a checkpoint covers are gone"));
    }
    let segment = Segment::new(folder.open_to_read(first).map_err(reading())?, first);
    let len = segment.len().map_err(reading())?.min(end);
    let (from, base) = match anchor(segment.file.as_ref(), len).map_err(reading())? {
        Some(anchor) => anchor,
        None => (0, head_before(folder, &segment, segments.into_iter().rfind(|earlier| *earlier < first))?),
    };
    let walk = walk(segment.file.as_ref(), from, len, base).map_err(reading())?;
    if walk.end < len {
        return Err(segment.damaged(walk.end, walk.head.seq + 1, "the line does not continue the chain"));
    }
    if len < end {
        return Err(segment.damaged(len, walk.head.seq + 1, "records that a checkpoint covers are gone"));
    }
    if walk.head != kept.head() {
        let message = "the records that the last checkpoint covers are not as they were";
        return Err(segment.damaged(walk.end, kept.checkpoint.size, message));
    }
    Ok(())
}

/// Finds the end of the chain by itself; none when there is no segment.
pub(crate) fn find(folder: &Folder) -> Result<Option<Tail>, LedgerError> {
    let segments = folder.segments().map_err(LedgerError::io("list its segments"))?;
    let Some((&first, earlier)) = segments.split_last() else { return Ok(None) };
    let segment = folder.open(first).map_err(LedgerError::io("open its last segment"))?;
    let len = segment.len().map_err(LedgerError::io("read its last segment"))?;
    let anchor = anchor(segment.file.as_ref(), len).map_err(LedgerError::io("read its last segment"))?;
    let (from, base) = match anchor {
        Some(anchor) => anchor,
        None => (0, head_before(folder, &segment, earlier.last().copied())?),
    };
    let (head, end) = follow(&segment, from, len, base)?;
    Ok(Some(Tail { segment, head, end, len, beyond: Vec::new() }))
}

impl Tail {
    /// The first line that does not continue the chain has zeros in it, where data never reached the disk.
    fn has_hole(&self) -> Result<bool, LedgerError> {
        let mut lines = Lines::new(self.segment.file.as_ref(), self.end, self.len);
        let line = lines.next().map_err(LedgerError::io("read its last segment"))?;
        Ok(line.is_some_and(|line| line.bytes.contains(&0)))
    }

    /// What does not continue the chain can only be what nobody finished.
    fn must_be_torn(&self) -> Result<(), LedgerError> {
        let Self { segment, head, end, len, beyond } = self;
        let is_torn = beyond.is_empty()
            && (end == len
                || is_torn(segment.file.as_ref(), *end, *len).map_err(LedgerError::io("read its last segment"))?);
        if is_torn {
            return Ok(());
        }
        Err(segment.damaged(*end, head.seq + 1, "the line does not continue the chain"))
    }
}

/// Follows the chain to the end of the segment. What does not continue it must be torn.
pub(crate) fn follow(segment: &Segment, from: u64, len: u64, base: Head) -> Result<(Head, u64), LedgerError> {
    let reading = || LedgerError::io("read its last segment");
    let walk = walk(segment.file.as_ref(), from, len, base).map_err(reading())?;
    if walk.end < len && !is_torn(segment.file.as_ref(), walk.end, len).map_err(reading())? {
        return Err(segment.damaged(walk.end, walk.head.seq + 1, "the line does not continue the chain"));
    }
    Ok((walk.head, walk.end))
}

/// A place near the end from which the chain can be followed: the start of a line whose seal is right, and the head
/// that this line continues. None when it must be followed from the segment's start.
fn anchor(file: &Opened, len: u64) -> io::Result<Option<(u64, Head)>> {
    for window in WINDOWS_BYTES {
        let Some(start) = len.checked_sub(window).filter(|start| *start > 0) else { return Ok(None) };
        let mut lines = Lines::new(file, start, len);
        // The window begins within a line.
        lines.next()?;
        if let Some(line) = lines.next()?
            && let Ok(link) = line.link()
        {
            return Ok(Some((line.start, Head { seq: link.head.seq.saturating_sub(1), hash: link.prev })));
        }
    }
    Ok(None)
}

/// The last record before a segment's first.
fn head_before(folder: &Folder, segment: &Segment, previous: Option<u64>) -> Result<Head, LedgerError> {
    if segment.first == 1 {
        return Ok(Head::GENESIS);
    }
    let head = match previous {
        Some(first) => {
            let file = folder.open_to_read(first).map_err(LedgerError::io("open a segment"))?;
            let len = file.len().map_err(LedgerError::io("read a segment"))?;
            last_head(file.as_ref(), len).map_err(LedgerError::io("read a segment"))?
        }
        None => None,
    };
    head.filter(|head| head.seq + 1 == segment.first)
        .ok_or_else(|| segment.damaged(0, segment.first - 1, "the records before this segment are not there"))
}

/// The record that ends at `len`.
fn last_head(file: &Opened, len: u64) -> io::Result<Option<Head>> {
    for window in WINDOWS_BYTES {
        let mut lines = Lines::new(file, len.saturating_sub(window), len);
        let mut last = None;
        while let Some(line) = lines.next()? {
            last = line.link().ok().map(|link| link.head);
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}
