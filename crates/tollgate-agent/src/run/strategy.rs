//! How an agent looks for an answer. The rounds are the agent's: each asks the model once and takes its calls to the door,
//! within the limits of the run. Which rounds there are, and when to give up, a strategy decides.

use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Sleep;
use tollgate_types::BoxFuture;
use tollgate_wire::{Finish, ModelCall, ToolChoice, Turn};

use super::repetition::Repetition;
use super::spent::Exceeded;
use super::{Agent, Difference, Event, Offer, RunError, unforced};
use crate::record::ResultRecord;
use crate::session::SessionError;

/// A way to look for an answer.
pub trait Strategy: Send + Sync {
    /// Its name, for the command line, the configuration and records.
    fn name(&self) -> &'static str;

    /// Makes rounds until one of them is an answer.
    fn search<'a, 's: 'a>(&'a self, search: &'a mut Search<'s>) -> BoxFuture<'a, Result<Turn, RunError>>;
}

/// The names of the strategies that are here, the default first.
pub const STRATEGIES: [&str; 1] = [React::NAME];

/// The strategy of this name.
pub fn strategy(name: &str) -> Option<Arc<dyn Strategy>> {
    (name == React::NAME).then(|| Arc::new(React) as Arc<dyn Strategy>)
}

/// One round after the other: what the calls brought goes back to the model, until it answers or goes in circles (ReAct,
/// arXiv:2210.03629).
#[derive(Debug, Clone, Copy, Default)]
pub struct React;

impl React {
    /// Its name.
    pub const NAME: &'static str = "react";
}

impl Strategy for React {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn search<'a, 's: 'a>(&'a self, search: &'a mut Search<'s>) -> BoxFuture<'a, Result<Turn, RunError>> {
        Box::pin(async move {
            let mut repetition = Repetition::default();
            loop {
                match search.round().await? {
                    Round::Answered(turn) => return Ok(*turn),
                    Round::Called(calls) => {
                        let signatures = calls.iter().map(|(call, result)| (call, result.text.as_str()));
                        if let Some(tool) = repetition.take(signatures) {
                            return Err(RunError::NoProgress { tool });
                        }
                    }
                }
            }
        })
    }
}

/// What one round brought.
#[derive(Debug, Clone)]
pub enum Round {
    /// The model answered.
    Answered(Box<Turn>),
    /// It called, and each call has its result.
    Called(Vec<(ModelCall, ResultRecord)>),
}

/// A place in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

/// One run, as a strategy has it at hand.
pub struct Search<'s> {
    pub(super) agent: &'s mut Agent,
    pub(super) offer: &'s Offer,
    pub(super) on_event: &'s mut (dyn FnMut(&Event) + Send),
    pub(super) tool_choice: ToolChoice,
    pub(super) differences: Vec<Difference>,
    /// When the time of the run is over.
    pub(super) end: Option<Pin<Box<Sleep>>>,
}

impl Search<'_> {
    /// Asks the model once, and takes its calls to the door. A turn that its provider paused goes on.
    ///
    /// # Errors
    /// When a limit of the run is reached, the model does not answer, what came of it cannot be kept, or a call waits for a
    /// human. No strategy can go on then.
    pub async fn round(&mut self) -> Result<Round, RunError> {
        let turn = loop {
            let turn = self.turn().await?;
            if !turn.calls.is_empty() || turn.finish != Finish::Paused {
                break turn;
            }
        };
        if turn.calls.is_empty() {
            return Ok(Round::Answered(Box::new(turn)));
        }
        let results = self.agent.call_all(&turn.calls, self.offer, self.on_event).await?;
        self.tool_choice = unforced(std::mem::take(&mut self.tool_choice));
        let calls: Vec<_> = turn.calls.into_iter().zip(results).collect();
        (self.on_event)(&Event::Spent(self.agent.spent()));
        self.agent.compare(&calls, &mut self.differences, self.on_event);
        Ok(Round::Called(calls))
    }

    async fn turn(&mut self) -> Result<Turn, RunError> {
        if let Some(what) = self.agent.exceeded() {
            return Err(self.agent.budget_exceeded(what));
        }
        let turn = self.agent.turn(self.offer, &self.tool_choice, self.on_event);
        let Some(end) = &mut self.end else { return turn.await };
        let turn = tokio::select! {
            biased;
            () = end.as_mut() => None,
            turn = turn => Some(turn),
        };
        turn.unwrap_or_else(|| Err(self.agent.budget_exceeded(self.agent.out_of_time())))
    }

    /// Where the conversation is now.
    pub fn mark(&self) -> Mark {
        Mark(self.agent.history.messages().len())
    }

    /// Goes back to where the conversation was: the model does not know any more what came after. What calls did stays
    /// done, and in the ledger.
    ///
    /// # Errors
    /// In a session, whose turns follow each other.
    pub fn back_to(&mut self, mark: Mark) -> Result<(), RunError> {
        if let Some(session) = &self.agent.session {
            return Err(SessionError::OneLine { session: session.label().to_owned() }.into());
        }
        self.agent.history.truncate(mark.0);
        Ok(())
    }
}

impl Agent {
    /// The limit of this run that is reached.
    fn exceeded(&self) -> Option<Exceeded> {
        let max = self.options.rounds_max;
        if self.spent.rounds >= max {
            return Some(Exceeded::Rounds { max });
        }
        self.spent.exceeds(&self.options.budget)
    }

    fn out_of_time(&self) -> Exceeded {
        let max = self.options.budget.time_max.unwrap_or_default();
        Exceeded::Time { max_ms: u64::try_from(max.as_millis()).unwrap_or(u64::MAX) }
    }

    fn budget_exceeded(&self, what: Exceeded) -> RunError {
        let session = self.session.as_ref().map(|session| session.label().to_owned());
        RunError::BudgetExceeded { what, spent: Box::new(self.spent()), session }
    }
}
