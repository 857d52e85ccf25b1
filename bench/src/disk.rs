//! What the disk itself takes: for the two syncs of a strict call, and for the syncs of many callers.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A file that is appended to and synced, as the ledger does it.
pub(crate) struct Bare(File);

/// About what a strict call writes each time, in bytes.
const RECORD_BYTES: usize = 900;

impl Bare {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        Ok(Self(File::options().append(true).create(true).open(folder.join("bare"))?))
    }

    /// Write, fdatasync.
    pub(crate) fn append(&mut self) -> io::Result<()> {
        self.0.write_all(&[b'x'; RECORD_BYTES])?;
        self.0.sync_data()
    }

    /// Twice.
    pub(crate) fn pair(&mut self) -> io::Result<()> {
        self.append()?;
        self.append()
    }
}

/// A bare group commit: one thread takes what callers wait with, writes all of it at once, syncs once, and answers all.
pub(crate) struct Group {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    bytes: Arc<[u8]>,
    answer: oneshot::Sender<io::Result<()>>,
}

impl Group {
    /// For so many callers at a time.
    pub(crate) fn new(folder: &Path, callers: usize) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(folder.join("group"))?;
        let (jobs, queue) = sync_channel(callers);
        let thread = std::thread::Builder::new().spawn(move || commit(file, &queue))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Returns when the bytes are on the disk.
    pub(crate) async fn append(self: Arc<Self>, bytes: Arc<[u8]>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (answer, answered) = oneshot::channel();
        self.jobs.as_ref().ok_or("it is closed")?.try_send(Job { bytes, answer })?;
        Ok(answered.await??)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn commit(mut file: File, queue: &Receiver<Job>) {
    let mut buffer = Vec::new();
    while let Ok(first) = queue.recv() {
        let jobs: Vec<Job> = std::iter::once(first).chain(queue.try_iter()).collect();
        buffer.clear();
        jobs.iter().for_each(|job| buffer.extend_from_slice(&job.bytes));
        let done = file.write_all(&buffer).and_then(|()| file.sync_data()).map_err(|error| error.kind());
        for job in jobs {
            let _ = job.answer.send(done.map_err(io::Error::from));
        }
    }
}
