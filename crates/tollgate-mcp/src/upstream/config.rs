//! What the operator says of a server, and the bounds on what it may do to us.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use tollgate_guard::client::{ClientError, Credentials, Origin, socket_address};
use tollgate_types::{ClientCapabilities, ClientCapability, Cost, Permission, Risk, Secret, limits};

use super::log::LogFile;

/// A server's name: what fits into a tool's name beside the tool's own.
const SERVER_NAME_CHARS_MAX: usize = 32;

/// A server to call.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The name under which its tools stand: letters, digits, `-` and single `_`.
    pub name: String,
    /// How it is reached.
    pub kind: UpstreamKind,
    /// When it is started.
    pub start: Start,
    /// Whose its connections are.
    pub sessions: Sessions,
    /// What it may ask of clients, where policy permits it.
    pub asks: Asks,
    /// What the operator says of its tools. All that fit apply, in order: a later one wins.
    pub overrides: Vec<Override>,
    /// Where what it prints to standard error is kept.
    pub log: Option<LogFile>,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum UpstreamKind {
    /// A program that speaks on its standard input and output.
    Stdio {
        /// A path, or a name that is looked up in `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its environment on top of [`base_env`](tollgate_sandbox::base_env); nothing else is inherited.
        env: BTreeMap<String, Secret>,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// A streamable HTTP endpoint.
    Http {
        /// Its address. No other origin is asked, and no redirect followed.
        url: String,
        /// What goes with every request.
        headers: Credentials,
    },
    /// The event stream of 2024-11-05. Streamable HTTP turns to it by itself where a server knows nothing else.
    Sse {
        /// The address of the stream. No other origin is asked.
        url: String,
        /// What goes with every request.
        headers: Credentials,
    },
    /// A WebSocket.
    Socket {
        /// Its address: `ws` or `wss`.
        url: String,
        /// What goes with its opening.
        headers: Credentials,
    },
}

impl UpstreamKind {
    /// The one origin that is asked; none for a program.
    pub(super) fn origin(&self) -> Option<Result<Origin, ClientError>> {
        match self {
            Self::Stdio { .. } => None,
            Self::Http { url, .. } | Self::Sse { url, .. } => Some(Origin::of(url)),
            Self::Socket { url, .. } => Some(Origin::of(&socket_address(url))),
        }
    }
}

/// When a server is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// At its first use: a call, or the first time its tools are asked for.
    #[default]
    Lazy,
    /// At once; and again by itself, should it end.
    Eager,
}

/// Whose the connections to a server are: with a program or a session comes whatever the server remembers in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sessions {
    /// Everybody's: there is one.
    #[default]
    Shared,
    /// One caller's each. The one that was asked for the tools runs no call.
    Caller,
}

/// What a server may ask of the clients that its tools run for. What it may not, it is not told that any client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asks {
    /// Their humans.
    pub elicitation: bool,
    /// Their models.
    pub sampling: bool,
    /// Which folders they work in.
    pub roots: bool,
}

impl Default for Asks {
    fn default() -> Self {
        Self { elicitation: true, sampling: true, roots: true }
    }
}

impl Asks {
    /// Whether it may ask at all.
    pub(super) fn is_something(self) -> bool {
        self.elicitation || self.sampling || self.roots
    }

    pub(super) fn permits(self, kind: ClientCapability) -> bool {
        match kind {
            ClientCapability::Elicitation => self.elicitation,
            ClientCapability::Sampling => self.sampling,
            ClientCapability::Roots => self.roots,
        }
    }

    /// What the server is told of what a client offers.
    pub(super) fn of(self, client: ClientCapabilities) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: client.elicitation && self.elicitation,
            elicitation_url: client.elicitation_url && self.elicitation,
            sampling: client.sampling && self.sampling,
            sampling_tools: client.sampling_tools && self.sampling,
            roots: client.roots && self.roots,
            images: client.images,
        }
    }
}

/// What the operator says of some tools of a server.
#[derive(Debug, Clone, Default)]
pub struct Override {
    /// A glob over the server's own names for them.
    pub tools: String,
    /// What they do to the world; unsaid: dangerous.
    pub risk: Option<Risk>,
    /// What they need; unsaid: network.
    pub permission: Option<Permission>,
    /// What the model reads instead of the server's text.
    pub description: Option<String>,
    /// What a call costs; unsaid: 1.
    pub cost: Option<Cost>,
    /// Whether doing it twice is doing it once.
    pub repeatable: bool,
}

/// The bounds on every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a stdio server may take to say which era it speaks, before the older handshake is tried.
    pub probe: Duration,
    /// The same for the handshake; a server may need long to start.
    pub handshake: Duration,
    /// How long listing all tools may take.
    pub list: Duration,
    /// One message from a server.
    pub response_bytes_max: usize,
    /// The first pause before a server that ended is started again; doubled each time.
    pub pause_min: Duration,
    /// The longest such pause.
    pub pause_max: Duration,
    /// A server that was up for this long begins anew with the first pause.
    pub sustained: Duration,
    /// How long a server may take to end after its input was closed.
    pub stop: Duration,
    /// Callers who have a connection of their own to one server at once.
    pub callers_max: usize,
    /// A caller's own connection that was not used for so long is closed.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(2),
            handshake: Duration::from_secs(60),
            list: Duration::from_millis(limits::UPSTREAM_LIST_TIMEOUT_MS),
            response_bytes_max: 16 * 1024 * 1024,
            pause_min: Duration::from_millis(500),
            pause_max: Duration::from_secs(60),
            sustained: Duration::from_secs(60),
            stop: Duration::from_secs(1),
            callers_max: 64,
            idle: Duration::from_secs(10 * 60),
        }
    }
}

/// Why a server can not be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The name can not stand in the names of tools.
    #[error("`{name}` can not be the name of a server: {problem}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Two servers have one name.
    #[error("two servers are named `{name}`")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The address is none.
    #[error("the server `{name}`: {source}")]
    BadUrl {
        /// The server.
        name: String,
        /// What is wrong with it.
        source: ClientError,
    },
    /// A pattern is none.
    #[error("the server `{name}`: `{glob}` is not a pattern: {problem}")]
    BadGlob {
        /// The server.
        name: String,
        /// The pattern.
        glob: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// An override, ready to be applied.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) matcher: GlobMatcher,
    pub(super) said: Override,
}

impl UpstreamConfig {
    /// A server with nothing said of it but how it is reached.
    pub fn new(name: impl Into<String>, kind: UpstreamKind) -> Self {
        let (start, sessions) = (Start::default(), Sessions::default());
        Self { name: name.into(), kind, start, sessions, asks: Asks::default(), overrides: Vec::new(), log: None }
    }

    /// Whether [`Upstreams::start`](super::Upstreams::start) would take its name and its address.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), UpstreamError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let problem = if self.name.is_empty() {
            "it is empty"
        } else if self.name.len() > SERVER_NAME_CHARS_MAX {
            "it has more than 32 characters"
        } else if !self.name.chars().all(is_plain) {
            "it has characters other than letters, digits, `_` and `-`"
        } else if self.name.contains("__") || self.name.starts_with('_') || self.name.ends_with('_') {
            "`__` separates the parts of a tool's name: use single `_`, and none at an end"
        } else {
            return self.check_url();
        };
        Err(UpstreamError::BadName { name: self.name.clone(), problem })
    }

    fn check_url(&self) -> Result<(), UpstreamError> {
        match self.kind.origin() {
            Some(Err(source)) => Err(UpstreamError::BadUrl { name: self.name.clone(), source }),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    pub(super) fn rules(&self) -> Result<Vec<Rule>, UpstreamError> {
        let rule = |said: &Override| match Glob::new(&said.tools) {
            Ok(glob) => Ok(Rule { matcher: glob.compile_matcher(), said: said.clone() }),
            Err(error) => Err(UpstreamError::BadGlob {
                name: self.name.clone(),
                glob: said.tools.clone(),
                problem: error.kind().to_string(),
            }),
        };
        self.overrides.iter().map(rule).collect()
    }
}
