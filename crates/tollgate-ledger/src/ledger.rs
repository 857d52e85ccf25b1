//! The ledger as the gate uses it: taking turns, appending, closing.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tollgate_types::{BootId, Clock, limits, uuid_v7};

use tokio::sync::watch;

use crate::boot::{self, Boot, Boots, DeadBoot};
use crate::checkpoints::Checkpoints;
use crate::disk::{Disk, SystemDisk};
use crate::entry::Batch;
use crate::notary::Notary;
use crate::opening::Opening;
use crate::recover::recover;
use crate::schedule::Schedule;
use crate::segment::{Folder, Segment, Turn, patiently};
use crate::sync::{Receipt, Syncer};
use crate::writer::{Pace, Writer, Written};
use crate::{Checkpointing, Entry, LedgerError, OnDamage, Recovery};

/// How often a busy ledger is asked for a turn from the caller's own task.
const INLINE_TRIES_MAX: usize = 4;
/// A sync on the caller's own task that took longer shows that the disk is slow.
const QUICK: Duration = Duration::from_millis(2);
/// How many syncs are left to the thread then.
const SLOW_SYNCS: u32 = 20;

/// The record of every attempt, open for appending. Many processes may have the same one open.
///
/// Closing happens on drop: what is not on the disk is synced, and the process's boot file is removed, unless an attempt
/// has no end yet; then the next opener finds it there and ends the attempt.
pub struct Ledger {
    shared: Arc<Shared>,
    folder: Folder,
    boots: Boots,
    boot: Boot,
    checkpoints: watch::Receiver<Option<Arc<str>>>,
    is_closed: bool,
}

struct Shared {
    writer: Mutex<Writer>,
    lock: File,
    syncer: Syncer,
    clock: Arc<dyn Clock>,
    id: BootId,
    /// Attempts with `received` and neither `finished` nor `waiting`.
    open_attempts: AtomicI64,
    /// How many of the next syncs are not for a caller's own task.
    slow_syncs: AtomicU32,
    lock_wait_ms: u64,
    sandbox: Option<&'static str>,
}

/// When an append returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the records are written; they reach the disk within [`limits::LEDGER_SYNC_MS`].
    Batched,
    /// When the records are on the disk.
    Strict,
}

/// A record's place in the chain, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// The limits of an open ledger and its disk, for tests that want others, and what its records say of this process.
#[derive(Debug, Clone)]
pub struct Options {
    /// A segment's length at which the next one begins.
    pub segment_bytes_max: u64,
    /// How long an append waits for its turn.
    pub lock_wait_ms: u64,
    /// The isolation that this process gives to what it runs, said by every record that does not say its own.
    pub sandbox: Option<&'static str>,
    /// How often checkpoints are signed.
    pub checkpointing: Checkpointing,
    /// What happens when the ledger is not as it was proved to be.
    pub on_damage: OnDamage,
    /// Where it is written; a product has the system's.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes_max: limits::SEGMENT_BYTES_MAX,
            lock_wait_ms: limits::LEDGER_LOCK_WAIT_MS,
            sandbox: None,
            checkpointing: Checkpointing::default(),
            on_damage: OnDamage::Refuse,
            disk: Arc::new(SystemDisk),
        }
    }
}

impl Ledger {
    /// Opens the ledger in `data_dir/audit`, made when it is not there yet, marks this process as living in
    /// `data_dir/boot`, and ends what dead processes left open.
    ///
    /// It reads what came after the last checkpoint, and more only where a process died. It may wait for a turn, and for
    /// the disk where there is something to recover.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] when the last record that a checkpoint covers, or one since a dead process began, is not
    /// as it was written, or the checkpoints are not;
    /// [`LedgerError::Unavailable`] when the disk does not take it; [`LedgerError::Busy`] when no turn came.
    pub fn open(data_dir: &Path, clock: Arc<dyn Clock>) -> Result<(Self, Recovery), LedgerError> {
        Self::open_with(data_dir, clock, Options::default())
    }

    /// [`Ledger::open`] with other limits.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn open_with(
        data_dir: &Path,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Result<(Self, Recovery), LedgerError> {
        Self::open_telling(data_dir, clock, options, |_| Ok(()))
    }

    /// [`Ledger::open_with`], with a listener who is told what dead processes left before their marks are removed. Should
    /// this process die in between, the next one tells it again: the listener must bear that.
    ///
    /// # Errors
    /// As [`Ledger::open`], and what the listener says.
    pub fn open_telling(
        data_dir: &Path,
        clock: Arc<dyn Clock>,
        options: Options,
        tell: impl FnOnce(&Recovery) -> std::io::Result<()>,
    ) -> Result<(Self, Recovery), LedgerError> {
        let folder =
            Folder::create(Arc::clone(&options.disk), data_dir).map_err(LedgerError::io("create its folder"))?;
        let boots = Boots::create(&folder).map_err(LedgerError::io("create its boot folder"))?;
        let lock = folder.lock_file().map_err(LedgerError::io("open its lock"))?;
        let now = clock.now();
        let id = BootId::new(uuid_v7(now));
        let signing = Checkpoints::of(&folder).lock_file().map_err(LedgerError::io("open its lock"))?;
        let signing_turn = patiently(options.lock_wait_ms, || Turn::take(&signing))?;
        let turn = patiently(options.lock_wait_ms, || Turn::take(&lock))?;
        let dead = boots.dead().map_err(LedgerError::io("look for dead processes"))?;
        let opening = Opening { folder: &folder, now, has_living: dead.has_living };
        let (writer, standing) = opening.open(&id, &options)?;
        let boot = boots.enter(&id, writer.position()).map_err(LedgerError::io("write its boot file"))?;
        drop((turn, signing_turn));
        let (mark, disk) = (boot.path().to_owned(), Arc::clone(&options.disk));
        let signed = standing.last.checkpoint.size;
        let notary = Notary::new(folder.clone(), standing, Arc::clone(&clock))?;
        let checkpoints = notary.told();
        let schedule = Schedule::new(notary, signed, Arc::clone(&clock), options.checkpointing);
        let syncer = Syncer::start(Box::new(move || boot::sync(disk.as_ref(), &mark)), Some(schedule))
            .map_err(LedgerError::io("start the thread that syncs"))?;
        syncer.wrote(writer.last_seq());
        let shared = Arc::new(Shared {
            writer: Mutex::new(writer),
            lock,
            syncer,
            clock,
            id,
            open_attempts: AtomicI64::new(0),
            slow_syncs: AtomicU32::new(0),
            lock_wait_ms: options.lock_wait_ms,
            sandbox: options.sandbox,
        });
        let ledger = Self { shared, folder, boots, boot, checkpoints, is_closed: false };
        let recovery = ledger.recover(&dead.boots, tell)?;
        Ok((ledger, recovery))
    }

    /// Ends what processes left open that died since this one opened the ledger, as opening it does. It may wait for a turn
    /// and for the disk, but only where one died.
    ///
    /// # Errors
    /// As [`Ledger::open_telling`].
    pub fn recover_dead(&self, tell: impl FnOnce(&Recovery) -> std::io::Result<()>) -> Result<Recovery, LedgerError> {
        let dead = patiently(self.shared.lock_wait_ms, || {
            // The lock does not tell this process's own threads apart.
            let _writer = self.shared.writer();
            let Some(_turn) = Turn::take(&self.shared.lock)? else { return Ok(None) };
            self.boots.dead().map(Some).map_err(LedgerError::io("look for dead processes"))
        })?;
        if dead.boots.is_empty() { Ok(Recovery::default()) } else { self.recover(&dead.boots, tell) }
    }

    /// This run of this process, as its records name it.
    pub fn boot(&self) -> &BootId {
        &self.shared.id
    }

    /// The latest checkpoint that this process signed, or found when it opened the ledger, as a signed note for whoever
    /// keeps it elsewhere. None before there is a record.
    pub fn checkpoints(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.checkpoints.clone()
    }

    /// Signs a checkpoint over all that was written up to now, without waiting until one is due.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn checkpoint_now(&self) -> Result<(), LedgerError> {
        match self.shared.syncer.sign_now().await.failing {
            None => Ok(()),
            Some(error) => Err((*error).clone()),
        }
    }

    /// Why no checkpoint can be written, when that is so. Records are taken all the same for
    /// [`Checkpointing::lag_ms`], and then no more.
    pub fn checkpoint_failure(&self) -> Option<Arc<LedgerError>> {
        self.shared.syncer.failing()
    }

    /// Writes the entries as consecutive records of the one chain, and returns the last one's place.
    ///
    /// All or none of them are acknowledged. Dropping the future does not take back what is being written.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the disk does not take them, until it does; [`LedgerError::Busy`] when no turn
    /// came; [`LedgerError::Damaged`] when another writer's records do not continue the chain, or the last checkpoint does
    /// not hold; [`LedgerError::NoCheckpoint`] when none could be written for too long.
    pub async fn append(&self, mut entries: Vec<Entry>, durability: Durability) -> Result<Seq, LedgerError> {
        for entry in &mut entries {
            entry.sandbox = entry.sandbox.or(self.shared.sandbox);
        }
        let batch = Batch::of(&entries)?;
        let (seq, receipt) = match self.append_inline(&batch, durability).await? {
            Some(appended) => appended,
            None => {
                let shared = Arc::clone(&self.shared);
                let task = tokio::task::spawn_blocking(move || shared.append_patiently(&batch, durability));
                task.await.map_err(|error| LedgerError::io("write a record")(error.into()))??
            }
        };
        if let Some(receipt) = receipt {
            receipt.wait().await?;
        }
        Ok(seq)
    }

    async fn append_inline(&self, batch: &Batch, durability: Durability) -> Result<Option<Appended>, LedgerError> {
        for _ in 0..INLINE_TRIES_MAX {
            if let Some(appended) = self.shared.append(batch, durability, Pace::Inline)? {
                return Ok(Some(appended));
            }
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// Ends the attempts of dead processes, and then their marks.
    fn recover(
        &self,
        dead: &[DeadBoot],
        tell: impl FnOnce(&Recovery) -> std::io::Result<()>,
    ) -> Result<Recovery, LedgerError> {
        let (batch, mut recovery) = recover(&self.folder, dead, self.shared.sandbox)?;
        tell(&recovery).map_err(LedgerError::io("hand on what dead processes left"))?;
        let has_notes = self.shared.writer().has_notes();
        if has_notes || !batch.is_empty() {
            let (shared, wait_ms) = (&self.shared, self.shared.lock_wait_ms);
            let written = patiently(wait_ms, || shared.write(&batch, Pace::Blocking))?;
            written.segment.sync(written.end).map_err(LedgerError::io("sync what it recovered"))?;
            self.shared.syncer.wrote(written.seq);
        }
        for boot in dead {
            boot.leave().map_err(LedgerError::io("remove the boot file of a dead process"))?;
        }
        recovery.torn_bytes = self.shared.writer().torn_bytes();
        Ok(recovery)
    }

    /// Syncs what is left, signs a last checkpoint over it, and takes this process's mark away.
    ///
    /// # Errors
    /// When the last records may not be on the disk. The mark then stays, so that the next opener looks at them.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), LedgerError> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        self.shared.writer().is_closed = true;
        self.shared.syncer.stop()?;
        if self.shared.open_attempts.load(Ordering::Acquire) != 0 {
            return Ok(());
        }
        self.boot.leave().map_err(LedgerError::io("remove its boot file"))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::error!("{error}");
        }
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("boot", &self.shared.id).finish_non_exhaustive()
    }
}

type Appended = (Seq, Option<Receipt>);

impl Shared {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A writer that panicked left its state as it was before: the next turn reads what is in the file.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append_patiently(&self, batch: &Batch, durability: Durability) -> Result<Appended, LedgerError> {
        patiently(self.lock_wait_ms, || self.append(batch, durability, Pace::Blocking))
    }

    fn append(&self, batch: &Batch, durability: Durability, pace: Pace) -> Result<Option<Appended>, LedgerError> {
        self.syncer.check()?;
        let Some(Written { segment, end, seq }) = self.write(batch, pace)? else { return Ok(None) };
        self.open_attempts.fetch_add(batch.opens, Ordering::AcqRel);
        self.syncer.wrote(seq);
        let receipt = match durability {
            Durability::Batched => {
                self.syncer.submit(segment, end);
                None
            }
            Durability::Strict => self.sync(segment, end, pace)?,
        };
        Ok(Some((Seq(seq), receipt)))
    }

    /// Brings what was written to the disk: here, when nobody else asks for anything and the disk has been quick; else by
    /// the thread that syncs for many at once.
    fn sync(&self, segment: Arc<Segment>, end: u64, pace: Pace) -> Result<Option<Receipt>, LedgerError> {
        let is_slow = self.slow_syncs.load(Ordering::Relaxed).checked_sub(1);
        if let Some(left) = is_slow {
            self.slow_syncs.store(left, Ordering::Relaxed);
        } else if pace == Pace::Inline && self.open_attempts.load(Ordering::Acquire) <= 1 {
            let began = self.clock.monotonic();
            if let Some(synced) = self.syncer.sync_here(&segment, end) {
                if self.clock.monotonic().saturating_sub(began) > QUICK {
                    self.slow_syncs.store(SLOW_SYNCS, Ordering::Relaxed);
                }
                return synced.map(|()| None);
            }
        }
        Ok(Some(self.syncer.submit_strict(segment, end)))
    }

    /// Takes a turn and writes. None when others have it, in this process or another, or when it is too slow for `pace`.
    fn write(&self, batch: &Batch, pace: Pace) -> Result<Option<Written>, LedgerError> {
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        let Some(_turn) = Turn::take(&self.lock)? else { return Ok(None) };
        writer.append(batch, self.clock.now(), pace)
    }
}
