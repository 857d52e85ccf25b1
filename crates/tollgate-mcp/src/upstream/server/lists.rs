//! What a server has, asked for list by list: what changed takes the place of what was, and what makes no sense is set
//! aside.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::Server;
use crate::server::Revision;
use crate::upstream::definition::{self, Known, Sorted};
use crate::upstream::entry::{self, UpstreamEntry};
use crate::upstream::fault::Fault;
use crate::upstream::link::Link;
use crate::upstream::list::{self, Listing};
use crate::upstream::message::Lists;
use crate::upstream::status::Quarantined;
use crate::upstream::tool::UpstreamTool;

/// Between two questions: what changes in a burst is asked about twice, at its beginning and after this.
const RELIST_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    pub(super) async fn first_list(self: &Arc<Self>, link: &Link) -> Result<(), Fault> {
        match self.list_tools(link).await {
            // It answered the probe when we no longer waited. It took the older handshake too, and yet holds to the era
            // of the first question.
            Err(Fault::Rpc(_)) if link.discovered_late() => {
                link.agree(Revision::V2026_07_28);
                self.list_tools(link).await
            }
            listed => listed,
        }?;
        // What it says of the rest costs it no tool.
        for list in Lists::ALL.into_iter().skip(1) {
            self.list_one(link, list).await;
        }
        Ok(())
    }

    pub(super) async fn relist(self: &Arc<Self>, link: &Link) {
        loop {
            self.heard.changed().await;
            for list in self.heard.lists() {
                self.list_one(link, list).await;
            }
            sleep(RELIST_PAUSE).await;
        }
    }

    async fn list_one(self: &Arc<Self>, link: &Link, list: Lists) {
        let listed =
            if list == Lists::Tools { self.list_tools(link).await } else { self.list_entries(link, list).await };
        if let Err(fault) = listed {
            self.facts().last_error = Some(format!("its {} could not be listed: {fault}", list.as_str()));
        }
    }

    async fn whole_list(&self, link: &Link, list: Lists) -> Result<Vec<Box<RawValue>>, Fault> {
        let listed = timeout(self.limits.list, list::list(link, list)).await;
        let Listing { items, cut } = listed.unwrap_or(Err(Fault::TimedOut { ms: self.limits.list.as_millis() }))?;
        let mut facts = self.facts();
        facts.last_error = cut.or_else(|| facts.last_error.take());
        Ok(items)
    }

    fn set_aside(&self, list: Lists, quarantined: Vec<Quarantined>) {
        for Quarantined { tool, reason } in &quarantined {
            tracing::warn!(server = self.config.name, tool, reason, "one of its {} is set aside", list.as_str());
        }
        self.facts().quarantined.insert(list, quarantined);
    }

    async fn list_tools(self: &Arc<Self>, link: &Link) -> Result<(), Fault> {
        let tools = self.whole_list(link, Lists::Tools).await?;
        let repeats_headers = !link.is_stdio() && link.agreed().is_some_and(Revision::is_stateless);
        let Sorted { known, quarantined } = definition::sort(&self.config.name, &self.rules, &tools, repeats_headers);
        self.set_aside(Lists::Tools, quarantined);
        let make = |known| UpstreamTool { known, server: Arc::clone(self) };
        let mut facts = self.facts();
        if let Some(tools) = renewed(&facts.tools, known, |tool| &tool.known, make) {
            facts.tools = tools;
            drop(facts);
            (self.on_change)(&self.config.name);
        }
        Ok(())
    }

    async fn list_entries(self: &Arc<Self>, link: &Link, list: Lists) -> Result<(), Fault> {
        let raws = if link.offers().has(list) { self.whole_list(link, list).await? } else { Vec::new() };
        let Sorted { known, quarantined } =
            definition::sorted(&raws, |raw| entry::read(&self.config.name, &self.rules, list, raw));
        self.set_aside(list, quarantined);
        let make = |known| UpstreamEntry { known, server: Arc::clone(self) };
        let mut facts = self.facts();
        let old = facts.entries.get(&list).map(Vec::as_slice).unwrap_or_default();
        if let Some(entries) = renewed(old, known, |entry| &entry.known, make) {
            facts.entries.insert(list, entries);
            drop(facts);
            (self.on_change)(&self.config.name);
        }
        Ok(())
    }
}

/// A list that is not the one of before, or none where it is. What did not change on it stays the same thing, so that
/// nobody has to take it in anew.
fn renewed<T>(
    old: &[Arc<T>],
    now: Vec<Known>,
    known: impl Fn(&T) -> &Known,
    make: impl Fn(Known) -> T,
) -> Option<Vec<Arc<T>>> {
    if old.iter().map(|old| known(old)).eq(&now) {
        return None;
    }
    let by_name: HashMap<&str, &Arc<T>> = old.iter().map(|old| (known(old).definition.name.as_str(), old)).collect();
    let kept = |now: &Known| by_name.get(now.definition.name.as_str()).filter(|old| known(old) == now);
    let renewed = now.into_iter().map(|now| match kept(&now) {
        Some(old) => Arc::clone(old),
        None => Arc::new(make(now)),
    });
    Some(renewed.collect())
}
