//! What a tool says whose only input is free text, so that models may write it as it is instead of within JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only input is free text, such as code, a query or a patch.
///
/// Where a wire has tools of free text (OpenAI's `custom`), the model writes the text as it is and Tollgate makes
/// `{"property": "text"}` of it; elsewhere the tool is a function with that property. The schema holds either way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextInput {
    /// The property that the text fills: the only one of the schema, a required string.
    pub property: String,
    /// What the text must follow, where the server can hold the model to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Grammar>,
}

/// A grammar of free text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grammar {
    /// What it is written in.
    pub syntax: GrammarSyntax,
    /// The grammar itself.
    pub definition: String,
}

/// What grammars are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrammarSyntax {
    /// Lark's EBNF.
    Lark,
    /// One regular expression, in Rust's syntax.
    Regex,
}

impl GrammarSyntax {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lark => "lark",
            Self::Regex => "regex",
        }
    }
}
