//! Erasing the content of records, and keeping the chain. What is erased is said first, by a record of the ledger, then
//! done: a process that dies in between leaves what the next erasure finishes, and nothing is lost that was not to be.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use tollgate_types::uuid_v7;

use crate::checkpoints::Checkpoints;
use crate::entry::{Batch, cut};
use crate::index::Index;
use crate::key::KeyFile;
use crate::ledger::Ledger;
use crate::rewriting::{Aside, Chosen};
use crate::segment::Folder;
use crate::stub::{Erasure, Left, Level, Trace};
use crate::turn::{Turn, patiently};
use crate::{Entry, Event, Filter, LedgerError, OPEN, View};

/// Attempts that one erasure takes.
pub const ERASED_ATTEMPTS_MAX: usize = 200_000;
/// How long an erasure waits until nobody reads the segments that it replaces.
const STILL_WAIT_MS: u64 = 60_000;

/// Whose content is erased.
#[derive(Debug, Clone)]
pub enum Erasable {
    /// Of the attempts that a filter asks for. Those under way are left out.
    Attempts(Box<Filter>),
    /// Of every record from before a time.
    Before(Timestamp),
}

/// An order to erase.
#[derive(Debug, Clone)]
pub struct EraseOrder {
    /// Whose content.
    pub what: Erasable,
    /// By what it was chosen, without names: the record of the erasure says it.
    pub chosen: String,
    /// How much.
    pub level: Level,
    /// Who erases.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What is, or would be, erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    /// Records.
    pub records: u64,
    /// The attempts that were chosen by a filter.
    pub attempts: Vec<String>,
    /// Attempts that were left out because they are under way.
    pub under_way: u64,
    /// The ids of the erasures: one a segment.
    pub erasures: Vec<String>,
}

/// What an order comes to before it is carried out.
struct Plan {
    chosen: Chosen,
    erased: Erased,
}

impl Plan {
    fn of(data_dir: &Path, what: &Erasable) -> Result<Self, LedgerError> {
        let mut erased = Erased::default();
        let filter = match what {
            Erasable::Before(end) => return Ok(Self { chosen: Chosen::Before(format!("{end:.6}")), erased }),
            Erasable::Attempts(filter) => filter,
        };
        let mut numbers = BTreeSet::new();
        Index::open(data_dir, &mut |_, _| {})?.each(filter, View::Attempts, |found| {
            if found.attempt.status == OPEN {
                erased.under_way += 1;
                return Ok(());
            }
            if erased.attempts.len() == ERASED_ATTEMPTS_MAX {
                return Err(LedgerError::TooMany { most: ERASED_ATTEMPTS_MAX });
            }
            numbers.extend(found.records.iter().map(crate::Record::seq));
            erased.attempts.push(found.attempt.attempt);
            Ok(())
        })?;
        Ok(Self { chosen: Chosen::Numbers(numbers.into_iter().collect()), erased })
    }

    /// The segments that it can concern.
    fn segments(&self, folder: &Folder) -> Result<Vec<u64>, LedgerError> {
        let segments = folder.existing_segments()?;
        let nexts = segments.iter().skip(1).map(|next| Some(*next)).chain([None]);
        let concerned = segments.iter().zip(nexts).filter(|(first, next)| self.chosen.concerns(**first, *next));
        Ok(concerned.map(|(first, _)| *first).collect())
    }
}

/// What [`Ledger::erase`] would erase. Nothing is opened to be written, and nothing changes.
///
/// # Errors
/// As [`Ledger::erase`].
pub fn would_erase(data_dir: &Path, what: &Erasable, level: Level) -> Result<Erased, LedgerError> {
    let folder = Folder::of(data_dir);
    folder.existing_segments()?;
    let mut plan = Plan::of(data_dir, what)?;
    for first in plan.segments(&folder)? {
        plan.erased.records += folder.would_leave(first, &plan.chosen, level)?.records;
    }
    Ok(plan.erased)
}

impl Ledger {
    /// Erases content, and writes down that, by whom and why. It reads whole segments and waits for the disk: not for a
    /// task that others wait for. The index is made anew when it is asked next.
    ///
    /// # Errors
    /// [`LedgerError::TooMany`] when the filter asks for more than [`ERASED_ATTEMPTS_MAX`] attempts,
    /// [`LedgerError::Damaged`] when a record is not as it was written, [`LedgerError::Busy`] when somebody else erases or
    /// reads for too long, or that the disk does not take it. What was said and not done is done by the next call.
    pub fn erase(&self, order: &EraseOrder) -> Result<Erased, LedgerError> {
        let lock = self.folder.erase_lock().map_err(LedgerError::io("open its lock"))?;
        let _right = patiently(self.lock_wait_ms, || Turn::take(&lock))?;
        self.finish()?;
        let mut plan = Plan::of(self.folder.data_dir(), &order.what)?;
        self.rotate_for(&plan, order.level)?;
        let mut asides = Vec::new();
        let segments = plan.segments(&self.folder)?;
        // The last one takes records.
        let last = self.folder.existing_segments()?.pop();
        for first in segments.into_iter().filter(|first| Some(*first) != last) {
            let aside = Aside { first, id: uuid_v7(self.clock.now()) };
            let Some(left) = self.folder.write_aside(&aside, &plan.chosen, order.level)? else { continue };
            plan.erased.records += left.records;
            self.say(order, &aside.id, &left)?;
            plan.erased.erasures.push(aside.id.clone());
            asides.push(aside);
        }
        self.put_in_place(&asides)?;
        Ok(plan.erased)
    }

    /// Finishes what a process that died had said and not done.
    ///
    /// # Errors
    /// As [`Ledger::erase`].
    pub fn finish_erasing(&self) -> Result<(), LedgerError> {
        if self.asides()?.is_empty() {
            return Ok(());
        }
        let lock = self.folder.erase_lock().map_err(LedgerError::io("open its lock"))?;
        let _right = patiently(self.lock_wait_ms, || Turn::take(&lock))?;
        self.finish()
    }

    /// The data folder that it is in.
    pub fn data_dir(&self) -> &Path {
        self.folder.data_dir()
    }

    fn asides(&self) -> Result<Vec<Aside>, LedgerError> {
        self.folder.asides().map_err(LedgerError::io("list its files"))
    }

    fn finish(&self) -> Result<(), LedgerError> {
        let mut asides = self.asides()?;
        if asides.is_empty() {
            return Ok(());
        }
        let said = said(&self.folder)?;
        let unsaid: Vec<Aside> = asides.extract_if(.., |aside| !said.contains(&aside.id)).collect();
        for aside in &unsaid {
            self.folder.give_up(aside).map_err(LedgerError::io("remove a file that it does not need"))?;
        }
        self.put_in_place(&asides)
    }

    /// Begins another segment, if the last one holds what is to be erased.
    fn rotate_for(&self, plan: &Plan, level: Level) -> Result<(), LedgerError> {
        let last = self.folder.existing_segments()?.pop();
        let Some(last) = plan.segments(&self.folder)?.pop().filter(|first| Some(*first) == last) else { return Ok(()) };
        if self.folder.would_leave(last, &plan.chosen, level)?.records == 0 {
            return Ok(());
        }
        self.appender.in_turn(|writer| {
            let is_still_last = self.folder.existing_segments()?.pop() == Some(last);
            if is_still_last { writer.begin_segment(self.clock.now()) } else { Ok(()) }
        })?
    }

    /// Writes the record of an erasure. It is on the disk when this returns.
    fn say(&self, order: &EraseOrder, id: &str, left: &Left) -> Result<(), LedgerError> {
        let erasure = Erasure {
            id: id.to_owned(),
            level: order.level,
            records: left.records,
            first: left.first,
            last: left.last,
            digest: left.digest(),
            chosen: order.chosen.clone(),
            by: cut(&order.by).into_owned(),
            reason: cut(&order.reason).into_owned(),
        };
        let note =
            format!("{} of {} records erased by {}: {}", erasure.level, erasure.records, erasure.by, erasure.reason);
        let mut entry = Entry::of_ledger(Event::Recovered, note);
        entry.erasure = Some(erasure);
        entry.sandbox = self.sandbox;
        self.appender.signing.check()?;
        self.write_through(&Batch::of(&[entry])?, "sync a record")
    }

    /// Signs until the last checkpoint ends behind a segment that has a later one.
    fn sign_beyond(&self, segment: u64) -> Result<(), LedgerError> {
        let key = KeyFile::of(&self.folder).load_any()?.ok_or(LedgerError::NoKey)?.verifier().clone();
        let mut covered = None;
        loop {
            if let Some(error) = self.appender.signing.sign_now_blocking().failing {
                return Err((*error).clone());
            }
            let last = Checkpoints::of(&self.folder).last(&key)?.map(|last| last.kept.checkpoint);
            match last {
                Some(last) if last.end.0 > segment => return Ok(()),
                // One look covers so many records; each must cover more than the one before.
                Some(last) if Some(last.size) > covered => covered = Some(last.size),
                Some(_) | None => return Err(LedgerError::Busy { waited_ms: 0 }),
            }
        }
    }

    // INVARIANT: the last checkpoint ends behind what is replaced; nobody goes on from a place within it.
    fn put_in_place(&self, asides: &[Aside]) -> Result<(), LedgerError> {
        let Some(last) = asides.iter().map(|aside| aside.first).max() else { return Ok(()) };
        self.sign_beyond(last)?;
        let still = self.folder.to_keep_still().map_err(LedgerError::io("open its folder"))?;
        let _still = patiently(STILL_WAIT_MS, || Turn::take(&still))?;
        // It says who asked, and where records stand: it goes before they do, and what was made meanwhile after.
        Index::forget(&self.folder);
        for aside in asides {
            let placing = || LedgerError::io("put a segment in its place");
            let place = || {
                self.boots.begin_at_start_of(aside.first)?;
                self.folder.put_in_place(aside)
            };
            self.appender.in_turn(|_| place())?.map_err(placing())?;
        }
        Index::forget(&self.folder);
        Ok(())
    }
}

/// The ids of all erasures that the ledger speaks of.
fn said(folder: &Folder) -> Result<BTreeSet<String>, LedgerError> {
    let reading = || LedgerError::io("be read");
    let mut said = BTreeSet::new();
    for first in folder.existing_segments()? {
        let file = folder.open_to_read(first).map_err(reading())?;
        let mut lines = crate::lines::Lines::new(file, 0, folder.len_of(first).map_err(reading())?);
        while let Some(line) = lines.next().map_err(reading())? {
            if let (true, Ok(Trace::Said(erasure))) = (line.link().is_ok(), Trace::of(line.bytes)) {
                said.insert(erasure.id);
            }
        }
    }
    Ok(said)
}
