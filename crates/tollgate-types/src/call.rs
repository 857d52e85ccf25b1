//! Who asks, and what for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, CallId, ClientCapabilities, ErrorObject, Peer, Progress, Repair, ToolDefinition, TraceContext};

/// Who asks. Every surface makes one; the gate trusts nothing else about the asker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The authenticated name: an operating-system user, a key's name, a client's name.
    pub subject: String,
    /// The role whose grants apply.
    pub role: String,
    /// The tenant, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The way in.
    pub surface: Surface,
    /// The conversation, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Caller {
    /// A caller without tenant or session.
    pub fn new(subject: impl Into<String>, role: impl Into<String>, surface: Surface) -> Self {
        Self { subject: subject.into(), role: role.into(), tenant: None, surface, session: None }
    }

    /// The same caller within a conversation.
    #[must_use]
    pub fn with_session(mut self, session: impl Into<String>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// The same caller within a tenant.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }
}

/// The ways in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// `tollgate call`.
    Cli,
    /// `tollgate run`: the agent loop.
    Agent,
    /// MCP over standard input and output.
    McpStdio,
    /// MCP over streamable HTTP.
    McpHttp,
    /// The REST interface.
    Rest,
    /// A program that embeds the library.
    Library,
}

impl Surface {
    /// Whether who asks here can take images, audio and other files as they are. A model in a chat reads text.
    pub fn takes_media(self) -> bool {
        !matches!(self, Self::Agent)
    }

    /// The name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cli => "cli",
            Self::Agent => "agent",
            Self::McpStdio => "mcp_stdio",
            Self::McpHttp => "mcp_http",
            Self::Rest => "rest",
            Self::Library => "library",
        }
    }
}

/// What kind of thing is asked for, and what kind of entry a definition is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// A tool.
    #[default]
    Tool,
    /// A resource, by its URI.
    Resource,
    /// Resources whose URIs fit a template. It is listed and completed; what is read of it is a [`CallKind::Resource`].
    Template,
    /// A prompt.
    Prompt,
    /// A completion of an argument of a prompt or a template. It has no entry of its own: it may be asked for where its
    /// prompt or template may.
    Completion,
    /// To be told when a resource changes: it may be asked for where the resource may be read.
    Subscription,
    /// A model request that an MCP server asks for.
    Sampling,
    /// A question to the user that an MCP server asks for.
    Elicitation,
    /// The folders that a client works in, which an MCP server asks for.
    Roots,
}

impl CallKind {
    /// Whether it is a tool: only these are offered to models.
    pub fn is_tool(&self) -> bool {
        *self == Self::Tool
    }

    /// Whether it is a question to a client.
    pub fn asks_client(self) -> bool {
        matches!(self, Self::Sampling | Self::Elicitation | Self::Roots)
    }

    /// The name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Template => "template",
            Self::Prompt => "prompt",
            Self::Completion => "completion",
            Self::Subscription => "subscription",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
            Self::Roots => "roots",
        }
    }
}

/// One request, as it was asked: the arguments are raw text, because a model may send anything.
#[derive(Debug, Clone)]
pub struct Call {
    /// The asker's id for it.
    pub id: CallId,
    /// What kind of thing is asked for.
    pub kind: CallKind,
    /// The name as asked.
    pub name: String,
    /// The raw text of the arguments; empty means none were given.
    pub arguments: String,
    /// The asker's key under which this must happen at most once.
    pub idempotency_key: Option<String>,
    /// The attempt on whose behalf this is asked, for calls made by tools, chains and agents.
    pub parent: Option<AttemptId>,
    /// Why the surface itself refuses it, as for a call that a model did not finish writing. The gate then runs nothing
    /// and only records that it was asked for.
    pub refusal: Option<ErrorObject>,
    /// What the surface mended already to get at the name and the text. The ledger says it with the rest.
    pub repairs: Vec<Repair>,
    /// Where the tool's progress goes.
    pub progress: Progress,
    /// What the asker's client offers to a tool.
    pub client: ClientCapabilities,
    /// The asker's client itself, where something can be asked of it.
    pub peer: Option<Arc<dyn Peer>>,
    /// What people wrote in the conversation, where the surface knows it. Policy looks for the values of arguments in
    /// it; it goes no further, and is not recorded.
    pub said: Arc<Said>,
    /// The asker's place in a trace, where it says one.
    pub trace: Option<TraceContext>,
    /// The revision of the protocol that the surface speaks, where it has some.
    pub protocol: Option<&'static str>,
}

/// A call that the provider of a model ran itself. It is over: it can only be recorded.
#[derive(Debug, Clone)]
pub struct ObservedCall {
    /// The provider's id.
    pub id: CallId,
    /// What was called, as far as it is known here.
    pub tool: Arc<ToolDefinition>,
    /// Whether the tool was offered. A provider that runs another one has done so without anybody's leave.
    pub is_offered: bool,
    /// The name of the model in whose turn it ran.
    pub model: String,
    /// The JSON of what it was given.
    pub arguments: String,
    /// The text of what came of it, where the provider says.
    pub result: Option<String>,
    /// Whether it failed.
    pub is_error: bool,
}

/// What people wrote in a conversation, by who wrote it. Nothing that a model or a tool wrote belongs here: policy
/// trusts it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The user's texts.
    pub user: Vec<String>,
    /// The operator's, such as the instructions of the agent.
    pub operator: Vec<String>,
    /// Whether tools answered before, in another process. What they said counts as from outside: nobody here heard it.
    pub is_resumed: bool,
}

impl Call {
    /// A tool call whose arguments are a value. The id is empty: the gate then uses the attempt's id.
    ///
    /// ```
    /// use serde_json::json;
    /// use tollgate_types::Call;
    ///
    /// let call = Call::tool("calculate", json!({"expression": "34817 * 293"}));
    /// assert_eq!(call.arguments, r#"{"expression":"34817 * 293"}"#);
    /// ```
    pub fn tool(name: impl Into<String>, arguments: serde_json::Value) -> Self {
        Self::raw(name, arguments.to_string())
    }

    /// A tool call whose arguments are text as it came from outside.
    pub fn raw(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self {
            id: CallId::new(""),
            kind: CallKind::Tool,
            name: name.into(),
            arguments: arguments.into(),
            idempotency_key: None,
            parent: None,
            refusal: None,
            repairs: Vec::new(),
            progress: Progress::none(),
            client: ClientCapabilities::default(),
            peer: None,
            said: Arc::default(),
            trace: None,
            protocol: None,
        }
    }

    /// A call of another kind than a tool's, whose arguments are a value.
    pub fn of(kind: CallKind, name: impl Into<String>, arguments: serde_json::Value) -> Self {
        Self { kind, ..Self::tool(name, arguments) }
    }

    /// The same call under the asker's id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.id = CallId::new(id);
        self
    }

    /// The same call, to happen at most once under `key`.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The same call on behalf of another attempt.
    #[must_use]
    pub fn with_parent(mut self, parent: AttemptId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// The same call, refused by its surface.
    #[must_use]
    pub fn refused(mut self, refusal: ErrorObject) -> Self {
        self.refusal = Some(refusal);
        self
    }

    /// The same call, mended so far by its surface.
    #[must_use]
    pub fn with_repairs(mut self, repairs: Vec<Repair>) -> Self {
        self.repairs = repairs;
        self
    }

    /// The same call from a client that offers this.
    #[must_use]
    pub fn with_client(mut self, client: ClientCapabilities) -> Self {
        self.client = client;
        self
    }

    /// The same call from a client that can be asked.
    #[must_use]
    pub fn with_peer(mut self, peer: Option<Arc<dyn Peer>>) -> Self {
        self.peer = peer;
        self
    }

    /// The same call in a conversation in which people wrote this.
    #[must_use]
    pub fn with_said(mut self, said: Arc<Said>) -> Self {
        self.said = said;
        self
    }

    /// The same call in a trace.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// The same call with a listener for progress.
    #[must_use]
    pub fn with_progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }
}
