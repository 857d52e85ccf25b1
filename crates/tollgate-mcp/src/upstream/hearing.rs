//! What a server says while it works on a call: steps of progress, what happens, and questions to the client that the call
//! is for.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tollgate_types::{
    Caller, ClientCapabilities, ClientCapability, Cx, LogMessage, Peer, PeerError, PeerQuestion, Progress,
};

use super::client;
use super::fault::Fault;
use super::link::Link;
use super::message::{self, Ask};
use super::rounds::Retry;
use crate::question;

/// Questions of one call that were not looked at yet.
const QUESTIONS_MAX: usize = 16;
/// What a person's no, or the house's, is in the answer to a server (MCP 2025-11-25, Sampling: error handling).
const REJECTED: i64 = -1;
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL: i64 = -32603;

/// A question of a server.
#[derive(Debug)]
pub(super) struct Question {
    /// Its id as raw JSON.
    id: String,
    kind: ClientCapability,
    params: Box<RawValue>,
}

impl Question {
    /// The question that a request is, if it is one.
    pub(super) fn read(id: &str, method: &str, params: Option<&RawValue>) -> Option<Self> {
        let kind = question::kind(method)?;
        let params = params.map_or_else(|| client::nothing().to_owned(), ToOwned::to_owned);
        Some(Self { id: id.to_owned(), kind, params })
    }
}

/// Who hears what a server says on behalf of one call.
#[derive(Debug, Clone)]
pub(super) struct Ear {
    /// Whom the call is for.
    pub(super) caller: Arc<Caller>,
    peer: Option<Arc<dyn Peer>>,
    questions: mpsc::Sender<Question>,
}

impl Ear {
    /// Hands a question on. One too many is not heard.
    pub(super) fn put(&self, question: Question) -> Result<(), &'static str> {
        self.questions.try_send(question).map_err(|_| "it asks faster than anybody answers")
    }

    /// Hands on what happens.
    pub(super) fn log(&self, params: Option<&RawValue>) {
        let message = params.and_then(|raw| serde_json::from_str::<LogMessage>(raw.get()).ok());
        if let Some((peer, message)) = self.peer.as_ref().zip(message) {
            peer.log(message);
        }
    }
}

/// Hears once what a server agrees to tell.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledge(Arc<Mutex<Option<oneshot::Sender<Granted>>>>);

/// The resources of which a server agrees to tell; nothing where it does not say which.
pub(super) type Granted = Option<Vec<String>>;

impl Acknowledge {
    pub(super) fn new() -> (Self, oneshot::Receiver<Granted>) {
        let (sender, said) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), said)
    }

    /// Takes the notification (MCP 2026-07-28, Subscriptions: acknowledgment).
    pub(super) fn say(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Acknowledged {
            notifications: Notifications,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Notifications {
            #[serde(default)]
            resource_subscriptions: Option<Vec<String>>,
        }
        let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let said = params.and_then(|raw| serde_json::from_str::<Acknowledged>(raw.get()).ok());
        let _ = sender.send(said.map(|said| said.notifications.resource_subscriptions.unwrap_or_default()));
    }
}

/// Who hears what a server says before its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener {
    pub(super) progress: Progress,
    pub(super) ear: Option<Ear>,
    /// What the client offers, where there is one.
    pub(super) client: Option<ClientCapabilities>,
    /// What the server agrees to, where it is listened to.
    pub(super) acknowledge: Acknowledge,
    /// What is given back of an earlier round.
    pub(super) retry: Arc<Retry>,
}

/// Asks a server on behalf of a call, and lets it ask the call's client meanwhile. While the client is asked the server's
/// time does not pass. Dropping the future takes the question back.
pub(super) async fn ask(
    link: &Link,
    ask: Ask<'_>,
    server: &str,
    cx: &Cx,
    retry: Arc<Retry>,
) -> Result<Box<RawValue>, Fault> {
    let (questions, mut asked) = mpsc::channel(QUESTIONS_MAX);
    let ear = Ear { caller: Arc::clone(&cx.caller), peer: cx.peer.clone(), questions };
    let client = cx.peer.as_ref().map(|_| link.asks().of(cx.client));
    let listener = Listener { progress: cx.progress.clone(), ear: Some(ear), client, retry, ..Listener::default() };
    let mut answer = pin!(link.ask_heard(ask, listener));
    let (mut answering, mut open) = (FuturesUnordered::new(), Vec::new());
    let mut left = cx.deadline;
    loop {
        let began = cx.clock.monotonic();
        let is_servers_turn = answering.is_empty();
        tokio::select! {
            biased;
            answer = &mut answer => {
                asked.close();
                while let Ok(Question { id, .. }) = asked.try_recv() {
                    open.push(id);
                }
                too_late(link, &open).await;
                return answer;
            }
            Some(Question { id, kind, params }) = asked.recv() => {
                open.push(id.clone());
                answering.push(async move {
                    let answer = match link.asks().permits(kind) {
                        true => client::ask(server, PeerQuestion::raw(kind, params), cx).await,
                        false => Err(PeerError::Lacks(kind)),
                    };
                    let told = link.tell(&reply(&id, answer)).await;
                    (id, told)
                });
            }
            Some((answered, told)) = answering.next(), if !is_servers_turn => {
                open.retain(|id| *id != answered);
                if let Err(fault) = told {
                    tracing::debug!(server, %fault, "the answer to a question of the server did not reach it");
                }
            }
            () = sleep(left), if is_servers_turn => return Err(Fault::TimedOut { ms: cx.deadline.as_millis() }),
        }
        if is_servers_turn {
            left = left.saturating_sub(cx.clock.monotonic().saturating_sub(began));
        }
    }
}

/// Tells a program that its questions are not answered any more: it gave its own answer first. Over HTTP they ended with the
/// response that they came on.
async fn too_late(link: &Link, open: &[String]) {
    for id in open.iter().filter(|_| link.is_stdio()) {
        let _ = link.tell(&message::refusal(id, INTERNAL, "the call that it was asked for is over")).await;
    }
}

fn reply(id: &str, answer: Result<Box<RawValue>, PeerError>) -> Vec<u8> {
    match answer {
        Ok(answer) => message::answer(id, &answer),
        Err(error) => {
            let code = match &error {
                PeerError::Lacks(_) => METHOD_NOT_FOUND,
                PeerError::Denied(_) => REJECTED,
                PeerError::Refused { code, .. } => *code,
                PeerError::Unanswered => INTERNAL,
            };
            message::refusal(id, code, &error.to_string())
        }
    }
}
