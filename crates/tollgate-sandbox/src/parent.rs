//! The thread that starts every process. The kernel ties a program's life to the *thread* that started it (prctl(2),
//! `PR_SET_PDEATHSIG`), and the threads of a runtime come and go; this one lives as long as the process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// Programs that wait to be started.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

static PARENT: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();

/// Runs `start` on the thread that lives as long as the process, within the runtime of the caller.
pub(crate) async fn start<T: Send + 'static>(start: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let lost = || io::Error::other("the thread that starts programs is not there");
    let parent = PARENT.get_or_init(open).as_ref().ok_or_else(lost)?;
    let (answer, started) = oneshot::channel();
    let runtime = Handle::current();
    let job = move || {
        // When nobody waits any more, what was started is dropped, and so stopped, within its runtime.
        let _within = runtime.enter();
        let _ = answer.send(start());
    };
    parent.send(Box::new(job)).await.map_err(|_| lost())?;
    started.await.map_err(|_| lost())?
}

fn open() -> Option<mpsc::Sender<Job>> {
    let (sender, mut jobs) = mpsc::channel::<Job>(WAITING_MAX);
    let run = move || {
        while let Some(job) = jobs.blocking_recv() {
            // INVARIANT: the thread survives every job, for with it would die every program it started.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    };
    thread::Builder::new().name("tollgate-parent".to_owned()).spawn(run).ok().map(|_| sender)
}
