//! Calls of clients of the stateless era that wait for an answer of their client: nothing can be asked of such a client but
//! by the result, so the call stands still, the result says what is asked, and the same request comes back with the answers
//! (MCP 2026-07-28, Multi round-trip requests). The call itself goes on where it is: on the gate's task.

mod peer;

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tollgate_types::{Call, Caller, Door, GoesOn, Outcome, limits};

use super::http::fresh_id;
use super::seal::{Binding, Onward, StateKeys};
use crate::jsonrpc::RpcError;
use crate::question;
pub(super) use peer::{ParkingPeer, Put};

/// Calls that wait for their clients, of all clients.
const PARKED_MAX: usize = 1_024;
/// The same of one caller.
const PARKED_BY_ONE_MAX: usize = 64;
/// Questions that come together are put together. Each may pass the gate first; whoever answers is not as quick.
const TOGETHER: Duration = Duration::from_millis(200);
/// How long a call waits for its client.
pub(super) const WAIT: Duration = Duration::from_millis(limits::CLIENT_ANSWER_TIMEOUT_MS);

const GONE: &str = "nothing waits under this `requestState` any more; send the request without it";
const AWAY: &str = "the call of this `requestState` waits in another process or ended with it, and can not go on here: nothing \
                    was done with these answers; send the request to where it was asked, or without `requestState` to begin anew";

/// The answers that come with a request, by the names of their questions.
pub(super) type Responses = HashMap<String, Box<RawValue>>;

/// The place where calls wait.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    keys: OnceLock<StateKeys>,
    /// What the place is called in states, so that another one knows them for its.
    home: OnceLock<String>,
    lot: Mutex<Lot>,
}

#[derive(Debug, Default)]
struct Lot {
    parked: HashMap<String, Parked>,
    /// What ends each wait. A call whose client never comes back is dropped, and so cancelled.
    timers: JoinSet<()>,
}

#[derive(Debug)]
struct Parked {
    owner: String,
    passage: Passage,
    /// Whether it goes on elsewhere too, by its state.
    goes_on: bool,
    timer: AbortHandle,
}

/// What a state brings back.
pub(super) enum Resumed {
    /// The call that waited here.
    Here(Passage),
    /// How one goes on that does not, and its name.
    Elsewhere(Onward, String),
}

/// A call under way whose client can be asked only by its result.
pub(super) struct Passage {
    call: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    peer: Arc<ParkingPeer>,
    puts: mpsc::Receiver<Put>,
    open: Vec<Put>,
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passage").field("open", &self.open).finish_non_exhaustive()
    }
}

/// What a client is asked by a result.
#[derive(Debug)]
pub(super) struct Asks {
    /// The questions by their names.
    pub(super) requests: Box<RawValue>,
    /// What it is to give back with the answers.
    pub(super) state: String,
}

/// What comes next of a call.
pub(super) enum Step {
    /// Its end.
    Ended(Box<Outcome>),
    /// A question to its client.
    Asks(Put),
}

impl Passage {
    /// A call that begins.
    pub(super) fn begin(
        door: Arc<dyn Door>,
        caller: Arc<Caller>,
        call: Call,
        peer: Arc<ParkingPeer>,
        puts: mpsc::Receiver<Put>,
    ) -> Self {
        Self { call: calling(door, caller, call, &peer), peer, puts, open: Vec::new() }
    }

    /// Makes the call once more: it ended by waiting for a human, who has answered.
    pub(super) fn begin_again(&mut self, door: Arc<dyn Door>, caller: Arc<Caller>, call: Call) {
        self.call = calling(door, caller, call, &self.peer);
    }

    /// Goes on until the call ends, or asks: then there is no outcome yet. Dropping the passage cancels the call; dropping
    /// the future does not.
    pub(super) async fn go(&mut self) -> Option<Box<Outcome>> {
        loop {
            let wait = if self.open.is_empty() { WAIT } else { TOGETHER };
            match timeout(wait, self.step()).await {
                Ok(Step::Ended(outcome)) => return Some(outcome),
                Ok(Step::Asks(put)) => self.admit(put),
                Err(_) => {
                    self.open.retain(|put| !put.is_taken_back());
                    if !self.open.is_empty() {
                        return None;
                    }
                }
            }
        }
    }

    /// Goes on to what comes next.
    pub(super) async fn step(&mut self) -> Step {
        tokio::select! {
            biased;
            outcome = &mut self.call => Step::Ended(Box::new(outcome)),
            // INVARIANT: the other end is held by `self.peer`.
            Some(put) = self.puts.recv() => Step::Asks(put),
        }
    }

    /// The questions that were put and are not answered.
    pub(super) fn take_open(&mut self) -> Vec<Put> {
        std::mem::take(&mut self.open)
    }

    /// Questions that were taken and are to be asked by the answer after all.
    pub(super) fn put_back(&mut self, open: Vec<Put>) {
        self.open = open;
    }

    /// Takes a question. Two of one name would have one answer.
    fn admit(&mut self, mut put: Put) {
        let name = put.key.clone();
        let mut number = 1;
        while self.open.iter().any(|other| other.key == put.key) {
            number += 1;
            put.key = format!("{name}-{number}");
        }
        self.open.push(put);
    }

    pub(super) fn peer(&self) -> &ParkingPeer {
        &self.peer
    }

    /// How it goes on elsewhere: where all that it asks was put with the same.
    fn onward(&self) -> Option<Onward> {
        let is_same = |one: &GoesOn, other: &GoesOn| match (one, other) {
            (GoesOn::Anew, GoesOn::Anew) => true,
            (GoesOn::With(one), GoesOn::With(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        let first = &self.open.first()?.goes_on;
        let is_one = self.open.iter().all(|put| is_same(first, &put.goes_on));
        is_one.then(|| self.peer.onward(first)).flatten()
    }
}

impl Parking {
    fn lot(&self) -> MutexGuard<'_, Lot> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place whose states other processes open too.
    pub(crate) fn sealing(keys: StateKeys) -> Self {
        Self { keys: OnceLock::from(keys), ..Self::default() }
    }

    fn keys(&self) -> Result<&StateKeys, RpcError> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let keys = StateKeys::fresh()?;
        Ok(self.keys.get_or_init(|| keys))
    }

    /// Drops all that waits, and so cancels it.
    pub(super) fn clear(&self) {
        let waiting = {
            let mut lot = self.lot();
            lot.timers.abort_all();
            std::mem::take(&mut lot.parked)
        };
        drop(waiting);
    }

    fn home(&self) -> Result<&str, RpcError> {
        if let Some(home) = self.home.get() {
            return Ok(home);
        }
        let home = fresh()?;
        Ok(self.home.get_or_init(|| home))
    }

    /// Lets a call wait, and says what is asked of its client.
    pub(super) fn park(self: &Arc<Self>, passage: Passage, binding: &Binding, owner: &str) -> Result<Asks, RpcError> {
        let (ticket, keys) = (fresh()?, self.keys()?);
        let sealed = keys.of(&ticket, self.home()?, passage.onward());
        let state = keys.close(&sealed, binding).ok_or_else(|| RpcError::internal("nothing can be sealed"))?;
        let asks = Asks { requests: requests(&passage.open)?, state };
        // What ends because of this one ends when nobody has to wait for it.
        let mut gone = None;
        let mut lot = self.lot();
        while lot.timers.try_join_next().is_some() {}
        let own = lot.parked.values().filter(|parked| parked.owner == owner).count();
        if lot.parked.len() >= PARKED_MAX || own >= PARKED_BY_ONE_MAX {
            gone = Some(lot.make_room(owner)?);
        }
        let (place, lost) = (Arc::downgrade(self), ticket.clone());
        let timer = lot.timers.spawn(async move {
            sleep(WAIT).await;
            let expired = place.upgrade().and_then(|parking| parking.lot().parked.remove(&lost));
            drop(expired);
        });
        lot.parked.insert(ticket, Parked { owner: owner.to_owned(), passage, goes_on: sealed.goes_on(), timer });
        drop(lot);
        drop(gone);
        Ok(asks)
    }

    /// The call that a state names, with the answers that came for it. It stays where it is if they are none. One that does
    /// not wait here goes on by what its state holds, or not at all: what it did is not done again.
    pub(super) fn resume(&self, state: &str, responses: Responses, binding: &Binding) -> Result<Resumed, RpcError> {
        let unsealed = || RpcError::invalid_params("`requestState` is not what was given for this request");
        let sealed = self.keys()?.open(state, binding).ok_or_else(unsealed)?;
        let mut lot = self.lot();
        let Some(waiting) = lot.parked.get(&sealed.ticket) else {
            drop(lot);
            if sealed.home == self.home()? {
                return Err(RpcError::invalid_params(GONE));
            }
            let ticket = sealed.ticket.clone();
            let Some(mut onward) = self.keys()?.onward(sealed) else { return Err(RpcError::invalid_params(AWAY)) };
            onward.answers.extend(responses);
            return Ok(Resumed::Elsewhere(onward, ticket));
        };
        if let Some(error) = misfit(&waiting.passage.open, &responses) {
            return Err(error);
        }
        let Parked { mut passage, timer, .. } = lot.parked.remove(&sealed.ticket).ok_or_else(unsealed)?;
        drop(lot);
        timer.abort();
        answer(&mut passage.open, responses);
        Ok(Resumed::Here(passage))
    }
}

impl Lot {
    /// Room for one more of the owner's: that of one which goes on by its state.
    fn make_room(&mut self, owner: &str) -> Result<Parked, RpcError> {
        let own = || self.parked.iter().filter(|(_, parked)| parked.owner == owner);
        let ticket = own().find(|(_, parked)| parked.goes_on).map(|(ticket, _)| ticket.clone());
        let full = format!("{} calls of yours wait for answers", own().count());
        let gone = ticket.and_then(|ticket| self.parked.remove(&ticket)).ok_or_else(|| RpcError::too_many(full))?;
        gone.timer.abort();
        Ok(gone)
    }
}

fn fresh() -> Result<String, RpcError> {
    fresh_id().ok_or_else(|| RpcError::internal("the system gives no random numbers"))
}

/// The call, on its way.
fn calling(
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
    call: Call,
    peer: &Arc<ParkingPeer>,
) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    let call = call.with_progress(peer.progress()).with_peer(Some(Arc::clone(peer) as _));
    Box::pin(async move { door.call(&caller, call).await })
}

/// What stands in the way of answers.
pub(super) fn misfit(open: &[Put], responses: &Responses) -> Option<RpcError> {
    open.iter().find_map(|put| {
        let why = question::misfit(put.kind, responses.get(&put.key)?)?;
        Some(RpcError::invalid_params(format_args!("`inputResponses`: the answer to `{}`: {why}", put.key)))
    })
}

/// Hands answers to whoever waits for them. What nobody asked is left.
pub(super) fn answer(open: &mut Vec<Put>, mut responses: Responses) {
    for put in std::mem::take(open) {
        match responses.remove(&put.key) {
            Some(answer) => put.answer(answer),
            None => open.push(put),
        }
    }
}

/// What is asked, by the names of the questions. The parameters stay as they came.
pub(super) fn requests(open: &[Put]) -> Result<Box<RawValue>, RpcError> {
    #[derive(Serialize)]
    struct Request<'a> {
        method: &'static str,
        params: &'a RawValue,
    }
    fn request(put: &Put) -> (&str, Request<'_>) {
        (&put.key, Request { method: question::method(put.kind), params: &put.params })
    }
    let requests: BTreeMap<_, _> = open.iter().map(request).collect();
    serde_json::value::to_raw_value(&requests)
        .map_err(|_| RpcError::internal("the questions can not be written as JSON"))
}
