//! What becomes of a tool's result on its way to who asked: the keys below `output` of a definition. How it is done is
//! written in `tollgate-shape`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Language, Surface, limits};

/// What becomes of a tool's result. A path is a JSON Pointer in which `*` is any member or item, such as `/orders/*/id`,
/// or names with dots, such as `orders.id`; a name that meets a list counts for each of its items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Output {
    /// What the model sees of it, in characters; the whole is kept behind a handle.
    pub max_length: usize,
    /// The same in tokens, by an estimate that knows no model: four ASCII characters are one, a Chinese character is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// The same in bytes of UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// What is said at the cut instead of «shown n of N».
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_message: Option<String>,
    /// The form of the text.
    pub format: OutputFormat,
    /// Where a text may be cut; unsaid: at a line, and JSON at an item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutAt>,
    /// How many lines or items of the beginning are shown at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// How many lines or items of the end are shown, where not all is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// How many items of the longest list are shown at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Paths of what is kept of a value, in this order; none keeps all. The rest is gone, from what is kept too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Other names for what stands at these paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// Numbers in a unit that says more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, Unit>,
    /// Times as people write them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, TimeForm>,
    /// The text of a list of objects as a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<TableForm>,
    /// What becomes of a result that does not fit the output schema.
    #[serde(skip_serializing_if = "Mismatch::is_refuse")]
    pub mismatch: Mismatch,
    /// The same for callers of these roles.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mismatch_roles: BTreeMap<String, Mismatch>,
    /// A summary by a model in the place of a long text; the whole is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// Whether hidden characters (controls, escapes of terminals, bidi, tags) are written as what they are, such as
    /// `\u{202e}`.
    #[serde(skip_serializing_if = "is_true")]
    pub show_hidden: bool,
    /// Whether text from outside is framed as data.
    #[serde(skip_serializing_if = "OutsideMark::is_default")]
    pub outside: OutsideMark,
    /// Tighter limits on single surfaces: `cli`, `agent`, `mcp_stdio`, `mcp_http`, `rest`, `library`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, SurfaceLimits>")]
    pub surfaces: BTreeMap<Surface, SurfaceLimits>,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            max_length: limits::OUTPUT_CHARS_MAX,
            max_tokens: None,
            max_bytes: None,
            truncation_message: None,
            format: OutputFormat::Text,
            cut: None,
            head: None,
            tail: None,
            max_items: None,
            fields: Vec::new(),
            rename: BTreeMap::new(),
            units: BTreeMap::new(),
            times: BTreeMap::new(),
            table: None,
            mismatch: Mismatch::Refuse,
            mismatch_roles: BTreeMap::new(),
            summary: None,
            show_hidden: true,
            outside: OutsideMark::Auto,
            surfaces: BTreeMap::new(),
        }
    }
}

impl Output {
    /// Whether the value that leaves is another than the tool's own, so that its schema says nothing of it.
    pub fn changes_value(&self) -> bool {
        !(self.fields.is_empty() && self.rename.is_empty() && self.units.is_empty() && self.times.is_empty())
    }

    /// What becomes of a misfit for a caller of this role.
    pub fn mismatch_for(&self, role: &str) -> Mismatch {
        self.mismatch_roles.get(role).copied().unwrap_or(self.mismatch)
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// The form of a result's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Lines.
    Text,
    /// One JSON value.
    Json,
    /// Markdown.
    Markdown,
}

/// Where a text may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutAt {
    /// Behind a line.
    Line,
    /// Behind an item of the longest list of a JSON value; other text behind a line.
    Item,
    /// Behind a sentence, Chinese ones too.
    Sentence,
}

/// `units` of an output: the number times `factor`, with `digits` behind the point, and the unit behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// What the number is multiplied by.
    #[serde(default = "one")]
    pub factor: f64,
    /// What stands behind it, such as `kg`; unsaid: it stays a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Digits behind the point, at most 9.
    #[serde(default = "two")]
    pub digits: u8,
}

fn one() -> f64 {
    1.0
}

fn two() -> u8 {
    2
}

/// `times` of an output: seconds, milliseconds, micro- or nanoseconds since 1970 (told by their size), or RFC 3339, as
/// `2026-11-30 16:00:00 +08:00`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeForm {
    /// The time zone, such as `Asia/Shanghai` or `+08:00`.
    #[serde(default = "utc")]
    pub zone: String,
    /// How long ago it was or how soon it will be, in this language; unsaid: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ago: Option<Language>,
}

fn utc() -> String {
    "UTC".into()
}

/// The forms of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableForm {
    /// Markdown.
    Markdown,
    /// Values with tabs between them.
    Tsv,
}

/// What becomes of a result that does not fit the tool's output schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// The call fails with `invalid_output`.
    #[default]
    Refuse,
    /// The result goes on, with a warning.
    Warn,
}

impl Mismatch {
    fn is_refuse(&self) -> bool {
        *self == Self::Refuse
    }
}

/// `summary` of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The name below `[models]`.
    #[serde(default = "default_model")]
    pub model: String,
    /// The length in characters from which on a text is summarised.
    pub over: usize,
}

fn default_model() -> String {
    "default".into()
}

/// Whether text from outside is framed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutsideMark {
    /// Where nothing else can say it: in `tollgate run`. JSON is never framed.
    #[default]
    Auto,
    /// Everywhere. JSON is never framed.
    Frame,
    /// Nowhere; the outcome object and MCP's `_meta` still say it.
    Never,
}

impl OutsideMark {
    fn is_default(&self) -> bool {
        *self == Self::Auto
    }
}

/// `surfaces.NAME` of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SurfaceLimits {
    /// In characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<usize>,
    /// In tokens, estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}
