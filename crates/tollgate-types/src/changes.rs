//! What changes behind a door, told to those who follow it. They are told that something changed and never what it is now:
//! for that they ask the door, which decides what each of them sees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use crate::Caller;
use crate::limits::{FOLLOWED_BY_ALL_MAX, FOLLOWED_MAX};

/// Everything that may change behind a door. Cheap to clone; every clone is the same.
///
/// ```
/// use tollgate_types::{Caller, Changes, Surface};
///
/// let changes = Changes::default();
/// let watch = changes.watch(&Caller::new("ada", "reader", Surface::Library));
/// assert!(watch.follow("resources/file:///notes.md"));
/// changes.updated("resources/file:///notes.md", None);
/// assert!(watch.take().updated.contains("resources/file:///notes.md"));
/// ```
#[derive(Clone, Default)]
pub struct Changes(Arc<Hub>);

#[derive(Default)]
struct Hub {
    state: Mutex<State>,
    on_unfollowed: OnceLock<OnUnfollowed>,
}

/// Told of a resource that one owner's last watch gave up. It must not block, nor ask the changes for anything.
type OnUnfollowed = Box<dyn Fn(Unfollowed<'_>) + Send + Sync>;

#[derive(Default)]
struct State {
    issued: u64,
    watches: BTreeMap<u64, Place>,
    /// Who follows each resource.
    followers: BTreeMap<String, BTreeSet<u64>>,
    /// How many that are in all.
    follows: usize,
}

struct Place {
    watched: Arc<Watched>,
    followed: BTreeSet<String>,
}

/// Whose something is: what is one caller's own is no other's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    tenant: Option<String>,
    subject: String,
}

impl From<&Caller> for Owner {
    fn from(caller: &Caller) -> Self {
        Self { tenant: caller.tenant.clone(), subject: caller.subject.clone() }
    }
}

/// A resource that an owner follows no longer.
#[derive(Debug, Clone, Copy)]
pub struct Unfollowed<'a> {
    /// Its name in the directory.
    pub name: &'a str,
    /// Who followed it.
    pub owner: &'a Owner,
    /// Whether nobody else does.
    pub by_all: bool,
}

/// What changed since it was looked at last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Entries came or went, or who may use them: lists may be others now.
    pub lists: bool,
    /// The resources that changed, of those that are followed, by the names under which they are.
    pub updated: BTreeSet<String>,
}

struct Watched {
    owner: Owner,
    changed: Mutex<Changed>,
    waker: AtomicWaker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    fn note(&self, note: impl FnOnce(&mut Changed)) {
        note(&mut lock(&self.changed));
        self.waker.wake();
    }
}

impl Changes {
    /// Lists may be others now.
    pub fn lists_changed(&self) {
        for place in lock(&self.0.state).watches.values() {
            place.watched.note(|changed| changed.lists = true);
        }
    }

    /// A resource changed, or one below it: those who follow it are told. What was said on behalf of one owner is told to
    /// that owner alone.
    pub fn updated(&self, name: &str, of: Option<&Owner>) {
        let state = lock(&self.0.state);
        let above = name.match_indices('/').flat_map(|(at, _)| [name.get(..at), name.get(..=at)]);
        let followed: BTreeSet<&str> = above.flatten().chain([name]).collect();
        for name in followed {
            let ids = state.followers.get(name).into_iter().flatten();
            for Place { watched, .. } in ids.filter_map(|id| state.watches.get(id)) {
                if of.is_none_or(|owner| watched.owner == *owner) {
                    watched.note(|changed| changed.updated.extend([name.to_owned()]));
                }
            }
        }
    }

    /// Begins to follow, on behalf of `caller`.
    pub fn watch(&self, caller: &Caller) -> Watch {
        let watched =
            Arc::new(Watched { owner: Owner::from(caller), changed: Mutex::default(), waker: AtomicWaker::new() });
        let mut state = lock(&self.0.state);
        state.issued += 1;
        let id = state.issued;
        state.watches.insert(id, Place { watched: Arc::clone(&watched), followed: BTreeSet::new() });
        Watch { changes: self.clone(), id, watched }
    }

    /// Whether anybody follows this resource.
    pub fn is_followed(&self, name: &str) -> bool {
        lock(&self.0.state).followers.contains_key(name)
    }

    /// How many watches there are, and how many resources they follow, each for itself.
    pub fn count(&self) -> (usize, usize) {
        let state = lock(&self.0.state);
        (state.watches.len(), state.follows)
    }

    /// Who is told when an owner's last watch of a resource gives it up. The first who asks for it is.
    pub fn on_unfollowed(&self, tell: impl Fn(Unfollowed<'_>) + Send + Sync + 'static) {
        let _ = self.0.on_unfollowed.set(Box::new(tell));
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (watches, follows) = self.count();
        f.debug_struct("Changes").field("watches", &watches).field("follows", &follows).finish()
    }
}

/// Follows what changes, until it is dropped. However much changes while nobody looks, it holds no more than what is followed.
pub struct Watch {
    changes: Changes,
    id: u64,
    watched: Arc<Watched>,
}

impl Watch {
    /// Follows a resource too. False where there are too many already. It is to be followed before its server is asked to
    /// say when it changes, so that nobody takes that back meanwhile.
    pub fn follow(&self, name: &str) -> bool {
        let mut state = lock(&self.changes.0.state);
        let is_full = state.follows >= FOLLOWED_BY_ALL_MAX;
        let Some(place) = state.watches.get_mut(&self.id) else { return false };
        if place.followed.contains(name) {
            return true;
        }
        if is_full || place.followed.len() >= FOLLOWED_MAX {
            return false;
        }
        place.followed.insert(name.to_owned());
        state.followers.entry(name.to_owned()).or_default().insert(self.id);
        state.follows += 1;
        true
    }

    /// Follows it no longer.
    pub fn unfollow(&self, name: &str) {
        self.give_up(&mut lock(&self.changes.0.state), name);
        lock(&self.watched.changed).updated.remove(name);
    }

    /// Returns when something changed that was not looked at yet. Whoever waits last is told.
    pub async fn changed(&self) {
        poll_fn(|cx| {
            self.watched.waker.register(cx.waker());
            if *lock(&self.watched.changed) == Changed::default() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// What changed since this was asked last.
    pub fn take(&self) -> Changed {
        std::mem::take(&mut *lock(&self.watched.changed))
    }

    // INVARIANT: it is told within the lock, so that nobody who follows the resource anew is told of before.
    fn give_up(&self, state: &mut State, name: &str) {
        if !state.watches.get_mut(&self.id).is_some_and(|place| place.followed.remove(name)) {
            return;
        }
        state.follows -= 1;
        let Some(ids) = state.followers.get_mut(name) else { return };
        ids.remove(&self.id);
        let owner = &self.watched.owner;
        let is_others = |id: &u64| state.watches.get(id).is_none_or(|place| place.watched.owner != *owner);
        let (by_all, by_owner) = (ids.is_empty(), ids.iter().all(is_others));
        if by_all {
            state.followers.remove(name);
        }
        if let Some(tell) = self.changes.0.on_unfollowed.get().filter(|_| by_owner) {
            tell(Unfollowed { name, owner, by_all });
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.changes.0.state);
        let followed = state.watches.get(&self.id).map(|place| place.followed.clone()).unwrap_or_default();
        for name in &followed {
            self.give_up(&mut state, name);
        }
        state.watches.remove(&self.id);
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("owner", &self.watched.owner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::Surface;

    fn caller(subject: &str) -> Caller {
        Caller::new(subject, "reader", Surface::Library)
    }

    fn updated(watch: &Watch) -> Vec<String> {
        watch.take().updated.into_iter().collect()
    }

    #[test]
    fn each_is_told_once_what_it_follows_however_often_it_changes() {
        let changes = Changes::default();
        let (ann, bob) = (changes.watch(&caller("ann")), changes.watch(&caller("bob")));
        assert!(ann.changed().now_or_never().is_none());
        assert!(ann.follow("mcp__x__resources/demo://a") && bob.follow("mcp__x__resources/demo://b"));
        for _ in 0..1_000 {
            changes.updated("mcp__x__resources/demo://a", None);
            changes.lists_changed();
        }
        assert!(ann.changed().now_or_never().is_some());
        assert_eq!(ann.take(), Changed { lists: true, updated: ["mcp__x__resources/demo://a".to_owned()].into() });
        assert_eq!(bob.take(), Changed { lists: true, ..Changed::default() });
        assert!(ann.changed().now_or_never().is_none(), "it was looked at");
    }

    #[test]
    fn what_is_below_a_followed_resource_changes_it_and_what_is_beside_it_does_not() {
        let changes = Changes::default();
        let watch = changes.watch(&caller("ann"));
        assert!(watch.follow("resources/file:///a") && watch.follow("resources/file:///b/"));
        for (name, told) in [
            ("resources/file:///a/deep/er", vec!["resources/file:///a"]),
            ("resources/file:///a/", vec!["resources/file:///a"]),
            ("resources/file:///ab", vec![]),
            ("resources/file:///b/x", vec!["resources/file:///b/"]),
            ("resources/file:///b/", vec!["resources/file:///b/"]),
            ("resources/file:///", vec![]),
        ] {
            changes.updated(name, None);
            assert_eq!(updated(&watch), told, "{name}");
        }
    }

    #[test]
    fn what_is_one_owners_is_told_to_no_other_and_given_up_for_each() {
        let changes = Changes::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tell = Arc::clone(&told);
        changes.on_unfollowed(move |gone| lock(&tell).push((gone.owner.subject.clone(), gone.by_all)));
        let [one, two, bob] = ["ann", "ann", "bob"].map(|subject| changes.watch(&caller(subject)));
        for watch in [&one, &two, &bob] {
            assert!(watch.follow("r/a") && watch.follow("r/a"));
        }
        changes.updated("r/a", Some(&Owner::from(&caller("ann"))));
        assert_eq!((updated(&one).len(), updated(&two).len(), updated(&bob).len()), (1, 1, 0));
        one.unfollow("r/a");
        one.unfollow("r/a");
        assert!(lock(&told).is_empty(), "the same owner follows it still");
        drop(two);
        drop(bob);
        assert_eq!(*lock(&told), [("ann".to_owned(), false), ("bob".to_owned(), true)]);
        drop(one);
        assert_eq!(changes.count(), (0, 0));
    }

    #[test]
    fn no_watch_takes_more_than_its_part_and_none_leaves_anything() {
        let changes = Changes::default();
        let watches: Vec<Watch> = (0..20).map(|_| changes.watch(&caller("ann"))).collect();
        let mut taken = 0;
        for watch in &watches {
            let of_this = (0..2 * FOLLOWED_MAX).filter(|n| watch.follow(&format!("r/{n}"))).count();
            assert!(of_this <= FOLLOWED_MAX);
            taken += of_this;
        }
        assert_eq!((taken, changes.count().1), (FOLLOWED_BY_ALL_MAX.min(20 * FOLLOWED_MAX), taken));
        drop(watches);
        assert_eq!(changes.count(), (0, 0));
        assert!(lock(&changes.0.state).followers.is_empty());
    }
}
