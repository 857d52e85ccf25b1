//! One tool as JSON of a dialect.

use serde_json::{Map, Value, json};
use tollgate_types::{Grammar, TextInput};

use super::target::{GeminiSchema, Target};
use super::{Form, Names, Offered};
use crate::dialect::Dialect;
use crate::fit::Fitted;

/// A grammar that only words can tell.
const GRAMMAR_CHARS_TOLD_MAX: usize = 2_000;

impl Offered<'_> {
    /// The tool as an element of `tools`, for Gemini of `functionDeclarations`.
    pub(super) fn print(self, target: &Target, names: &Names) -> Value {
        let name = names.on_wire(&self.definition.name).into_owned();
        let mut description = self.definition.full_description();
        match self.form {
            Form::Text => custom(target.dialect, name, description, self.definition.text_input.as_ref()),
            Form::Function(fitted) => {
                let grammar = self.definition.text_input.as_ref().and_then(|input| input.grammar.as_ref());
                for word in fitted.words.iter().cloned().chain(grammar.map(told)) {
                    description.push(' ');
                    description.push_str(&word);
                }
                function(target, name, description, fitted)
            }
        }
    }
}

/// The tools as the value of `tools`.
pub(super) fn wrap(dialect: Dialect, tools: Vec<Value>) -> Value {
    match dialect {
        Dialect::Gemini if !tools.is_empty() => json!([{ "functionDeclarations": tools }]),
        Dialect::Chat | Dialect::Responses | Dialect::Anthropic | Dialect::Gemini => Value::Array(tools),
    }
}

fn function(target: &Target, name: String, description: String, fitted: Fitted) -> Value {
    let Fitted { schema, is_strict, .. } = fitted;
    let is_empty = schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    let mut tool = Map::new();
    match target.dialect {
        Dialect::Chat => {
            let mut function = json!({ "name": name, "description": description, "parameters": schema });
            // Compatible servers may not know the word.
            if is_strict && let Value::Object(function) = &mut function {
                function.insert("strict".into(), true.into());
            }
            tool.insert("type".into(), "function".into());
            tool.insert("function".into(), function);
        }
        Dialect::Responses => {
            tool.insert("type".into(), "function".into());
            tool.insert("name".into(), name.into());
            tool.insert("description".into(), description.into());
            tool.insert("parameters".into(), Value::Object(schema));
            // Unsaid, the server tries strictness of its own.
            tool.insert("strict".into(), is_strict.into());
        }
        Dialect::Anthropic => {
            tool.insert("name".into(), name.into());
            tool.insert("description".into(), description.into());
            tool.insert("input_schema".into(), Value::Object(schema));
            if is_strict {
                tool.insert("strict".into(), true.into());
            }
        }
        Dialect::Gemini => {
            tool.insert("name".into(), name.into());
            tool.insert("description".into(), description.into());
            let key = match target.gemini {
                GeminiSchema::Json => "parametersJsonSchema",
                GeminiSchema::OpenApi => "parameters",
            };
            // It refuses an object without properties.
            if !is_empty {
                tool.insert(key.into(), Value::Object(schema));
            }
        }
    }
    Value::Object(tool)
}

/// A tool of free text. Chat has what Responses has one level deeper, the grammar too.
fn custom(dialect: Dialect, name: String, description: String, input: Option<&TextInput>) -> Value {
    let mut custom = Map::new();
    custom.insert("name".into(), name.into());
    custom.insert("description".into(), description.into());
    if let Some(Grammar { syntax, definition }) = input.and_then(|input| input.grammar.as_ref()) {
        let grammar = json!({ "syntax": syntax.as_str(), "definition": definition });
        let format = match (dialect, grammar) {
            (Dialect::Responses, Value::Object(mut grammar)) => {
                grammar.insert("type".into(), "grammar".into());
                Value::Object(grammar)
            }
            (_, grammar) => json!({ "type": "grammar", "grammar": grammar }),
        };
        custom.insert("format".into(), format);
    }
    if dialect == Dialect::Responses {
        custom.insert("type".into(), "custom".into());
        return Value::Object(custom);
    }
    json!({ "type": "custom", "custom": custom })
}

fn told(grammar: &Grammar) -> String {
    let Grammar { syntax, definition } = grammar;
    let mut shown: String = definition.chars().take(GRAMMAR_CHARS_TOLD_MAX).collect();
    if shown.len() < definition.len() {
        shown.push_str(" …");
    }
    format!("The text must follow this grammar ({}): {shown}", syntax.as_str())
}
