//! One round: what of the conversation is sent, what the model says to it, and what that took.

use tollgate_wire::{Finish, ModelCall, ToolChoice, Turn};

use super::compact::{Compacted, Fitted, Rule, fit};
use super::{Agent, Difference, Event, Offer, RunError, Spent};
use crate::model::{ModelError, ModelRequest};
use crate::record::{Line, ResultRecord};

/// How the server's count of the last request stands to ours, which knows neither its template nor, mostly, its vocabulary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scale {
    ours: u64,
    theirs: u64,
}

impl Scale {
    /// A server that says nonsense moves no number of ours further than this.
    const TIMES_MAX: u64 = 4;

    fn learn(&mut self, ours: u64, theirs: u64) {
        if ours > 0 && theirs > 0 {
            let theirs = theirs.clamp((ours / Self::TIMES_MAX).max(1), ours.saturating_mul(Self::TIMES_MAX));
            *self = Self { ours, theirs };
        }
    }

    fn apply(self, tokens: u64) -> u64 {
        if self.ours == 0 {
            return tokens;
        }
        let scaled = (u128::from(tokens) * u128::from(self.theirs)).div_ceil(u128::from(self.ours));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

impl Agent {
    /// Asks the model, and keeps what it said.
    pub(super) async fn turn(
        &mut self,
        offer: &Offer,
        tool_choice: &ToolChoice,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Turn, RunError> {
        let (mut turn, sent_tokens) = self.request(offer, tool_choice, on_event).await?;
        self.spent.take_turn(&turn, sent_tokens, &self.tokens, self.options.price.as_ref());
        self.observe(&turn, &offer.hosted, on_event).await?;
        let is_paused = turn.finish == Finish::Paused;
        if turn.calls.is_empty() && turn.text.trim_ascii().is_empty() && !is_paused {
            return Err(ModelError::Empty { finish: turn.finish.as_str().to_owned() }.into());
        }
        let round = self.spent.rounds;
        self.history.push_turn(&mut turn);
        self.record(|| Line::Turn { round, turn: turn.clone() })?;
        if let Some(session) = &mut self.session {
            session.turn(round, &turn, |tool| offer.reads(tool)).await?;
        }
        on_event(&Event::Turn { round, turn: turn.clone() });
        on_event(&Event::Spent(self.spent()));
        Ok(turn)
    }

    /// Sends as much of the conversation as the model can be sent; the turn, and how many tokens were sent.
    async fn request(
        &mut self,
        offer: &Offer,
        tool_choice: &ToolChoice,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<(Turn, u64), RunError> {
        self.prepare_tokens(offer).await;
        let Self { history, tokens, scale, options, model, compacted, .. } = self;
        let tools = tokens.in_text(offer.lowered.tools().get());
        let fitted = match options.context {
            None => Fitted::whole(history),
            Some(context) => {
                let rule = Rule {
                    fixed: scale.apply(tools),
                    context,
                    measure: &|message| scale.apply(tokens.in_message(message)),
                    source: tokens.source(),
                    reads: &|tool| offer.reads(tool),
                };
                fit(history, &rule)
            }
        };
        let is_shortened = tell(compacted, fitted.compacted, on_event);
        let (messages, hosted) = (fitted.messages.as_ref(), offer.hosted_wire.as_slice());
        let request = ModelRequest { messages, is_shortened, tools: &offer.lowered, hosted, tool_choice };
        let mut on_text = |text: &str| on_event(&Event::TextDelta { text: text.to_owned() });
        let turn = model.turn(request, &mut on_text).await?;
        let sent = tools + messages.iter().map(|message| tokens.in_message(message)).sum::<u64>();
        if let Some(usage) = &turn.usage {
            scale.learn(sent, usage.input_tokens);
        }
        Ok((turn, scale.apply(sent)))
    }

    /// Makes counting ready where an estimate would not do: from half of what may be sent on.
    async fn prepare_tokens(&self, offer: &Offer) {
        let Some(context) = self.options.context else { return };
        let whole: u64 = self.history.messages().iter().map(|message| self.tokens.in_message(message)).sum();
        if whole + self.tokens.in_text(offer.lowered.tools().get()) > context.tokens_max / 2 {
            self.tokens.prepare().await;
        }
    }

    /// Compares results with those of a recording that is replayed.
    pub(super) fn compare(
        &self,
        calls: &[(ModelCall, ResultRecord)],
        differences: &mut Vec<Difference>,
        on_event: &mut (dyn FnMut(&Event) + Send),
    ) {
        for (call, actual) in calls {
            if let Some(recorded) = self.model.recorded(&call.id).filter(|recorded| !recorded.is_same(actual)) {
                let (call_id, tool, actual) = (call.id.clone(), call.name.clone(), actual.clone());
                let difference = Difference { call_id, tool, recorded, actual };
                on_event(&Event::Difference(difference.clone()));
                differences.push(difference);
            }
        }
    }

    /// What the run spent so far.
    pub(super) fn spent(&self) -> Spent {
        let now = self.clock.as_ref().map(|clock| clock.monotonic());
        let elapsed = now.zip(self.begun).map(|(now, begun)| now.saturating_sub(begun));
        let elapsed_ms = elapsed.map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        Spent { elapsed_ms, ..self.spent.clone() }
    }
}

/// Says what is left out, where that is not what it was; whether it said so.
fn tell(last: &mut Option<Compacted>, now: Option<Compacted>, on_event: &mut (dyn FnMut(&Event) + Send)) -> bool {
    let taken = |compacted: &Compacted| (compacted.results, compacted.turns, compacted.why.is_some());
    let is_new = now.as_ref().map(taken) != last.as_ref().map(taken);
    if is_new {
        if let Some(compacted) = &now {
            on_event(&Event::Compacted(compacted.clone()));
        }
        *last = now;
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_corrects_what_is_counted_here() {
        let mut scale = Scale::default();
        assert_eq!(scale.apply(1_000), 1_000);
        scale.learn(1_000, 1_200);
        assert_eq!(scale.apply(500), 600);
        scale.learn(0, 7);
        scale.learn(7, 0);
        assert_eq!(scale.apply(500), 600, "what says nothing changes nothing");
        scale.learn(1_000, 1_000_000);
        assert_eq!(scale.apply(500), 2_000, "and nonsense little");
        scale.learn(1_000, 1);
        assert_eq!(scale.apply(500), 125);
    }
}
