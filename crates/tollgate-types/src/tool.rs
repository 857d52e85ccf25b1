//! A tool's definition: what the model reads and what the gate enforces.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    CallKind, Category, Cost, Idempotency, OnError, Output, Permission, Raw, RepairLevel, Risk, TaskSupport, TextInput,
    Undo, Units, limits,
};

/// A capability as data. The executor stands apart; see [`crate::Tool`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolDefinition {
    /// The machine name: `[a-zA-Z0-9_-]`, at most 64 characters, verb first. What is no tool has a `/` in it.
    pub name: String,
    /// What kind of entry it is.
    #[serde(default, skip_serializing_if = "CallKind::is_tool")]
    #[schemars(skip)]
    pub kind: CallKind,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does. What the model reads is this, `when` and `when_not` together.
    pub description: String,
    /// When to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// When not to, naming the neighbour that fits instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_not: Option<String>,
    /// What it is for.
    #[serde(default = "defaults::category")]
    pub category: Category,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Other names to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Example arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Value>,
    /// JSON Schema (2020-12) of the arguments; always an object.
    #[serde(default = "defaults::object_schema")]
    pub input_schema: Value,
    /// That its only input is free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_input: Option<TextInput>,
    /// JSON Schema of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints for clients. Not believed when they come from a server.
    #[serde(default)]
    pub annotations: Annotations,
    /// What it does to the world. Undeclared is dangerous.
    #[serde(default = "defaults::risk")]
    pub risk: Risk,
    /// What it needs.
    #[serde(default = "defaults::permission")]
    pub permission: Permission,
    /// Where it comes from.
    #[serde(default)]
    pub source: Source,
    /// The tenants that may see it; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The environments (such as `production`) in which it exists; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// The tool's own error codes and what each means.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
    /// How its effect is taken back.
    #[serde(default)]
    pub undo: Undo,
    /// What a call costs, counted by every `[[budget]]` that concerns it; unsaid: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// When calls count as one.
    #[serde(default, skip_serializing_if = "Idempotency::is_default")]
    pub idempotency: Idempotency,
    /// How far its arguments are mended at most; unsaid: as far as the house and the role say. `lenient` only where it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairLevel>,
    /// How it runs.
    #[serde(default)]
    pub execution: Execution,
    /// What is done about its failures, by code.
    #[serde(default, skip_serializing_if = "OnError::is_empty")]
    pub on_error: OnError,
    /// What must hold before it runs.
    #[serde(default)]
    pub security: Security,
    /// What becomes of its result.
    #[serde(default)]
    pub output: Output,
    /// What an MCP server said of it in its list, as it came. `source.version` is its digest, so that the pin covers it.
    #[serde(skip)]
    pub listing: Option<Raw>,
}

/// In the schema of a property: the header of HTTP that repeats it (MCP 2026-07-28, Streamable HTTP: custom headers from tool
/// parameters).
pub const HEADER_KEYWORD: &str = "x-mcp-header";

impl ToolDefinition {
    /// Whether those who call it over MCP must know more than its name: calls may be tasks, or not, or parameters are repeated
    /// as headers.
    pub fn is_special(&self) -> bool {
        fn is_annotated(schema: &Value) -> bool {
            match schema {
                Value::Object(members) => members.contains_key(HEADER_KEYWORD) || members.values().any(is_annotated),
                Value::Array(items) => items.iter().any(is_annotated),
                _ => false,
            }
        }
        !self.execution.task.is_default() || is_annotated(&self.input_schema)
    }

    /// A definition with every default: dangerous, in need of `execute`, taking an empty object.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: CallKind::Tool,
            title: None,
            description: description.into(),
            when: None,
            when_not: None,
            category: defaults::category(),
            tags: Vec::new(),
            aliases: Vec::new(),
            examples: Vec::new(),
            input_schema: defaults::object_schema(),
            text_input: None,
            output_schema: None,
            annotations: Annotations::default(),
            risk: defaults::risk(),
            permission: defaults::permission(),
            source: Source::default(),
            tenants: Vec::new(),
            environments: Vec::new(),
            errors: BTreeMap::new(),
            undo: Undo::default(),
            cost: None,
            idempotency: Idempotency::default(),
            repair: None,
            execution: Execution::default(),
            on_error: OnError::default(),
            security: Security::default(),
            output: Output::default(),
            listing: None,
        }
    }

    /// The same of another kind than a tool.
    #[must_use]
    pub fn of_kind(self, kind: CallKind) -> Self {
        Self { kind, ..self }
    }

    /// What a call with these arguments costs, or may cost at most.
    ///
    /// # Errors
    /// Where the arguments do not say it: what is wrong with them, for the model.
    pub fn cost_of(&self, arguments: &Value) -> Result<Units, String> {
        self.cost.as_ref().map_or(Ok(Units::ONE), |cost| cost.of(arguments))
    }

    /// What a call with this structured result did cost, where the result says it.
    pub fn came_to(&self, result: Option<&Value>) -> Option<Units> {
        self.cost.as_ref()?.after(result?)
    }

    /// Whether a call that may have happened may be made again: it only reads, or doing it twice is doing it once. What an
    /// MCP server says of its own tools is not believed: there only the operator's `idempotency.repeatable` counts.
    pub fn may_happen_twice(&self) -> bool {
        let is_believed = self.source.kind != SourceKind::Mcp;
        self.risk == Risk::Read
            || self.idempotency.repeatable
            || is_believed && self.annotations.idempotent == Some(true)
    }

    /// Whether it asks for more mending than a tool of its risk may have.
    pub fn is_too_lenient(&self) -> bool {
        self.repair == Some(RepairLevel::Lenient) && self.risk != Risk::Read
    }

    /// The three-part text that a model reads: what it does, when to use it, when not.
    pub fn full_description(&self) -> String {
        let parts = [Some(self.description.as_str()), self.when.as_deref(), self.when_not.as_deref()];
        parts.into_iter().flatten().map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The forms in which definitions are handed to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `tools[]` of OpenAI Chat Completions.
    Chat,
    /// `tools[]` of the Model Context Protocol.
    Mcp,
}

/// Hints about behaviour, named as in MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    /// Changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// May destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Doing it twice is doing it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Reaches things outside of its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The kind of origin.
    #[serde(default)]
    pub kind: SourceKind,
    /// The upstream's name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The field it belongs to, such as `orders`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Source {
    /// A source of a kind, with nothing else known.
    pub fn of(kind: SourceKind) -> Self {
        Self { kind, server: None, domain: None, version: None }
    }
}

impl Default for Source {
    fn default() -> Self {
        Self::of(SourceKind::Native)
    }
}

/// The kinds of origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// Comes with Tollgate.
    Builtin,
    /// A function of the embedding program.
    #[default]
    Native,
    /// A program from the configuration.
    Program,
    /// An HTTP request from the configuration.
    Http,
    /// A tool of an MCP server.
    Mcp,
    /// Runs at the provider of a model.
    Provider,
}

impl SourceKind {
    /// The name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Native => "native",
            Self::Program => "program",
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Provider => "provider",
        }
    }
}

/// How a tool runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Execution {
    /// How long one run may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long a run may go without reporting progress, in milliseconds; unsaid: as long as it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// How long a call may wait for its turn, in milliseconds, which does not count as running; unsaid: as long as a run
    /// may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// How long all runs of a call may take together with the pauses between them and a fallback, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<u64>,
    /// How often what `retryable_errors` lists is tried again; `on_error` says more.
    pub max_retries: u32,
    /// The codes, the gate's or the tool's, that are tried again.
    pub retryable_errors: Vec<String>,
    /// Whether runs may overlap.
    pub concurrency: Concurrency,
    /// How many runs may overlap.
    pub max_concurrent: usize,
    /// JSON Pointers into the arguments, to what a call works on, such as `/path`. Calls of one batch that work on the same
    /// thing run in their order, unless all of them read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Whether a call may go on as a task of MCP's extension, for clients that know it; docs/tasks.md.
    #[serde(skip_serializing_if = "TaskSupport::is_default")]
    pub task: TaskSupport,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            timeout_ms: limits::TOOL_TIMEOUT_MS,
            idle_timeout_ms: None,
            queue_timeout_ms: None,
            total_timeout_ms: None,
            max_retries: 0,
            retryable_errors: Vec::new(),
            concurrency: Concurrency::Parallel,
            max_concurrent: limits::TOOL_CONCURRENT_MAX,
            resources: Vec::new(),
            task: TaskSupport::default(),
        }
    }
}

/// Whether runs of one tool may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// Up to `max_concurrent` at once.
    Parallel,
    /// One after the other.
    Sequential,
}

/// What must hold before a tool runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Security {
    /// A human is always asked.
    pub requires_confirmation: bool,
    /// Only a role that names it, letter by letter, has it: no glob covers it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub named_only: bool,
    /// What the approver must type, where a human is asked: the value that stands at this JSON Pointer in the arguments, or
    /// for the empty pointer the tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typed_confirmation: Option<String>,
    /// How many persons must say yes, where a human is asked; unsaid: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvers: Option<NonZeroU32>,
    /// Globs that every path among the arguments must match; empty means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_paths: Vec<String>,
    /// Regular expressions that no text among the arguments may match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_patterns: Vec<String>,
}

mod defaults {
    use super::{Category, Permission, Risk, Value, json};

    pub(super) fn category() -> Category {
        Category::Action
    }

    pub(super) fn object_schema() -> Value {
        json!({ "type": "object", "properties": {} })
    }

    pub(super) fn risk() -> Risk {
        Risk::Dangerous
    }

    pub(super) fn permission() -> Permission {
        Permission::Execute
    }
}
