//! From definitions to what a wire accepts. The gate validates against the original schema, whatever is lowered here; what
//! a wire cannot carry is told in words, and what cannot be lowered concerns one tool alone.

mod cache;
mod names;
mod note;
mod print;
mod target;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tollgate_types::ToolDefinition;

use crate::dialect::Dialect;
use crate::fit::{self, Fitted, Refusal};

pub use cache::Lowerings;
pub use names::Names;
pub use note::{Change, Note};
pub use target::{GeminiSchema, Target};

use target::StrictBudget;

/// The longest name of a property that Anthropic takes.
const PROPERTY_CHARS_MAX: usize = 64;

/// The tools of one request: their JSON, printed once, the table of their names, and what was left out or changed.
#[derive(Debug, Clone)]
pub struct Lowered {
    tools: Arc<RawValue>,
    names: Arc<Names>,
    notes: Arc<[Note]>,
}

impl Lowered {
    /// The `tools` array.
    pub fn tools(&self) -> &RawValue {
        &self.tools
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What the wire cannot carry, tool by tool.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Default for Lowered {
    fn default() -> Self {
        Self { tools: Arc::from(RawValue::NULL.to_owned()), names: Arc::default(), notes: Arc::default() }
    }
}

/// A tool that is offered.
struct Offered<'a> {
    definition: &'a ToolDefinition,
    form: Form,
}

/// In which form it is.
enum Form {
    Function(Function),
    Text,
}

/// A function's schema, printed as soon as it is made: the memory of one serves the next.
struct Function {
    schema: Box<RawValue>,
    has_properties: bool,
    words: Vec<String>,
    is_strict: bool,
}

/// Lowers definitions to the `tools` of a request. A tool that cannot be lowered is left out, one whose schema servers
/// cannot hold a model to is offered without `strict`, and the notes say so.
///
/// # Errors
/// Only when a schema cannot be written as JSON.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_types::ToolDefinition;
/// use tollgate_wire::{Dialect, Target};
///
/// let tool = Arc::new(ToolDefinition::new("maps.search", "Finds a place."));
/// let lowered = tollgate_wire::lower(&[Arc::clone(&tool)], &Target::default()).unwrap();
/// let on_wire = lowered.names().on_wire("maps.search").into_owned();
/// assert!(on_wire.starts_with("maps_search_"));
/// assert_eq!(lowered.names().resolve(&on_wire), ("maps.search", None));
///
/// let gemini = tollgate_wire::lower(&[tool], &Target::of(Dialect::Gemini)).unwrap();
/// assert_eq!(gemini.names().on_wire("maps.search"), "maps.search");
/// ```
pub fn lower(definitions: &[Arc<ToolDefinition>], target: &Target) -> Result<Lowered, serde_json::Error> {
    let mut notes = Vec::new();
    let mut budget = StrictBudget::of(target);
    let mut offered: Vec<Offered<'_>> = Vec::with_capacity(definitions.len().min(target.tools_max));
    let mut seen = HashSet::new();
    for definition in definitions {
        let refusal = if !seen.insert(definition.name.as_str()) {
            Refusal::new("", "another tool has this name")
        } else if offered.len() >= target.tools_max {
            Refusal::new("", format!("the server takes at most {} tools", target.tools_max))
        } else {
            match form(definition, target, &mut budget, &mut notes) {
                Ok(form) => {
                    offered.push(Offered { definition, form });
                    continue;
                }
                Err(refusal) => refusal,
            }
        };
        notes.push(Note::new(definition, Change::LeftOut, refusal));
    }
    let names = Names::offered(target.dialect, offered.iter().map(|tool| (tool.definition, tool.form.is_text())));
    let tools: Vec<_> = offered.iter().map(|tool| tool.print(target, &names)).collect();
    Ok(Lowered {
        tools: Arc::from(to_raw_value(&print::Tools::of(target.dialect, &tools))?),
        names: Arc::new(names),
        notes: notes.into(),
    })
}

/// The form in which a tool is offered.
fn form(
    definition: &ToolDefinition,
    target: &Target,
    budget: &mut StrictBudget,
    notes: &mut Vec<Note>,
) -> Result<Form, Refusal> {
    if definition.text_input.is_some() && target.takes_text() {
        return Ok(Form::Text);
    }
    let schema = &definition.input_schema;
    check_keys(target.dialect, schema)?;
    if let Some(subset) = target.strict_subset() {
        match fit::fit(schema, subset).and_then(|fitted| budget.take(fitted)) {
            Ok(fitted) => return function(definition, fitted, notes),
            Err(refusal) => notes.push(Note::new(definition, Change::NotStrict, refusal)),
        }
    }
    function(definition, fit::fit(schema, target.plain_subset())?, notes)
}

/// Anthropic refuses a whole request for the name of one property, where it stands at the root.
fn check_keys(dialect: Dialect, schema: &Value) -> Result<(), Refusal> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_taken = |key: &str| (1..=PROPERTY_CHARS_MAX).contains(&key.len()) && key.chars().all(is_legal);
    let mut keys = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    match keys.find(|key| dialect == Dialect::Anthropic && !is_taken(key)) {
        Some(key) => Err(Refusal::new(
            format!("/{}", key.replace('~', "~0").replace('/', "~1")),
            "the server takes names of properties of 1 to 64 of the characters a-z, A-Z, 0-9, `_`, `.` and `-`",
        )),
        None => Ok(()),
    }
}

fn function(definition: &ToolDefinition, fitted: Fitted<'_>, notes: &mut Vec<Note>) -> Result<Form, Refusal> {
    let Fitted { schema, words, losses, is_strict, .. } = fitted;
    notes.extend(losses.into_iter().map(|loss| Note::new(definition, Change::Loosened, loss)));
    let has_properties = schema.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    let schema: &Map<String, Value> = &schema;
    let schema = to_raw_value(schema).map_err(|error| Refusal::new("", error.to_string()))?;
    Ok(Form::Function(Function { schema, has_properties, words, is_strict }))
}

impl Form {
    fn is_text(&self) -> bool {
        matches!(self, Self::Text)
    }
}

#[cfg(test)]
mod tests;
