//! Tools as JSON of a dialect.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use tollgate_types::Grammar;

use super::target::{GeminiSchema, Target};
use super::{Form, Function, Names, Offered};
use crate::dialect::Dialect;

/// A grammar that only words can tell.
const GRAMMAR_CHARS_TOLD_MAX: usize = 2_000;

/// The value of `tools`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Tools<'a> {
    Listed(&'a [Tool<'a>]),
    Declared([Declarations<'a>; 1]),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Declarations<'a> {
    function_declarations: &'a [Tool<'a>],
}

impl<'a> Tools<'a> {
    pub(super) fn of(dialect: Dialect, tools: &'a [Tool<'a>]) -> Self {
        match dialect {
            Dialect::Gemini if !tools.is_empty() => Self::Declared([Declarations { function_declarations: tools }]),
            Dialect::Chat | Dialect::Responses | Dialect::Anthropic | Dialect::Gemini => Self::Listed(tools),
        }
    }
}

/// One tool, in the words of its dialect.
#[derive(Serialize, Default)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(flatten)]
    flat: Option<Described<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<Described<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom: Option<Described<'a>>,
}

#[derive(Serialize, Default)]
struct Described<'a> {
    name: Cow<'a, str>,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    #[serde(rename = "parametersJsonSchema", skip_serializing_if = "Option::is_none")]
    json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

/// The grammar of a free text. Chat has it one level deeper than Responses.
#[derive(Serialize)]
#[serde(tag = "type", rename = "grammar")]
struct Format<'a> {
    #[serde(flatten)]
    flat: Option<Rules<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<Rules<'a>>,
}

#[derive(Serialize)]
struct Rules<'a> {
    syntax: &'static str,
    definition: &'a str,
}

impl Offered<'_> {
    /// The tool as an element of `tools`, for Gemini of `functionDeclarations`.
    pub(super) fn print<'a>(&'a self, target: &Target, names: &'a Names) -> Tool<'a> {
        let name = names.on_wire(&self.definition.name);
        let description = self.definition.full_description();
        let grammar = self.definition.text_input.as_ref().and_then(|input| input.grammar.as_ref());
        match &self.form {
            Form::Text => custom(target.dialect, Described { name, description, ..Described::default() }, grammar),
            Form::Function(own) => {
                let mut described = Described { name, description, ..Described::default() };
                for word in own.words.iter().cloned().chain(grammar.map(told)) {
                    described.description.push(' ');
                    described.description.push_str(&word);
                }
                function(target, described, own)
            }
        }
    }
}

fn function<'a>(target: &Target, mut tool: Described<'a>, own: &'a Function) -> Tool<'a> {
    let schema: &RawValue = &own.schema;
    let strict = own.is_strict.then_some(true);
    match target.dialect {
        Dialect::Chat => {
            // Compatible servers may not know `strict`: it is said where it holds.
            let tool = Described { parameters: Some(schema), strict, ..tool };
            Tool { kind: Some("function"), function: Some(tool), ..Tool::default() }
        }
        Dialect::Responses => {
            // Unsaid, the server tries strictness of its own.
            let tool = Described { parameters: Some(schema), strict: Some(own.is_strict), ..tool };
            Tool { kind: Some("function"), flat: Some(tool), ..Tool::default() }
        }
        Dialect::Anthropic => {
            let tool = Described { input_schema: Some(schema), strict, ..tool };
            Tool { flat: Some(tool), ..Tool::default() }
        }
        Dialect::Gemini => {
            // It refuses an object without properties.
            let schema = own.has_properties.then_some(schema);
            match target.gemini {
                GeminiSchema::Json => tool.json_schema = schema,
                GeminiSchema::OpenApi => tool.parameters = schema,
            }
            Tool { flat: Some(tool), ..Tool::default() }
        }
    }
}

/// A tool of free text.
fn custom<'a>(dialect: Dialect, tool: Described<'a>, grammar: Option<&'a Grammar>) -> Tool<'a> {
    let rules = grammar.map(|grammar| Rules { syntax: grammar.syntax.as_str(), definition: &grammar.definition });
    let kind = Some("custom");
    if dialect == Dialect::Responses {
        let format = rules.map(|rules| Format { flat: Some(rules), grammar: None });
        return Tool { kind, flat: Some(Described { format, ..tool }), ..Tool::default() };
    }
    let format = rules.map(|rules| Format { flat: None, grammar: Some(rules) });
    Tool { kind, custom: Some(Described { format, ..tool }), ..Tool::default() }
}

fn told(grammar: &Grammar) -> String {
    let Grammar { syntax, definition } = grammar;
    let mut shown: String = definition.chars().take(GRAMMAR_CHARS_TOLD_MAX).collect();
    if shown.len() < definition.len() {
        shown.push_str(" …");
    }
    format!("The text must follow this grammar ({}): {shown}", syntax.as_str())
}
