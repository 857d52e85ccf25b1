//! Resources of the house that somebody wants to be told of. Each is looked at again and again for as long as somebody does,
//! and never otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tollgate_types::{BoxFuture, ToolError};

/// Between two looks at a file.
const PAUSE: Duration = Duration::from_secs(2);
/// Resources that are followed at once.
const FOLLOWED_MAX: usize = 100;

/// What a resource is like now, as a text that is another when the resource is; none where it is gone.
pub(crate) type Look = Arc<dyn Fn() -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// What is followed, by URI.
#[derive(Default)]
pub struct Followed {
    all: Mutex<BTreeMap<String, Follow>>,
    more: Notify,
}

struct Follow {
    look: Look,
    seen: Option<String>,
    /// One look at it for so many at a file.
    every: u32,
}

impl Followed {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Follow>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a resource from now on, once for `every` looks at a file.
    pub(crate) async fn follow(&self, uri: &str, every: u32, look: Look) -> Result<(), ToolError> {
        let seen = look().await;
        let mut all = self.all();
        if all.len() >= FOLLOWED_MAX && !all.contains_key(uri) {
            let message = format!("{FOLLOWED_MAX} resources are followed already");
            return Err(ToolError::new(message).with_tool_code("TOO_MANY").with_hint("give up one of them first"));
        }
        all.entry(uri.to_owned()).or_insert(Follow { look, seen, every });
        self.more.notify_one();
        Ok(())
    }

    /// How many are followed.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Tells of each change, by URI; what is not wanted any more is looked at no longer. Never ends; dropping it ends the
    /// looking.
    pub async fn watch(&self, is_wanted: impl Fn(&str) -> bool, tell: impl Fn(&str)) {
        let mut round = 0_u32;
        loop {
            while self.count() == 0 {
                self.more.notified().await;
            }
            sleep(PAUSE).await;
            round = round.wrapping_add(1);
            for (uri, look) in self.due(round, &is_wanted) {
                if self.differs(&uri, look().await) {
                    tell(&uri);
                }
            }
        }
    }

    fn due(&self, round: u32, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Look)> {
        let mut all = self.all();
        all.retain(|uri, _| is_wanted(uri));
        let due = all.iter().filter(|(_, follow)| round.is_multiple_of(follow.every));
        due.map(|(uri, follow)| (uri.clone(), Arc::clone(&follow.look))).collect()
    }

    fn differs(&self, uri: &str, now: Option<String>) -> bool {
        // Whoever gave it up meanwhile is not told.
        self.all().get_mut(uri).is_some_and(|follow| std::mem::replace(&mut follow.seen, now.clone()) != now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_followed_is_told_of_once_for_each_change() {
        let (followed, state) = (Followed::default(), Arc::new(Mutex::new(Some("a".to_owned()))));
        let (told, is_wanted) = (Mutex::new(Vec::new()), AtomicBool::new(true));
        let look: Look = {
            let state = Arc::clone(&state);
            Arc::new(move || Box::pin(std::future::ready(state.lock().unwrap().clone())))
        };
        let story = async {
            followed.follow("x", 1, Arc::clone(&look)).await.unwrap();
            for (now, count) in [(Some("a"), 0), (Some("b"), 1), (None, 2), (None, 2), (Some("b"), 3)] {
                *state.lock().unwrap() = now.map(str::to_owned);
                sleep(2 * PAUSE).await;
                assert_eq!(told.lock().unwrap().len(), count, "{now:?}");
            }
            is_wanted.store(false, Ordering::Relaxed);
            *state.lock().unwrap() = Some("c".to_owned());
            sleep(2 * PAUSE).await;
            assert_eq!((told.lock().unwrap().len(), followed.count()), (3, 0));
            is_wanted.store(true, Ordering::Relaxed);
            for n in 0..FOLLOWED_MAX {
                followed.follow(&n.to_string(), 1, Arc::clone(&look)).await.unwrap();
            }
            assert!(followed.follow("more", 1, Arc::clone(&look)).await.is_err());
            followed.follow("7", 1, look).await.unwrap();
        };
        let wanted = |_: &str| is_wanted.load(Ordering::Relaxed);
        tokio::select! {
            () = story => {}
            () = followed.watch(wanted, |uri| told.lock().unwrap().push(uri.to_owned())) => {}
        }
    }
}
