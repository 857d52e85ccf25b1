//! A task that this process runs: what is known of it meanwhile, and how it comes to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;
use tollgate_types::{AttemptId, Caller, CancellationToken, Clock, End, Outcome, Progress, TaskShelf, limits};

use super::wire::{Ended, Task, after};
use super::{Making, Tasks, told};
use crate::jsonrpc::RpcError;
use crate::server::park::{self, Passage, Put, Responses, Step, WAIT};

/// A task that this process runs.
pub(super) struct Live {
    owner: Caller,
    clock: Arc<dyn Clock>,
    created: Timestamp,
    cancel: CancellationToken,
    state: Mutex<State>,
}

struct State {
    updated: Timestamp,
    message: Option<String>,
    /// Questions to the client that are not answered.
    open: Vec<Put>,
    /// How many there were.
    asked: u64,
    /// Only where the shelf did not take it.
    ended: Option<Ended>,
}

impl Live {
    pub(super) fn new(caller: &Caller, clock: Arc<dyn Clock>, open: Vec<Put>) -> Self {
        let created = clock.now();
        let state = State { updated: created, message: None, open: Vec::new(), asked: 0, ended: None };
        let live =
            Self { owner: caller.clone(), clock, created, cancel: CancellationToken::new(), state: Mutex::new(state) };
        open.into_iter().for_each(|put| live.asks(put));
        live
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No task was made of it: the questions go back to the call.
    pub(super) fn give_back(&self, mut passage: Passage) -> Passage {
        passage.put_back(std::mem::take(&mut self.state().open));
        passage
    }

    pub(super) fn created(&self) -> Timestamp {
        self.created
    }

    pub(super) fn is_of(&self, caller: &Caller) -> bool {
        let Caller { subject, role, tenant, surface: _, session: _ } = &self.owner;
        *subject == caller.subject && *role == caller.role && *tenant == caller.tenant
    }

    pub(super) fn is_same_owner(&self, other: &Self) -> bool {
        self.is_of(&other.owner)
    }

    pub(super) fn is_expired(&self, now: Timestamp, keep: Duration) -> bool {
        let state = self.state();
        state.ended.is_some() && after(state.updated, keep) <= now
    }

    /// How it does. As long as it has not ended it is kept from now on.
    pub(super) fn task(&self, id: &str, keep: Duration) -> Task {
        let mut state = self.state();
        state.open.retain(|put| !put.is_taken_back());
        let (kept_from, at) = match &state.ended {
            Some(ended) => (state.updated, ended.clone()),
            None => (self.clock.now(), Ended::not_yet(state.message.clone())),
        };
        let task = Task::new(id, self.created, state.updated, after(kept_from, keep), at);
        match park::requests(&state.open) {
            Ok(requests) if !state.open.is_empty() => task.asking(requests),
            Ok(_) | Err(_) => task,
        }
    }

    /// Takes the answers of its client. What is not asked, or not any more, is left.
    pub(super) fn answer(&self, responses: Responses) -> Result<(), RpcError> {
        let mut state = self.state();
        if let Some(error) = park::misfit(&state.open, &responses) {
            return Err(error);
        }
        park::answer(&mut state.open, responses);
        state.updated = self.clock.now();
        Ok(())
    }

    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Takes a question. No two of a task have one name (MCP tasks: task update requests).
    fn asks(&self, mut put: Put) {
        let mut state = self.state();
        state.asked += 1;
        put.key = format!("question-{}", state.asked);
        state.open.push(put);
        state.updated = self.clock.now();
    }

    fn is_asking(&self) -> bool {
        !self.state().open.is_empty()
    }

    /// Nobody answered.
    fn takes_back(&self) {
        let mut state = self.state();
        state.open.clear();
        state.updated = self.clock.now();
    }

    /// Says where it is.
    fn says(&self, message: &str) {
        let mut state = self.state();
        state.message = Some(message.chars().take(limits::TASK_MESSAGE_CHARS_MAX).collect());
        state.updated = self.clock.now();
    }

    fn progress(self: &Arc<Self>) -> Progress {
        let live = Arc::downgrade(self);
        Progress::to(move |step| {
            if let (Some(live), Some(message)) = (live.upgrade(), step.message) {
                live.says(&message);
            }
        })
    }
}

/// What follows a call to its end.
pub(super) struct Running {
    pub(super) id: String,
    pub(super) live: Arc<Live>,
    pub(super) making: Making,
    pub(super) tasks: Weak<Tasks>,
    pub(super) shelf: Arc<dyn TaskShelf>,
    pub(super) closing: CancellationToken,
    pub(super) keep: Duration,
}

impl Running {
    pub(super) async fn follow(self, mut passage: Passage, ended: Option<Box<Outcome>>) {
        passage.peer().hear(self.live.progress(), None);
        let came = tokio::select! {
            // What came back counts, even when the client left at the same moment.
            biased;
            outcome = self.outcome(&mut passage, ended) => Some(outcome),
            () = self.live.cancel.cancelled() => None,
        };
        drop(passage);
        let (attempt, ended) = match came {
            Some(outcome) => {
                let answer = told::result(&self.making.info, self.making.call.kind, &outcome);
                (outcome.attempt.clone(), Ended::told(answer))
            }
            None => (None, Ended::cancelled()),
        };
        self.shelve(attempt, ended).await;
    }

    /// Puts the end on the shelf. Where that does not take it, it is kept here.
    async fn shelve(&self, attempt: Option<AttemptId>, ended: Ended) {
        let now = self.live.clock.now();
        // Raw JSON and texts: writing these to memory can not fail.
        let text = serde_json::to_string(&ended).unwrap_or_default();
        let kept = self.shelf.end(&self.id, attempt, (now, text), after(now, self.keep)).await;
        if let Err(why) = kept {
            tracing::error!(why, "the end of a task is not kept beyond this process");
            let mut state = self.live.state();
            state.open.clear();
            (state.updated, state.ended) = (now, Some(ended));
            return;
        }
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.forget(&self.id);
        }
    }

    /// Follows the call, and makes it again each time that a human has answered what it waits for: it has not begun then.
    async fn outcome(&self, passage: &mut Passage, mut ended: Option<Box<Outcome>>) -> Box<Outcome> {
        let mut answers = 0;
        loop {
            let outcome = match ended.take() {
                Some(outcome) => outcome,
                None => self.asking(passage).await,
            };
            let End::Waiting(waiting, error) = &outcome.end else { return outcome };
            if answers == limits::TASK_ANSWERS_MAX {
                return outcome;
            }
            answers += 1;
            self.live.says(&error.message);
            tokio::select! {
                () = self.making.door.answered(&waiting.id) => {}
                () = self.closing.cancelled() => return outcome,
            }
            let Making { door, caller, call, .. } = &self.making;
            passage.begin_again(Arc::clone(door), Arc::clone(caller), call.clone());
        }
    }

    /// Follows the call to its end, and takes its questions.
    async fn asking(&self, passage: &mut Passage) -> Box<Outcome> {
        loop {
            let step = match self.live.is_asking() {
                true => timeout(WAIT, passage.step()).await,
                false => Ok(passage.step().await),
            };
            match step {
                Ok(Step::Ended(outcome)) => return outcome,
                Ok(Step::Asks(put)) => self.live.asks(put),
                Err(_) => self.live.takes_back(),
            }
        }
    }
}
