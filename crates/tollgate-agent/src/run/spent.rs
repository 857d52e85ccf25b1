//! What a run spends: rounds, calls, tokens, money and time; and how much of that it may.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tollgate_types::{Outcome, Status, Units};
use tollgate_wire::{Turn, Usage};

use crate::tokens::{TokenSource, Tokens};

/// Tokens that a price is for.
const PRICED_TOKENS: u128 = 1_000_000;

/// What a model takes for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// Read by the model.
    pub input: Units,
    /// Read by the model, and known to it from an earlier request; as [`Price::input`] if unset.
    pub cached_input: Option<Units>,
    /// Written by the model.
    pub output: Units,
    /// In what it is paid, such as `USD`.
    pub currency: String,
}

impl Price {
    /// What these tokens cost, rounded up to the millionth.
    pub fn of(&self, usage: &Usage) -> Units {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let parts = [
            (usage.input_tokens - cached, self.input),
            (cached, self.cached_input.unwrap_or(self.input)),
            (usage.output_tokens, self.output),
        ];
        let micro: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(price.micro())).sum();
        u64::try_from(micro.div_ceil(PRICED_TOKENS)).ok().and_then(Units::from_micro).unwrap_or_else(most)
    }
}

/// More than anything costs.
fn most() -> Units {
    Units::from_micro(tollgate_types::limits::UNITS_MAX.saturating_mul(1_000_000)).unwrap_or_default()
}

/// What one run may spend beside its rounds. Who has spent it asks the model no more; what is under way comes to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunBudget {
    /// Tokens that the model reads and writes.
    pub tokens_max: Option<u64>,
    /// Money, in the currency of the model's price. A run without a price costs nothing.
    pub cost_max: Option<Units>,
    /// From the beginning of the run. It ends a request that is under way, and no call.
    pub time_max: Option<Duration>,
}

/// What a run spent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// How often the model was asked.
    pub rounds: u32,
    /// The calls, by tool, in the order of their first.
    pub calls: Vec<ToolTally>,
    /// The tokens of all rounds.
    pub usage: Usage,
    /// From where they are known; the least certain of all rounds.
    pub tokens: TokenSource,
    /// The money, where the model has a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The time, where the agent has a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

/// The calls of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ToolTally {
    /// The tool.
    pub tool: String,
    /// How many there were.
    pub count: u32,
    /// How many are done.
    pub done: u32,
    /// How many were not let through.
    pub refused: u32,
    /// How many failed, or may have happened.
    pub failed: u32,
    /// How many wait for a human.
    pub waiting: u32,
    /// How long they took together.
    pub duration_ms: u64,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// How much.
    pub amount: Units,
    /// Of what.
    pub currency: String,
}

impl Spent {
    /// Read and written.
    pub fn total_tokens(&self) -> u64 {
        self.usage.input_tokens.saturating_add(self.usage.output_tokens)
    }

    /// All calls.
    pub fn total_calls(&self) -> u32 {
        self.calls.iter().map(|tally| tally.count).sum()
    }

    pub(super) fn take_call(&mut self, outcome: &Outcome) {
        let at = self.calls.iter().position(|tally| tally.tool == outcome.tool).unwrap_or_else(|| {
            self.calls.push(ToolTally { tool: outcome.tool.clone(), ..ToolTally::default() });
            self.calls.len() - 1
        });
        let Some(tally) = self.calls.get_mut(at) else { return };
        tally.count += 1;
        tally.duration_ms += outcome.duration_ms;
        match outcome.status() {
            Status::Done => tally.done += 1,
            Status::Refused => tally.refused += 1,
            Status::Failed | Status::Unknown => tally.failed += 1,
            Status::Waiting => tally.waiting += 1,
        }
    }

    /// `sent_tokens` is what was sent, for servers that do not say it.
    pub(super) fn take_turn(&mut self, turn: &Turn, sent_tokens: u64, tokens: &Tokens, price: Option<&Price>) {
        let usage = turn.usage.unwrap_or_else(|| Usage {
            input_tokens: sent_tokens,
            output_tokens: tokens.in_turn(turn),
            ..Usage::default()
        });
        if turn.usage.is_none() {
            self.tokens = self.tokens.max(tokens.source());
        }
        self.rounds += 1;
        self.usage += usage;
        if let Some(price) = price {
            let before = self.cost.as_ref().map_or(Units::ZERO, |cost| cost.amount);
            let amount = before.plus(price.of(&usage)).unwrap_or_else(most);
            self.cost = Some(Cost { amount, currency: price.currency.clone() });
        }
    }

    /// The limit of the budget that is reached.
    pub(super) fn exceeds(&self, budget: &RunBudget) -> Option<Exceeded> {
        if let Some(max) = budget.tokens_max.filter(|max| self.total_tokens() >= *max) {
            return Some(Exceeded::Tokens { max });
        }
        let cost = self.cost.as_ref()?;
        let max = budget.cost_max.filter(|max| cost.amount >= *max)?;
        Some(Exceeded::Cost { max, currency: cost.currency.clone() })
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rounds, calls) = (self.rounds, self.total_calls());
        write!(f, "{rounds} {} · {calls} {}", plural(rounds, "round"), plural(calls, "call"))?;
        write!(f, " · {} tokens", grouped(self.total_tokens()))?;
        if self.tokens != TokenSource::Reported {
            write!(f, " ({})", self.tokens.as_str())?;
        }
        if let Some(cost) = &self.cost {
            write!(f, " · {} {}", cost.amount, cost.currency)?;
        }
        match self.elapsed_ms {
            Some(ms) => write!(f, " · {}.{} s", ms / 1_000, ms % 1_000 / 100),
            None => Ok(()),
        }
    }
}

fn plural(count: u32, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Which limit a run reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exceeded {
    /// Of its rounds.
    Rounds {
        /// How many it may have.
        max: u32,
    },
    /// Of its tokens.
    Tokens {
        /// How many it may have.
        max: u64,
    },
    /// Of its money.
    Cost {
        /// How much it may cost.
        max: Units,
        /// In which currency.
        currency: String,
    },
    /// Of its time.
    Time {
        /// How long it may take, in milliseconds.
        max_ms: u64,
    },
}

impl Exceeded {
    /// What allows more of it on the command line.
    pub(super) fn option(&self) -> &'static str {
        match self {
            Self::Rounds { .. } => "--rounds",
            Self::Tokens { .. } => "--max-tokens-total",
            Self::Cost { .. } => "--max-cost",
            Self::Time { .. } => "--max-time",
        }
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rounds { max } => write!(f, "no answer after {max} rounds (max_turns)"),
            Self::Tokens { max } => write!(f, "no answer within {} tokens (tokens_max)", grouped(*max)),
            Self::Cost { max, currency } => write!(f, "no answer for {max} {currency} (cost_max)"),
            Self::Time { max_ms } => write!(f, "no answer within {max_ms} ms (time_max)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Units {
        text.parse().unwrap()
    }

    fn price() -> Price {
        let (input, output) = (units("0.25"), units("2"));
        Price { input, cached_input: Some(units("0.025")), output, currency: "USD".into() }
    }

    fn usage(input_tokens: u64, cached_input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, cached_input_tokens, output_tokens, ..Usage::default() }
    }

    #[test]
    fn tokens_cost_what_the_price_says() {
        let cases = [
            (usage(1_000_000, 0, 0), "0.25"),
            (usage(0, 0, 1_000_000), "2"),
            (usage(1_000_000, 1_000_000, 0), "0.025"),
            (usage(1_000_000, 400_000, 500_000), "1.16"),
            (usage(1, 0, 0), "0.000001"),
            (usage(0, 7, 0), "0"),
            (usage(u64::MAX, 0, u64::MAX), "1000000000000"),
        ];
        for (usage, cost) in cases {
            assert_eq!(price().of(&usage), units(cost), "{usage:?}");
        }
        let plain = Price { cached_input: None, ..price() };
        assert_eq!(plain.of(&usage(1_000_000, 1_000_000, 0)), units("0.25"), "what is not said costs as much as input");
    }

    #[test]
    fn a_budget_ends_when_it_is_spent() {
        let budget = RunBudget { tokens_max: Some(100), cost_max: Some(units("0.0001")), time_max: None };
        let mut spent = Spent::default();
        assert_eq!(spent.exceeds(&budget), None);
        let turn = |input| Turn { usage: Some(usage(input, 0, 9)), ..Turn::default() };
        let tokens = Tokens::of_model("m");
        spent.take_turn(&turn(90), 0, &tokens, None);
        assert_eq!(spent.exceeds(&budget), None, "99 of 100");
        spent.take_turn(&turn(0), 0, &tokens, Some(&price()));
        assert_eq!(spent.exceeds(&budget), Some(Exceeded::Tokens { max: 100 }));
        let free = RunBudget { tokens_max: None, ..budget };
        assert_eq!(spent.exceeds(&free), None);
        spent.take_turn(&turn(400), 0, &tokens, Some(&price()));
        assert_eq!(spent.exceeds(&free), Some(Exceeded::Cost { max: units("0.0001"), currency: "USD".into() }));
        assert_eq!(spent.to_string(), "3 rounds · 0 calls · 517 tokens · 0.000136 USD");
    }

    #[test]
    fn a_server_that_says_nothing_is_counted_for() {
        let mut spent = Spent::default();
        let turn = Turn { text: "还有四十二个".into(), ..Turn::default() };
        spent.take_turn(&turn, 1_234, &Tokens::of_model("m"), None);
        assert_eq!((spent.usage.input_tokens, spent.tokens), (1_234, TokenSource::Estimated));
        assert!(spent.usage.output_tokens >= 4, "{spent:?}");
        assert_eq!(spent.to_string(), "1 round · 0 calls · 1,239 tokens (estimated)");
    }
}
