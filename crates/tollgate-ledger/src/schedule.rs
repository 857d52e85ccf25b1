//! When a checkpoint is signed, and what follows when none can be: first it is said, then no record is taken any more.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tollgate_types::Clock;

use crate::LedgerError;
use crate::notary::{Notary, Signed, Why};

/// Between two tries while none succeeds.
const RETRY: Duration = Duration::from_secs(1);
/// How often it is signed at once, when so many records are left.
const LAST_SIGNS_MAX: usize = 10;

/// How often checkpoints are signed.
#[derive(Debug, Clone, Copy)]
pub struct Checkpointing {
    /// A record is covered within this time.
    pub every_ms: u64,
    /// Or as soon as so many are not.
    pub every_records: u64,
    /// While nothing happens, it is signed this often that nothing did.
    pub idle_ms: u64,
    /// How long records are taken while no checkpoint can be written.
    pub lag_ms: u64,
}

impl Default for Checkpointing {
    fn default() -> Self {
        use tollgate_types::limits;
        Self {
            every_ms: limits::CHECKPOINT_MS,
            every_records: limits::CHECKPOINT_RECORDS,
            idle_ms: limits::CHECKPOINT_IDLE_MS,
            lag_ms: limits::CHECKPOINT_LAG_MS,
        }
    }
}

/// Whether checkpoints are signed as they should be.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Why the last try failed, if it did.
    pub(crate) failing: Option<Arc<LedgerError>>,
    /// Why no record may be taken.
    pub(crate) refusal: Option<LedgerError>,
}

impl State {
    /// There is nobody who would sign.
    pub(crate) fn closed() -> Self {
        Self { failing: Some(Arc::new(LedgerError::Closed)), refusal: None }
    }
}

/// A notary and its times.
pub(crate) struct Schedule {
    notary: Notary,
    clock: Arc<dyn Clock>,
    times: Checkpointing,
    /// Records that are covered.
    signed: u64,
    is_behind: bool,
    /// Since when there have been records that are not covered.
    owed_since: Option<Duration>,
    last: Duration,
    /// Since when, and when the last try was.
    failing: Option<(Duration, Duration)>,
    state: State,
}

impl Schedule {
    pub(crate) fn new(notary: Notary, signed: u64, clock: Arc<dyn Clock>, times: Checkpointing) -> Self {
        let last = clock.monotonic();
        let (is_behind, owed_since, failing, state) = (false, None, None, State::default());
        Self { notary, clock, times, signed, is_behind, owed_since, last, failing, state }
    }

    /// How long nothing is due, if nothing is written meanwhile.
    pub(crate) fn pause(&self) -> Duration {
        let due = match (self.failing, self.owed_since) {
            (Some((_, last_try)), _) => last_try + RETRY,
            (None, _) if self.is_behind => Duration::ZERO,
            (None, Some(since)) => since + Duration::from_millis(self.times.every_ms),
            (None, None) => self.last + Duration::from_millis(self.times.idle_ms),
        };
        due.saturating_sub(self.clock.monotonic())
    }

    /// The record with which a look is due before the pause is over.
    pub(crate) fn wake_at(&self) -> u64 {
        let open = match (self.failing, self.owed_since) {
            (Some(_), _) => return u64::MAX,
            (None, None) => 1,
            (None, Some(_)) => self.times.every_records,
        };
        self.signed.saturating_add(open)
    }

    /// Signs what is due, after all of `written` records were synced, and says how that goes.
    pub(crate) fn keep(&mut self, written: u64) -> State {
        let now = self.clock.monotonic();
        let open = written.saturating_sub(self.signed);
        if open > 0 {
            self.owed_since.get_or_insert(now);
        }
        let is_full = open >= self.times.every_records && self.failing.is_none();
        if is_full || self.pause().is_zero() {
            let period = SignedDuration::from_millis(self.times.idle_ms.try_into().unwrap_or(i64::MAX));
            let why = if self.owed_since.is_some() || self.is_behind { Why::Records } else { Why::Idle(period) };
            match self.notary.sign(why) {
                Ok(signed) => self.succeeded(signed, now),
                Err(error) => self.failed(error, now),
            }
        }
        self.state.clone()
    }

    /// Signs at once, as at the end of a process.
    pub(crate) fn finish(&mut self, written: u64) -> State {
        for _ in 0..LAST_SIGNS_MAX {
            if written <= self.signed {
                break;
            }
            let now = self.clock.monotonic();
            match self.notary.sign(Why::Records) {
                Ok(signed) => self.succeeded(signed, now),
                Err(error) => {
                    self.failed(error, now);
                    break;
                }
            }
        }
        self.state.clone()
    }

    fn succeeded(&mut self, Signed { size, is_behind }: Signed, now: Duration) {
        if self.failing.take().is_some() {
            tracing::info!("the ledger's checkpoints are written again");
        }
        (self.signed, self.is_behind, self.last) = (size, is_behind, now);
        (self.owed_since, self.state) = (None, State::default());
    }

    fn failed(&mut self, error: LedgerError, now: Duration) {
        tracing::error!("no checkpoint of the ledger: {error}");
        let (since, _) = *self.failing.get_or_insert((now, now));
        self.failing = Some((since, now));
        let error = Arc::new(error);
        let failing_ms = now.saturating_sub(since).as_millis().try_into().unwrap_or(u64::MAX);
        self.state.refusal = match &*error {
            LedgerError::Damaged { .. } | LedgerError::Later { .. } => Some((*error).clone()),
            _ if failing_ms >= self.times.lag_ms => {
                Some(LedgerError::NoCheckpoint { failing_ms, cause: Arc::clone(&error) })
            }
            _ => None,
        };
        self.state.failing = Some(error);
    }
}
