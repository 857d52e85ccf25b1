//! Lines that are sealed before their turn has come: while the disk syncs, whoever waits for the next sync seals what is to be
//! written before it. If the chain ends then where they begin, they are written as they are; otherwise nothing came of them.

use crate::entry::Batch;
use crate::line::{self, Head};

/// More is not sealed before its turn, in bytes.
const AHEAD_BYTES_MAX: usize = 256 * 1024;

pub(crate) struct Ahead {
    lines: Vec<u8>,
    /// The end of the chain behind which they go, and the one that they make.
    from: Head,
    to: Head,
    /// How many of those who wait they are of, and the ticket of the last of these.
    batches: usize,
    last_ticket: u64,
    entries: usize,
}

impl Ahead {
    /// Of nobody yet, behind the end of the chain.
    pub(crate) fn of(head: Head) -> Self {
        Self { lines: Vec::new(), from: head, to: head, batches: 0, last_ticket: 0, entries: 0 }
    }

    /// Gives up what there is, and begins behind another end of the chain.
    pub(crate) fn begin_at(&mut self, head: Head) {
        self.lines.clear();
        *self = Self { lines: std::mem::take(&mut self.lines), ..Self::of(head) };
    }

    /// How many of those who wait the lines are of, if it is the first of them in this order.
    pub(crate) fn fits(&mut self, ticket_at: impl Fn(usize) -> Option<u64>) -> usize {
        // Tickets grow: where the last one stands at its place, so do the others.
        let is_theirs = self.batches.checked_sub(1).is_none_or(|at| ticket_at(at) == Some(self.last_ticket));
        if !is_theirs {
            self.begin_at(self.from);
        }
        self.batches
    }

    /// Seals what one more waits with. False when that would be too much.
    pub(crate) fn seal(&mut self, ticket: u64, batch: &Batch, time: &str, boot: &str) -> bool {
        if self.lines.len() + batch.bytes() > AHEAD_BYTES_MAX {
            return false;
        }
        for fields in batch.entries() {
            self.to = line::seal(&mut self.lines, &self.to, time, boot, fields);
        }
        self.batches += 1;
        self.entries += batch.len();
        self.last_ticket = ticket;
        true
    }

    /// Gives the lines, if they go behind this end of the chain, and says of how many entries they are.
    pub(crate) fn take(&mut self, lines: &mut Vec<u8>, head: &mut Head) -> usize {
        if self.from != *head {
            return 0;
        }
        std::mem::swap(&mut self.lines, lines);
        *head = self.to;
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use tollgate_types::{AttemptId, BootId, CallId};

    use super::*;
    use crate::Options;
    use crate::disk::SystemDisk;
    use crate::entry::{Entry, Event};
    use crate::segment::Folder;
    use crate::tail;
    use crate::writer::{Pace, Writer};

    const EARLY: &str = "2026-01-02T03:04:05.000000Z";

    fn writer(dir: &tempfile::TempDir) -> Writer {
        let folder = Folder::create(Arc::new(SystemDisk), dir.path()).unwrap();
        let tail = tail::find(&folder).unwrap();
        let mut writer = Writer::open(folder, &BootId::new("b"), &Options::default(), tail).unwrap();
        writer.prepare(Timestamp::UNIX_EPOCH).unwrap();
        writer
    }

    fn batch(attempt: &str) -> Batch {
        Batch::of(&[Entry::new(Event::Decided, &AttemptId::new(attempt), &CallId::new("c"))]).unwrap()
    }

    fn both(one: &Batch, other: &Batch) -> Batch {
        let mut both = Batch::default();
        both.extend(one);
        both.extend(other);
        both
    }

    /// The chain, checked: the attempt of each record, and whether it was sealed early.
    fn chain(dir: &tempfile::TempDir) -> Vec<(String, bool)> {
        let text = std::fs::read_to_string(dir.path().join("audit/segment-000000000001.jsonl")).unwrap();
        let mut head = Head::GENESIS;
        let record = |line: &str| {
            let link = line::parse(line.as_bytes()).unwrap();
            assert!(link.follows(&head), "{line}");
            head = link.head;
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            (record["attempt"].as_str().unwrap().to_owned(), record["time"] == EARLY)
        };
        text.lines().map(record).collect()
    }

    #[test]
    fn sealed_lines_are_written_as_they_are_where_the_chain_ends_as_it_did() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir);
        let (one, other) = (batch("one"), batch("other"));
        let mut ahead = Ahead::of(writer.head());
        assert!(ahead.seal(7, &one, EARLY, r#","boot":"b""#));
        let all = both(&one, &other);
        let written = writer.append_ahead(&all, &mut ahead, Timestamp::UNIX_EPOCH, Pace::Inline).unwrap().unwrap();
        assert_eq!(written.seq, 2);
        assert_eq!(chain(&dir), [("one".to_owned(), true), ("other".to_owned(), false)]);
    }

    #[test]
    fn nothing_comes_of_them_where_somebody_else_wrote_first() {
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, mut another) = (writer(&dir), writer(&dir));
        let (one, other) = (batch("one"), batch("other"));
        let mut ahead = Ahead::of(writer.head());
        assert!(ahead.seal(7, &one, EARLY, r#","boot":"b""#));
        another.append(&other, Timestamp::UNIX_EPOCH, Pace::Inline).unwrap().unwrap();
        writer.append_ahead(&one, &mut ahead, Timestamp::UNIX_EPOCH, Pace::Inline).unwrap().unwrap();
        ahead.begin_at(writer.head());
        assert!(ahead.seal(8, &other, EARLY, r#","boot":"b""#));
        writer.append_ahead(&other, &mut ahead, Timestamp::UNIX_EPOCH, Pace::Inline).unwrap().unwrap();
        let expected = [("other", false), ("one", false), ("other", true)];
        assert_eq!(chain(&dir), expected.map(|(attempt, is_early)| (attempt.to_owned(), is_early)));
    }

    #[test]
    fn they_are_given_up_where_one_of_those_who_wait_left() {
        let sealed = || {
            let mut ahead = Ahead::of(Head::GENESIS);
            for ticket in [3, 5, 6] {
                assert!(ahead.seal(ticket, &batch("a"), EARLY, ""));
            }
            ahead
        };
        for (tickets, fits) in [
            (vec![3, 5, 6], 3),
            (vec![3, 5, 6, 9], 3),
            (vec![5, 6, 9], 0),
            (vec![3, 6, 9], 0),
            (vec![3, 5], 0),
            (vec![], 0),
        ] {
            let mut ahead = sealed();
            assert_eq!(ahead.fits(|at| tickets.get(at).copied()), fits, "{tickets:?}");
            let (mut lines, mut head) = (Vec::new(), Head::GENESIS);
            assert_eq!(ahead.take(&mut lines, &mut head), fits);
            assert_eq!((lines.is_empty(), head.seq), (fits == 0, fits as u64));
        }
        let mut ahead = sealed();
        let large = Batch::of(&vec![Entry::of_ledger(Event::Halted, "x".repeat(2000)); 200]).unwrap();
        assert!(!ahead.seal(9, &large, EARLY, ""), "no more than there is a limit for");
    }
}
