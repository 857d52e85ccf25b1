//! The ledger as the gate uses it: opening, appending, closing.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_types::{BootId, Clock, limits, uuid_v7};

use tokio::sync::watch;

use crate::appender::Appender;
use crate::boot::{self, Boot, Boots};
use crate::checkpoints::Checkpoints;
use crate::disk::{Disk, SystemDisk};
use crate::entry::Batch;
use crate::notary::Notary;
use crate::opening::Opening;
use crate::recover::{Dead, recover};
use crate::schedule::Schedule;
use crate::segment::Folder;
use crate::signing::Signing;
use crate::sync::Syncer;
use crate::synced::{For, Synced};
use crate::turn::{Turn, patiently};
use crate::writer::Pace;
use crate::{Checkpointing, Entry, LedgerError, OnDamage, Recovery};

/// The record of every attempt, open for appending. Many processes may have the same one open.
///
/// Closing happens on drop: what is not on the disk is synced, and the process's boot file is removed, unless an attempt
/// has no end yet; then the next opener finds it there and ends the attempt.
pub struct Ledger {
    pub(crate) appender: Arc<Appender>,
    line: Option<JoinHandle<()>>,
    synced: Arc<Synced>,
    pub(crate) folder: Folder,
    pub(crate) boots: Boots,
    boot: Boot,
    id: BootId,
    checkpoints: watch::Receiver<Option<Arc<str>>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lock_wait_ms: u64,
    pub(crate) sandbox: Option<&'static str>,
    reads: Durability,
    is_closed: bool,
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
    /// How old a segment's first record is when the next one begins; none for no matter how old.
    pub segment_age_max: Option<Duration>,
    /// The space that is kept back for the ends of calls, [`limits::LEDGER_RESERVE_BYTES`].
    pub reserve_bytes: u64,
    /// How long an append waits for its turn.
    pub lock_wait_ms: u64,
    /// The isolation that this process gives to what it runs, said by every record that does not say its own.
    pub sandbox: Option<&'static str>,
    /// How often checkpoints are signed.
    pub checkpointing: Checkpointing,
    /// What calls that only read are recorded with, [`Ledger::reads`].
    pub reads: Durability,
    /// What happens when the ledger is not as it was proved to be.
    pub on_damage: OnDamage,
    /// Where it is written; a product has the system's.
    pub disk: Arc<dyn Disk>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes_max: limits::SEGMENT_BYTES_MAX,
            segment_age_max: None,
            reserve_bytes: limits::LEDGER_RESERVE_BYTES,
            lock_wait_ms: limits::LEDGER_LOCK_WAIT_MS,
            sandbox: None,
            checkpointing: Checkpointing::default(),
            reads: Durability::Batched,
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
        let now = clock.now();
        let id = BootId::new(uuid_v7(now));
        let signing = Checkpoints::of(&folder).lock_file().map_err(LedgerError::io("open its lock"))?;
        let signing_turn = Turn::wait(signing, options.lock_wait_ms)?;
        let turn = Turn::wait_in_line(&folder, options.lock_wait_ms)?;
        let dead = boots.dead().map_err(LedgerError::io("look for dead processes"))?;
        let opening = Opening { folder: &folder, now, has_living: dead.has_living };
        let (writer, standing) = opening.open(&id, &options)?;
        let synced = writer.synced();
        let noting = LedgerError::io("note what is synced");
        synced.begin_at(standing.last.checkpoint.end, dead.has_living).map_err(noting)?;
        // Nobody else wrote since the last checkpoint but who is dead, also where a power cut took the mark.
        let unmarked = if dead.has_living { Range::default() } else { standing.last.checkpoint.end..writer.position() };
        let boot = boots.enter(&id, writer.position()).map_err(LedgerError::io("write its boot file"))?;
        drop((turn, signing_turn));
        let (mark, disk) = (boot.path().to_owned(), Arc::clone(&options.disk));
        let (signed, written) = (standing.last.checkpoint.size, writer.last_seq());
        let notary = Notary::new(folder.clone(), Arc::clone(&synced), standing, Arc::clone(&clock));
        let checkpoints = notary.told();
        let schedule = Schedule::new(notary, signed, Arc::clone(&clock), options.checkpointing);
        let lay = Box::new(move || boot::sync(disk.as_ref(), &mark));
        let starting = || LedgerError::io("start a thread");
        let syncer = Syncer::start(Arc::clone(&synced), lay).map_err(starting())?;
        let threads = (syncer, Signing::start(schedule, written).map_err(starting())?);
        let (appender, line) =
            Appender::start(&folder, writer, threads, Arc::clone(&clock), options.lock_wait_ms).map_err(starting())?;
        let ledger = Self {
            appender,
            line: Some(line),
            synced,
            folder,
            boots,
            boot,
            id,
            checkpoints,
            clock,
            lock_wait_ms: options.lock_wait_ms,
            sandbox: options.sandbox,
            reads: options.reads,
            is_closed: false,
        };
        let recovery = ledger.recover(&Dead { boots: &dead.boots, unmarked }, tell)?;
        Ok((ledger, recovery))
    }

    /// Ends what processes left open that died since this one opened the ledger, as opening it does. It may wait for a turn
    /// and for the disk, but only where one died.
    ///
    /// # Errors
    /// As [`Ledger::open_telling`].
    pub fn recover_dead(&self, tell: impl FnOnce(&Recovery) -> std::io::Result<()>) -> Result<Recovery, LedgerError> {
        let dead = || self.boots.dead().map_err(LedgerError::io("look for dead processes"));
        let dead = patiently(self.lock_wait_ms, || self.appender.if_free(dead))?;
        let dead = Dead { boots: &dead.boots, unmarked: Range::default() };
        if dead.boots.is_empty() { Ok(Recovery::default()) } else { self.recover(&dead, tell) }
    }

    /// Whether the process whose run this is still runs.
    ///
    /// # Errors
    /// When its mark cannot be looked at.
    pub fn lives(&self, boot: &BootId) -> std::io::Result<bool> {
        if *boot == self.id { Ok(true) } else { self.boots.lives(boot) }
    }

    /// This run of this process, as its records name it.
    pub fn boot(&self) -> &BootId {
        &self.id
    }

    /// How durable the records of calls that only read are to be, as it was opened for.
    pub fn reads(&self) -> Durability {
        self.reads
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
        match self.appender.signing.sign_now().await.failing {
            None => Ok(()),
            Some(error) => Err((*error).clone()),
        }
    }

    /// Why no checkpoint can be written, when that is so. Records are taken all the same for
    /// [`Checkpointing::lag_ms`], and then no more.
    pub fn checkpoint_failure(&self) -> Option<Arc<LedgerError>> {
        self.appender.signing.failing()
    }

    /// Whether a call could begin now; what stands in its way and can be mended is mended. It may wait for a turn and for the
    /// disk.
    ///
    /// # Errors
    /// As [`Ledger::append`] would say.
    pub async fn ready(&self) -> Result<(), LedgerError> {
        let (appender, now) = (Arc::clone(&self.appender), self.clock.now());
        let task = tokio::task::spawn_blocking(move || appender.prepare(now));
        task.await.map_err(|error| LedgerError::io("look at itself")(error.into()))?
    }

    /// Writes the entries as consecutive records of the one chain, and returns the last one's place.
    ///
    /// All or none of them are acknowledged. Dropping the future does not take back what waits to be written. It runs
    /// within a Tokio runtime that has a timer.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the disk does not take them, until it does; [`LedgerError::Busy`] when no turn
    /// came; [`LedgerError::Damaged`] when another writer's records do not continue the chain, or the last checkpoint does
    /// not hold; [`LedgerError::NoCheckpoint`] when none could be written for too long.
    pub async fn append(&self, mut entries: Vec<Entry>, durability: Durability) -> Result<Seq, LedgerError> {
        for entry in &mut entries {
            entry.sandbox = entry.sandbox.or(self.sandbox);
        }
        self.appender.append(Batch::of(&entries)?, durability).await.map(Seq)
    }

    /// Ends the attempts of dead processes, and then their marks.
    fn recover(
        &self,
        dead: &Dead<'_>,
        tell: impl FnOnce(&Recovery) -> std::io::Result<()>,
    ) -> Result<Recovery, LedgerError> {
        let (batch, mut recovery) = recover(&self.folder, dead, self.sandbox)?;
        tell(&recovery).map_err(LedgerError::io("hand on what dead processes left"))?;
        let has_notes = self.appender.writer().has_notes();
        if has_notes || !batch.is_empty() {
            self.write_through(&batch, "sync what it recovered")?;
        }
        for boot in dead.boots {
            boot.leave().map_err(LedgerError::io("remove the boot file of a dead process"))?;
        }
        recovery.torn_bytes = self.appender.writer().torn_bytes();
        Ok(recovery)
    }

    /// Writes records about the ledger itself on the caller's own thread. They are on the disk when this returns.
    pub(crate) fn write_through(&self, batch: &Batch, doing: &'static str) -> Result<(), LedgerError> {
        let now = self.clock.now();
        let written = self.appender.in_turn(|writer| writer.append(batch, now, Pace::Blocking))??;
        let written = written.ok_or(LedgerError::Busy { waited_ms: self.lock_wait_ms })?;
        self.synced.commit(&written.segment, written.end, For::Records).map_err(LedgerError::io(doing))?;
        self.appender.signing.wrote(written.seq);
        Ok(())
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
        self.appender.writer().is_closed = true;
        if let Some(line) = self.line.take() {
            self.appender.stop(line);
        }
        let synced = self.appender.syncer.stop();
        self.appender.signing.stop();
        synced?;
        if self.appender.open_attempts() != 0 {
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
        f.debug_struct("Ledger").field("boot", &self.id).finish_non_exhaustive()
    }
}
