//! What is said of a tool that a wire takes in part or not at all.

use std::fmt;

use tollgate_types::ToolDefinition;

use crate::fit::Refusal;

/// Something that a wire cannot carry of one tool. The gate knows it all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The tool, by its own name.
    pub tool: String,
    /// Where in its arguments: a JSON Pointer, in which `*` stands for each item or each key.
    pub pointer: String,
    /// What became of it.
    pub change: Change,
    /// Why, as a fragment without a full stop.
    pub why: String,
}

impl Note {
    pub(super) fn new(definition: &ToolDefinition, change: Change, refusal: Refusal) -> Self {
        Self { tool: definition.name.clone(), pointer: refusal.pointer, change, why: refusal.why }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.tool)?;
        if !self.pointer.is_empty() {
            write!(f, " at `{}`", self.pointer)?;
        }
        let change = match self.change {
            Change::LeftOut => "is not offered",
            Change::NotStrict => "is offered without `strict`",
            Change::Loosened => "is offered with a looser schema",
        };
        write!(f, " {change}: {}", self.why)
    }
}

/// What became of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The model is not told of it.
    LeftOut,
    /// It is offered, but servers do not hold the model to its schema.
    NotStrict,
    /// The schema on the wire allows what the tool's own does not; where words can say it, the description does.
    Loosened,
}
