//! A schema as a provider takes it. What the provider knows stays as it is; what it does not know becomes words for the
//! description, and what cannot be told at all is a refusal of this one schema. Nothing here is ever used to validate.

mod count;
mod drafts;
mod gemini;
mod join;
mod kinds;
mod narrow;
mod plain;
mod words;

use std::borrow::Cow;

use serde_json::{Map, Value};
use tollgate_types::limits;

use count::Counts;

/// What providers take of JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subset {
    /// Nearly all of it, below an object with `properties`: where schemas are read to the model and not enforced.
    Plain,
    /// OpenAI with `strict`.
    OpenAiStrict,
    /// Anthropic with `strict`.
    AnthropicStrict,
    /// Gemini's `parameters`.
    GeminiOpenApi,
}

/// A schema that a provider takes.
#[derive(Debug, Default)]
pub(crate) struct Fitted<'s> {
    /// An object with `properties`.
    pub(crate) schema: Cow<'s, Map<String, Value>>,
    /// Sentences for the tool's description.
    pub(crate) words: Vec<String>,
    /// Where the schema allows what the original does not.
    pub(crate) losses: Vec<Refusal>,
    /// Whether the server can hold the model to it.
    pub(crate) is_strict: bool,
    /// What counts over all strict schemas of a request.
    pub(crate) counts: Counts,
}

/// What cannot be carried, where in the arguments, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) pointer: String,
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn new(pointer: impl Into<String>, why: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), why: why.into() }
    }
}

/// Fits a schema of arguments into a subset.
pub(crate) fn fit(schema: &Value, subset: Subset) -> Result<Fitted<'_>, Refusal> {
    if is_deeper_than(schema, limits::JSON_DEPTH_MAX) {
        return Err(Refusal::new("", format!("the schema is deeper than {} levels", limits::JSON_DEPTH_MAX)));
    }
    match subset {
        Subset::Plain => plain::fit(schema),
        Subset::OpenAiStrict | Subset::AnthropicStrict | Subset::GeminiOpenApi => narrow::fit(schema, subset),
    }
}

/// What a schema says under a keyword. It says little: looking at each key costs less than hashing this one.
fn at<'m>(map: &'m Map<String, Value>, keyword: &str) -> Option<&'m Value> {
    map.iter().find(|(key, _)| *key == keyword).map(|(_, value)| value)
}

/// The same, to be changed.
fn at_mut<'m>(map: &'m mut Map<String, Value>, keyword: &str) -> Option<&'m mut Value> {
    map.iter_mut().find(|(key, _)| *key == keyword).map(|(_, value)| value)
}

fn is_deeper_than(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth == 0 || items.iter().any(|item| is_deeper_than(item, depth - 1)),
        Value::Object(object) => depth == 0 || object.values().any(|item| is_deeper_than(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
