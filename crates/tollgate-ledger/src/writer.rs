//! The end of the chain in memory, and how records are put behind it. Every method is called within a turn at the
//! ledger: no other process writes meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tollgate_types::BootId;

use crate::ahead::Ahead;
use crate::entry::{Batch, Entry, Event};
use crate::line::{self, Head};
use crate::lines::Lines;
use crate::reserve::Reserve;
use crate::segment::{Folder, Segment};
use crate::synced::{For, Synced};
use crate::tail::{self, Tail};
use crate::{LedgerError, Options};

/// What other processes wrote and a caller's own task may still read.
const FOLLOW_INLINE_BYTES_MAX: u64 = 128 * 1024;
/// What is read record by record; a longer way is skipped, and its end checked.
const FOLLOW_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// What the line buffer keeps from one append to the next.
const BUFFER_KEPT_BYTES_MAX: usize = 256 * 1024;

/// How much time an append may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It runs on a caller's task: anything slow is left to a blocking one.
    Inline,
    /// It may wait for the disk.
    Blocking,
}

/// Where records were put.
pub(crate) struct Written {
    pub(crate) segment: Arc<Segment>,
    pub(crate) end: u64,
    pub(crate) seq: u64,
}

/// What a segment holds at most; then the next one begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentMax {
    pub(crate) bytes: u64,
    /// Of its first record.
    pub(crate) age: Option<Duration>,
}

pub(crate) struct Writer {
    folder: Folder,
    synced: Arc<Synced>,
    segment: Arc<Segment>,
    /// Where the last known record ends.
    end: u64,
    head: Head,
    segment_max: SegmentMax,
    /// When the segment's first record was written, once that was looked at.
    begun: Option<Timestamp>,
    reserve: Reserve,
    /// `,"boot":"…"`.
    boot: String,
    /// Records of what was found out on the way, written before the next ones.
    notes: Batch,
    torn_bytes: u64,
    lines: Vec<u8>,
    pub(crate) is_closed: bool,
}

impl Writer {
    /// Begins at the end of the chain, which `tail` is; none stands for a new ledger.
    pub(crate) fn open(
        folder: Folder,
        boot: &BootId,
        options: &Options,
        tail: Option<Tail>,
    ) -> Result<Self, LedgerError> {
        let tail = match tail {
            Some(tail) => tail,
            None => {
                let segment = folder.open_or_create(1).map_err(LedgerError::io("create its first segment"))?;
                Tail { segment, head: Head::GENESIS, end: 0, len: 0, beyond: Vec::new() }
            }
        };
        let Tail { mut segment, head, end, len, beyond } = tail;
        if end < len {
            segment = folder.unseal(segment).map_err(LedgerError::io("cut an unfinished record"))?;
        }
        let synced = Synced::open(folder.clone()).map_err(LedgerError::io("open its note of what is synced"))?;
        let mut writer = Self {
            reserve: Reserve::new(folder.clone(), options.reserve_bytes),
            folder,
            synced: Arc::new(synced),
            segment: Arc::new(segment),
            end,
            head,
            segment_max: SegmentMax { bytes: options.segment_bytes_max, age: options.segment_age_max },
            begun: None,
            boot: format!(r#","boot":"{boot}""#),
            notes: Batch::default(),
            torn_bytes: 0,
            lines: Vec::new(),
            is_closed: false,
        };
        writer.cut_torn(len)?;
        writer.set_aside(&beyond)?;
        // Where it is not to be had, the first call says so: what dead processes left is to be ended all the same.
        let _ = writer.has_reserve(Pace::Blocking);
        Ok(writer)
    }

    /// A word for people in the record of what was mended.
    pub(crate) fn note(&mut self, note: String) -> Result<(), LedgerError> {
        self.notes.push(&Entry::of_ledger(Event::Recovered, note))
    }

    /// How far the ledger is on the disk, as all processes know it.
    pub(crate) fn synced(&self) -> Arc<Synced> {
        Arc::clone(&self.synced)
    }

    /// The number of the last record.
    pub(crate) fn last_seq(&self) -> u64 {
        self.head.seq
    }

    /// The segment and offset at which the next record will stand, or after which it will.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.segment.first, self.end)
    }

    /// How many unfinished bytes this writer has cut off.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Whether there is something to write even without a new entry.
    pub(crate) fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// The end of the chain, as this writer knows it.
    pub(crate) fn head(&self) -> Head {
        self.head
    }

    /// `,"boot":"…"`, as it stands in every record.
    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Puts the entries behind the last record, whoever wrote it. None when that would be too slow for `pace`.
    pub(crate) fn append(&mut self, batch: &Batch, now: Timestamp, pace: Pace) -> Result<Option<Written>, LedgerError> {
        self.append_ahead(batch, &mut Ahead::of(self.head), now, pace)
    }

    /// The same, the first of which may be sealed already.
    pub(crate) fn append_ahead(
        &mut self,
        batch: &Batch,
        ahead: &mut Ahead,
        now: Timestamp,
        pace: Pace,
    ) -> Result<Option<Written>, LedgerError> {
        if self.is_closed {
            return Err(LedgerError::Closed);
        }
        if batch.has_beginning && !self.has_reserve(pace)? {
            return Ok(None);
        }
        match self.put(batch, ahead, now, pace) {
            Err(full) if full.is_disk_full() => self.put_last(batch, now, full),
            put => put,
        }
    }

    /// Does what must be done before a record can be written.
    pub(crate) fn prepare(&mut self, now: Timestamp) -> Result<(), LedgerError> {
        if self.is_closed {
            return Err(LedgerError::Closed);
        }
        self.has_reserve(Pace::Blocking)?;
        self.catch_up(now, Pace::Blocking).map(drop)
    }

    /// No call begins before there is space for its end. False when making it would be too slow for `pace`.
    fn has_reserve(&mut self, pace: Pace) -> Result<bool, LedgerError> {
        let keeping = || LedgerError::io("keep space for the ends of calls");
        let is_whole = self.reserve.is_whole().map_err(keeping())?;
        if !is_whole && pace == Pace::Blocking && self.reserve.make().map_err(keeping())? {
            self.note("there is space on the disk again".to_owned())?;
        }
        Ok(is_whole || pace == Pace::Blocking)
    }

    /// Into the space that was kept back go the ends of calls, and that no further ones begin.
    fn put_last(&mut self, batch: &Batch, now: Timestamp, full: LedgerError) -> Result<Option<Written>, LedgerError> {
        if !self.reserve.give_up().map_err(LedgerError::io("give up its reserve"))? {
            return Err(full);
        }
        let note = "the disk is full: no call begins until there is space";
        tracing::error!("{note}");
        self.notes.push(&Entry::of_ledger(Event::Halted, note))?;
        // Where others' beginnings stand beside it, each is tried again by itself.
        if batch.has_end && !batch.has_beginning {
            return self.put(batch, &mut Ahead::of(self.head), now, Pace::Blocking);
        }
        self.put(&Batch::default(), &mut Ahead::of(self.head), now, Pace::Blocking)?;
        Err(full)
    }

    fn put(
        &mut self,
        batch: &Batch,
        ahead: &mut Ahead,
        now: Timestamp,
        pace: Pace,
    ) -> Result<Option<Written>, LedgerError> {
        if !self.catch_up(now, pace)? {
            return Ok(None);
        }
        let time = format!("{now:.6}");
        let mut head = self.head;
        self.lines.clear();
        let sealed = if self.notes.is_empty() { ahead.take(&mut self.lines, &mut head) } else { 0 };
        for fields in self.notes.entries().chain(batch.entries().skip(sealed)) {
            head = line::seal(&mut self.lines, &head, &time, &self.boot, fields);
        }
        self.write_lines()?;
        self.head = head;
        self.end += self.lines.len() as u64;
        self.notes.clear();
        self.lines.shrink_to(BUFFER_KEPT_BYTES_MAX);
        Ok(Some(Written { segment: Arc::clone(&self.segment), end: self.end, seq: head.seq }))
    }

    fn write_lines(&mut self) -> Result<(), LedgerError> {
        self.segment.file.append_all(&self.lines).map_err(|error| {
            // Where even this fails, the next turn finds the rest and cuts it.
            if let Err(error) = self.segment.file.set_len(self.end) {
                tracing::error!("a record that was written in part cannot be taken back: {error}");
            }
            LedgerError::io("write a record")(error)
        })
    }

    /// Learns what other processes did since the last turn. False when that would be too slow for `pace`.
    fn catch_up(&mut self, now: Timestamp, pace: Pace) -> Result<bool, LedgerError> {
        loop {
            let state = self.segment.state().map_err(LedgerError::io("look at its segment"))?;
            let is_full = state.is_sealed || self.end >= self.segment_max.bytes || self.is_old(now)?;
            if self.segment.is_poisoned() || state.is_removed {
                if pace == Pace::Inline {
                    return Ok(false);
                }
                self.reopen(state.is_removed)?;
            } else if state.len != self.end {
                if !self.follow(state.len, pace)? {
                    return Ok(false);
                }
            } else if is_full {
                if pace == Pace::Inline {
                    return Ok(false);
                }
                self.rotate()?;
            } else {
                return Ok(true);
            }
        }
    }

    fn follow(&mut self, len: u64, pace: Pace) -> Result<bool, LedgerError> {
        let Some(new) = len.checked_sub(self.end) else {
            return Err(self.segment.damaged(len, self.head.seq, "the record was there and is gone"));
        };
        if pace == Pace::Inline && new > FOLLOW_INLINE_BYTES_MAX {
            return Ok(false);
        }
        if new > FOLLOW_BYTES_MAX {
            self.jump()?;
        } else {
            (self.head, self.end) = tail::follow(&self.segment, self.end, len, self.head)?;
            self.cut_torn(len)?;
        }
        Ok(true)
    }

    /// Goes to the end of the chain without reading the way, as a new process does.
    fn jump(&mut self) -> Result<(), LedgerError> {
        let gone = || self.segment.damaged(self.end, self.head.seq, "the record was there and is gone");
        let tail = tail::find(&self.folder)?.ok_or_else(gone)?;
        if tail.head.seq < self.head.seq || (tail.head.seq == self.head.seq && tail.head.hash != self.head.hash) {
            return Err(gone());
        }
        let len = tail.len;
        (self.segment, self.head, self.end) = (Arc::new(tail.segment), tail.head, tail.end);
        self.begun = None;
        self.cut_torn(len)
    }

    /// Gives up a descriptor that cannot be trusted any more for a fresh one that has shown that it works.
    fn reopen(&mut self, is_removed: bool) -> Result<(), LedgerError> {
        if !is_removed {
            self.folder.rewrite(&self.segment).map_err(LedgerError::io("sync its segment again"))?;
        }
        self.jump()
    }

    /// Whether the segment's first record is older than one may be. What is no record is for others to find.
    fn is_old(&mut self, now: Timestamp) -> Result<bool, LedgerError> {
        let Some(max) = self.segment_max.age.filter(|_| self.end > 0) else { return Ok(false) };
        let begun = match self.begun {
            Some(begun) => begun,
            None => {
                let begun = first_time(&self.segment, self.end).map_err(LedgerError::io("look at its segment"))?;
                *self.begun.insert(begun.unwrap_or(now))
            }
        };
        Ok(Duration::try_from(now.duration_since(begun)).is_ok_and(|age| age >= max))
    }

    /// Begins the next segment although this one is not full; an empty one is as good.
    pub(crate) fn begin_segment(&mut self, now: Timestamp) -> Result<(), LedgerError> {
        self.catch_up(now, Pace::Blocking)?;
        if self.end > 0 { self.rotate() } else { Ok(()) }
    }

    /// Goes on to the next segment, which another process may have begun.
    fn rotate(&mut self) -> Result<(), LedgerError> {
        // INVARIANT: a segment is on the disk before the next one exists, and sealed before it gets a record.
        let syncing = LedgerError::io("sync a full segment");
        self.synced.commit(&self.segment, self.end, For::Rotation).map_err(syncing)?;
        self.segment.seal().map_err(LedgerError::io("seal a full segment"))?;
        let next = self.folder.open_or_create(self.head.seq + 1).map_err(LedgerError::io("create a segment"))?;
        (self.segment, self.end, self.begun) = (Arc::new(next), 0, None);
        Ok(())
    }

    /// Takes away what a dead writer left behind the last record.
    fn cut_torn(&mut self, len: u64) -> Result<(), LedgerError> {
        let Some(torn) = len.checked_sub(self.end).filter(|torn| *torn > 0) else { return Ok(()) };
        let name =
            self.folder.cut(&self.segment, self.end, len).map_err(LedgerError::io("cut an unfinished record"))?;
        self.torn_bytes += torn;
        let note = format!("cut {torn} bytes that do not continue the chain into `{name}`");
        tracing::warn!("{note}");
        self.note(note)
    }

    /// Takes segments out of the chain that do not continue it.
    fn set_aside(&mut self, beyond: &[u64]) -> Result<(), LedgerError> {
        for &first in beyond {
            let moving = || LedgerError::io("move a segment that does not continue the chain");
            self.torn_bytes += self.folder.len_of(first).map_err(moving())?;
            let name = self.folder.set_aside(first).map_err(moving())?;
            let note = format!("moved a segment that does not continue the chain to `{name}`");
            tracing::warn!("{note}");
            self.note(note)?;
        }
        Ok(())
    }
}

/// When the first record of a segment was written.
fn first_time(segment: &Segment, end: u64) -> io::Result<Option<Timestamp>> {
    let mut lines = Lines::new(segment.file.as_ref(), 0, end);
    let line = lines.next()?;
    let time = line.as_ref().and_then(|line| line::parts(line.bytes)).map(|(_, time, _)| time);
    Ok(time.and_then(|time| std::str::from_utf8(time).ok()?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use tollgate_types::{AttemptId, CallId};

    use super::*;
    use crate::disk::SystemDisk;

    fn append(writer: &mut Writer, pace: Pace) -> Result<Option<u64>, LedgerError> {
        let entry = Entry::new(Event::Received, &AttemptId::new("a"), &CallId::new("c"));
        let batch = Batch::of(&[entry]).unwrap();
        Ok(writer.append(&batch, Timestamp::UNIX_EPOCH, pace)?.map(|written| written.seq))
    }

    fn writer(folder: &tempfile::TempDir) -> Writer {
        let folder = Folder::create(Arc::new(SystemDisk), folder.path()).unwrap();
        let tail = tail::find(&folder).unwrap();
        let options = Options { segment_bytes_max: 1 << 20, ..Options::default() };
        let mut writer = Writer::open(folder, &BootId::new("b"), &options, tail).unwrap();
        assert!(writer.has_reserve(Pace::Blocking).unwrap());
        writer
    }

    #[test]
    fn after_a_failed_sync_a_fresh_descriptor_must_work_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder);
        assert_eq!(append(&mut writer, Pace::Inline).unwrap(), Some(1));
        let poisoned = Arc::clone(&writer.segment);
        poisoned.poison();
        assert_eq!(append(&mut writer, Pace::Inline).unwrap(), None, "too slow for a caller's task");

        let path = folder.path().join("audit").join(poisoned.name());
        let hidden = folder.path().join("hidden");
        std::fs::rename(&path, &hidden).unwrap();
        for _ in 0..2 {
            let refused = append(&mut writer, Pace::Blocking);
            assert!(matches!(refused, Err(LedgerError::Unavailable { .. })), "{refused:?}");
        }
        std::fs::rename(&hidden, &path).unwrap();
        assert_eq!(append(&mut writer, Pace::Blocking).unwrap(), Some(2));
        assert!(!Arc::ptr_eq(&poisoned, &writer.segment));
        assert_eq!(append(&mut writer, Pace::Inline).unwrap(), Some(3));
    }

    #[test]
    fn a_fresh_descriptor_that_shows_another_chain_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = writer(&folder);
        append(&mut first, Pace::Inline).unwrap();
        let stale = std::fs::read(folder.path().join("audit").join(first.segment.name())).unwrap();
        append(&mut first, Pace::Inline).unwrap();
        std::fs::write(folder.path().join("audit").join(first.segment.name()), stale).unwrap();
        first.segment.poison();
        assert!(matches!(append(&mut first, Pace::Blocking), Err(LedgerError::Damaged { seq: 2, .. })));
    }

    #[test]
    fn many_records_of_others_are_left_to_a_blocking_task_and_a_long_way_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut idle, mut busy) = (writer(&folder), writer(&folder));
        let entry = Entry::of_ledger(Event::Halted, "x".repeat(1500));
        let batch = Batch::of(&vec![entry; 100]).unwrap();
        let mut fill = |bytes: u64| {
            let goal = busy.end + bytes;
            while busy.end < goal && busy.segment.first == 1 {
                busy.segment_max.bytes = u64::MAX;
                busy.append(&batch, Timestamp::UNIX_EPOCH, Pace::Blocking).unwrap();
            }
            busy.head.seq
        };
        idle.segment_max.bytes = u64::MAX;
        let seq = fill(FOLLOW_INLINE_BYTES_MAX + 1);
        assert_eq!(append(&mut idle, Pace::Inline).unwrap(), None);
        assert_eq!(append(&mut idle, Pace::Blocking).unwrap(), Some(seq + 1));
        let seq = fill(FOLLOW_BYTES_MAX + 1);
        let before = Arc::clone(&idle.segment);
        assert_eq!(append(&mut idle, Pace::Blocking).unwrap(), Some(seq + 1));
        assert!(!Arc::ptr_eq(&before, &idle.segment), "opened anew at the end");
    }
}
