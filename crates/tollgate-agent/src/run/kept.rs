//! What the loop does for a session: takes it up where it was, and completes a turn whose calls lack outcomes.

use super::{Agent, Answer, Event, Offer, RunError, conversation};
use crate::record::Line;
use crate::session::{Progress, Session, SessionError};

use tollgate_wire::{Message, Usage};

impl Agent {
    /// The same agent in a session: the conversation goes on from there, and every step is stored. A call that waits for a
    /// human then ends the run, instead of being told to the model.
    #[must_use]
    pub fn with_session(mut self, mut session: Session) -> Self {
        self.caller = session.caller();
        self.options.system = session.meta().system.clone();
        let messages = session.take_messages();
        self.is_resumed = messages.iter().any(|message| matches!(message, Message::Tool { .. }))
            || session.results().iter().any(Option::is_some);
        self.history = conversation(&self.options, messages);
        self.session = Some(session);
        self
    }

    /// The session, where there is one.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Reads the session again after a run that did not come to its end. Until this one does, it counts as such.
    pub(super) async fn refresh(&mut self) -> Result<(), RunError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if self.is_stale {
            session.reload().await?;
            self.history = conversation(&self.options, session.take_messages());
        }
        self.is_stale = true;
        Ok(())
    }

    /// Says that the session goes on; the answer, where that is there already.
    pub(super) fn take_up(
        &self,
        offer: &Offer,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Option<Answer>, RunError> {
        let session = self.session.as_ref().ok_or(SessionError::NotOpen)?;
        let open_calls = match session.progress() {
            Progress::New => return Err(SessionError::Empty { session: session.label().to_owned() }.into()),
            Progress::Asked | Progress::Told | Progress::Answered => 0,
            Progress::Open(count) => count,
        };
        let (model, tools) = (self.model.name().to_owned(), offer.names.clone());
        on_event(&Event::RunResumed { session: session.meta().id.clone(), model, tools, open_calls });
        let Some(turn) = session.answer() else { return Ok(None) };
        let answer = Answer {
            text: turn.text.clone(),
            rounds: 0,
            finish: turn.finish.clone(),
            usage: Usage::default(),
            differences: Vec::new(),
        };
        on_event(&answer.event());
        Ok(Some(answer))
    }

    /// Asks the door for the calls of the last turn that have no outcome.
    pub(super) async fn complete(
        &mut self,
        offer: &Offer,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<(), RunError> {
        if let Some(calls) = self.session.as_ref().and_then(Session::open_calls) {
            self.call_all(&calls, offer, on_event).await?;
        }
        Ok(())
    }

    /// Stores a prompt. One before it to which nothing came is taken back.
    pub(super) async fn keep_prompt(&mut self, line: &Line) -> Result<(), RunError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if let [before @ .., Message::User(_)] = self.history.messages() {
            let length = before.len();
            session.withdraw_prompt().await?;
            self.history.truncate(length);
        }
        Ok(session.prompt(line).await?)
    }
}
