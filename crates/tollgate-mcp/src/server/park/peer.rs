//! The client of a call that may wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tollgate_types::{
    BoxFuture, ClientCapabilities, ClientCapability, LogMessage, Peer, PeerError, PeerQuestion, Progress,
};

use super::Responses;
use crate::question;
use crate::server::live::Line;

/// Questions of one call that were put and are not yet among those that its client is shown.
const PUTS_MAX: usize = 16;

/// A question that was put.
#[derive(Debug)]
pub(in crate::server) struct Put {
    pub(super) key: String,
    pub(super) kind: ClientCapability,
    pub(super) params: Box<RawValue>,
    answer: oneshot::Sender<Box<RawValue>>,
}

impl Put {
    pub(super) fn is_taken_back(&self) -> bool {
        self.answer.is_closed()
    }

    pub(super) fn answer(self, answer: Box<RawValue>) {
        let _ = self.answer.send(answer);
    }
}

/// The client of a call that may wait for it.
#[derive(Debug)]
pub(in crate::server) struct ParkingPeer {
    client: ClientCapabilities,
    puts: mpsc::Sender<Put>,
    /// Answers that came before their questions.
    given: Mutex<Responses>,
    unnamed: AtomicU64,
    hears: Mutex<Hears>,
}

/// Who hears of the call, in the round that goes on.
#[derive(Debug, Default)]
struct Hears {
    progress: Progress,
    line: Option<Line>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ParkingPeer {
    /// A client that offers this, and gave these answers beforehand; and where its questions come.
    pub(in crate::server) fn new(client: ClientCapabilities, given: Responses) -> (Arc<Self>, mpsc::Receiver<Put>) {
        let (puts, received) = mpsc::channel(PUTS_MAX);
        let (given, unnamed, hears) = (Mutex::new(given), AtomicU64::new(0), Mutex::default());
        (Arc::new(Self { client, puts, given, unnamed, hears }), received)
    }

    /// From now on these hear of the call.
    pub(in crate::server) fn hear(&self, progress: Progress, line: Option<Line>) {
        *locked(&self.hears) = Hears { progress, line };
    }

    /// Where the call's progress goes: to whoever hears of it at the time.
    pub(in crate::server) fn progress(self: &Arc<Self>) -> Progress {
        let peer = Arc::clone(self);
        Progress::to(move |step| {
            let progress = locked(&peer.hears).progress.clone();
            progress.report(step);
        })
    }

    fn given(&self, key: &str, kind: ClientCapability) -> Option<Box<RawValue>> {
        locked(&self.given).remove(key).filter(|answer| question::misfit(kind, answer).is_none())
    }

    async fn put(&self, question: PeerQuestion) -> Result<Box<RawValue>, PeerError> {
        let PeerQuestion { kind, key, params } = question;
        if !question::is_offered(self.client, kind, &params) {
            return Err(PeerError::Lacks(kind));
        }
        let key =
            key.unwrap_or_else(|| format!("{}-{}", kind.as_str(), self.unnamed.fetch_add(1, Ordering::Relaxed) + 1));
        if let Some(answer) = self.given(&key, kind) {
            return Ok(answer);
        }
        let (answer, heard) = oneshot::channel();
        self.puts.send(Put { key, kind, params, answer }).await.map_err(|_| PeerError::Unanswered)?;
        heard.await.map_err(|_| PeerError::Unanswered)
    }
}

impl Peer for ParkingPeer {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        Box::pin(self.put(question))
    }

    fn log(&self, message: LogMessage) {
        if let Some(line) = &locked(&self.hears).line {
            line.log(&message);
        }
    }
}
