//! What a definition may say of a free text that is its only input.

use serde_json::{Value, json};
use tollgate_types::{Grammar, GrammarSyntax, ToolDefinition, limits};

use crate::schema::Schema;

/// What is wrong, if anything is.
pub(crate) fn check(definition: &ToolDefinition) -> Result<(), String> {
    let Some(input) = &definition.text_input else { return Ok(()) };
    let (schema, name) = (&definition.input_schema, &input.property);
    let properties = schema.get("properties").and_then(Value::as_object);
    let only = properties.filter(|all| all.len() == 1).and_then(|all| all.get(name));
    let Some(property) = only else {
        return Err(format!("`input_schema` must have `{name}` as its only property"));
    };
    if property.get("type").is_none_or(|kind| kind != "string") {
        return Err(format!("`{name}` must have the type `string` in `input_schema`"));
    }
    if schema.get("required") != Some(&json!([name])) {
        return Err(format!("`input_schema` must have `required = [\"{name}\"]`"));
    }
    input.grammar.as_ref().map_or(Ok(()), check_grammar)
}

fn check_grammar(grammar: &Grammar) -> Result<(), String> {
    let definition = grammar.definition.as_str();
    if definition.trim().is_empty() {
        return Err("`grammar.definition` is empty".into());
    }
    if definition.chars().count() > limits::GRAMMAR_CHARS_MAX {
        return Err(format!("`grammar.definition` has more than {} characters", limits::GRAMMAR_CHARS_MAX));
    }
    match grammar.syntax {
        GrammarSyntax::Lark => Ok(()),
        // What schemas take as a pattern is what servers take: linear, without looking around.
        GrammarSyntax::Regex => match Schema::compile(&json!({ "pattern": definition })) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("`grammar.definition` is no regular expression: {error}")),
        },
    }
}
