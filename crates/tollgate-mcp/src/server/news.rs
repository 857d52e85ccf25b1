//! What a client is told unasked: which of its lists are others than it knows, and which of the resources changed that it
//! follows. All of it is decided anew before it is said, as if the client asked: what is kept from it changes unnoticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tollgate_types::{Call, CallKind, Caller, Changed, Door, ToolDefinition, Watch};

use super::entries;
use crate::jsonrpc::{self, Id};
use crate::wire_name;

/// Changes that come in a burst are looked at once.
const BURST_PAUSE: Duration = Duration::from_millis(50);

/// A list that clients keep, by the name that it has in methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    fn kinds(self) -> &'static [CallKind] {
        match self {
            Self::Tools => &[CallKind::Tool],
            Self::Prompts => &[CallKind::Prompt],
            Self::Resources => &[CallKind::Resource, CallKind::Template],
        }
    }

    fn notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// What one connection, session or question is told. Nothing is followed before it is wanted.
#[derive(Debug, Default)]
pub(crate) struct News(OnceLock<Option<Follower>>);

impl News {
    /// Begins to follow what changes, unless it did; none where nothing ever does.
    pub(crate) fn begin(&self, door: &Arc<dyn Door>, caller: &Arc<Caller>) -> Option<&Follower> {
        let begin = || {
            let watch = door.changes()?.watch(caller);
            Some(Follower { door: Arc::clone(door), caller: Arc::clone(caller), watch, told: Mutex::default() })
        };
        self.0.get_or_init(begin).as_ref()
    }

    /// The same where it began.
    pub(crate) fn follower(&self) -> Option<&Follower> {
        self.0.get()?.as_ref()
    }
}

/// Follows what changes on behalf of a client.
pub(crate) struct Follower {
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
    watch: Watch,
    told: Mutex<Told>,
}

/// What the client knows, and what it is still to be told.
#[derive(Default)]
struct Told {
    /// The marks of the lists that it knows, by their first kind.
    lists: BTreeMap<(List, usize), u64>,
    /// The resources that it follows, by its own names for them, and the names under which their changes are told.
    followed: BTreeMap<String, String>,
    due: BTreeSet<Due>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    List(List),
    Updated(String),
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("watch", &self.watch).finish_non_exhaustive()
    }
}

/// The call that asks to follow a resource, by the client's name for it.
pub(super) fn subscription(uri: &str) -> Call {
    let (entry, own) = wire_name::resource_entry(uri);
    Call::of(CallKind::Subscription, entry, json!({ "uri": own }))
}

impl Follower {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a resource, as long as the call is made that asks for it; [`Wish::keep`] follows it on. None where there are
    /// too many.
    pub(super) fn wish<'a>(&'a self, uri: &'a str) -> Option<Wish<'a>> {
        let name = self.door.following(&self.caller, subscription(uri)).name;
        self.watch.follow(&name).then_some(Wish { follower: self, uri, name })
    }

    /// Follows a resource no longer.
    pub(super) fn unfollow(&self, uri: &str) {
        let mut told = self.told();
        if let Some(name) = told.followed.remove(uri) {
            told.due.remove(&Due::Updated(uri.to_owned()));
            self.let_go(&told, &name);
        }
    }

    /// A client may have two names for one resource.
    fn let_go(&self, told: &Told, name: &str) {
        if !told.followed.values().any(|followed| followed == name) {
            self.watch.unfollow(name);
        }
    }

    /// The client was shown this list. What templates have stands in it and is no part of what is followed.
    pub(super) fn listed(&self, kind: CallKind, listed: &[Arc<ToolDefinition>]) {
        let mark = if kind == CallKind::Resource {
            let names: BTreeSet<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
            let mut now = self.door.list_now(&self.caller, kind);
            now.retain(|entry| names.contains(entry.name.as_str()));
            entries::mark(&now)
        } else {
            entries::mark(listed)
        };
        let of = |list: &List| list.kinds().iter().position(|each| *each == kind).map(|at| (*list, at));
        if let Some(list) = List::ALL.iter().find_map(of) {
            self.told().lists.insert(list, mark);
        }
    }

    /// What these lists are now is what the client knows, unless it was shown them.
    pub(super) fn know(&self, lists: &[List]) {
        for list in lists {
            self.is_other(*list, Known::Kept);
        }
    }

    /// Tells the client what changes of these lists and of what it follows, for as long as it can be told. However slowly it
    /// reads, each is told once.
    pub(crate) async fn tell(&self, lists: &[List], tag: Option<&Id>, out: &mpsc::WeakSender<Vec<u8>>) {
        self.know(lists);
        loop {
            if !self.pay(tag, out).await {
                return;
            }
            self.watch.changed().await;
            sleep(BURST_PAUSE).await;
            let Changed { lists: may_be_others, updated } = self.watch.take();
            if may_be_others {
                self.revoke();
                self.told().due.extend(lists.iter().map(|list| Due::List(*list)));
            }
            let mut told = self.told();
            let uris = told.followed.iter().filter(|(_, name)| updated.contains(*name));
            let due: Vec<_> = uris.map(|(uri, _)| Due::Updated(uri.clone())).collect();
            told.due.extend(due);
        }
    }

    /// Tells all that is due; false where nobody is there any more.
    async fn pay(&self, tag: Option<&Id>, out: &mpsc::WeakSender<Vec<u8>>) -> bool {
        loop {
            if self.told().due.is_empty() {
                return true;
            }
            let Some(out) = out.upgrade() else { return false };
            // What is due stays so until there is room for it.
            let Ok(place) = out.reserve().await else { return false };
            let Some(due) = self.told().due.pop_first() else { continue };
            match due {
                Due::List(list) if self.is_other(list, Known::Renewed) => {
                    place.send(jsonrpc::notification(list.notification(), Notice { meta: Tag::of(tag), uri: None }));
                }
                Due::Updated(uri) if self.may_follow(&uri) => {
                    let notice = Notice { meta: Tag::of(tag), uri: Some(&uri) };
                    place.send(jsonrpc::notification("notifications/resources/updated", notice));
                }
                Due::List(_) | Due::Updated(_) => {}
            }
        }
    }

    /// Whether a list is another than the client knows. What it does not know at all is no other.
    fn is_other(&self, list: List, known: Known) -> bool {
        let marks = list.kinds().iter().map(|kind| entries::mark(&self.door.list_now(&self.caller, *kind)));
        let marks: Vec<u64> = marks.collect();
        let mut told = self.told();
        let mut is_other = false;
        for (at, mark) in marks.into_iter().enumerate() {
            let before = told.lists.entry((list, at)).or_insert(mark);
            is_other |= *before != mark;
            if known == Known::Renewed {
                *before = mark;
            }
        }
        is_other
    }

    fn may_follow(&self, uri: &str) -> bool {
        self.told().followed.contains_key(uri)
            && self.door.following(&self.caller, subscription(uri)).is_allowed == Some(true)
    }

    /// Gives up what the client may follow no longer. What is not there now may come back.
    fn revoke(&self) {
        let followed: Vec<String> = self.told().followed.keys().cloned().collect();
        for uri in followed {
            if self.door.following(&self.caller, subscription(&uri)).is_allowed == Some(false) {
                tracing::info!(subject = self.caller.subject, uri, "a resource may be followed no longer");
                self.unfollow(&uri);
            }
        }
    }
}

/// Whether what a client knows of a list becomes what the list is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Kept,
    Renewed,
}

/// A resource that is followed while the call is made that asks for it.
pub(super) struct Wish<'a> {
    follower: &'a Follower,
    uri: &'a str,
    name: String,
}

impl Wish<'_> {
    /// It was granted.
    pub(super) fn keep(self) {
        let Self { follower, uri, name } = &self;
        // Another wish for the same may have been refused meanwhile.
        follower.watch.follow(name);
        follower.told().followed.insert((*uri).to_owned(), name.clone());
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.follower.let_go(&self.follower.told(), &self.name);
    }
}

/// The parameters of a notification.
#[derive(Serialize)]
struct Notice<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Tag<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
}

/// Which question to listen something belongs to (MCP 2026-07-28, Subscriptions: receiving notifications).
#[derive(Serialize)]
pub(super) struct Tag<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    id: &'a Id,
}

impl<'a> Tag<'a> {
    pub(super) fn of(id: Option<&'a Id>) -> Option<Self> {
        id.map(|id| Self { id })
    }
}
