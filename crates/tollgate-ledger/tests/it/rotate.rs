//! A segment ends when its first record is old enough, whoever writes.

use tollgate_ledger::{Durability, Event, Options, verify};

use super::*;

/// A clock that somebody sets.
pub(crate) struct Set(pub(crate) AtomicI64);

impl Set {
    pub(crate) fn go(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn set_clock() -> Arc<Set> {
    Arc::new(Set(AtomicI64::new(1_767_323_045_000_000)))
}

#[tokio::test]
async fn an_old_segment_is_followed_by_another_of_the_same_chain() {
    let folder = tempfile::tempdir().unwrap();
    let clock = set_clock();
    let options = Options { segment_age_max: Some(Duration::from_secs(3600)), ..Options::default() };
    let open = || Ledger::open_with(folder.path(), Arc::clone(&clock) as _, options.clone()).unwrap().0;
    let (first, second) = (open(), open());
    let write = async |ledger: &Ledger| {
        ledger.append(vec![entry(Event::Observed, "a")], Durability::Strict).await.unwrap();
    };
    write(&first).await;
    clock.go(3599);
    write(&second).await;
    assert_eq!(segments(folder.path()).len(), 1);
    clock.go(1);
    write(&second).await;
    write(&first).await;
    assert_eq!(segments(folder.path()).len(), 2, "both go on to the same one");
    clock.go(-7200);
    write(&first).await;
    assert_eq!(segments(folder.path()).len(), 2, "a clock that goes back makes nothing old");
    drop((first, second));
    // Another process knows the age of what it finds.
    clock.go(7200 + 3600);
    write(&open()).await;
    assert_eq!(segments(folder.path()).iter().map(|it| first_of(it)).collect::<Vec<_>>(), [1, 3, 6]);
    assert_eq!(check_chain(folder.path()).len(), 6);
    assert!(verify(folder.path()).unwrap().ok);
}
