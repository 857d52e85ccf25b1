//! When calls of a tool count as one, and how what runs is told of the key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// Keys under which calls of a tool happen once, besides those that callers give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Idempotency {
    /// Equal calls of one caller count as one: the same arguments for the same definition.
    pub derive: bool,
    /// The argument that is the key, as a JSON Pointer such as `/order_id`: another call with the same value and other
    /// arguments is a `conflict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// How long a key of this tool is remembered after its first call ended, in milliseconds; given ones too.
    pub ttl_ms: u64,
    /// The name under which what runs is told the key, so that the system behind it can tell a repetition too: a header of
    /// an HTTP request, an environment variable of a program, a member of `_meta` for a tool of an MCP server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_on: Option<String>,
    /// The operator's word that doing it twice is doing it once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeatable: bool,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self { derive: false, argument: None, ttl_ms: limits::IDEMPOTENCY_TTL_MS, hand_on: None, repeatable: false }
    }
}

impl Idempotency {
    /// Whether nothing was said of it.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What runs is told this of its key. The value is the same for the same key of the same caller and tool, and says nothing
/// of any of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedKey {
    /// The name, as [`Idempotency::hand_on`] says it.
    pub name: String,
    /// The value: a UUID.
    pub value: String,
}
