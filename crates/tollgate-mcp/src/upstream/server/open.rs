//! The ways to a server: by which one it is reached, and what is said of one that cannot be.

use std::sync::Arc;

use tollgate_guard::client::Credentials;
use tollgate_sandbox::Spawn;
use tollgate_types::CancellationToken;

use super::{End, Server};
use crate::upstream::config::UpstreamKind;
use crate::upstream::fault::Fault;
use crate::upstream::handshake::Memory;
use crate::upstream::http::HttpLink;
use crate::upstream::link::{Link, Way};
use crate::upstream::stdio::Driver;
use crate::upstream::{events, socket, stdio};

/// A connection, and what does its work.
type Opened = Result<(Arc<Link>, Driver), Fault>;

impl Server {
    /// Opens a connection.
    pub(super) async fn open(&self) -> Opened {
        let (traces, heard) = (Arc::clone(&self.traces), Arc::clone(&self.heard));
        let (link, driver) = match &self.config.kind {
            UpstreamKind::Stdio { command, args, env, cwd } => {
                let mut whole = tollgate_sandbox::base_env();
                whole.extend(env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
                let spawn = Spawn { program: command.clone(), args: args.clone(), cwd: cwd.clone(), env: whole };
                stdio::open(spawn, self.limits, traces, heard).await?
            }
            UpstreamKind::Socket { url, headers } => {
                socket::open(&self.client, &*self.clock, (url, headers), self.limits, (traces, heard)).await?
            }
            UpstreamKind::Http { url, headers } if self.facts().memory != Some(Memory::Stream) => {
                return Ok(self.open_http(url, headers));
            }
            UpstreamKind::Http { url, headers } | UpstreamKind::Sse { url, headers } => {
                let (client, clock) = (self.client.clone(), Arc::clone(&self.clock));
                let place = (url.clone(), headers.clone());
                events::open(client, clock, place, self.limits, (traces, heard)).await?
            }
        };
        Ok((Arc::new(Link::new(Way::Stdio(link), self.config.asks)), driver))
    }

    /// Streamable HTTP has no connection of its own; what it has ends with a session, or when the server is another one.
    fn open_http(&self, url: &str, headers: &Credentials) -> (Arc<Link>, Driver) {
        let told = (Arc::clone(&self.traces), Arc::clone(&self.heard));
        let (client, clock, asks) = (self.client.clone(), Arc::clone(&self.clock), self.config.asks);
        let close = CancellationToken::new();
        let http = HttpLink::new(client, clock, (url.to_owned(), headers.clone()), self.limits, asks, told);
        let link = Arc::new(Link::new(Way::Http(Box::new(http), close.clone()), asks));
        let closing = Arc::clone(&link);
        let driver = async move {
            tokio::select! {
                () = close.cancelled() => {}
                why = closing.fell() => return Some(why),
            }
            closing.end_session().await;
            None
        };
        (link, Box::pin(driver))
    }

    /// It could not be opened. Where it refused streamable HTTP before, that is said too.
    pub(super) fn not_opened(&self, fault: &Fault) -> End {
        let mut facts = self.facts();
        let was_refused = facts.memory.take_if(|memory| *memory == Memory::Stream).and(facts.refusal.take());
        let why = match was_refused {
            Some(refusal) => format!("{refusal}; and as an event stream of 2024-11-05: {fault}"),
            None => fault.to_string(),
        };
        End::Fell(why, fault.trouble())
    }
}
