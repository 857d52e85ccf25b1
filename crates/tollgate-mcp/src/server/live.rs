//! A client of the handshake era, which can be asked while its request is under way: our questions go out beside the
//! answers, and come back as messages of their own on the connection or in the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tollgate_types::{BoxFuture, ClientCapabilities, LogLevel, LogMessage, Peer, PeerError, PeerQuestion, limits};

use crate::jsonrpc::{self, Id};
use crate::question;

/// Questions of one connection or session that wait for their answers.
const QUESTIONS_MAX: usize = 64;
/// An error's text that is kept.
const ERROR_CHARS_MAX: usize = 2_000;
const WAIT: Duration = Duration::from_millis(limits::CLIENT_ANSWER_TIMEOUT_MS);

type Answer = Result<Box<RawValue>, PeerError>;

/// The questions of one connection or session that are under way. Ids are ours; an answer to none of them changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    issued: u64,
    waiting: HashMap<String, oneshot::Sender<Answer>>,
}

impl Asked {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Option<(Id, oneshot::Receiver<Answer>)> {
        let mut table = self.table();
        if table.waiting.len() >= QUESTIONS_MAX {
            return None;
        }
        table.issued += 1;
        let id = format!("tollgate-{}", table.issued);
        let (heard, answer) = oneshot::channel();
        table.waiting.insert(id.clone(), heard);
        Some((Id::Text(id), answer))
    }

    /// Hands an answer to whoever waits for it.
    pub(crate) fn settle(&self, id: &Id, answer: Result<&RawValue, &RawValue>) {
        let Some(waiting) = self.table().waiting.remove(id.as_str()) else { return };
        let _ = waiting.send(answer.map(ToOwned::to_owned).map_err(refused));
    }
}

fn refused(error: &RawValue) -> PeerError {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Failure {
        code: i64,
        message: String,
    }
    let Failure { code, message } = serde_json::from_str(error.get()).unwrap_or_default();
    PeerError::Refused { code, message: message.chars().take(ERROR_CHARS_MAX).collect() }
}

/// The way to a client beside the answer of its request. It does not keep the way open.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) out: mpsc::WeakSender<Vec<u8>>,
    /// What the client wants to hear of.
    pub(crate) logs: Option<LogLevel>,
}

impl Line {
    /// Tells, unless the client did not ask for it or does not read.
    pub(crate) fn log(&self, message: &LogMessage) {
        if self.logs.is_some_and(|least| message.level >= least)
            && let Some(out) = self.out.upgrade()
        {
            let _ = out.try_send(jsonrpc::notification("notifications/message", message));
        }
    }
}

/// The client of one request.
#[derive(Debug)]
pub(crate) struct LivePeer {
    pub(crate) line: Line,
    pub(crate) asked: Arc<Asked>,
    pub(crate) client: ClientCapabilities,
}

impl LivePeer {
    async fn put(&self, question: PeerQuestion) -> Answer {
        let PeerQuestion { kind, params, .. } = question;
        if !question::is_offered(self.client, kind, &params) {
            return Err(PeerError::Lacks(kind));
        }
        let out = self.line.out.upgrade().ok_or(PeerError::Unanswered)?;
        let (id, answer) = self.asked.open().ok_or(PeerError::Unanswered)?;
        let mut standing = Standing { peer: self, id: &id, is_sent: false };
        let sent = out.send(jsonrpc::request(&id, question::method(kind), &params)).await;
        // The way stays open only as long as the request that it belongs to.
        drop(out);
        sent.map_err(|_| PeerError::Unanswered)?;
        standing.is_sent = true;
        let answer = timeout(WAIT, answer).await.ok().and_then(Result::ok).ok_or(PeerError::Unanswered)?;
        standing.is_sent = false;
        let answer = answer?;
        match question::misfit(kind, &answer) {
            None => Ok(answer),
            Some(why) => Err(PeerError::Refused { code: -32602, message: format!("its answer is none: {why}") }),
        }
    }
}

impl Peer for LivePeer {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        Box::pin(self.put(question))
    }

    fn log(&self, message: LogMessage) {
        self.line.log(&message);
    }
}

/// A question that somebody waits for.
struct Standing<'a> {
    peer: &'a LivePeer,
    id: &'a Id,
    is_sent: bool,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.peer.asked.table().waiting.remove(self.id.as_str());
        if self.is_sent
            && let Some(out) = self.peer.line.out.upgrade()
        {
            let params = serde_json::json!({ "requestId": self.id, "reason": "nobody waits for the answer any more" });
            let _ = out.try_send(jsonrpc::notification("notifications/cancelled", params));
        }
    }
}
