//! The ports: what the parts of the house ask of each other, without knowing who answers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    ApprovalId, AttemptId, BeforeImages, Call, CallKind, Caller, CancellationToken, Changes, ClientCapabilities, Code,
    ErrorObject, HandedKey, ObservedCall, Outcome, Peer, Permission, Raw, Risk, ToolDefinition, ToolError, ToolOutput,
    TraceContext,
};

/// A boxed future, so that ports can be `dyn` without a runtime.
pub type BoxFuture<'a, T> = futures_util::future::BoxFuture<'a, T>;

/// The way in that every surface uses. There is no other.
pub trait Door: Send + Sync {
    /// The tools that `caller` may use, ordered by name.
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>>;

    /// The entries of a kind that `caller` may use, ordered by name.
    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        if kind.is_tool() { self.list(caller) } else { Box::pin(std::future::ready(Vec::new())) }
    }

    /// The same as it is at this moment: nothing is started, and nobody waited for.
    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        let _ = (caller, kind);
        Vec::new()
    }

    /// What changes behind the door, to be followed; none where nothing ever does.
    fn changes(&self) -> Option<Changes> {
        None
    }

    /// How it stands with a resource that `caller` follows, or wants to, by this call of [`CallKind::Subscription`]: the
    /// same decision as for the call, which is neither made nor recorded.
    fn following(&self, caller: &Caller, call: Call) -> Following {
        let _ = caller;
        Following { name: call.name, is_allowed: None }
    }

    /// Takes one call from request to recorded outcome. Dropping the future cancels the call; it is still recorded.
    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome>;

    /// The definition of a tool that is not called like others ([`ToolDefinition::is_special`]). Of what `caller` may not
    /// see nothing is said.
    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        let _ = (caller, tool);
        None
    }

    /// Returns once a call that waits for this question can be made again with another end: it was answered, or is over.
    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        let _ = approval;
        Box::pin(std::future::pending())
    }

    /// Whether `caller` may be offered a tool that a model's provider runs itself. In the middle of a provider's turn
    /// nobody can be asked, so that only what needs no question is permitted.
    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        let _ = (caller, tool);
        false
    }

    /// Records a call that a provider has run.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        let _ = (caller, call);
        Box::pin(std::future::ready(Err(ErrorObject::new(Code::AuditUnavailable, "nobody here records such calls"))))
    }
}

/// How it stands with a resource that somebody follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Following {
    /// The name under which its changes are told.
    pub name: String,
    /// Whether it may be followed; none where there is no such resource now.
    pub is_allowed: Option<bool>,
}

/// A capability: a definition and what runs.
pub trait Tool: Send + Sync {
    /// What the model reads and the gate enforces. Must not change while the tool is registered.
    fn definition(&self) -> ToolDefinition;

    /// The tool's own check of arguments that fit the schema. It must change nothing.
    ///
    /// # Errors
    /// `invalid_arguments` or `denied`, with a hint.
    fn check(&self, arguments: &Value, cx: &Cx) -> Result<(), ToolError> {
        let _ = (arguments, cx);
        Ok(())
    }

    /// Exactly what would run, for a human who is asked: a command line, a statement, a change.
    fn preview(&self, arguments: &Value, cx: &Cx) -> Option<String> {
        let _ = (arguments, cx);
        None
    }

    /// What there is of a template now, such as the files of a folder, as far as it can say. Each is listed to whom both it
    /// and the template may be shown, and read under its own name.
    fn members<'a>(&'a self, workspace: &'a Arc<Workspace>) -> BoxFuture<'a, Vec<Member>> {
        let _ = workspace;
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Runs. Only the gate calls this, with arguments that were validated, judged and cleared.
    ///
    /// # Errors
    /// What went wrong, as the model should read it.
    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
}

/// One of what there is of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its URI.
    pub uri: String,
    /// Its name for people.
    pub name: String,
    /// What a list says of it beside its URI: an object, with the name in it.
    pub listing: Raw,
}

/// Brings tools into the gate that are not there from the start, such as those of servers that are started when somebody
/// asks for them.
pub trait Supply: Send + Sync {
    /// Returns once everything there is to bring was brought, or took too long.
    fn bring_all(&self) -> BoxFuture<'_, ()>;

    /// Returns once the tool of this name was brought, if it is going to be.
    fn bring<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ()>;
}

/// What a tool knows about the call it serves.
#[derive(Clone)]
pub struct Cx {
    /// Who asks.
    pub caller: Arc<Caller>,
    /// What kind of thing is asked for: of a prompt also its completions.
    pub kind: CallKind,
    /// The attempt in the ledger.
    pub attempt: AttemptId,
    /// What the environment tools may touch.
    pub workspace: Arc<Workspace>,
    /// The environment variables that programs get.
    pub env: Arc<BTreeMap<String, String>>,
    /// The idempotency key as the system behind the tool is to be told it, where the definition wants that.
    pub handed_key: Option<HandedKey>,
    /// Where it leaves what it is about to change, where the definition says `before-image`.
    pub images: Option<Arc<dyn BeforeImages>>,
    /// How long the run may still take, measured from its start.
    pub deadline: Duration,
    /// Fires when the asker stopped waiting or the time is up.
    pub cancellation: CancellationToken,
    /// Where progress goes.
    pub progress: Progress,
    /// What the asker's client offers.
    pub client: ClientCapabilities,
    /// The asker's client itself, where something can be asked of it.
    pub peer: Option<Arc<dyn Peer>>,
    /// The place in a trace that is told to whom the tool asks.
    pub trace: Option<TraceContext>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The way in for calls of the tool's own; they pass the same gate as everybody's.
    pub door: Arc<dyn Door>,
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("caller", &self.caller).field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// What the environment tools may touch, and what nobody may touch through them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The folder that paths are relative to and stay within.
    pub root: PathBuf,
    /// Files and folders (the data folder, configuration, keys) out of reach even inside `root`, compared by device
    /// and inode, not by name.
    pub protected: Vec<PathBuf>,
    /// Files that may be read and not changed, such as the programs of tools that run without asking; compared alike.
    pub read_only: Vec<PathBuf>,
}

/// One step of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// How far.
    pub progress: f64,
    /// Of how much, where known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<String>,
}

/// Where progress goes: nowhere, or to one listener that must not block. Beside it somebody may want to know no more than that
/// the tool is not silent.
#[derive(Clone, Default)]
pub struct Progress {
    listener: Option<Arc<dyn Fn(ProgressUpdate) + Send + Sync>>,
    alive: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Progress {
    /// Nobody listens.
    pub fn none() -> Self {
        Self::default()
    }

    /// One listener. It is called on the tool's task and must not block.
    pub fn to(listener: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(listener)), alive: None }
    }

    /// The same, and this is called at each sign of life. It must not block either.
    #[must_use]
    pub fn with_alive(self, alive: impl Fn() + Send + Sync + 'static) -> Self {
        Self { alive: Some(Arc::new(alive)), ..self }
    }

    /// Reports one step.
    pub fn report(&self, update: ProgressUpdate) {
        self.alive();
        if let Some(listener) = &self.listener {
            listener(update);
        }
    }

    /// Says that something came, such as a piece of an answer: no step, but no silence.
    pub fn alive(&self) {
        if let Some(alive) = &self.alive {
            alive();
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.listener.is_some() { "Progress(listened)" } else { "Progress(none)" })
    }
}

/// The time, passed in so that tests can move it.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// A clock that never goes back, from an arbitrary origin.
    fn monotonic(&self) -> Duration;
}

/// What a human is shown: everything that the yes would cover.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalQuestion {
    /// The durable question.
    pub id: ApprovalId,
    /// Who asks.
    pub caller: Caller,
    /// The tool's name.
    pub tool: String,
    /// What it does to the world.
    pub risk: Risk,
    /// What it needs.
    pub permission: Permission,
    /// The validated arguments, injected secrets redacted.
    pub arguments: Value,
    /// Exactly what would run, where the tool can say.
    pub preview: Option<String>,
    /// Why a human is asked: the rule.
    pub reason: String,
    /// When the question closes by itself.
    pub expires: Timestamp,
    /// What must be typed with a yes.
    pub typed: Option<String>,
}

/// What the human said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalAnswer {
    /// Yes, once.
    Approved {
        /// Who said so.
        by: String,
        /// What they typed, where the question wants it.
        typed: Option<String>,
    },
    /// No.
    Rejected {
        /// Who said so.
        by: String,
        /// Why, in their words.
        reason: Option<String>,
    },
    /// Nobody is there now; the question stays open.
    Later,
}

/// A way to ask a human at once.
pub trait ApprovalChannel: Send + Sync {
    /// Asks. It only decides; it runs nothing.
    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer>;
}

/// A model that says in short what a long text says.
pub trait Summarize: Send + Sync {
    /// The summary by the model of this name in the configuration.
    ///
    /// # Errors
    /// Why there is none, without secrets.
    fn summarize<'a>(&'a self, model: &'a str, text: &'a str) -> BoxFuture<'a, Result<String, String>>;
}
