//! Finding the end of the chain from the last bytes of the last segment, whatever the size of the ledger.

use std::fs::File;
use std::io;

use crate::LedgerError;
use crate::line::Head;
use crate::lines::{Lines, is_torn, walk};
use crate::segment::{Folder, Segment};

/// How much of a segment's end is looked at, widened when no good record begins there.
const WINDOWS_BYTES: [u64; 3] = [64 * 1024, 1024 * 1024, 4 * 1024 * 1024];

/// The end of the chain.
pub(crate) struct Tail {
    pub(crate) segment: Segment,
    /// The last record.
    pub(crate) head: Head,
    /// Where it ends in the segment. What lies beyond is torn.
    pub(crate) end: u64,
    /// The segment's length.
    pub(crate) len: u64,
}

/// Finds the end of the chain; none when there is no segment.
pub(crate) fn find(folder: &Folder) -> Result<Option<Tail>, LedgerError> {
    let segments = folder.segments().map_err(LedgerError::io("list its segments"))?;
    let Some((&first, earlier)) = segments.split_last() else { return Ok(None) };
    let segment = folder.open(first).map_err(LedgerError::io("open its last segment"))?;
    let len = segment.len().map_err(LedgerError::io("read its last segment"))?;
    let anchor = anchor(&segment.file, len).map_err(LedgerError::io("read its last segment"))?;
    let (from, base) = match anchor {
        Some(anchor) => anchor,
        None => (0, head_before(folder, &segment, earlier.last().copied())?),
    };
    let (head, end) = follow(&segment, from, len, base)?;
    Ok(Some(Tail { segment, head, end, len }))
}

/// Follows the chain to the end of the segment. What does not continue it must be torn.
pub(crate) fn follow(segment: &Segment, from: u64, len: u64, base: Head) -> Result<(Head, u64), LedgerError> {
    let reading = || LedgerError::io("read its last segment");
    let walk = walk(&segment.file, from, len, base).map_err(reading())?;
    if walk.end < len && !is_torn(&segment.file, walk.end, len).map_err(reading())? {
        return Err(segment.damaged(walk.end, walk.head.seq + 1, "the line does not continue the chain"));
    }
    Ok((walk.head, walk.end))
}

/// A place near the end from which the chain can be followed: the start of a line whose seal is right, and the head
/// that this line continues. None when it must be followed from the segment's start.
fn anchor(file: &File, len: u64) -> io::Result<Option<(u64, Head)>> {
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
        Some(first) => last_head(&folder.open_to_read(first).map_err(LedgerError::io("open a segment"))?)
            .map_err(LedgerError::io("read a segment"))?,
        None => None,
    };
    head.filter(|head| head.seq + 1 == segment.first)
        .ok_or_else(|| segment.damaged(0, segment.first - 1, "the records before this segment are not there"))
}

fn last_head(file: &File) -> io::Result<Option<Head>> {
    let len = file.metadata()?.len();
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
