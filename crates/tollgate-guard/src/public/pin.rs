//! Names become addresses inside the connector and nowhere else: each connection has its own look-up, whose answers are
//! judged there and are the ones that are dialled. No second answer exists that a name server could change.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tollgate_types::BoxFuture;

use crate::address::{self, Policy, Refusal};

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All addresses of `host`, a name in ASCII without a dot at the end.
    ///
    /// # Errors
    /// What the resolver said. A name that does not exist may also have no addresses.
    fn lookup(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect()) })
    }
}

/// What the connector asks: looks up, judges, and gives out nothing that was not judged.
pub(super) struct Pinned {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) policy: Policy,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let host = address::normal_name(name.as_str());
        let policy = self.policy.clone();
        let answers = self.lookup.lookup(&host);
        Box::pin(async move {
            let answers = match answers.await {
                Ok(answers) => answers,
                Err(error) => return Err(Refusal::Unresolved { host, reason: error.to_string() }.into()),
            };
            address::judge_answers(&host, &answers, &policy)?;
            Ok(Box::new(answers.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}
