//! A [`Session`] over a pair of byte streams: one message a line. Reads, runs calls side by side, and writes; nothing
//! but protocol goes out. All of it ends with the one future that [`serve_stdio`] returns.

pub(crate) mod progress;

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::timeout;
use tollgate_types::{Caller, CancellationToken, Door, limits};

use crate::jsonrpc::frame::{Frame, Frames, Messages, Source};
use crate::jsonrpc::{self, Id, RpcError};
use crate::server::news::List;
use crate::server::{Action, Answer, Request, Session};

/// Requests that wait for a place. Beyond it nothing more is read.
const WAITING_REQUESTS_MAX: usize = 64;
/// Lines that wait for the client to read.
const WRITE_QUEUE_LINES_MAX: usize = 64;
/// Questions of one connection that stand until the client takes them back.
const LISTENING_MAX: usize = 16;
/// How long running calls may go on, and then their answers be written, after the client closed its end.
const DRAIN: Duration = Duration::from_secs(5);

/// Why a connection did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The input failed.
    #[error("could not read from the client")]
    Read(#[source] io::Error),
    /// The output failed, other than by being closed.
    #[error("could not write to the client")]
    Write(#[source] io::Error),
    /// The last answers found no reader in time.
    #[error("the client did not read the last answers within {} s", DRAIN.as_secs())]
    Stalled,
}

/// Serves one client until it closes its end: the input (running calls then get five seconds, and their answers are
/// written) or the output (running calls are cancelled).
///
/// `caller` is whoever the client acts for; its session should be fresh for each connection. Over a process's real
/// standard input, end the process after this returns: a read of it can not be taken back.
///
/// # Errors
/// When a stream fails. A client that goes away is no error.
pub async fn serve_stdio(
    door: Arc<dyn Door>,
    caller: Caller,
    session: impl Into<Session>,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send,
) -> Result<(), ServeError> {
    let (out, queue) = mpsc::channel(WRITE_QUEUE_LINES_MAX);
    let connection = Connection::new(session.into(), door, caller, out);
    let mut writing = pin!(write(output, queue));
    let read = tokio::select! {
        read = connection.serve(Frames::new(input, limits::FRAME_BYTES_MAX)) => read,
        written = &mut writing => return ended_by_reader(written),
    };
    match timeout(DRAIN, writing).await {
        Ok(written) => ended_by_reader(written).and(read),
        Err(_) => Err(ServeError::Stalled),
    }
}

/// The same over a transport that carries whole messages: `input` until it ends or `stop`, and the answers to `out`.
/// Whoever drops the other end of `out` cancels what is under way.
pub(crate) async fn serve_messages(
    session: Session,
    door: Arc<dyn Door>,
    caller: Caller,
    input: mpsc::Receiver<Vec<u8>>,
    out: mpsc::Sender<Vec<u8>>,
    stop: CancellationToken,
) {
    let connection = Connection::new(session, door, caller, out.clone());
    tokio::select! {
        // Messages do not fail to be read.
        _ = connection.serve(Messages::new(input, limits::FRAME_BYTES_MAX, stop)) => {}
        () = out.closed() => {}
    }
}

/// A closed output is how a client may say goodbye.
fn ended_by_reader(written: io::Result<()>) -> Result<(), ServeError> {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, WriteZero};
    match written {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | WriteZero) => Ok(()),
        written => written.map_err(ServeError::Write),
    }
}

/// Writes line after line until nobody can send any more.
async fn write(output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    let mut lines = Vec::with_capacity(WRITE_QUEUE_LINES_MAX);
    while queue.recv_many(&mut lines, WRITE_QUEUE_LINES_MAX).await > 0 {
        for mut line in lines.drain(..) {
            line.push(b'\n');
            output.write_all(&line).await?;
        }
        output.flush().await?;
    }
    output.shutdown().await
}

struct Connection {
    session: Session,
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
    out: mpsc::Sender<Vec<u8>>,
    waiting: VecDeque<Request>,
    running: JoinSet<Answer>,
    /// INVARIANT: exactly the running requests that must still be answered. A cancelled one is in `running` until its
    /// future is dropped, but no longer here.
    under_way: Vec<UnderWay>,
    /// Tells what changes, once the client shook hands.
    telling: JoinSet<()>,
    /// Ends the questions that stand until the client takes them back.
    closing: CancellationToken,
}

struct UnderWay {
    id: Id,
    task: AbortHandle,
    is_listening: bool,
}

impl Connection {
    fn new(session: Session, door: Arc<dyn Door>, caller: Caller, out: mpsc::Sender<Vec<u8>>) -> Self {
        let (caller, waiting, closing) = (Arc::new(caller), VecDeque::new(), CancellationToken::new());
        let (running, telling) = (JoinSet::new(), JoinSet::new());
        Self { session, door, caller, out, waiting, running, under_way: Vec::new(), telling, closing }
    }

    async fn serve(mut self, mut frames: impl Source) -> Result<(), ServeError> {
        let ended = loop {
            self.start_waiting();
            tokio::select! {
                frame = frames.next(), if self.waiting.len() < WAITING_REQUESTS_MAX => match frame {
                    Ok(Some(frame)) => self.take(frame).await,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(ServeError::Read(error)),
                },
                Some(ended) = self.running.join_next_with_id() => self.finish(ended).await,
            }
        };
        self.drain().await;
        ended
    }

    async fn take(&mut self, frame: Frame<'_>) {
        let action = match frame {
            Frame::Line(line) => self.session.receive(line),
            Frame::TooLong(head) => Action::Reply(self.session.refuse_too_long(head)),
        };
        match action {
            Action::Ignore => {}
            Action::Reply(line) => self.send(line).await,
            Action::Run(request) if self.is_taken(request.id()) => {
                let error = RpcError::invalid_request("a request of this id is still under way");
                self.send(jsonrpc::failure(Some(request.id()), &error)).await;
            }
            Action::Run(request) if request.is_listening() => self.listen(request).await,
            Action::Run(request) => self.waiting.push_back(request),
            Action::Cancel(id) => self.cancel(&id),
        }
        if self.telling.is_empty() {
            self.begin_telling();
        }
    }

    fn begin_telling(&mut self) {
        let Some(news) = self.session.news().map(Arc::clone) else { return };
        let (door, caller, out) = (Arc::clone(&self.door), Arc::clone(&self.caller), self.out.downgrade());
        self.telling.spawn(async move {
            match news.begin(&door, &caller) {
                Some(follower) => follower.tell(&List::ALL, None, &out).await,
                None => std::future::pending().await,
            }
        });
    }

    /// Begins with a question that stands until the client takes it back: it takes no other's place.
    async fn listen(&mut self, request: Request) {
        if self.listening() >= LISTENING_MAX {
            let error = RpcError::too_many(format_args!("{LISTENING_MAX} questions are listened to"));
            return self.send(jsonrpc::failure(Some(request.id()), &error)).await;
        }
        let id = request.id().clone();
        let (door, caller, out) = (Arc::clone(&self.door), Arc::clone(&self.caller), self.out.downgrade());
        let task = self.running.spawn(request.listen(door, caller, out, self.closing.clone()));
        self.under_way.push(UnderWay { id, task, is_listening: true });
    }

    fn listening(&self) -> usize {
        self.under_way.iter().filter(|running| running.is_listening).count()
    }

    /// A failed send means that the output is closed, and then the whole connection is about to be dropped.
    async fn send(&self, line: Vec<u8>) {
        let _ = self.out.send(line).await;
    }

    fn is_taken(&self, id: &Id) -> bool {
        self.under_way.iter().any(|running| running.id == *id) || self.waiting.iter().any(|request| request.id() == id)
    }

    fn start_waiting(&mut self) {
        while self.running.len().saturating_sub(self.listening()) < limits::STDIO_IN_FLIGHT_MAX {
            let Some(request) = self.waiting.pop_front() else { return };
            let id = request.id().clone();
            let (door, caller, out) = (Arc::clone(&self.door), Arc::clone(&self.caller), self.out.clone());
            let task = self.running.spawn(progress::answer(request, door, caller, out));
            self.under_way.push(UnderWay { id, task, is_listening: false });
        }
    }

    fn cancel(&mut self, id: &Id) {
        self.waiting.retain(|request| request.id() != id);
        if let Some(at) = self.under_way.iter().position(|running| running.id == *id) {
            self.under_way.swap_remove(at).task.abort();
        }
    }

    async fn finish(&mut self, ended: Result<(tokio::task::Id, Answer), JoinError>) {
        let task = ended.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let Some(at) = self.under_way.iter().position(|running| running.task.id() == task) else { return };
        let UnderWay { id, .. } = self.under_way.swap_remove(at);
        let line = match ended {
            Ok((_, answer)) => answer.text,
            Err(error) => {
                tracing::error!(%error, "a request ended without an answer");
                jsonrpc::failure(Some(&id), &RpcError::internal("the request ended without an answer"))
            }
        };
        self.send(line).await;
    }

    /// Lets what was accepted come to its end. Whatever takes too long is cancelled, and told so.
    async fn drain(&mut self) {
        self.telling.abort_all();
        self.closing.cancel();
        let drained = timeout(DRAIN, async {
            loop {
                self.start_waiting();
                let Some(ended) = self.running.join_next_with_id().await else { return };
                self.finish(ended).await;
            }
        });
        if drained.await.is_ok() {
            return;
        }
        self.running.abort_all();
        let error = RpcError::internal("cancelled, because the client closed its end");
        let running = self.under_way.iter().map(|running| &running.id);
        for id in running.chain(self.waiting.iter().map(Request::id)) {
            let _ = self.out.try_send(jsonrpc::failure(Some(id), &error));
        }
    }
}
