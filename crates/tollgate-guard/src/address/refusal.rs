//! Why an address is not asked. The texts are for a model and for the ledger: none carries a path, a query or user
//! information.

use std::net::IpAddr;

/// Why an address is not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no address, or one that two readers could read in two ways.
    #[error("the address cannot be used: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: String,
    },
    /// Another protocol.
    #[error("the address begins with `{scheme}:`; only `http:` and `https:` are asked")]
    Scheme {
        /// What it began with.
        scheme: String,
    },
    /// A port that is not asked.
    #[error("port {port} is not asked")]
    Port {
        /// The port.
        port: u16,
    },
    /// A name that means something else in every network.
    #[error("`{host}` is no public name: {why}")]
    Name {
        /// The name.
        host: String,
        /// What kind of name it is.
        why: &'static str,
    },
    /// A literal in a blocked range.
    #[error("`{address}` is no public address: {range}")]
    Address {
        /// The address.
        address: IpAddr,
        /// What the range is for.
        range: &'static str,
    },
    /// A name of which one address stands in a blocked range.
    #[error("`{host}` leads to `{address}`, which is no public address: {range}")]
    Answer {
        /// The name.
        host: String,
        /// The first of its addresses that is blocked.
        address: IpAddr,
        /// What the range is for.
        range: &'static str,
    },
    /// A name without an address.
    #[error("`{host}` cannot be found: {reason}")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// A redirect to an address anybody on the way can read and change.
    #[error("a redirect leads from `https` to `http`")]
    Downgrade,
}

impl Refusal {
    pub(super) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable { reason: reason.into() }
    }
}
