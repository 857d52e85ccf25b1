//! `audit/synced`: how far the ledger is on the disk, so that one process's sync does for all of them. Its lock is the right
//! to sync for the others; what stands in it is true for as long as one of them lives.
//!
//! A sync is noted before it begins and when it is done. Whoever reads that one began after its own records were written
//! and that it is done, has them on the disk. One that began and never was done failed, or died with its process: then what
//! the system takes for clean may never have reached the disk, and is written once more before anybody is told that it did.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::LedgerError;
use crate::segment::{Folder, Segment};
use crate::turn::{Turn, patiently};

/// How long another process's sync is waited for. Then this one syncs for itself, and tells nobody.
const OTHERS_MS: u64 = 100;
/// So many syncs wait for nobody then.
const SYNCS_ALONE: u32 = 100;
/// How long a turn is waited for in which to write once more what is in doubt.
const TURN_MS: u64 = 1_000;
const MARK_BYTES: usize = 40;

/// What stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark {
    /// The number of the last sync that began.
    begun: u64,
    /// The number of the last one that is done.
    done: u64,
    /// The segment that it was for. All earlier ones were on the disk before.
    segment: u64,
    /// The end of the last record that whoever did it knew of.
    end: u64,
}

/// What a sync is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Records that this process wrote.
    Records,
    /// A full segment, within a turn at the ledger.
    Rotation,
    /// A checkpoint. What is synced may end in what a dying writer left, which is not to stay.
    Checkpoint,
}

/// Whether whoever syncs has a turn at the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    InTurn,
    Outside,
}

/// The file, open in this process.
pub(crate) struct Synced {
    folder: Folder,
    // The system does not tell this process's threads apart.
    file: Mutex<File>,
    /// How many of the next syncs wait for nobody.
    alone: AtomicU32,
}

impl Synced {
    pub(crate) fn open(folder: Folder) -> io::Result<Self> {
        let file = Mutex::new(folder.synced_file()?);
        Ok(Self { folder, file, alone: AtomicU32::new(0) })
    }

    /// Says what is on the disk for sure, unless somebody lives who may know more. Called within a turn.
    pub(crate) fn begin_at(&self, (segment, end): (u64, u64), has_living: bool) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = Mark::read(&file)?;
        if has_living && mark.segment > 0 { Ok(()) } else { Mark { segment, end, ..mark }.write(&file) }
    }

    /// Brings everything up to `end` of the segment to the disk, unless another process did.
    pub(crate) fn commit(&self, segment: &Segment, end: u64, goal: For) -> io::Result<()> {
        let standing = if goal == For::Rotation { Standing::InTurn } else { Standing::Outside };
        if self.share(segment, end, goal, standing)? {
            return Ok(());
        }
        // INVARIANT: whoever takes a turn holds neither lock of the file, or two could wait for each other.
        let lock = self.folder.lock_file()?;
        let _turn = patiently(TURN_MS, || Turn::take(&lock)).map_err(io::Error::other)?;
        self.share(segment, end, goal, Standing::InTurn).map(drop)
    }

    /// The same, if that is a matter of this one sync: nobody else is at it, and nothing is in doubt. Else none, and nothing
    /// is done.
    pub(crate) fn commit_alone(&self, segment: &Segment, end: u64) -> Option<io::Result<()>> {
        let file = self.file.try_lock().ok()?;
        let _held = Held::take(&file).ok()??;
        if segment.is_poisoned() {
            return None;
        }
        match self.lead(&file, segment, end, For::Records, Standing::Outside) {
            Ok(is_done) => is_done.then_some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    }

    /// Syncs, or waits until another process did. False when that takes a turn, because something is in doubt.
    fn share(&self, segment: &Segment, end: u64, goal: For, standing: Standing) -> io::Result<bool> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if segment.is_poisoned() {
            return segment.sync(end).map(|()| true);
        }
        if let Some(_held) = Held::take(&file)? {
            return self.lead(&file, segment, end, goal, standing);
        }
        if let Some(left) = self.alone.load(Ordering::Relaxed).checked_sub(1) {
            self.alone.store(left, Ordering::Relaxed);
            return segment.sync(end).map(|()| true);
        }
        let before = Mark::read(&file)?;
        let waited = patiently(OTHERS_MS, || {
            if Mark::read(&file).is_ok_and(|mark| mark.has_since(&before, segment)) {
                return Ok(Some(None));
            }
            Ok(Held::take(&file).map_err(LedgerError::io("share a sync"))?.map(Some))
        });
        match waited {
            Ok(None) => segment.note_synced(end),
            Ok(Some(_held)) if Mark::read(&file)?.has_since(&before, segment) => segment.note_synced(end),
            Ok(Some(_held)) => return self.lead(&file, segment, end, goal, standing),
            // Whoever syncs may have been stopped, or its disk stands still.
            Err(_) => {
                self.alone.store(SYNCS_ALONE, Ordering::Relaxed);
                segment.sync(end)?;
            }
        }
        Ok(true)
    }

    /// Syncs with the lock of the file held, unless that was done. False when it takes a turn.
    fn lead(&self, file: &File, segment: &Segment, end: u64, goal: For, standing: Standing) -> io::Result<bool> {
        let mark = Mark::read(file)?;
        if mark.reaches(segment, end) {
            segment.note_synced(end);
            return Ok(true);
        }
        if mark.is_in_doubt() {
            if standing == Standing::Outside {
                return Ok(false);
            }
            self.write_again(mark)?;
        }
        let begun = mark.begun + 1;
        Mark { begun, ..mark }.write(file)?;
        segment.sync(end)?;
        let end = match goal {
            For::Records | For::Rotation => end,
            For::Checkpoint if mark.segment == segment.first => mark.end,
            For::Checkpoint => 0,
        };
        Mark { begun, done: begun, segment: segment.first, end }.write(file)?;
        Ok(true)
    }

    /// Writes all once more of which nobody knows whether it is on the disk. Called within a turn.
    fn write_again(&self, mark: Mark) -> io::Result<()> {
        for first in self.folder.segments()?.into_iter().filter(|first| *first >= mark.segment) {
            let segment = self.folder.open(first)?;
            if first == mark.segment {
                segment.note_synced(mark.end);
            }
            self.folder.rewrite(&segment)?;
        }
        Ok(())
    }
}

impl Mark {
    /// None that makes sense is as good as a new one: nobody who lives relies on it.
    fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; MARK_BYTES];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        let mut words = bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
        let mut word = || words.next().unwrap_or_default();
        let mark = Self { begun: word(), done: word(), segment: word(), end: word() };
        Ok(if word() == mark.sum() { mark } else { Self::default() })
    }

    fn write(self, file: &File) -> io::Result<()> {
        let mut bytes = [0; MARK_BYTES];
        let words = [self.begun, self.done, self.segment, self.end, self.sum()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        file.write_all_at(&bytes, 0)
    }

    /// Tells a mark from one that is half another: a reader without the lock may see that.
    fn sum(self) -> u64 {
        let words = [self.begun, self.done, self.segment, self.end];
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        words.into_iter().fold(1, mix)
    }

    /// The last sync failed, or whoever began it died.
    fn is_in_doubt(self) -> bool {
        self.begun != self.done
    }

    /// The last sync was for these bytes too, or for later ones.
    fn reaches(self, segment: &Segment, end: u64) -> bool {
        !self.is_in_doubt() && (self.segment, self.end) >= (segment.first, end)
    }

    /// A sync began and was done after `before` was read: it was for all that had been written by then.
    fn has_since(self, before: &Self, segment: &Segment) -> bool {
        self.done > before.begun && self.segment >= segment.first
    }
}

/// The lock of the file.
struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    fn take(file: &'a File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::error!("the lock of `synced` cannot be released: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Access, SystemDisk};

    struct World {
        _dir: tempfile::TempDir,
        folder: Folder,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let folder = Folder::create(Arc::new(SystemDisk), dir.path()).unwrap();
            folder.open_or_create(1).unwrap().file.append_all(&[b'x'; 100]).unwrap();
            Self { _dir: dir, folder }
        }

        /// As another process has it open.
        fn process(&self) -> (Synced, Segment) {
            (Synced::open(self.folder.clone()).unwrap(), self.folder.open(1).unwrap())
        }

        fn mark(&self) -> Mark {
            Mark::read(&self.folder.synced_file().unwrap()).unwrap()
        }
    }

    #[test]
    fn what_one_process_synced_the_others_need_not() {
        let world = World::new();
        let ((one, first), (other, second)) = (world.process(), world.process());
        one.commit(&first, 100, For::Records).unwrap();
        assert_eq!(world.mark(), Mark { begun: 1, done: 1, segment: 1, end: 100 });
        other.commit(&second, 60, For::Records).unwrap();
        assert_eq!((world.mark().begun, second.synced_bytes()), (1, 60), "no further sync");
        other.commit(&second, 101, For::Records).unwrap();
        assert_eq!(world.mark().begun, 2, "what came later is not covered");
    }

    #[test]
    fn whoever_waits_is_covered_by_a_sync_that_begins_after_its_records_and_by_no_other() {
        let world = World::new();
        let ((_, mine), mark) = (world.process(), Mark { begun: 3, done: 3, segment: 1, end: 50 });
        let under_way = Mark { begun: 4, ..mark };
        for (before, now, is_covered) in [
            (mark, under_way, false),
            (mark, Mark { done: 4, ..under_way }, true),
            (under_way, Mark { done: 4, ..under_way }, false),
            (under_way, Mark { begun: 5, done: 5, ..mark }, true),
            (under_way, Mark { begun: 5, done: 5, segment: 0, end: 9 }, false),
            (under_way, Mark { begun: 5, done: 5, segment: 9, end: 0 }, true),
        ] {
            assert_eq!(now.has_since(&before, &mine), is_covered, "{before:?} {now:?}");
        }
    }

    #[test]
    fn a_process_that_was_stopped_as_it_synced_keeps_nobody_else_from_it() {
        let world = World::new();
        let (synced, segment) = world.process();
        let stopped = world.folder.synced_file().unwrap();
        stopped.lock().unwrap();
        Mark { begun: 1, ..Mark::default() }.write(&stopped).unwrap();
        for end in [10, 20, 30] {
            synced.commit(&segment, end, For::Records).unwrap();
        }
        assert!(synced.commit_alone(&segment, 40).is_none());
        assert_eq!((segment.synced_bytes(), world.mark().begun), (30, 1), "it tells nobody");
    }

    #[test]
    fn after_a_sync_that_failed_or_broke_off_all_is_written_again_before_anybody_is_told() {
        let world = World::new();
        let (synced, segment) = world.process();
        synced.commit(&segment, 40, For::Records).unwrap();
        let open = Mark { begun: 2, ..world.mark() };
        open.write(&world.folder.synced_file().unwrap()).unwrap();
        assert!(synced.commit_alone(&segment, 100).is_none(), "left to the thread");
        // While it cannot be written again, nobody is told anything.
        let lock = world.folder.lock_file().unwrap();
        lock.lock().unwrap();
        assert!(synced.commit(&segment, 100, For::Records).is_err());
        assert_eq!(world.mark(), open);
        lock.unlock().unwrap();
        synced.commit(&segment, 100, For::Records).unwrap();
        assert_eq!(world.mark(), Mark { begun: 3, done: 3, segment: 1, end: 100 });
        let bytes = world.folder.disk().open(&world.folder.path().join(segment.name()), Access::Read).unwrap();
        assert_eq!(bytes.read_from(0, 1000).unwrap(), [b'x'; 100]);
    }

    #[test]
    fn a_mark_that_makes_no_sense_is_none_and_a_new_one_begins_at_the_checkpoint() {
        let world = World::new();
        let file = world.folder.synced_file().unwrap();
        file.write_all_at(&[7; MARK_BYTES], 0).unwrap();
        assert_eq!(world.mark(), Mark::default());
        let (synced, segment) = world.process();
        synced.begin_at((1, 30), true).unwrap();
        assert_eq!((world.mark().segment, world.mark().end), (1, 30));
        synced.commit(&segment, 90, For::Records).unwrap();
        synced.begin_at((1, 30), true).unwrap();
        assert_eq!(world.mark().end, 90, "somebody lives who knows more");
        synced.begin_at((1, 30), false).unwrap();
        assert_eq!(world.mark(), Mark { begun: 1, done: 1, segment: 1, end: 30 });
        synced.commit(&segment, 95, For::Checkpoint).unwrap();
        assert_eq!(world.mark().end, 30, "what a checkpoint reads may end in what is cut off");
    }
}
