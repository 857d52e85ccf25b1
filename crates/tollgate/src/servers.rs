//! `[mcp.NAME]`: the servers that Tollgate calls, and their tools in the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tollgate_gate::Gate;
use tollgate_guard::client::{Credentials, socket_address};
use tollgate_guard::redact::Redactor;
use tollgate_mcp::oauth::Oauth;
use tollgate_mcp::upstream::{
    Asks, Limits, Override, Quarantined, Sessions, Start, UpstreamConfig, UpstreamError, UpstreamKind, UpstreamStatus,
    Upstreams,
};
use tollgate_types::{BoxFuture, Clock, Supply, Tool, ToolError};

use crate::Error;
use crate::builder::{Resolved, resolve};
use crate::config::{Loaded, McpKind, McpServer, Transport};
use crate::credentials;
use crate::logins::Logins;
use crate::overlay::Overlays;

/// How long a list waits for servers that did not yet say what they have.
const LIST_WAIT: Duration = Duration::from_secs(10);
/// How long a call of a server's tool waits for it: as long as a server may take to start.
pub(crate) const CALL_WAIT: Duration = Duration::from_secs(60);
/// What the names of servers' tools begin with.
const PREFIX: &str = "mcp__";

/// The servers, which are started when somebody asks the gate for their tools.
pub(crate) struct Servers {
    gate: Gate,
    overlays: Overlays,
    upstreams: Upstreams,
    logins: Logins,
    changed: Arc<Changed>,
    known: Mutex<BTreeMap<String, Known>>,
    following: Mutex<JoinSet<()>>,
}

/// The servers who have said something new since the gate was brought to it.
#[derive(Default)]
struct Changed {
    names: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl Changed {
    fn add(&self, name: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        self.more.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the gate knows of one server.
#[derive(Default)]
struct Known {
    registered: BTreeMap<String, Arc<dyn Tool>>,
    refused: Vec<Quarantined>,
}

impl Servers {
    /// Takes the configured servers in charge; what they say later comes into the gate by itself.
    pub(crate) fn start(
        configs: Vec<UpstreamConfig>,
        logins: Logins,
        gate: Gate,
        overlays: Overlays,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, UpstreamError> {
        let changed = Arc::new(Changed::default());
        let on_change = Arc::new({
            let changed = Arc::clone(&changed);
            move |name: &str| changed.add(name)
        });
        let upstreams = Upstreams::start(configs, Limits::default(), clock, on_change)?;
        let (known, following) = (Mutex::default(), Mutex::default());
        let told = Arc::clone(&changed);
        let servers = Arc::new(Self { gate, overlays, upstreams, logins, changed: told, known, following });
        let changes = servers.gate.changes().clone();
        servers.upstreams.on_update(move |name, owner| changes.updated(name, owner));
        let told = Arc::downgrade(&servers);
        servers.gate.changes().on_unfollowed(move |gone| {
            if let Some(servers) = told.upgrade() {
                servers.upstreams.unfollow(gone);
            }
        });
        let supply: Weak<dyn Supply> = Arc::downgrade(&servers) as Weak<dyn Supply>;
        servers.gate.supplied_by(supply);
        let following = follow(Arc::downgrade(&servers), changed);
        servers.following.lock().unwrap_or_else(PoisonError::into_inner).spawn(following);
        Ok(servers)
    }

    /// Brings the gate to what servers said since it was last brought to it. What found no place is tried again. Whoever comes
    /// meanwhile waits, so that nobody looks into a gate that is behind.
    fn refresh_changed(&self) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names = self.changed.take();
        names.extend(all.iter().filter(|(_, known)| !known.refused.is_empty()).map(|(name, _)| name.clone()));
        for name in names {
            self.refresh(all.entry(name.clone()).or_default(), &name);
        }
    }

    /// Brings the gate's tools of one server to what the server says now.
    fn refresh(&self, known: &mut Known, name: &str) {
        let tools = self.upstreams.tools_of(name).into_iter().chain(self.upstreams.entries_of(name));
        let current: BTreeMap<String, Arc<dyn Tool>> =
            tools.into_iter().map(|tool| (tool.definition().name, tool)).collect();
        let is_same = |name: &String, tool: &Arc<dyn Tool>| current.get(name).is_some_and(|now| Arc::ptr_eq(now, tool));
        known.registered.retain(|name, tool| {
            let stays = is_same(name, tool);
            if !stays {
                self.gate.unregister(name);
            }
            stays
        });
        known.refused.clear();
        for (name, tool) in current {
            if known.registered.contains_key(&name) {
                continue;
            }
            match self.register(Arc::clone(&tool)) {
                Ok(()) => drop(known.registered.insert(name, tool)),
                Err(reason) => known.refused.push(Quarantined { tool: name, reason }),
            }
        }
    }

    fn register(&self, tool: Arc<dyn Tool>) -> Result<(), String> {
        let tool = self.overlays.apply(tool).map_err(|error| error.to_string())?;
        self.gate.register(tool).map_err(|error| error.to_string())
    }

    async fn settle(&self, wait: Duration) {
        self.upstreams.settle(wait).await;
        self.refresh_changed();
    }

    /// Every server, after each had the time to say what it has.
    pub(crate) async fn statuses(&self, wait: Duration) -> Vec<UpstreamStatus> {
        self.settle(wait).await;
        self.seen()
    }

    /// How long a server takes to answer whether it is there.
    pub(crate) async fn ping(&self, name: &str) -> Option<Result<Duration, ToolError>> {
        self.upstreams.ping(name).await
    }

    /// The login to a server that can have one.
    pub(crate) fn login(&self, name: &str) -> Option<Arc<Oauth>> {
        self.logins.of(name)
    }

    /// Every server as it is now.
    pub(crate) fn seen(&self) -> Vec<UpstreamStatus> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statuses = self.upstreams.list();
        for status in &mut statuses {
            let refused = known.get(&status.name).map(|known| known.refused.clone()).unwrap_or_default();
            status.tools.retain(|name| !refused.iter().any(|refused| refused.tool == *name));
            status.quarantined.extend(refused);
        }
        statuses
    }

    pub(crate) async fn stop(&self) {
        self.upstreams.stop().await;
    }
}

/// Keeps the gate to what the servers say. Changes that come while one is worked in are worked in together.
async fn follow(servers: Weak<Servers>, changed: Arc<Changed>) {
    loop {
        changed.more.notified().await;
        let Some(servers) = servers.upgrade() else { return };
        servers.refresh_changed();
    }
}

impl Supply for Servers {
    fn bring_all(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.settle(LIST_WAIT))
    }

    fn bring<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let server = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__"));
            if let Some((server, _)) = server.filter(|(server, _)| self.upstreams.has(server)) {
                self.upstreams.settle_one(server, CALL_WAIT).await;
                self.refresh_changed();
            }
        })
    }
}

/// The files that the servers' programs consist of: what runs without asking must not be rewritten by what writes
/// without asking.
pub(crate) fn program_files(loaded: &Loaded) -> Vec<PathBuf> {
    let servers = loaded.config.mcp.values().map(toml::Spanned::get_ref);
    let commands = servers.map(|server| server.command.iter().chain(&server.args).cloned().collect::<Vec<_>>());
    commands.flat_map(|command| tollgate_tools::program_files(&command, &loaded.folder)).collect()
}

/// The servers of a configuration. One that cannot get a secret costs only itself, and says so.
pub(crate) async fn configured(
    loaded: &Loaded,
    redactor: &Redactor,
    logins: &mut Logins,
    warnings: &mut Vec<String>,
) -> Result<Vec<UpstreamConfig>, Error> {
    let folder = std::path::absolute(&loaded.folder).map_err(|error| Error::Folder {
        what: "the folder",
        path: loaded.folder.clone(),
        why: error.to_string(),
    })?;
    let mut configs = Vec::new();
    for (name, server) in &loaded.config.mcp {
        let kind = match loaded.mcp_kind(name, server)? {
            McpKind::Program(command) => match values(&server.get_ref().env, loaded, redactor).await {
                Ok(env) => {
                    let (args, env) = (server.get_ref().args.clone(), env.into_iter().collect());
                    Ok(UpstreamKind::Stdio { command: command.to_owned(), args, env, cwd: folder.clone() })
                }
                Err(why) => Err(why),
            },
            McpKind::Endpoint(url) => shown(name, server.get_ref(), loaded, redactor, logins)
                .await
                .map(|credentials| endpoint(url.to_owned(), credentials, server.get_ref().transport)),
        };
        match kind {
            Ok(kind) => configs.push(config(name, kind, server.get_ref())),
            Err(why) => warnings.push(format!("the MCP server `{name}` is not available: {why}")),
        }
    }
    Ok(configs)
}

/// What an endpoint is shown with every request.
async fn shown(
    name: &str,
    server: &McpServer,
    loaded: &Loaded,
    redactor: &Redactor,
    logins: &mut Logins,
) -> Result<Credentials, String> {
    let headers = values(&server.headers, loaded, redactor).await?;
    let source = credentials::source(format!("the MCP server `{name}`"), server.headers.clone(), loaded, redactor);
    let headers = match source {
        Some(source) => Credentials::renewable(headers, source),
        None => Credentials::fixed(headers),
    };
    logins.credentials(name, server, headers, loaded).await
}

fn endpoint(url: String, headers: Credentials, transport: Option<Transport>) -> UpstreamKind {
    match transport {
        _ if socket_address(&url) != url => UpstreamKind::Socket { url, headers },
        Some(Transport::Sse) => UpstreamKind::Sse { url, headers },
        Some(Transport::Http) | None => UpstreamKind::Http { url, headers },
    }
}

fn config(name: &str, kind: UpstreamKind, server: &McpServer) -> UpstreamConfig {
    let mut config = UpstreamConfig::new(name, kind);
    config.start = if server.start == crate::config::Start::Eager { Start::Eager } else { Start::Lazy };
    config.sessions = match server.sessions {
        crate::config::Sessions::Shared => Sessions::Shared,
        crate::config::Sessions::Caller => Sessions::Caller,
    };
    config.asks = server.asks.as_ref().map_or_else(Asks::default, |asks| Asks {
        elicitation: asks.contains(&crate::config::Asks::Elicitation),
        sampling: asks.contains(&crate::config::Asks::Sampling),
        roots: asks.contains(&crate::config::Asks::Roots),
    });
    let overrides = server.tools.iter().map(|(glob, said)| Override {
        tools: glob.clone(),
        risk: said.risk,
        permission: said.permission,
        description: said.description.clone(),
        cost: said.cost.clone(),
        repeatable: said.repeatable,
    });
    config.overrides = overrides.collect();
    config
}

pub(crate) async fn values(
    given: &BTreeMap<String, crate::config::TextOrSecret>,
    loaded: &Loaded,
    redactor: &Redactor,
) -> Result<Vec<(String, tollgate_types::Secret)>, String> {
    let mut values = Vec::new();
    for (name, value) in given {
        let value = match resolve(name, value, &loaded.folder, redactor).await? {
            Resolved::Text(text) => tollgate_types::Secret::new(text),
            Resolved::Secret(secret) => secret,
        };
        values.push((name.clone(), value));
    }
    Ok(values)
}
