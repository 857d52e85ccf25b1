//! The client of a call that may wait for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use tollgate_types::{
    APPROVAL_QUESTION, BoxFuture, ClientCapabilities, ClientCapability, GoesOn, LogMessage, Peer, PeerError,
    PeerQuestion, Progress,
};

use super::Responses;
use crate::question;
use crate::server::live::Line;
use crate::server::seal::Onward;

/// Questions of one call that were put and are not yet among those that its client is shown.
const PUTS_MAX: usize = 16;

/// A question that was put.
#[derive(Debug)]
pub(in crate::server) struct Put {
    pub(in crate::server) key: String,
    pub(super) kind: ClientCapability,
    pub(super) params: Box<RawValue>,
    pub(super) goes_on: GoesOn,
    answer: oneshot::Sender<Box<RawValue>>,
}

impl Put {
    pub(in crate::server) fn is_taken_back(&self) -> bool {
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
    /// What the call goes on from, where it began elsewhere.
    resumed: Option<Arc<RawValue>>,
    round: Mutex<Round>,
    unnamed: AtomicU64,
    hears: Mutex<Hears>,
}

/// What was asked together, and answered of that so far.
#[derive(Debug, Default)]
struct Round {
    with: Option<Arc<RawValue>>,
    answers: Responses,
}

impl Round {
    /// The round of questions that were put with this; with others a new one begins.
    fn of(&mut self, with: &Arc<RawValue>) -> &mut Self {
        if !self.with.as_ref().is_some_and(|own| Arc::ptr_eq(own, with)) {
            *self = Self { with: Some(Arc::clone(with)), answers: Responses::new() };
        }
        self
    }
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
    pub(in crate::server) fn new(client: ClientCapabilities, onward: Onward) -> (Arc<Self>, mpsc::Receiver<Put>) {
        let (puts, received) = mpsc::channel(PUTS_MAX);
        let (given, resumed) = (Mutex::new(onward.answers), onward.with.map(Arc::from));
        let (round, unnamed, hears) = (Mutex::default(), AtomicU64::new(0), Mutex::default());
        (Arc::new(Self { client, puts, given, resumed, round, unnamed, hears }), received)
    }

    /// How the call goes on elsewhere from questions that were put with this.
    pub(super) fn onward(&self, goes_on: &GoesOn) -> Option<Onward> {
        let mut answers = locked(&self.given).clone();
        let with = match goes_on {
            GoesOn::Here => return None,
            GoesOn::Anew => self.resumed.as_ref(),
            GoesOn::With(with) => {
                answers.extend(locked(&self.round).of(with).answers.clone());
                Some(with)
            }
        };
        Some(Onward { with: with.map(|with| with.as_ref().to_owned()), answers })
    }

    /// Notes an answer, for going on elsewhere with it.
    fn note(&self, goes_on: &GoesOn, key: &str, answer: &RawValue) {
        if let GoesOn::With(with) = goes_on {
            locked(&self.round).of(with).answers.insert(key.to_owned(), answer.to_owned());
        }
    }

    /// Whether this asks for a yes where another yes was brought: it may have been given to this very call, which ran.
    fn is_another_yes(&self, key: &str) -> bool {
        let is_yes = |key: &str| key.starts_with(APPROVAL_QUESTION);
        is_yes(key) && locked(&self.given).keys().any(|key| is_yes(key))
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
        let PeerQuestion { kind, key, params, goes_on } = question;
        if !question::is_offered(self.client, kind, &params) {
            return Err(PeerError::Lacks(kind));
        }
        let key =
            key.unwrap_or_else(|| format!("{}-{}", kind.as_str(), self.unnamed.fetch_add(1, Ordering::Relaxed) + 1));
        let answer = match self.given(&key, kind) {
            Some(answer) => answer,
            None if self.is_another_yes(&key) => return Err(PeerError::Unanswered),
            None => {
                let (answer, heard) = oneshot::channel();
                let put = Put { key: key.clone(), kind, params, goes_on: goes_on.clone(), answer };
                self.puts.send(put).await.map_err(|_| PeerError::Unanswered)?;
                heard.await.map_err(|_| PeerError::Unanswered)?
            }
        };
        self.note(&goes_on, &key, &answer);
        Ok(answer)
    }
}

impl Peer for ParkingPeer {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        Box::pin(self.put(question))
    }

    fn resumed(&self) -> Option<Arc<RawValue>> {
        self.resumed.clone()
    }

    fn log(&self, message: LogMessage) {
        if let Some(line) = &locked(&self.hears).line {
            line.log(&message);
        }
    }
}
