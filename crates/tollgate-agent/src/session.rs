//! A conversation that outlives its process. A turn is stored before its calls are made, what a call brought before the
//! model is asked again; so whoever goes on finds which answers are missing, and asks the door for exactly those. Each
//! call that may change something has a key of its own, so that the door runs it once however often it is asked.

mod desk;
mod error;
mod export;
mod show;

use std::sync::Arc;

use serde::Serialize;
use tollgate_guard::redact::Redactor;
use tollgate_store::{NewCall, SessionLock, SessionMeta, Step, StepKind, Store};
use tollgate_types::{Call, Caller, Clock, Code, Door, End, ErrorObject, Outcome, Waiting};
use tollgate_wire::{Finish, Message, ModelCall, Turn};

pub use desk::{Sessions, Start};
pub use error::SessionError;
pub use export::ExportForm;
pub use show::{Listed, Shown, ShownCall, ShownStep};

use crate::record::{Line, ResultRecord, without_secrets};

/// A session that this process works in. It is another's again when this is dropped.
pub struct Session {
    store: Store,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    meta: SessionMeta,
    next: u32,
    messages: Vec<Message>,
    state: State,
    // Nobody else works in it for as long as this is there.
    _lock: SessionLock,
}

/// What the last step leaves to do.
#[derive(Debug)]
enum State {
    New,
    Asked,
    Told,
    Open { seq: u32, slots: Vec<Slot> },
    Answered(Box<Turn>),
}

impl State {
    /// The state after a turn that asks for nothing. One that its provider paused is no answer.
    fn of_no_calls(turn: Turn) -> Self {
        if turn.finish == Finish::Paused { Self::Told } else { Self::Answered(Box::new(turn)) }
    }
}

/// One call of the last turn.
#[derive(Debug)]
struct Slot {
    call: ModelCall,
    new: NewCall,
    result: Option<ResultRecord>,
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was said yet.
    New,
    /// A prompt waits for the model.
    Asked,
    /// The results of calls wait for the model.
    Told,
    /// So many calls have no outcome.
    Open(usize),
    /// The model has answered.
    Answered,
}

/// What came of a call.
pub(crate) enum Kept {
    /// It has its outcome, and that is stored.
    Result(ResultRecord),
    /// It waits for a human.
    Waiting(Waiting),
    /// It may have happened, and the door cannot say so now.
    Later(ErrorObject),
}

impl Session {
    fn load(desk: &Sessions, meta: SessionMeta, steps: Vec<Step>, lock: SessionLock) -> Result<Self, SessionError> {
        let mut session = Self {
            store: desk.store.clone(),
            clock: Arc::clone(&desk.clock),
            redactor: desk.redactor.clone(),
            meta,
            next: 1,
            messages: Vec::new(),
            state: State::New,
            _lock: lock,
        };
        session.take_up(steps)?;
        Ok(session)
    }

    /// Reads the session again as it is stored, after a run of which nobody knows how far it came.
    pub(crate) async fn reload(&mut self) -> Result<(), SessionError> {
        let steps = self.store.steps(&self.meta.id).await?;
        self.take_up(steps)
    }

    fn take_up(&mut self, steps: Vec<Step>) -> Result<(), SessionError> {
        self.next = steps.last().map_or(1, |step| step.seq.saturating_add(1));
        self.messages.clear();
        self.state = State::New;
        steps.into_iter().try_for_each(|step| self.take_up_step(step))
    }

    fn take_up_step(&mut self, step: Step) -> Result<(), SessionError> {
        let seq = step.seq;
        let turn = match show::read(&self.meta.id, &step)? {
            Line::Run { prompt, .. } => {
                self.messages.push(Message::user(prompt));
                self.state = State::Asked;
                return Ok(());
            }
            Line::Turn { turn, .. } => turn,
            Line::Result { .. } | Line::Answer { .. } => return Ok(()),
        };
        let results = show::results(&self.meta.id, &step)?;
        self.messages.extend(export::turn_messages(&turn, &results));
        let mut slots = Vec::with_capacity(results.len());
        for ((call, stored), result) in turn.calls.iter().zip(step.calls).zip(results) {
            slots.push(Slot { call: call.clone(), new: stored.new, result });
        }
        self.state = if slots.is_empty() {
            State::of_no_calls(turn)
        } else if slots.iter().all(|slot| slot.result.is_some()) {
            State::Told
        } else {
            State::Open { seq, slots }
        };
        Ok(())
    }

    /// The session without its steps.
    pub fn meta(&self) -> &SessionMeta {
        &self.meta
    }

    /// Who asks in it.
    pub fn caller(&self) -> Caller {
        self.meta.caller.clone().with_session(self.meta.id.as_str())
    }

    /// What it answers to: its name, else its id.
    pub fn label(&self) -> &str {
        self.meta.name.as_deref().unwrap_or(&self.meta.id)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        match &self.state {
            State::New => Progress::New,
            State::Asked => Progress::Asked,
            State::Told => Progress::Told,
            State::Open { slots, .. } => Progress::Open(slots.iter().filter(|slot| slot.result.is_none()).count()),
            State::Answered(_) => Progress::Answered,
        }
    }

    /// What was said so far, once: the loop has it from then on.
    pub(crate) fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    /// The answer, where the session ends with one.
    pub(crate) fn answer(&self) -> Option<&Turn> {
        match &self.state {
            State::Answered(turn) => Some(turn),
            State::New | State::Asked | State::Told | State::Open { .. } => None,
        }
    }

    /// The calls of a turn that is not whole yet, the answered ones too.
    pub(crate) fn open_calls(&self) -> Option<Vec<ModelCall>> {
        match &self.state {
            State::Open { slots, .. } => Some(slots.iter().map(|slot| slot.call.clone()).collect()),
            State::New | State::Asked | State::Told | State::Answered(_) => None,
        }
    }

    /// What the calls of the turn brought so far.
    pub(crate) fn results(&self) -> Vec<Option<ResultRecord>> {
        match &self.state {
            State::Open { slots, .. } => slots.iter().map(|slot| slot.result.clone()).collect(),
            State::New | State::Asked | State::Told | State::Answered(_) => Vec::new(),
        }
    }

    /// Every call of the turn has its outcome.
    pub(crate) fn completed(&mut self) {
        self.state = State::Told;
    }

    /// Stores a prompt before the model is asked.
    pub(crate) async fn prompt(&mut self, line: &Line) -> Result<(), SessionError> {
        self.add(StepKind::Prompt, line, Vec::new()).await?;
        self.state = State::Asked;
        Ok(())
    }

    /// Takes the last prompt back, to which nothing came.
    pub(crate) async fn withdraw_prompt(&mut self) -> Result<(), SessionError> {
        Ok(self.store.withdraw_prompt(&self.meta.id, self.next.saturating_sub(1)).await?)
    }

    /// Stores a turn before its calls are made. What only reads needs no key: it may happen again.
    pub(crate) async fn turn(
        &mut self,
        round: u32,
        turn: &Turn,
        only_reads: impl Fn(&str) -> bool,
    ) -> Result<(), SessionError> {
        let (seq, id) = (self.next, &self.meta.id);
        let new = |(position, call): (usize, &ModelCall)| NewCall {
            key: (!only_reads(&call.name)).then(|| format!("session:{id}:{seq}:{position}")),
            is_whole: self.redactor.text(&call.arguments) == call.arguments,
        };
        let calls: Vec<NewCall> = turn.calls.iter().enumerate().map(new).collect();
        self.add(StepKind::Turn, &Line::Turn { round, turn: turn.clone() }, calls.clone()).await?;
        // This process still has the arguments as they were asked.
        let slot = |(call, new): (&ModelCall, NewCall)| Slot {
            call: call.clone(),
            new: NewCall { is_whole: true, ..new },
            result: None,
        };
        self.state = match turn.calls.is_empty() {
            true => State::of_no_calls(turn.clone()),
            false => State::Open { seq, slots: turn.calls.iter().zip(calls).map(slot).collect() },
        };
        Ok(())
    }

    async fn add(&mut self, kind: StepKind, line: &Line, calls: Vec<NewCall>) -> Result<(), SessionError> {
        let body = self.redacted(line)?;
        self.store.add_step(&self.meta.id, (self.next, kind), body, calls, self.clock.now()).await?;
        self.next = self.next.saturating_add(1);
        Ok(())
    }

    /// The JSON without secrets.
    fn redacted(&self, value: &impl Serialize) -> Result<String, SessionError> {
        let value = without_secrets(&self.redactor, value);
        Ok(value.map_err(|error| SessionError::Unwritable(error.to_string()))?.to_string())
    }

    /// Takes one call of the open turn to the door, and stores what came of it.
    pub(crate) async fn call(
        &self,
        door: &dyn Door,
        caller: &Caller,
        position: usize,
        mut call: Call,
    ) -> Result<(Outcome, Kept), SessionError> {
        let State::Open { seq, slots } = &self.state else { return Err(SessionError::NotOpen) };
        let new = &slots.get(position).ok_or(SessionError::NotOpen)?.new;
        call.idempotency_key.clone_from(&new.key);
        if !new.is_whole && call.refusal.is_none() {
            let message = "the arguments held a secret, and that is not kept with the session";
            call.refusal = Some(ErrorObject::new(Code::InvalidArguments, message).with_hint("ask for the call again"));
        }
        let outcome = door.call(caller, call).await;
        let (outcome, is_later) = self.weigh(caller, new.key.as_deref(), outcome).await?;
        let place = (*seq, u32::try_from(position).map_err(|_| SessionError::NotOpen)?);
        let id = &self.meta.id;
        let kept = match &outcome.end {
            End::Waiting(waiting, _) => {
                self.store.keep_waiting(id, place, waiting.id.clone()).await?;
                Kept::Waiting(waiting.clone())
            }
            End::Refused(error) | End::Failed(error) if is_later => Kept::Later(error.clone()),
            End::Done(_) | End::Refused(_) | End::Failed(_) | End::Unknown(_) => {
                let result = ResultRecord::of(&outcome);
                self.store.keep_outcome(id, place, self.redacted(&result)?, self.clock.now()).await?;
                Kept::Result(result)
            }
        };
        Ok((outcome, kept))
    }

    /// An earlier process may have made the call, and what stopped it now may have come before anybody looked: a model
    /// that reads `rate_limited` or `denied` would take it for a call that never was. True when asking later can tell.
    async fn weigh(
        &self,
        caller: &Caller,
        key: Option<&str>,
        outcome: Outcome,
    ) -> Result<(Outcome, bool), SessionError> {
        let (Some(key), End::Refused(error) | End::Failed(error)) = (key, &outcome.end) else {
            return Ok((outcome, false));
        };
        if outcome.replayed {
            return Ok((outcome, false));
        }
        let holder = self.store.key_holder(caller, &outcome.tool, key).await?;
        if holder.is_none_or(|holder| outcome.attempt.as_ref() == Some(&holder)) {
            return Ok((outcome, false));
        }
        // That the first call is under way cannot be: its process let go of the session.
        if error.retryable && error.error != Code::Conflict {
            return Ok((outcome, true));
        }
        let message =
            format!("this call was made before, and how it ended is not known; now it is stopped: {}", error.message);
        let unknown = ErrorObject::new(Code::OutcomeUnknown, message);
        let end = End::Unknown(unknown.with_hint("check whether it happened before you call again"));
        Ok((Outcome { end, ..outcome }, false))
    }
}
