//! Clients that follow the house's own resources are told when these change.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_gate::Gate;
use tollgate_tools::Followed;

/// Looks at what is followed for as long as this is held.
pub(super) fn following(followed: Arc<Followed>, gate: &Gate) -> JoinSet<()> {
    let (wanted, changes) = (gate.changes().clone(), gate.changes().clone());
    let name = |uri: &str| format!("resources/{uri}");
    let mut looking = JoinSet::new();
    looking.spawn(async move {
        let is_wanted = move |uri: &str| wanted.is_followed(&name(uri));
        followed.watch(is_wanted, move |uri| changes.updated(&name(uri), None)).await;
    });
    looking
}
