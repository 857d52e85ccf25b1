//! The client that a request came from, while it is served: a call of it may ask the client, by the means of its era.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{Call, Caller, ClientCapabilities, Door, Outcome, Progress};

use super::Peer;
use super::live::{Asked, Line, LivePeer};
use super::park::{Asks, Came, Parking, ParkingPeer, Passage, Resumed};
use super::seal::{Binding, Onward};
use crate::jsonrpc::RpcError;

/// What a request of the stateless era brings of an earlier round.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// What was given with the questions.
    pub(super) state: Option<String>,
    /// The answers, by the names of their questions.
    pub(super) responses: HashMap<String, Box<RawValue>>,
}

/// A call of a client's: one of the times that it comes.
pub(super) struct Round {
    pub(super) door: Arc<dyn Door>,
    pub(super) caller: Arc<Caller>,
    pub(super) call: Call,
    /// The method that it came by.
    pub(super) method: &'static str,
    pub(super) retry: Retry,
    /// Who hears of its progress this time.
    pub(super) progress: Progress,
}

/// How a call came back.
pub(super) enum Told {
    /// It ended.
    Ended(Box<Outcome>),
    /// It stands still until its client answers.
    Asks(Asks),
}

/// The client of one request.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: Peer,
    pub(super) parking: Arc<Parking>,
    /// Our questions in its connection or session, in the handshake era.
    pub(super) asked: Option<Arc<Asked>>,
    /// The way to it beside the answer.
    pub(super) out: Option<mpsc::WeakSender<Vec<u8>>>,
}

impl Client {
    fn line(&self) -> Option<Line> {
        self.out.clone().map(|out| Line { out, logs: self.peer.logs })
    }

    /// Takes a call to its end, or to a question to this client.
    pub(super) async fn call(self, round: Round) -> Result<Told, RpcError> {
        let client = self.peer.client;
        if self.peer.revision.is_stateless() && (can_be_asked(client) || round.retry.state.is_some()) {
            return self.call_in_rounds(round).await;
        }
        let Round { door, caller, call, progress, .. } = round;
        let call = call.with_client(client).with_progress(progress).with_peer(self.live());
        Ok(Told::Ended(Box::new(door.call(&caller, call).await)))
    }

    /// The client as it can be asked at once, or only told; none where it hears of nothing.
    fn live(&self) -> Option<Arc<dyn tollgate_types::Peer>> {
        let line = self.line()?;
        let (asked, client) = match &self.asked {
            Some(asked) => (Arc::clone(asked), self.peer.client),
            None => (Arc::default(), ClientCapabilities::default()),
        };
        Some(Arc::new(LivePeer { line, asked, client }))
    }

    async fn call_in_rounds(self, round: Round) -> Result<Told, RpcError> {
        let Round { door, caller, call, method, retry: Retry { state, responses }, progress } = round;
        let binding = Binding::new(&caller, method, &call.name, &call.arguments);
        let begin = |call: Call, onward: Onward| {
            let (peer, puts) = ParkingPeer::new(self.peer.client, onward);
            let call = call.with_client(self.peer.client).with_progress(peer.progress());
            Passage::begin(door, Arc::clone(&caller), call, peer, puts)
        };
        let passage = match state {
            None => begin(call, Onward { with: None, answers: responses }),
            Some(state) => match self.parking.resume(&state, responses, &binding)? {
                Resumed::Here(passage) => passage,
                // However often it comes, and wherever to that shares the store, it goes on once.
                Resumed::Elsewhere(onward, ticket) => {
                    let key = call.idempotency_key.clone().unwrap_or_else(|| format!("requestState {ticket}"));
                    begin(call.with_idempotency_key(key), onward)
                }
            },
        };
        passage.peer().hear(progress, self.line());
        match passage.go().await {
            Came::Ended(outcome) => Ok(Told::Ended(outcome)),
            Came::Asks(passage) => self.parking.park(passage, &binding, &caller.subject).map(Told::Asks),
        }
    }
}

fn can_be_asked(client: ClientCapabilities) -> bool {
    let ClientCapabilities { elicitation, elicitation_url, sampling, sampling_tools: _, roots, images: _ } = client;
    elicitation || elicitation_url || sampling || roots
}
