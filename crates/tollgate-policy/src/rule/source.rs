//! Rules as they are written: the text of a file in Cedar, and what is declared for it beside.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The rules of an operator, not yet read.
#[derive(Debug, Clone, Default)]
pub struct RuleSource {
    /// The name of the file, for messages.
    pub file: String,
    /// Its text, in Cedar.
    pub text: Arc<str>,
    /// The arguments that rules may speak of.
    pub arguments: Vec<Argument>,
    /// Sets of tools by name, each as globs: `resource in Tollgate::ToolSet::"name"`.
    pub sets: BTreeMap<String, Vec<String>>,
    /// The zone of `context.hour` and `context.weekday`, in minutes east of UTC.
    pub utc_offset_minutes: i32,
}

/// An argument that rules may speak of as `context.args.NAME`. Nothing else of a call's arguments reaches a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Its name in rules.
    pub name: String,
    /// Globs of the tools whose argument it is. Of several declarations of one name the first that fits counts.
    pub tools: Vec<String>,
    /// Where it stands in the arguments, as a JSON Pointer (RFC 6901) such as `/order/amount`.
    pub pointer: String,
    /// What it is in rules. A value that is there and is not of this type denies the calls that a rule reads it for.
    #[serde(rename = "type")]
    pub kind: ArgumentType,
}

/// The types of arguments in rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentType {
    /// Text.
    String,
    /// A whole number of 64 bits.
    Long,
    /// True or false.
    Bool,
    /// A list of texts, as a set.
    Strings,
    /// A number with at most four digits after the point.
    Decimal,
    /// An RFC 3339 time, or a day, which begins in UTC.
    Datetime,
    /// An IP address or a range in CIDR form.
    Ip,
}

impl ArgumentType {
    /// The type in Cedar's schema.
    pub(crate) fn in_cedar(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Long => "Long",
            Self::Bool => "Bool",
            Self::Strings => "Set<String>",
            Self::Decimal => "decimal",
            Self::Datetime => "datetime",
            Self::Ip => "ipaddr",
        }
    }
}

/// Why rules can not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The text is wrong, at one place or several.
    #[error("{}", first(.0))]
    Text(Vec<RuleFault>),
    /// A declared argument is.
    #[error("the argument `{name}`: {problem}")]
    Argument {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A set of tools is.
    #[error("the set `{name}`: {problem}")]
    Set {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The zone is.
    #[error("a zone lies at most 14 hours from UTC, not {minutes} minutes")]
    Offset {
        /// The minutes as given.
        minutes: i32,
    },
}

fn first(faults: &[RuleFault]) -> String {
    match faults {
        [] => "the rules can not be read".to_owned(),
        [one] => one.to_string(),
        [one, more @ ..] => format!("{one} (and {} more)", more.len()),
    }
}

/// One thing that is wrong in a text of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleFault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters from 1.
    pub column: usize,
    /// Bytes from the start of the text.
    #[serde(skip)]
    pub offset: usize,
    /// The rule, where it has a name.
    pub rule: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
    /// The whole text.
    #[serde(skip)]
    pub text: Arc<str>,
}

impl RuleFault {
    pub(crate) fn at(source: &RuleSource, offset: usize, rule: Option<&str>, message: String) -> Self {
        let before = source.text.get(..offset).unwrap_or(&source.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            file: source.file.clone(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            offset,
            rule: rule.map(str::to_owned),
            message,
            hint: None,
            text: Arc::clone(&source.text),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, .. } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}
