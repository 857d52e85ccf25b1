//! From definitions to what a wire accepts. The gate validates against the original schema, whatever is lowered here.

mod names;
mod schema;

use std::sync::Arc;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::ToolDefinition;

pub use names::Names;

/// The tools of one request: their JSON, printed once, and the table of their names.
#[derive(Debug, Clone)]
pub struct Lowered {
    tools: Arc<RawValue>,
    names: Names,
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl Default for Lowered {
    fn default() -> Self {
        Self { tools: Arc::from(RawValue::NULL.to_owned()), names: Names::default() }
    }
}

/// Lowers definitions to `tools[]` of Chat Completions.
///
/// # Errors
/// Only when a schema cannot be written as JSON.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_types::ToolDefinition;
///
/// let tool = Arc::new(ToolDefinition::new("maps.search", "Finds a place."));
/// let lowered = tollgate_wire::lower(&[tool]).unwrap();
/// let on_wire = lowered.names().on_wire("maps.search").into_owned();
/// assert!(on_wire.starts_with("maps_search_"));
/// assert_eq!(lowered.names().resolve(&on_wire), ("maps.search", None));
/// ```
pub fn lower(definitions: &[Arc<ToolDefinition>]) -> Result<Lowered, serde_json::Error> {
    let names = Names::of(definitions.iter().map(|definition| definition.name.as_str()));
    let tools: Vec<_> = definitions
        .iter()
        .map(|definition| {
            let (parameters, rules) = schema::lower_root(&definition.input_schema);
            let mut description = definition.full_description();
            for rule in rules {
                description.push(' ');
                description.push_str(&rule);
            }
            let name = names.on_wire(&definition.name);
            let function = json!({ "name": name, "description": description, "parameters": parameters });
            json!({ "type": "function", "function": function })
        })
        .collect();
    Ok(Lowered { tools: Arc::from(to_raw_value(&tools)?), names })
}

#[cfg(test)]
mod tests;
