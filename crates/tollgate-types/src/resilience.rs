//! What is done about a failure, as it is declared: the ladder of retry, fallback and human, and what protects a source.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::limits;

/// The key of [`OnError`] for every failure of the way to a server.
pub const NETWORK_ERROR: &str = "network_error";
/// The key of [`OnError`] for what no other key is about.
pub const DEFAULT_STRATEGY: &str = "default";

/// What is done about failures, by code: one of the gate's (`timeout`), one of the tool's own (`HTTP_503`),
/// `network_error` for every failure of the way to a server, and `default`, which must be there, for all others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OnError(pub BTreeMap<String, Strategy>);

impl OnError {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The rungs for one code. What is unsaid is left to `default`, then to what the source and the house say.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Strategy {
    /// One word for all rungs.
    Word(StrategyWord),
    /// Each rung.
    Rungs(Rungs),
}

/// A strategy in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StrategyWord {
    /// The caller is told, and nothing else is done.
    Fail,
    /// No retry and no fallback: a human is asked.
    Human,
}

/// The rungs of the ladder, in the order in which they are climbed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rungs {
    /// The same call again, where repeating is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Another tool instead, where the failed call cannot have happened or the other one only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// Whether a human is asked once nothing else is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human: Option<bool>,
}

/// How often and how soon the same call is made again. Each pause is twice the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// How often; 0 is never.
    pub max: u32,
    /// The first pause, in milliseconds; 0 is at once.
    pub pause_ms: u64,
    /// The longest pause, in milliseconds.
    pub pause_ms_max: u64,
    /// Whether pauses are shortened by chance, to the half at most, so that callers do not come back together.
    pub jitter: bool,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max: limits::RETRIES,
            pause_ms: limits::RETRY_PAUSE_MS,
            pause_ms_max: limits::RETRY_PAUSE_MS_MAX,
            jitter: true,
        }
    }
}

/// Another tool instead. It is called as any tool is, through the whole gate, for the same caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// Its name.
    pub tool: String,
    /// Its arguments; unsaid: the same ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_args: Option<BTreeMap<String, MappedArgument>>,
}

/// One argument of a fallback.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MappedArgument {
    /// What stands at a JSON Pointer in the arguments of the failed call; left out where nothing does.
    Pointer(FromPointer),
    /// A text made of those arguments.
    Template(FromTemplate),
    /// This value.
    Value(Literal),
    /// This text, number, boolean or list.
    Plain(Value),
}

/// `{ pointer = "/city" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromPointer {
    /// The JSON Pointer (RFC 6901); empty for all arguments.
    pub pointer: String,
}

/// `{ template = "the weather of {{ city }}" }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromTemplate {
    /// A minijinja template over the arguments: places, `for` and `if`.
    pub template: String,
}

/// `{ value = { … } }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Literal {
    /// The value.
    pub value: Value,
}

impl<'de> Deserialize<'de> for MappedArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let Value::Object(table) = &value else { return Ok(Self::Plain(value)) };
        let mut entries = table.iter();
        match (entries.next(), entries.next()) {
            (Some((key, Value::String(pointer))), None) if key == "pointer" => {
                Ok(Self::Pointer(FromPointer { pointer: pointer.clone() }))
            }
            (Some((key, Value::String(template))), None) if key == "template" => {
                Ok(Self::Template(FromTemplate { template: template.clone() }))
            }
            (Some((key, value)), None) if key == "value" => Ok(Self::Value(Literal { value: value.clone() })),
            _ => {
                let forms = "{ pointer = \"/…\" }, { template = \"…\" } or { value = … }";
                Err(de::Error::custom(format!("a table among `map_args` is one of {forms}")))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Strategy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`fail`, `human`, or a table of retry, fallback and human")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Strategy, E> {
                match word {
                    "fail" => Ok(Strategy::Word(StrategyWord::Fail)),
                    "human" => Ok(Strategy::Word(StrategyWord::Human)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Strategy, A::Error> {
                Rungs::deserialize(MapAccessDeserializer::new(map)).map(Strategy::Rungs)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// `[resilience]`: what protects sources, and what is done about failures where nobody says otherwise. A source is an MCP
/// server, an HTTP tool, or what several tools name in `source.server`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resilience {
    /// How long calls under way may go on when Tollgate is told to stop, in milliseconds; what is left is cancelled.
    pub drain_ms: Option<u64>,
    /// How many calls of one source run at once.
    pub max_concurrent: Option<u32>,
    /// How many more of one source wait for their turn; the next is refused at once.
    pub max_waiting: Option<u32>,
    /// When a source is not asked any more.
    pub breaker: Option<BreakerRule>,
    /// How many calls may be retries.
    pub retry_budget: Option<RetryBudget>,
    /// What is done about failures.
    #[serde(skip_serializing_if = "OnError::is_empty")]
    pub on_error: OnError,
    /// The same for single sources, by their name.
    pub sources: BTreeMap<String, SourceRules>,
}

/// `[resilience.sources.NAME]`. What is unsaid is what `[resilience]` says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SourceRules {
    /// How many of its calls run at once.
    pub max_concurrent: Option<u32>,
    /// How many more wait for their turn.
    pub max_waiting: Option<u32>,
    /// When it is not asked any more.
    pub breaker: Option<BreakerRule>,
    /// How many calls may be retries.
    pub retry_budget: Option<RetryBudget>,
    /// What is done about failures of its tools.
    #[serde(skip_serializing_if = "OnError::is_empty")]
    pub on_error: OnError,
}

/// A source that fails again and again is left alone for a while, then tried by few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerRule {
    /// After so many failures in a row; 0 is never.
    pub failures: u32,
    /// For how long, in milliseconds.
    pub open_ms: u64,
    /// How many calls try it then, at once; as many must succeed.
    pub probes: u32,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self { failures: limits::BREAKER_FAILURES, open_ms: limits::BREAKER_OPEN_MS, probes: 1 }
    }
}

/// Retries of one source, counted against its calls, so that retries do not keep down what is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudget {
    /// So many retries in a hundred calls.
    pub percent: u32,
    /// So many more, and as many as are saved up at most.
    pub reserve: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: limits::RETRY_BUDGET_PERCENT, reserve: limits::RETRY_BUDGET_RESERVE }
    }
}
