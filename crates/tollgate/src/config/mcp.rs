//! `[mcp.NAME]`: the servers behind.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{McpOauth, TextOrSecret};

/// `[mcp.NAME]`: a program with `command`, or an endpoint with `url`. Its tools are `mcp__NAME__TOOL`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// The program, which speaks on its standard input and output. It runs in the file's folder.
    #[serde(default)]
    pub command: Option<String>,
    /// The program's arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The program's environment, on top of PATH, HOME, LANG and their like.
    #[serde(default)]
    pub env: BTreeMap<String, TextOrSecret>,
    /// The address of an endpoint: `http` or `https`, or `ws` or `wss` for a WebSocket. No other origin is asked.
    #[serde(default)]
    pub url: Option<String>,
    /// How an `http` endpoint is spoken to; unsaid: as it turns out.
    #[serde(default)]
    pub transport: Option<Transport>,
    /// What goes with every request to it.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
    /// How Tollgate logs in there, where the server wants that and leaves something open.
    #[serde(default)]
    pub oauth: Option<McpOauth>,
    /// When it is started.
    #[serde(default)]
    pub start: Start,
    /// Whose its connections are.
    #[serde(default)]
    pub sessions: Sessions,
    /// What it may ask of the clients that its tools run for, where their roles let it; unsaid: everything.
    #[serde(default)]
    pub asks: Option<Vec<Asks>>,
    /// What the operator says of the tools whose name on the server fits the glob.
    #[serde(default)]
    pub tools: BTreeMap<String, ServerTools>,
}

/// How an MCP server's `http` endpoint is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Streamable HTTP, and HTTP with an event stream where the server knows no other.
    Http,
    /// HTTP with an event stream, of 2024-11-05.
    Sse,
}

/// When an MCP server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// When its tools are first asked for.
    #[default]
    Lazy,
    /// With Tollgate; and again by itself, should it end.
    Eager,
}

/// Whose the connections to an MCP server are, and with them what it remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sessions {
    /// Everybody's: there is one.
    #[default]
    Shared,
    /// One caller's each: a program, a session or a WebSocket of its own, closed when it is not used for ten minutes.
    Caller,
}

/// What an MCP server may ask of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Their humans, by a form or a page.
    Elicitation,
    /// Their models.
    Sampling,
    /// Which folders they work in.
    Roots,
}

/// `[mcp.NAME.tools."GLOB"]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTools {
    /// What they do to the world; unsaid: dangerous.
    #[serde(default)]
    pub risk: Option<tollgate_types::Risk>,
    /// What they need; unsaid: network.
    #[serde(default)]
    pub permission: Option<tollgate_types::Permission>,
    /// What the model reads instead of the server's text.
    #[serde(default)]
    pub description: Option<String>,
    /// What a call costs; unsaid: 1.
    #[serde(default)]
    pub cost: Option<tollgate_types::Cost>,
    /// Whether doing it twice is doing it once. The server's own word on that is not believed.
    #[serde(default)]
    pub repeatable: bool,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum McpKind<'a> {
    Program(&'a str),
    Endpoint(&'a str),
}
