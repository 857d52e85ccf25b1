//! All servers, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_guard::client::Client;
use tollgate_types::{CancellationToken, Clock, Owner, Tool, ToolError, Unfollowed};

use super::client;
use super::config::{Limits, Sessions, UpstreamConfig, UpstreamError};
use super::heard::Tell;
use super::name;
use super::server::Server;
use super::status::UpstreamStatus;

/// Told the name of a server whose tools are others than before. It is called on the server's own task and must not
/// block.
pub type OnChange = Arc<dyn Fn(&str) + Send + Sync>;

/// All servers. Dropping it kills their programs; [`stop`](Self::stop) lets them end.
pub struct Upstreams {
    servers: BTreeMap<String, Arc<Server>>,
    /// What each may ask of clients.
    entries: BTreeMap<String, Vec<Arc<dyn Tool>>>,
    stop: CancellationToken,
    lives: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstreams").field("servers", &self.servers.keys()).finish_non_exhaustive()
    }
}

impl Upstreams {
    /// Takes the servers in charge, and starts the eager ones without waiting for them. Must be called within a
    /// runtime.
    ///
    /// # Errors
    /// When a name, an address or a pattern is none, or two names are the same; nothing is started then.
    pub fn start(
        configs: Vec<UpstreamConfig>,
        limits: Limits,
        clock: Arc<dyn Clock>,
        on_change: OnChange,
    ) -> Result<Self, UpstreamError> {
        let origins = configs.iter().filter_map(|config| config.kind.origin()?.ok());
        let client = Client::new(origins);
        let mut servers = BTreeMap::new();
        for config in configs {
            config.check()?;
            let (name, rules) = (config.name.clone(), config.rules()?);
            if servers.contains_key(&name) {
                return Err(UpstreamError::Duplicate { name });
            }
            let (clock, client, on_change) = (Arc::clone(&clock), client.clone(), Arc::clone(&on_change));
            let is_pooled = config.sessions == Sessions::Caller;
            let server = Server::new(config, rules, limits, clock, client, on_change);
            servers.insert(name, Arc::new(if is_pooled { server.with_pool() } else { server }));
        }
        let (stop, mut lives) = (CancellationToken::new(), JoinSet::new());
        for server in servers.values() {
            lives.spawn(Arc::clone(server).supervise(stop.clone()));
            if server.pool().is_some() {
                let (server, stop) = (Arc::clone(server), stop.clone());
                lives.spawn(async move {
                    if let Some(pool) = server.pool() {
                        pool.tend(&stop).await;
                    }
                });
            }
        }
        let entries = |(name, server): (&String, &Arc<Server>)| (name.clone(), client::entries(name, server.asks()));
        let entries = servers.iter().map(entries).collect();
        Ok(Self { servers, entries, stop, lives: Mutex::new(lives) })
    }

    /// Starts the servers that nobody needed yet, and waits until each has said what it can do, or fell, or `wait` is
    /// over. What comes later is told to [`OnChange`].
    pub async fn settle(&self, wait: Duration) {
        let mut waiting: JoinSet<()> = JoinSet::new();
        for server in self.servers.values() {
            let server = Arc::clone(server);
            waiting.spawn(async move { server.settled().await });
        }
        let _ = timeout(wait, async { while waiting.join_next().await.is_some() {} }).await;
    }

    /// The same for one server. A name that none has is settled at once.
    pub async fn settle_one(&self, name: &str, wait: Duration) {
        if let Some(server) = self.servers.get(name) {
            let _ = timeout(wait, server.settled()).await;
        }
    }

    /// How long a server takes to answer whether it is there; none where no server has the name. One that is not up is
    /// started first, which is not measured.
    pub async fn ping(&self, name: &str) -> Option<Result<Duration, ToolError>> {
        Some(self.servers.get(name)?.ping().await)
    }

    /// Whether a server has this name.
    pub fn has(&self, name: &str) -> bool {
        self.servers.contains_key(name)
    }

    /// Every server as an operator sees it, by name.
    pub fn list(&self) -> Vec<UpstreamStatus> {
        self.servers.values().map(|server| server.status()).collect()
    }

    /// Who is told of resources that change: by the name of the entry, and whose connection said it, where each caller has one.
    /// The first who asks for it is told; it is called on the server's own task and must not block.
    pub fn on_update(&self, tell: impl Fn(&str, Option<&Owner>) + Send + Sync + 'static) {
        let tell: Tell = Arc::new(tell);
        self.servers.values().for_each(|server| server.tell(&tell));
    }

    /// A resource is not followed any more: by its owner, or by anybody. Its server is told by and by.
    pub fn unfollow(&self, Unfollowed { name, owner, by_all }: Unfollowed<'_>) {
        let Some((server, uri)) = name::resource(name) else { return };
        let Some(server) = self.servers.get(server) else { return };
        match server.pool() {
            Some(pool) => pool.unfollow(owner, uri),
            None if by_all => server.unfollow(uri),
            None => {}
        }
    }

    /// What can be called now, of all servers: tools, resources, templates and prompts. A server that is down keeps its tools; calls to them are refused
    /// until it is back.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.keys().flat_map(|name| self.tools_of(name)).collect()
    }

    /// The same of one server.
    pub fn tools_of(&self, name: &str) -> Vec<Arc<dyn Tool>> {
        self.servers.get(name).map(|server| server.tools()).unwrap_or_default()
    }

    /// What a server may ask of the clients that its calls are for, as entries for the gate: policy says which of them it
    /// may. They are there whether the server is or not.
    pub fn entries_of(&self, name: &str) -> Vec<Arc<dyn Tool>> {
        self.entries.get(name).cloned().unwrap_or_default()
    }

    /// Stops every server, and returns when their programs and all descendants are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut lives = std::mem::take(&mut *self.lives.lock().unwrap_or_else(PoisonError::into_inner));
        while lives.join_next().await.is_some() {}
    }
}
