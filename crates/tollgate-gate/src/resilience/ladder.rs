//! The ladder of one tool: what its own definition, its source, the house and we ourselves say of each failure. The first
//! who says something of a rung is listened to; within one of them the closest key, then `default`.

use std::time::Duration;

use tollgate_types::{
    Code, Fallback, NETWORK_ERROR, OnError, Retry, Rungs, Strategy, StrategyWord, ToolDefinition, limits,
};

use super::failure::{Class, Failure};
use super::retry;

/// Between two tries of what `execution.retryable_errors` lists.
const LISTED_PAUSE_MS: u64 = 100;

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The tool's `on_error`.
    Tool,
    /// The tool's `execution.max_retries`.
    Execution,
    /// `[resilience.sources.NAME]`.
    Source,
    /// `[resilience]`.
    House,
    /// Nobody else.
    BuiltIn,
}

impl Origin {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "on_error",
            Self::Execution => "execution.max_retries",
            Self::Source => "source",
            Self::House => "resilience",
            Self::BuiltIn => "built in",
        }
    }
}

/// The ladder of one tool.
#[derive(Debug)]
pub(crate) struct Ladder {
    tool: String,
    layers: Vec<(Origin, OnError)>,
}

/// Something that was said, and by whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<T> {
    pub(crate) what: T,
    pub(crate) by: Origin,
    /// Whether it was said of this very failure, and not of all that nothing else is said of.
    pub(crate) is_named: bool,
}

/// The rungs for one failure, in the order in which they are climbed. After the last one the caller is told.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steps<'a> {
    /// The same call again.
    pub(crate) retry: Option<Said<Retry>>,
    /// Another tool.
    pub(crate) fallback: Option<Said<&'a Fallback>>,
    /// A human.
    pub(crate) human: Option<Said<bool>>,
}

impl<'a> Steps<'a> {
    fn take(&mut self, rungs: &'a Rungs, by: Origin, is_named: bool, tool: &str) {
        if self.retry.is_none() {
            self.retry = rungs.retry.map(|what| Said { what, by, is_named });
        }
        if self.fallback.is_none() {
            // What is said of many tools may name one of them.
            let other = rungs.fallback.as_ref().filter(|other| by == Origin::Tool || other.tool != tool);
            self.fallback = other.map(|what| Said { what, by, is_named });
        }
        if self.human.is_none() {
            self.human = rungs.human.map(|what| Said { what, by, is_named });
        }
    }

    /// Whether a human is the next one to ask.
    pub(crate) fn asks_human(&self) -> bool {
        self.human.is_some_and(|said| said.what)
    }
}

/// How a call stands when it failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Doing it twice is doing it once.
    pub(crate) is_repeatable: bool,
    /// How often it was made again already.
    pub(crate) retries: u32,
    /// What is left of its time, where that is limited.
    pub(crate) left: Option<Duration>,
    /// What shortens the pause.
    pub(crate) chance: u64,
}

impl Ladder {
    /// The ladder of a tool whose source and house say this.
    pub(crate) fn new(definition: &ToolDefinition, source: OnError, house: OnError) -> Self {
        let layers = [
            (Origin::Tool, definition.on_error.clone()),
            (Origin::Execution, listed(definition)),
            (Origin::Source, source),
            (Origin::House, house),
            (Origin::BuiltIn, built_in()),
        ];
        let layers = layers.into_iter().filter(|(_, said)| !said.is_empty()).collect();
        Self { tool: definition.name.clone(), layers }
    }

    /// The rungs for one failure.
    pub(crate) fn steps(&self, failure: &Failure<'_>) -> Steps<'_> {
        if failure.class == Class::Final { Steps::default() } else { self.steps_for(&failure.keys()) }
    }

    /// The rungs for what is looked for under these keys, the closest first.
    pub(crate) fn steps_for(&self, keys: &[&str]) -> Steps<'_> {
        let mut steps = Steps::default();
        for (by, on_error) in &self.layers {
            for (at, key) in keys.iter().enumerate() {
                let is_named = at + 1 < keys.len();
                match on_error.0.get(*key) {
                    None => {}
                    Some(Strategy::Rungs(rungs)) => steps.take(rungs, *by, is_named, &self.tool),
                    Some(Strategy::Word(word)) => {
                        if *word == StrategyWord::Human {
                            steps.human.get_or_insert(Said { what: true, by: *by, is_named });
                        }
                        return steps;
                    }
                }
            }
        }
        steps
    }

    /// Whether some failure is put to a human, so that an answer may stand.
    pub(crate) fn may_ask_human(&self) -> bool {
        let mut all = self.layers.iter().flat_map(|(_, said)| said.0.values());
        all.any(|strategy| match strategy {
            Strategy::Word(word) => *word == StrategyWord::Human,
            Strategy::Rungs(rungs) => rungs.human == Some(true),
        })
    }

    /// Whether a call that policy denies is put to a human: only where that very code is named.
    pub(crate) fn escalates_denied(&self) -> bool {
        self.steps_for(&[Code::Denied.as_str()]).asks_human()
    }

    /// The pause before the same call is made again, where it may be. A server that wants to be left alone for longer than
    /// we would wait is left alone.
    pub(crate) fn again(&self, failure: &Failure<'_>, standing: Standing) -> Option<Duration> {
        let retry = self.steps(failure).retry?;
        let error = failure.error;
        let is_worth_it = failure.class != Class::Auth && (error.retryable || retry.is_named);
        let is_safe = standing.is_repeatable || error.nothing_happened;
        if !is_worth_it || !is_safe || standing.retries >= retry.what.max {
            return None;
        }
        let wanted = Duration::from_millis(error.retry_after_ms.unwrap_or(0));
        let pause = retry::pause(&retry.what, standing.retries, standing.chance).max(wanted);
        let is_soon = wanted <= Duration::from_millis(limits::RETRY_PAUSE_MS_MAX);
        (is_soon && standing.left.is_none_or(|left| pause < left)).then_some(pause)
    }

    /// Every key that something is said under.
    pub(crate) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = self.layers.iter().flat_map(|(_, said)| said.0.keys()).map(String::as_str).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Every tool that may be called instead.
    pub(crate) fn fallbacks(&self) -> impl Iterator<Item = &str> {
        let of = |by: Origin, strategy: &'_ Strategy| match strategy {
            Strategy::Rungs(Rungs { fallback: Some(other), .. }) if by == Origin::Tool || other.tool != self.tool => {
                true
            }
            Strategy::Rungs(_) | Strategy::Word(_) => false,
        };
        let all = self.layers.iter().flat_map(|(by, said)| said.0.values().map(|strategy| (*by, strategy)));
        all.filter(move |(by, strategy)| of(*by, strategy)).filter_map(|(_, strategy)| match strategy {
            Strategy::Rungs(rungs) => rungs.fallback.as_ref().map(|other| other.tool.as_str()),
            Strategy::Word(_) => None,
        })
    }
}

/// What `execution` says of retries.
fn listed(definition: &ToolDefinition) -> OnError {
    let execution = &definition.execution;
    if execution.max_retries == 0 {
        return OnError::default();
    }
    let retry = Retry { max: execution.max_retries, pause_ms: LISTED_PAUSE_MS, ..Retry::default() };
    let strategy = |code: &String| (code.clone(), Strategy::Rungs(Rungs { retry: Some(retry), ..Rungs::default() }));
    OnError(execution.retryable_errors.iter().map(strategy).collect())
}

/// Where nobody says anything: the way to a server is tried again three times, what was too slow once, at once.
fn built_in() -> OnError {
    let retry = |retry: Retry| Strategy::Rungs(Rungs { retry: Some(retry), ..Rungs::default() });
    let once = Retry { max: 1, pause_ms: 0, ..Retry::default() };
    OnError([(NETWORK_ERROR.to_owned(), retry(Retry::default())), ("timeout".to_owned(), retry(once))].into())
}

#[cfg(test)]
mod tests;
