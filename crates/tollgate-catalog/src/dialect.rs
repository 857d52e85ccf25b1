//! Definitions in the forms that are handed to the outside.

use serde_json::{Map, Value, json};
use tollgate_types::{Dialect, Risk, ToolDefinition};

/// A definition in a dialect.
///
/// The description is the three-part one. The schema of the arguments always has `properties`, because OpenAI wants
/// them; hints say no more than our own risk does.
pub fn to_definition(definition: &ToolDefinition, dialect: Dialect) -> Value {
    let description = definition.full_description();
    let input = with_properties(&definition.input_schema);
    match dialect {
        Dialect::Chat => json!({
            "type": "function",
            "function": { "name": definition.name, "description": description, "parameters": input },
        }),
        Dialect::Mcp => {
            let mut tool = Map::new();
            tool.insert("name".into(), definition.name.clone().into());
            if let Some(title) = &definition.title {
                tool.insert("title".into(), title.clone().into());
            }
            tool.insert("description".into(), description.into());
            tool.insert("inputSchema".into(), input);
            // Of a value that is reshaped on its way the tool's own schema says nothing.
            if let Some(output) = definition.output_schema.as_ref().filter(|_| !definition.output.changes_value()) {
                tool.insert("outputSchema".into(), output.clone());
            }
            tool.insert("annotations".into(), hints(definition));
            Value::Object(tool)
        }
    }
}

fn with_properties(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(object) = &mut schema {
        object.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

fn hints(definition: &ToolDefinition) -> Value {
    let annotations = definition.annotations;
    let mut hints = Map::new();
    let is_read_only = definition.risk == Risk::Read && annotations.read_only != Some(false);
    hints.insert("readOnlyHint".into(), is_read_only.into());
    if !is_read_only {
        let is_destructive = annotations.destructive.unwrap_or(definition.risk == Risk::Dangerous);
        hints.insert("destructiveHint".into(), is_destructive.into());
    }
    for (name, hint) in [("idempotentHint", annotations.idempotent), ("openWorldHint", annotations.open_world)] {
        if let Some(hint) = hint {
            hints.insert(name.into(), hint.into());
        }
    }
    Value::Object(hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> ToolDefinition {
        let mut tool = ToolDefinition::new("read_note", "Reads a note.");
        tool.when = Some("Use it for notes.".into());
        tool.input_schema = json!({"type": "object"});
        tool.risk = Risk::Read;
        tool
    }

    #[test]
    fn chat() {
        let expected = json!({"type": "function", "function": {
            "name": "read_note", "description": "Reads a note. Use it for notes.",
            "parameters": {"type": "object", "properties": {}},
        }});
        assert_eq!(to_definition(&tool(), Dialect::Chat), expected);
    }

    #[test]
    fn mcp() {
        let mut tool = tool();
        tool.title = Some("Note".into());
        tool.output_schema = Some(json!({"type": "object"}));
        tool.annotations.open_world = Some(false);
        let expected = json!({
            "name": "read_note", "title": "Note", "description": "Reads a note. Use it for notes.",
            "inputSchema": {"type": "object", "properties": {}}, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        });
        assert_eq!(to_definition(&tool, Dialect::Mcp), expected);
    }

    #[test]
    fn a_hint_never_says_less_than_the_risk() {
        let mut tool = tool();
        tool.risk = Risk::Dangerous;
        tool.annotations.read_only = Some(true);
        let definition = to_definition(&tool, Dialect::Mcp);
        assert_eq!(definition["annotations"], json!({"readOnlyHint": false, "destructiveHint": true}));
    }
}
