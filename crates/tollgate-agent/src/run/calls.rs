//! The calls of one turn, side by side.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_catalog::{Lanes, Schedule};
use tollgate_types::{Call, Caller, Door, ErrorObject, Outcome, RepairLevel, Status};
use tollgate_wire::{ModelCall, repair};

use super::{Agent, Event, Offer, OpenQuestion, RunError, refusal};
use crate::record::{Line, ResultRecord};
use crate::session::{Kept, Session, SessionError};

impl Agent {
    /// Runs those that have no result yet, a few at once, and those that would get into each other's way in their order; all
    /// results come back in call order. Each goes into the
    /// history, the recording and the session as soon as it is there, so that none is lost when the run is cancelled; in the
    /// end they stand in call order in the history as well. When one of them cannot be kept, or waits for a human, the
    /// other calls of the turn still come to their end.
    pub(super) async fn call_all(
        &mut self,
        calls: &[ModelCall],
        offer: &Offer,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Vec<ResultRecord>, RunError> {
        let (said, images) = (Arc::new(self.said()), self.model.takes_images());
        let Self { door, caller, history, options, recorder, session, spent, .. } = self;
        let mut pause = Pause::default();
        let mut slots = session.as_ref().map(Session::results).unwrap_or_default();
        slots.resize(calls.len(), None);
        let mut schedule = Schedule::new(calls.iter().map(|call| lanes(offer, call)));
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < options.calls_at_once_max.max(1) {
                let Some(at) = schedule.begin() else { break };
                let Some(call) = calls.get(at).filter(|_| slots.get(at).is_some_and(Option::is_none)) else {
                    schedule.end(at);
                    continue;
                };
                let refused = refusal(at, call, &options.tool_choice, &offer.withheld);
                if refused.is_none() {
                    on_event(&started(call));
                }
                let (door, caller, session) = (&**door, &*caller, session.as_ref());
                let mut asked = asked(call).with_said(Arc::clone(&said));
                asked.client.images = images;
                // The door then runs nothing, and still records that it was asked for.
                asked.refusal = refused;
                running.push(async move { (at, ask(door, caller, session, at, asked).await) });
            }
            let Some((at, asked)) = running.next().await else { break };
            schedule.end(at);
            let (outcome, kept) = match asked {
                Ok(asked) => asked,
                Err(error) => {
                    pause.failed.get_or_insert(error.into());
                    continue;
                }
            };
            if let Some((call, slot)) = calls.get(at).zip(slots.get_mut(at))
                && let Some(result) = pause.take(call, kept)
            {
                history.push(result.message(&call.id));
                if let (Some(recorder), None) = (recorder.as_mut(), &pause.failed) {
                    let line =
                        Line::Result { call_id: call.id.clone(), tool: call.name.clone(), result: result.clone() };
                    pause.failed = recorder.write(&line).err().map(RunError::from);
                }
                *slot = Some(result);
            }
            spent.take_call(&outcome);
            on_event(&Event::CallFinished { outcome });
        }
        drop(running);
        pause.end(session.as_ref())?;
        if let Some(session) = session {
            session.completed();
        }
        history.repair();
        Ok(slots.into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn started(call: &ModelCall) -> Event {
    let ModelCall { id, name, arguments, .. } = call.clone();
    Event::CallStarted { call_id: id, tool: name, arguments }
}

/// What a model asks for, as the door takes it.
fn asked(call: &ModelCall) -> Call {
    Call::raw(&call.name, &call.arguments).with_id(call.id.as_str()).with_repairs(call.repairs.clone())
}

/// What a call uses that others of its turn may use too.
fn lanes(offer: &Offer, call: &ModelCall) -> Lanes {
    let Some(tool) = offer.tools.get(&call.name) else { return Lanes::default() };
    let arguments = repair::arguments(&call.arguments, RepairLevel::Lenient).ok();
    Lanes::of(tool, arguments.as_ref().map(|parsed| &parsed.value))
}

/// One call to the door, kept in the session where there is one.
async fn ask(
    door: &dyn Door,
    caller: &Caller,
    session: Option<&Session>,
    at: usize,
    call: Call,
) -> Result<(Outcome, Kept), SessionError> {
    if let Some(session) = session {
        return session.call(door, caller, at, call).await;
    }
    let outcome = door.call(caller, call).await;
    let result = ResultRecord::of(&outcome);
    Ok((outcome, Kept::Result(result)))
}

/// Why a turn cannot be told to the model yet.
#[derive(Default)]
struct Pause {
    failed: Option<RunError>,
    waiting: Vec<OpenQuestion>,
    later: Option<(String, ErrorObject)>,
}

impl Pause {
    /// Keeps in mind what has no result.
    fn take(&mut self, call: &ModelCall, kept: Kept) -> Option<ResultRecord> {
        match kept {
            Kept::Result(result) => return Some(result),
            Kept::Waiting(waiting) => self.waiting.push(OpenQuestion {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                approval: waiting.id,
                expires: waiting.expires,
            }),
            Kept::Later(error) => drop(self.later.get_or_insert((call.name.clone(), error))),
        }
        None
    }

    fn end(self, session: Option<&Session>) -> Result<(), RunError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some((tool, error)) = self.later {
            return Err(RunError::Later { tool, error: Box::new(error) });
        }
        match session {
            Some(session) if !self.waiting.is_empty() => {
                Err(RunError::Waiting { session: session.label().to_owned(), waiting: self.waiting })
            }
            _ => Ok(()),
        }
    }
}

impl Default for ResultRecord {
    fn default() -> Self {
        Self { status: Status::Unknown, code: None, text: String::new(), images: Vec::new(), attempt: None }
    }
}
