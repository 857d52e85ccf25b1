//! The thread that signs checkpoints when they are due. No caller waits for it, and it may wait for other processes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::LedgerError;
use crate::schedule::{Schedule, State};

/// The thread and what it has to do.
pub(crate) struct Signing {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    wake: Condvar,
}

#[derive(Default)]
struct Work {
    /// The number of the last record that was written, and that with which the thread looks at checkpoints.
    written: u64,
    wake_at: u64,
    state: State,
    /// Who wants a checkpoint now.
    asking: Vec<oneshot::Sender<State>>,
    is_stopping: bool,
    is_gone: bool,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Signing {
    /// The last of `written` records is the last that there is.
    pub(crate) fn start(schedule: Schedule, written: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.work().written = written;
        let thread = std::thread::Builder::new().name("ledger-sign".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || run(&shared, schedule)
        })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Refuses when what is written now might never be signed.
    pub(crate) fn check(&self) -> Result<(), LedgerError> {
        let work = self.shared.work();
        if work.is_gone {
            return Err(LedgerError::io("sign checkpoints")(io::Error::other("the thread that signs is gone")));
        }
        work.state.refusal.clone().map_or(Ok(()), Err)
    }

    /// Why no checkpoint can be written, when that is so.
    pub(crate) fn failing(&self) -> Option<Arc<LedgerError>> {
        self.shared.work().state.failing.clone()
    }

    /// Asks for a checkpoint over all that was written, now.
    pub(crate) async fn sign_now(&self) -> State {
        self.ask().await.unwrap_or_else(|_| State::closed())
    }

    /// The same, for a thread that may wait.
    pub(crate) fn sign_now_blocking(&self) -> State {
        self.ask().blocking_recv().unwrap_or_else(|_| State::closed())
    }

    fn ask(&self) -> oneshot::Receiver<State> {
        let (sender, receiver) = oneshot::channel();
        let mut work = self.shared.work();
        if !work.is_gone {
            work.asking.push(sender);
        }
        self.shared.wake.notify_one();
        receiver
    }

    /// Says that there are so many records, which a checkpoint is to cover.
    pub(crate) fn wrote(&self, seq: u64) {
        let mut work = self.shared.work();
        let was_before = work.written < work.wake_at;
        work.written = seq.max(work.written);
        if was_before && work.written >= work.wake_at {
            self.shared.wake.notify_one();
        }
    }

    /// Signs a last one, and ends the thread.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.shared.work().is_stopping = true;
        self.shared.wake.notify_one();
        if thread.join().is_err() {
            tracing::error!("the thread that signs the ledger's checkpoints panicked");
        }
    }
}

fn run(shared: &Shared, mut schedule: Schedule) {
    /// Nobody may be promised anything by a thread that is gone.
    struct Farewell<'a>(&'a Shared);
    impl Drop for Farewell<'_> {
        fn drop(&mut self) {
            let mut work = self.0.work();
            work.is_gone = true;
            work.asking.clear();
        }
    }

    let _farewell = Farewell(shared);
    loop {
        let mut work = shared.work();
        work.wake_at = schedule.wake_at();
        let idle = |work: &mut Work| work.asking.is_empty() && !work.is_stopping && work.written < work.wake_at;
        let waited = shared.wake.wait_timeout_while(work, schedule.pause(), idle);
        let mut work = waited.unwrap_or_else(PoisonError::into_inner).0;
        let (written, is_stopping, asking) = (work.written, work.is_stopping, std::mem::take(&mut work.asking));
        drop(work);
        let is_asked = is_stopping || !asking.is_empty();
        let state = if is_asked { schedule.finish(written) } else { schedule.keep(written) };
        shared.work().state = state.clone();
        for asker in asking {
            // Whoever went away does not need its answer.
            let _ = asker.send(state.clone());
        }
        if is_stopping {
            return;
        }
    }
}
