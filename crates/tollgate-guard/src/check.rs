//! The verdict on one address for a human who asks why a tool was refused, or whether it will be.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs};

use serde::Serialize;

use crate::address::{self, Host, Policy};
use crate::client;

/// A verdict to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether a tool may ask it.
    pub allowed: bool,
    /// The address in normal form; a refused one without its query and user information.
    pub url: String,
    /// Where it leads, or why it is refused.
    pub reason: String,
}

/// Judges an address as the tools' client does. `pinned` says what names resolve to; a name that is not in it is
/// looked up by the system, which may take as long as the system likes. Nothing is connected to.
///
/// ```
/// use std::collections::BTreeMap;
///
/// let pinned = BTreeMap::from([("example.com".to_owned(), vec!["10.1.2.3".parse().unwrap()])]);
/// assert!(!tollgate_guard::check("https://example.com/", &pinned).allowed);
/// ```
pub fn check(url: &str, pinned: &BTreeMap<String, Vec<IpAddr>>) -> Report {
    let resolver = |name: &str| {
        let mut given = pinned.iter().filter(|(key, _)| address::normal_name(key) == name).peekable();
        match given.peek() {
            Some(_) => given.flat_map(|(_, addresses)| addresses.iter().copied()).collect(),
            None => (name, 0).to_socket_addrs().into_iter().flatten().map(|found| found.ip()).collect(),
        }
    };
    match address::judge(url, &resolver, &Policy::default()) {
        Ok(reachable) => {
            let addresses: Vec<String> = reachable.addresses.iter().map(|address| format!("`{address}`")).collect();
            let reason = match reachable.target.host() {
                Host::Address(_) => "a public address".to_owned(),
                Host::Name(name) => format!("`{name}` leads to {}", addresses.join(", ")),
            };
            Report { allowed: true, url: reachable.target.url().to_string(), reason }
        }
        Err(refusal) => Report { allowed: false, url: client::shown(url), reason: refusal.to_string() },
    }
}
