//! The client that a request came from, while it is served: a call of it may ask the client, by the means of its era.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{Call, Caller, ClientCapabilities, Door, Outcome, Progress};

use super::Peer;
use super::live::{Asked, Line, LivePeer};
use super::park::{Asks, Came, Parking, ParkingPeer, Passage};
use super::seal::Binding;
use crate::jsonrpc::RpcError;

/// What a request of the stateless era brings of an earlier round.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// What was given with the questions.
    pub(super) state: Option<String>,
    /// The answers, by the names of their questions.
    pub(super) responses: HashMap<String, Box<RawValue>>,
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
    pub(super) async fn call(
        self,
        door: Arc<dyn Door>,
        caller: Arc<Caller>,
        call: Call,
        method: &'static str,
        retry: Retry,
        progress: Progress,
    ) -> Result<Told, RpcError> {
        let call = call.with_client(self.peer.client);
        let can_park = self.peer.revision.is_stateless() && (can_be_asked(self.peer.client) || retry.state.is_some());
        if can_park {
            return self.call_in_rounds(door, caller, call, method, retry, progress).await;
        }
        let call = call.with_progress(progress).with_peer(self.live());
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

    async fn call_in_rounds(
        self,
        door: Arc<dyn Door>,
        caller: Arc<Caller>,
        call: Call,
        method: &'static str,
        retry: Retry,
        progress: Progress,
    ) -> Result<Told, RpcError> {
        let binding = Binding::new(&caller, method, &call.name, &call.arguments);
        let passage = match retry.state {
            Some(state) => self.parking.resume(&state, retry.responses, &binding)?,
            None => {
                let (peer, puts) = ParkingPeer::new(self.peer.client, retry.responses);
                Passage::begin(door, Arc::clone(&caller), call.with_progress(peer.progress()), peer, puts)
            }
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
