//! A server that is a program: one message a line on its standard input and output. Whatever else it prints is counted
//! and kept for diagnosis; it costs nobody an answer.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_sandbox::{Child, ChildPipes, Spawn};
use tollgate_types::CancellationToken;

use super::config::Limits;
use super::fault::Fault;
use super::heard::Heard;
use super::hearing::{Listener, Question};
use super::message::{self, Ask, Incoming};
use super::pending::{Pending, Settled};
use super::traces::Traces;
use crate::jsonrpc::Id;
use crate::jsonrpc::frame::{Frame, Frames};
use crate::server::Revision;

/// Lines that wait for the server to read.
const WRITE_QUEUE_LINES_MAX: usize = 64;
/// Lines that are no message before a server is given up: it speaks something else.
const NOISE_LINES_MAX: usize = 10_000;
/// How many times as long as a message may be a line may be before a server is given up: it has no end that we would see.
const LINE_TIMES_MAX: usize = 64;
/// What is read of standard error at once.
const STDERR_READ_BYTES: usize = 4 * 1024;
/// The code of a question that cannot be put to anybody.
const INTERNAL_ERROR: i64 = -32603;
/// For the last words of a program that has ended.
const LAST_WORDS_MS: u64 = 100;

/// The connection. [`Driver`] does its work.
#[derive(Debug)]
pub(super) struct StdioLink {
    pub(super) shared: Arc<Shared>,
    pub(super) close: CancellationToken,
}

/// What asking and reading have in common, over whatever carries one message after the other both ways.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) pending: Pending,
    out: mpsc::Sender<Vec<u8>>,
    pub(super) traces: Arc<Traces>,
    heard: Arc<Heard>,
}

/// Reads, writes and watches until the connection ends, and stops the program with all its descendants. Says why it
/// ended, unless we ended it. Dropping it kills them.
pub(super) type Driver = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Starts the program.
pub(super) async fn open(
    spawn: Spawn,
    limits: Limits,
    traces: Arc<Traces>,
    heard: Arc<Heard>,
) -> Result<(StdioLink, Driver), Fault> {
    let (child, pipes) = tollgate_sandbox::spawn(spawn).await.map_err(|error| Fault::Unreachable(error.to_string()))?;
    let (link, queue) = StdioLink::new(traces, heard);
    let driver = drive(child, pipes, queue, Arc::clone(&link.shared), limits, link.close.clone());
    Ok((link, Box::pin(driver)))
}

impl StdioLink {
    /// A connection, and the messages that its driver has to carry.
    pub(super) fn new(traces: Arc<Traces>, heard: Arc<Heard>) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (out, queue) = mpsc::channel(WRITE_QUEUE_LINES_MAX);
        let shared = Arc::new(Shared { pending: Pending::default(), out, traces, heard });
        (Self { shared, close: CancellationToken::new() }, queue)
    }

    /// Asks and waits, however long it takes. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn ask(
        &self,
        ask: Ask<'_>,
        agreed: Option<Revision>,
        listener: Listener,
    ) -> Result<Box<RawValue>, Fault> {
        let ticket = self.shared.pending.open(ask, listener.clone())?;
        let line = message::request(&ticket.id, ticket.number, ask, agreed, &listener);
        let mut waiting = Waiting { shared: &self.shared, id: &ticket.id, is_sent: false, is_cancellable: true };
        // The handshake must not be cancelled (MCP, Cancellation), and an unanswered probe says enough.
        waiting.is_cancellable = !matches!(ask, Ask::Initialize { .. } | Ask::Discover);
        let gone = || Fault::Closed("the server is not there any more".to_owned());
        self.shared.out.send(line).await.map_err(|_| gone())?;
        waiting.is_sent = true;
        let answer = ticket.answer.await.unwrap_or_else(|_| Err(gone()));
        waiting.is_sent = false;
        answer?.map_err(Fault::Rpc)
    }

    pub(super) async fn tell(&self, line: &[u8]) -> Result<(), Fault> {
        let sent = self.shared.out.send(line.to_vec()).await;
        sent.map_err(|_| Fault::Closed("the server is not there any more".to_owned()))
    }

    pub(super) fn discovered_late(&self) -> bool {
        self.shared.pending.discovered_late()
    }

    pub(super) fn close(&self) {
        self.close.cancel();
    }
}

/// A question that somebody waits for.
struct Waiting<'a> {
    shared: &'a Shared,
    id: &'a str,
    is_sent: bool,
    is_cancellable: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.pending.forget(self.id);
        if self.is_sent && self.is_cancellable {
            // A server that does not read does not read this either.
            let _ = self.shared.out.try_send(message::cancelled(self.id));
        }
    }
}

async fn drive(
    child: Child,
    pipes: ChildPipes,
    queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    limits: Limits,
    close: CancellationToken,
) -> Option<String> {
    let ChildPipes { stdin, stdout, stderr } = pipes;
    let mut errors = pin!(read_errors(stderr, &shared.traces));
    let mut is_silent = false;
    let why = {
        let mut reading = pin!(read_messages(stdout, &shared, limits.response_bytes_max));
        let mut writing = pin!(write_lines(stdin, queue));
        loop {
            tokio::select! {
                why = &mut reading => break Some(why),
                why = &mut writing => break Some(why),
                () = &mut errors, if !is_silent => is_silent = true,
                () = close.cancelled() => break None,
            }
        }
        // Its input is closed here: a server that is well ends now.
    };
    shared.pending.close(why.as_deref().unwrap_or("the server was stopped"));
    let stopping = child.stop(limits.stop);
    let status = if is_silent {
        stopping.await
    } else {
        let last_words = async {
            let mut stopping = pin!(stopping);
            tokio::select! {
                status = &mut stopping => {
                    let _ = timeout(Duration::from_millis(LAST_WORDS_MS), &mut errors).await;
                    status
                }
                () = &mut errors => stopping.await,
            }
        };
        last_words.await
    };
    let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
    why.map(|why| format!("{why}{status}"))
}

async fn read_messages(stdout: impl AsyncRead + Unpin, shared: &Shared, line_bytes_max: usize) -> String {
    let skipped_bytes_max = line_bytes_max.saturating_mul(LINE_TIMES_MAX);
    let mut frames = Frames::new(stdout, line_bytes_max).skipping(skipped_bytes_max);
    let mut noise = 0;
    loop {
        match frames.next_line().await {
            Ok(Some(Frame::Line(line))) if line.trim_ascii().is_empty() => {}
            Ok(Some(Frame::Line(line))) => noise += usize::from(!shared.read(line)),
            Ok(Some(Frame::TooLong(head))) => {
                shared.traces.too_long();
                noise += 1;
                if let Some(id) = id_of(head) {
                    shared.pending.settle(&id, Err(Fault::TooLarge { limit_bytes: line_bytes_max }));
                }
            }
            Ok(None) => return "the server closed its output".to_owned(),
            Err(error) => return format!("reading from the server failed: {error}"),
        }
        if noise > NOISE_LINES_MAX {
            return format!("the server printed {noise} lines that are no message");
        }
    }
}

/// The id of a message, as far as its head says it.
pub(super) fn id_of(head: &[u8]) -> Option<String> {
    serde_json::to_string(&Id::salvage(head)?).ok()
}

async fn write_lines(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) -> String {
    while let Some(mut line) = queue.recv().await {
        line.push(b'\n');
        if let Err(error) = stdin.write_all(&line).await {
            return format!("writing to the server failed: {error}");
        }
    }
    "nobody asks any more".to_owned()
}

async fn read_errors(mut stderr: impl AsyncRead + Unpin, traces: &Traces) {
    let mut buffer = vec![0; STDERR_READ_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        traces.stderr(buffer.get(..count).unwrap_or_default()).await;
    }
}

impl Shared {
    /// Takes what is meant to be a message. Says whether it is one.
    pub(super) fn read(&self, frame: &[u8]) -> bool {
        match message::read(frame) {
            Some(message) => self.take(message),
            None => {
                self.traces.line(frame);
                return false;
            }
        }
        true
    }

    fn take(&self, message: Incoming<'_>) {
        match message {
            Incoming::Response { id, answer } => match self.pending.settle(id, Ok(answer)) {
                Settled::Taken => {}
                Settled::Stale => self.traces.stale_answer(),
                Settled::Unknown => self.traces.unknown_id(),
            },
            Incoming::Notification { method, params } => match &*method {
                "notifications/progress" => self.pending.progress(params),
                message::ACKNOWLEDGED => self.pending.acknowledged(params),
                "notifications/message" => self.pending.ear().iter().for_each(|ear| ear.log(params)),
                _ => self.heard.take(&method, params),
            },
            // A server that asks faster than it reads goes without answers.
            Incoming::Request { id, method, params } => {
                if let Err(refusal) = self.asked(id, &method, params) {
                    let _ = self.out.try_send(refusal);
                }
            }
        }
    }

    /// Hands a question to whoever hears for the call that it belongs to.
    fn asked(&self, id: &str, method: &str, params: Option<&RawValue>) -> Result<(), Vec<u8>> {
        let question = Question::read(id, method, params).ok_or_else(|| message::reply(id, method))?;
        let refused = |why| message::refusal(id, INTERNAL_ERROR, why);
        let ear = self.pending.ear().ok_or_else(|| refused("nobody can say on which call's behalf it is asked"))?;
        ear.put(question).map_err(refused)
    }
}
