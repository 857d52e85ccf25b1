//! `[run]`: how `tollgate run` works, and what one run may spend.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_agent::{Context, Options, React, RunBudget, STRATEGIES, strategy};
use tollgate_types::{Units, limits};

use super::limit::period;
use super::{ConfigError, Loaded};

/// `[run]`: a run is one prompt of `tollgate run`, until its answer. Whoever reaches a limit is not asked again, and the run
/// ends with `budget_exceeded`; a resumed run begins anew. The command line may say otherwise.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// How an answer is looked for: `react`.
    pub strategy: String,
    /// Rounds before the model must answer.
    pub rounds_max: NonZeroU32,
    /// Tokens that the model may read and write, all rounds together.
    pub tokens_max: Option<NonZeroU64>,
    /// What it may cost, in the currency of the model's `price`. A model without a price then is not asked.
    pub cost_max: Option<Units>,
    /// How long it may take: a period such as `90s` or `10m`, at most 31 days.
    pub time_max: Option<String>,
    /// What may be left out of what is sent when a conversation nears the model's `context_tokens`. The session keeps all of
    /// it.
    pub compaction: Compaction,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            strategy: React::NAME.into(),
            rounds_max: NonZeroU32::new(limits::ROUNDS_MAX).unwrap_or(NonZeroU32::MIN),
            tokens_max: None,
            cost_max: None,
            time_max: None,
            compaction: Compaction::default(),
        }
    }
}

/// What may be left out of a conversation that is too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// Nothing.
    Off,
    /// Old results are shortened to a line that says how to get them back.
    Results,
    /// Then old turns go as well. The instructions, the first prompt, errors and the newest turn stay.
    #[default]
    Turns,
}

impl From<Compaction> for tollgate_agent::Compaction {
    fn from(compaction: Compaction) -> Self {
        match compaction {
            Compaction::Off => Self::Off,
            Compaction::Results => Self::Results,
            Compaction::Turns => Self::Turns,
        }
    }
}

impl Loaded {
    /// How an agent works with this model, as `[run]` and the model say.
    ///
    /// # Errors
    /// When there is no such strategy, or a limit is none.
    pub fn run_options(&self, model: &str) -> Result<Options, ConfigError> {
        let run = self.config.run.get_ref();
        let (price, sent_tokens_max) = self.facts(model);
        let compaction = run.compaction.into();
        Ok(Options {
            rounds_max: run.rounds_max.get(),
            budget: self.run()?,
            price,
            context: sent_tokens_max.map(|tokens_max| Context { tokens_max, compaction }),
            ..Options::default()
        })
    }

    /// What one run may spend.
    pub(super) fn run(&self) -> Result<RunBudget, ConfigError> {
        self.check_models()?;
        let table = &self.config.run;
        let run = table.get_ref();
        let fault = |key: &str, message: String, hint: &str| Err(self.key_fault(table, "run", key, message, hint));
        if strategy(&run.strategy).is_none() {
            let message = format!("no strategy is named `{}`", run.strategy);
            return fault("strategy", message, &format!("there is {}", STRATEGIES.join(", ")));
        }
        if run.rounds_max.get() > limits::ROUNDS_MAX_MAX {
            let message = format!("`{}` rounds are too many", run.rounds_max);
            return fault("rounds_max", message, &format!("between 1 and {}", limits::ROUNDS_MAX_MAX));
        }
        if run.cost_max == Some(Units::ZERO) {
            return fault("cost_max", "a run for nothing asks no model".into(), "leave it out, or write more");
        }
        let time_max = match &run.time_max {
            None => None,
            Some(text) => match period(text) {
                Some(time) => Some(time),
                None => {
                    let message = format!("`{text}` is not a period of 1 ms to 31 days");
                    return fault("time_max", message, "write it as \"90s\" or \"10m\"");
                }
            },
        };
        Ok(RunBudget { tokens_max: run.tokens_max.map(NonZeroU64::get), cost_max: run.cost_max, time_max })
    }
}
