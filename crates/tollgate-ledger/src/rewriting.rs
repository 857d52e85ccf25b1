//! A segment without what is erased of it: written beside the segment, and put in its place as a whole. It knows nothing of
//! who wants that, or of the record that says so.

use std::fs::File;
use std::io;

use sha2::{Digest, Sha256};
use tollgate_types::limits::LEDGER_LOCK_WAIT_MS;

use crate::LedgerError;
use crate::disk::{Access, Sealing, open_regular, private_file};
use crate::line::{self, Head};
use crate::lines::Lines;
use crate::segment::{Folder, segment_name};
use crate::stub::{Left, Level, stub};
use crate::turn::{Turn, patiently};

/// What is written at once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Which records are to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Those with these numbers, ascending.
    Numbers(Vec<u64>),
    /// Those from before a time, as records write it.
    Before(String),
}

impl Chosen {
    fn has(&self, seq: u64, line: &[u8]) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.binary_search(&seq).is_ok(),
            // One form of one length: the order of the text is that of time.
            Self::Before(end) => line::parts(line).is_some_and(|(_, time, _)| time < end.as_bytes()),
        }
    }

    /// Whether it can concern a segment with the records from `first` up to `next`, exclusive.
    pub(crate) fn concerns(&self, first: u64, next: Option<u64>) -> bool {
        match self {
            Self::Numbers(numbers) => {
                let from = numbers.partition_point(|number| *number < first);
                numbers.get(from).is_some_and(|number| next.is_none_or(|next| *number < next))
            }
            Self::Before(_) => true,
        }
    }
}

/// A segment's new form that is not in its place yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) first: u64,
    /// The id of the erasure that wrote it.
    pub(crate) id: String,
}

impl Aside {
    fn name(&self) -> String {
        format!("segment-{:012}-{}.erasing", self.first, self.id)
    }

    fn named(name: &str) -> Option<Self> {
        let (first, id) = name.strip_prefix("segment-")?.strip_suffix(".erasing")?.split_once('-')?;
        let aside = Self { first: first.parse().ok()?, id: id.to_owned() };
        (aside.name() == name).then_some(aside)
    }
}

impl Folder {
    /// The folder itself, whose lock keeps segments as they are: who reads them for long holds it shared.
    pub(crate) fn to_keep_still(&self) -> io::Result<File> {
        File::open(self.path())
    }

    /// The file whose lock is the right to erase.
    pub(crate) fn erase_lock(&self) -> io::Result<File> {
        let path = self.path().join("erase.lock");
        open_regular(private_file().read(true).write(true).create(true).truncate(false), &path)
    }

    /// New forms of segments that are not in their place.
    pub(crate) fn asides(&self) -> io::Result<Vec<Aside>> {
        Ok(self.disk().names(self.path())?.iter().filter_map(|name| Aside::named(name)).collect())
    }

    /// Puts a segment's new form in its place.
    pub(crate) fn put_in_place(&self, aside: &Aside) -> io::Result<()> {
        let place = self.path().join(segment_name(aside.first));
        self.disk().rename(&self.path().join(aside.name()), &place)?;
        self.disk().sync_dir(self.path())
    }

    pub(crate) fn give_up(&self, aside: &Aside) -> io::Result<()> {
        self.disk().remove(&self.path().join(aside.name()))
    }

    /// Writes a segment's new form, if anything of it is to be erased, and brings it to the disk.
    pub(crate) fn write_aside(
        &self,
        aside: &Aside,
        chosen: &Chosen,
        level: Level,
    ) -> Result<Option<Left>, LedgerError> {
        // Most segments that can be concerned are not.
        if self.would_leave(aside.first, chosen, level)?.records == 0 {
            return Ok(None);
        }
        let writing = || LedgerError::io("write a segment without what is erased");
        let path = self.path().join(aside.name());
        let file = self.disk().open(&path, Access::Replace).map_err(writing())?;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let mut end = 0;
        let mut write = |block: &mut Vec<u8>| {
            file.write_all_at(block, end)?;
            end += block.len() as u64;
            block.clear();
            Ok::<_, io::Error>(())
        };
        let written = self.leave(aside.first, chosen, level, &aside.id, &mut |line| {
            block.extend_from_slice(line);
            block.push(b'\n');
            if block.len() < BLOCK_BYTES { Ok(()) } else { write(&mut block).map_err(writing()) }
        });
        let synced = written.and_then(|left| {
            let mut finish = || {
                write(&mut block)?;
                file.sync_data()?;
                file.set_sealing(Sealing::Sealed)?;
                self.disk().sync_dir(self.path())
            };
            finish().map(|()| left).map_err(writing())
        });
        if synced.is_err() {
            // What cannot be removed is removed by the next erasure: no record speaks of it.
            let _ = self.give_up(aside);
        }
        synced.map(Some)
    }

    /// What would be left of the records of a segment.
    pub(crate) fn would_leave(&self, first: u64, chosen: &Chosen, level: Level) -> Result<Left, LedgerError> {
        self.leave(first, chosen, level, "", &mut |_| Ok(()))
    }

    /// A segment's length while no line is half written.
    fn len_between_turns(&self, first: u64) -> Result<u64, LedgerError> {
        let len = || self.len_of(first).map_err(LedgerError::io("be read"));
        match self.lock_file_to_read() {
            // A copy without its lock has no writers.
            Err(error) if error.kind() == io::ErrorKind::NotFound => len(),
            opened => {
                let lock = opened.map_err(LedgerError::io("open its lock"))?;
                let _turn = patiently(LEDGER_LOCK_WAIT_MS, || Turn::take_to_read(&lock))?;
                len()
            }
        }
    }

    fn leave(
        &self,
        first: u64,
        chosen: &Chosen,
        level: Level,
        id: &str,
        out: &mut dyn FnMut(&[u8]) -> Result<(), LedgerError>,
    ) -> Result<Left, LedgerError> {
        let reading = || LedgerError::io("be read");
        let file = self.open_to_read(first).map_err(reading())?;
        let mut lines = Lines::new(file, 0, self.len_between_turns(first)?);
        let (mut left, mut head, mut number) = (Left::default(), None, 0);
        while let Some(line) = lines.next().map_err(reading())? {
            number += 1;
            // What is erased must be what was written: nobody could find a change in it any more.
            let link = line.link().ok().filter(|link| head.is_none_or(|head: Head| link.follows(&head)));
            let Some(link) = link else {
                let (seq, segment) = (first + number - 1, segment_name(first));
                let message = "the line does not continue the chain";
                return Err(LedgerError::Damaged { seq, segment, line: number, message });
            };
            head = Some(link.head);
            let seq = link.head.seq;
            let is_chosen = chosen.has(seq, line.bytes);
            match is_chosen.then(|| stub(line.bytes, level, id)).flatten() {
                Some(stub) => {
                    left.push(seq, &Sha256::digest(&stub));
                    out(&stub)?;
                }
                None => out(line.bytes)?,
            }
        }
        Ok(left)
    }
}
