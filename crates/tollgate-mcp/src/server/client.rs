//! The client that a request came from, while it is served: a call of it may ask the client, by the means of its era.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tollgate_types::{
    Call, Caller, ClientCapabilities, Code, Door, ErrorObject, Outcome, Progress, TaskSupport, ToolDefinition,
};

use super::live::{Asked, Line, LivePeer};
use super::news::News;
use super::park::{Asks, Parking, ParkingPeer, Passage, Resumed};
use super::seal::{Binding, Onward};
use super::tasks::{Came, Offer, Task, Tasks};
use super::{Peer, ServerInfo};
use crate::jsonrpc::RpcError;
use crate::parameters::{self, Repeated};

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
    /// It goes on as a task.
    Task(Box<Task>),
}

/// Why a call is not made: what is recorded, and what is answered.
pub(super) type Unfit = (Box<ErrorObject>, RpcError);

/// The client of one request.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) peer: Peer,
    pub(super) parking: Arc<Parking>,
    /// Our questions in its connection or session, in the handshake era.
    pub(super) asked: Option<Arc<Asked>>,
    /// What it is told unasked, in the handshake era.
    pub(super) news: Arc<News>,
    /// The way to it beside the answer.
    pub(super) out: Option<mpsc::WeakSender<Vec<u8>>>,
    /// Where calls go on after their answer, if they may.
    pub(super) tasks: Option<Arc<Tasks>>,
    /// That this call may.
    pub(super) offer: Option<Offer>,
    /// What its headers repeat, where they must.
    pub(super) repeated: Option<Repeated>,
}

impl Client {
    fn line(&self) -> Option<Line> {
        self.out.clone().map(|out| Line { out, logs: self.peer.logs })
    }

    /// Looks whether the call can be made, and how.
    pub(super) fn prepare(
        &mut self,
        door: &dyn Door,
        caller: &Caller,
        call: &Call,
        is_fit: bool,
        info: &Arc<ServerInfo>,
    ) -> Result<(), Unfit> {
        if !is_fit {
            let said = "`arguments` must be an object";
            return Err((ErrorObject::new(Code::InvalidArguments, said).into(), RpcError::invalid_params(said)));
        }
        if call.kind.is_tool() {
            let special = door.special(caller, &call.name);
            if let Some(said) = special.as_ref().and_then(|tool| self.misfit(tool, call)) {
                let error = RpcError::header_mismatch(&said);
                return Err((ErrorObject::new(Code::InvalidArguments, said).into(), error));
            }
            let support = special.map_or_else(TaskSupport::default, |tool| tool.execution.task);
            let offer = Offer::to(self.tasks.as_ref(), self.peer, info, support);
            let said = "the tool runs only for clients that know MCP's tasks";
            self.offer = offer.map_err(|error| (ErrorObject::new(Code::Unavailable, said).into(), error))?;
        }
        Ok(())
    }

    /// What the headers say otherwise than the arguments. Arguments that cannot be read are for the gate.
    fn misfit(&self, tool: &ToolDefinition, call: &Call) -> Option<String> {
        let mirrored = parameters::declared(&tool.input_schema).ok()?;
        let arguments = serde_json::from_str(&call.arguments).ok()?;
        parameters::misfit(&mirrored, &arguments, self.repeated.as_ref()?)
    }

    /// Takes a call to its end, to a question to this client, or to where it goes on as a task.
    pub(super) async fn call(self, round: Round) -> Result<Told, RpcError> {
        let client = self.peer.client;
        let can_park = self.offer.is_some() || can_be_asked(client) || round.retry.state.is_some();
        if self.peer.revision.is_stateless() && can_park {
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
        let (client, line, call) = (self.peer.client, self.line(), call.with_client(self.peer.client));
        let begin = |call: &Call, onward: Onward| {
            let (peer, puts) = ParkingPeer::new(client, onward);
            Passage::begin(Arc::clone(&door), Arc::clone(&caller), call.clone(), peer, puts)
        };
        let (mut passage, call) = match state {
            None => (begin(&call, Onward { with: None, answers: responses }), call),
            Some(state) => match self.parking.resume(&state, responses, &binding)? {
                Resumed::Here(passage) => (passage, call),
                // However often it comes, and wherever to that shares the store, it goes on once.
                Resumed::Elsewhere(onward, ticket) => {
                    let key = call.idempotency_key.clone().unwrap_or_else(|| format!("requestState {ticket}"));
                    let call = call.with_idempotency_key(key);
                    (begin(&call, onward), call)
                }
            },
        };
        passage.peer().hear(progress, line);
        let came = match self.offer {
            Some(offer) => offer.of(&door, &caller, call).go(passage).await,
            None => match passage.go().await {
                Some(outcome) => Came::Ended(outcome),
                None => Came::Asks(passage),
            },
        };
        match came {
            Came::Ended(outcome) => Ok(Told::Ended(outcome)),
            Came::Task(task) => Ok(Told::Task(task)),
            Came::Asks(passage) => self.parking.park(passage, &binding, &caller.subject).map(Told::Asks),
        }
    }
}

fn can_be_asked(client: ClientCapabilities) -> bool {
    let ClientCapabilities { elicitation, elicitation_url, sampling, sampling_tools: _, roots, images: _ } = client;
    elicitation || elicitation_url || sampling || roots
}
