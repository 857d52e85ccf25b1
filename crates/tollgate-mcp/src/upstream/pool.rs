//! A server with a connection for each caller: what one of them leaves there, no other finds. A connection is made for a
//! caller's first call, and ends when it is not used, or when others need its place.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_types::{Caller, CancellationToken, Clock, Code, Owner, ToolError};

use super::heard::Tell;
use super::server::Server;

/// Makes a connection, which nobody has used yet.
type Make = Box<dyn Fn() -> Arc<Server> + Send + Sync>;

/// The connections of one server's callers.
pub(super) struct Pool {
    make: Make,
    clock: Arc<dyn Clock>,
    callers_max: usize,
    idle: Duration,
    tell: OnceLock<Tell>,
    owned: Mutex<Owned>,
}

#[derive(Default)]
struct Owned {
    connections: BTreeMap<Owner, Connection>,
    lives: JoinSet<()>,
    is_closed: bool,
}

struct Connection {
    server: Arc<Server>,
    stop: CancellationToken,
    calls: Arc<AtomicUsize>,
    used: Duration,
}

/// A call that uses a connection.
pub(super) struct Lease {
    server: Arc<Server>,
    calls: Arc<AtomicUsize>,
}

impl Lease {
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("callers", &self.owned().connections.len()).finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(make: Make, clock: Arc<dyn Clock>, callers_max: usize, idle: Duration) -> Self {
        Self { make, clock, callers_max, idle, tell: OnceLock::new(), owned: Mutex::default() }
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who is told of resources that change.
    pub(super) fn tell(&self, tell: &Tell) {
        let _ = self.tell.set(Arc::clone(tell));
    }

    /// The owner does not follow the resource any more.
    pub(super) fn unfollow(&self, owner: &Owner, uri: &str) {
        if let Some(connection) = self.owned().connections.get(owner) {
            connection.server.unfollow(uri);
        }
    }

    /// The caller's own connection, for one call.
    pub(super) fn lease(&self, caller: &Caller) -> Result<Lease, ToolError> {
        let (now, owner) = (self.clock.monotonic(), Owner::from(caller));
        let mut owned = self.owned();
        if owned.is_closed {
            return Err(refused("the server was stopped"));
        }
        if !owned.connections.contains_key(&owner) {
            self.make_room(&mut owned, now)?;
            let (server, stop) = ((self.make)(), CancellationToken::new());
            self.tell.get().iter().for_each(|tell| server.tell_of(tell, Some(owner.clone())));
            owned.lives.spawn(live(Arc::clone(&server), stop.clone()));
            let connection = Connection { server, stop, calls: Arc::default(), used: now };
            owned.connections.insert(owner.clone(), connection);
        }
        let Some(connection) = owned.connections.get_mut(&owner) else { return Err(refused("no connection is free")) };
        connection.used = now;
        connection.calls.fetch_add(1, Ordering::AcqRel);
        Ok(Lease { server: Arc::clone(&connection.server), calls: Arc::clone(&connection.calls) })
    }

    /// Makes room for one more: what was not used for long, else what was not used for longest.
    fn make_room(&self, owned: &mut Owned, now: Duration) -> Result<(), ToolError> {
        while owned.lives.try_join_next().is_some() {}
        owned.end(|connection| now.saturating_sub(connection.used) >= self.idle);
        if owned.connections.len() < self.callers_max {
            return Ok(());
        }
        let free = owned.connections.values().filter(|connection| connection.is_free());
        let Some(oldest) = free.map(|connection| connection.used).min() else {
            return Err(refused(&format!(
                "{} callers use it now, each over a connection of its own",
                self.callers_max
            )));
        };
        owned.end(|connection| connection.used == oldest);
        Ok(())
    }

    /// Ends what is not used for long, until `stop`, and then everything. Dropped before that, it kills what is there.
    pub(super) async fn tend(&self, stop: &CancellationToken) {
        let _closing = Closing(self);
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.idle) => {}
                () = stop.cancelled() => break,
            }
            let now = self.clock.monotonic();
            let mut owned = self.owned();
            owned.end(|connection| now.saturating_sub(connection.used) >= self.idle);
            while owned.lives.try_join_next().is_some() {}
        }
        let mut lives = self.close();
        while lives.join_next().await.is_some() {}
    }

    /// Tells every connection to end; nobody gets another.
    fn close(&self) -> JoinSet<()> {
        let mut owned = self.owned();
        owned.is_closed = true;
        for connection in std::mem::take(&mut owned.connections).into_values() {
            connection.stop.cancel();
        }
        std::mem::take(&mut owned.lives)
    }
}

struct Closing<'a>(&'a Pool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        drop(self.0.close());
    }
}

impl Connection {
    fn is_free(&self) -> bool {
        self.calls.load(Ordering::Acquire) == 0 && !self.server.is_followed()
    }
}

impl Owned {
    /// Ends those connections that nobody uses and that are like this.
    fn end(&mut self, is_like: impl Fn(&Connection) -> bool) {
        self.connections.retain(|_, connection| {
            let ends = connection.is_free() && is_like(connection);
            if ends {
                connection.stop.cancel();
            }
            !ends
        });
    }
}

async fn live(server: Arc<Server>, stop: CancellationToken) {
    Arc::clone(&server).supervise(stop).await;
    server.forget_tools();
}

fn refused(why: &str) -> ToolError {
    ToolError::with_code(Code::Unavailable, why).nothing_happened().with_hint("ask again later")
}
