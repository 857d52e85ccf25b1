//! Keys under which a call happens once.

use std::os::unix::fs::PermissionsExt;

use jiff::SignedDuration;
use tollgate_store::{NewReservation, Reservation, ReservationKey, Store, StoreError, Unsettled};
use tollgate_types::{AttemptId, Digest};

use crate::{caller, folder, now};

const MINUTE_MS: u64 = 60_000;

fn key(key: &str) -> ReservationKey {
    ReservationKey::new(&caller("bob"), "pay", key)
}

fn new(keys: &[&str], digest: &str, attempt: &str) -> NewReservation {
    let keys = keys.iter().map(|one| key(one)).collect();
    NewReservation { keys, digest: Digest::new(digest), attempt: AttemptId::new(attempt), ttl_ms: MINUTE_MS }
}

fn open(attempt: &str) -> Reservation {
    Reservation::Open { attempt: AttemptId::new(attempt) }
}

fn ended(attempt: &str) -> Reservation {
    Reservation::Ended { attempt: AttemptId::new(attempt), outcome: "the end".into() }
}

async fn end(store: &Store, attempt: &str, at: jiff::Timestamp) {
    store.fulfil(AttemptId::new(attempt), "the end".into(), at).await.unwrap();
}

#[tokio::test]
async fn a_key_is_taken_once() {
    let (_folder, store) = folder();
    let reserve = |digest, attempt| store.reserve(new(&["order-17"], digest, attempt), now());
    assert_eq!(reserve("d", "a1").await.unwrap(), Reservation::Fresh);
    assert_eq!(reserve("d", "a2").await.unwrap(), open("a1"));
    assert_eq!(reserve("e", "a2").await.unwrap(), Reservation::OtherArguments);
    end(&store, "a1", now()).await;
    assert_eq!(reserve("d", "a2").await.unwrap(), ended("a1"));
    store.release(vec![AttemptId::new("a1")]).await.unwrap();
    assert_eq!(reserve("d", "a2").await.unwrap(), ended("a1"), "ended stays");
}

#[tokio::test]
async fn of_two_keys_both_are_taken_or_none() {
    let (_folder, store) = folder();
    let reserve = |keys: &'static [&str], attempt| store.reserve(new(keys, "d", attempt), now());
    assert_eq!(reserve(&["given 1", "own"], "a1").await.unwrap(), Reservation::Fresh);
    assert_eq!(reserve(&["given 2", "own"], "a2").await.unwrap(), open("a1"));
    assert_eq!(reserve(&["given 2"], "a3").await.unwrap(), Reservation::Fresh, "it was not taken with the other");
    end(&store, "a1", now()).await;
    assert_eq!(reserve(&["own"], "a4").await.unwrap(), ended("a1"));
    assert_eq!(reserve(&["given 1"], "a4").await.unwrap(), ended("a1"));
}

#[tokio::test]
async fn a_key_grows_old_from_its_calls_end_and_an_open_one_never() {
    let (_folder, store) = folder();
    let (minute, hour) = (SignedDuration::from_mins(1), SignedDuration::from_hours(1));
    let at = |time| store.reserve(new(&["k"], "d", "a2"), time);
    store.reserve(new(&["k"], "d", "a1"), now()).await.unwrap();
    assert_eq!(at(now() + hour).await.unwrap(), open("a1"));
    end(&store, "a1", now() + hour).await;
    let look = |time| store.reservation(vec![key("k")], Digest::new("d"), time);
    for (time, expected) in [
        (now() - hour, ended("a1")),
        (now() + hour + minute - SignedDuration::from_secs(1), ended("a1")),
        (now() + hour + minute, Reservation::Fresh),
    ] {
        assert_eq!(look(time).await.unwrap(), expected, "{time}");
    }
    assert_eq!(at(now() + hour + minute).await.unwrap(), Reservation::Fresh);
    assert_eq!(look(now()).await.unwrap(), open("a2"), "a clock that goes back brings nothing back");
}

/// A machine may sleep while a call waits for the first one: it is told the first one's answer, whoever cleaned up meanwhile.
#[tokio::test]
async fn what_grew_old_while_a_call_waited_still_stands_for_it() {
    let (_folder, store) = folder();
    let (second, hour) = (SignedDuration::from_secs(1), SignedDuration::from_hours(1));
    store.reserve(new(&["k"], "d", "a1"), now()).await.unwrap();
    end(&store, "a1", now()).await;
    let cleaned = store.reserve(new(&["other"], "d", "b"), now() + hour).await.unwrap();
    assert_eq!(cleaned, Reservation::Fresh);
    assert_eq!(store.reserve(new(&["k"], "d", "a2"), now() + second).await.unwrap(), ended("a1"));
    assert_eq!(store.reserve(new(&["k"], "d", "a3"), now() + hour).await.unwrap(), Reservation::Fresh);
}

/// The call ended, and its process died before that was on record: to everybody else its outcome is unknown.
#[tokio::test]
async fn a_key_whose_call_is_not_settled_does_not_grow_old() {
    let (_folder, store) = folder();
    let day = SignedDuration::from_hours(24);
    store.reserve(new(&["k"], "d", "a1"), now()).await.unwrap();
    end(&store, "a1", now()).await;
    let one = Unsettled {
        attempt: AttemptId::new("a1"),
        call_id: "c1".into(),
        tool: "pay".into(),
        time: "2026-11-30T08:00:00Z".into(),
        caller: "bob".into(),
    };
    store.take_over(&[one], &[]).unwrap();
    let at = |time| store.reserve(new(&["k"], "d", "a2"), time);
    assert_eq!(at(now() + day).await.unwrap(), ended("a1"));
    store.fulfil_settled(AttemptId::new("a1"), "another end".into(), now() + day).await.unwrap();
    store.settle(AttemptId::new("a1")).await.unwrap();
    assert_eq!(at(now() + day).await.unwrap(), ended("a1"), "it grows old from then on, and what is known stays");
    assert_eq!(at(now() + day + day).await.unwrap(), Reservation::Fresh);
}

#[tokio::test]
async fn open_keys_go_from_the_unknown_to_one_other() {
    let (_folder, store) = folder();
    let (a1, a2, a3) = (AttemptId::new("a1"), AttemptId::new("a2"), AttemptId::new("a3"));
    store.reserve(new(&["k", "own"], "d", "a1"), now()).await.unwrap();
    assert!(!store.take_keys_over(a1.clone(), a2.clone()).await.unwrap(), "a1 may be under way");
    let unsettled = Unsettled {
        attempt: a1.clone(),
        call_id: "c1".into(),
        tool: "pay".into(),
        time: "2026-11-30T08:00:00Z".into(),
        caller: "bob".into(),
    };
    store.take_over(&[unsettled], &[]).unwrap();
    assert!(store.is_unsettled(a1.clone()).await.unwrap() && !store.is_unsettled(a2.clone()).await.unwrap());
    assert!(store.take_keys_over(a1.clone(), a2.clone()).await.unwrap());
    assert!(!store.take_keys_over(a1, a3).await.unwrap(), "once");
    end(&store, "a2", now()).await;
    for one in ["k", "own"] {
        assert_eq!(store.reservation(vec![key(one)], Digest::new("d"), now()).await.unwrap(), ended("a2"));
    }
}

#[tokio::test]
async fn of_many_processes_one_takes_the_key() {
    let (folder, store) = folder();
    store.unsettled().await.unwrap();
    let attempts: Vec<String> = (0..16).map(|n| format!("a{n}")).collect();
    let tries = attempts.iter().map(|attempt| {
        let store = Store::new(folder.path());
        async move { store.reserve(new(&["k"], "d", attempt), now()).await.unwrap() }
    });
    let taken = futures_util::future::join_all(tries).await;
    assert_eq!(taken.into_iter().filter(|one| *one == Reservation::Fresh).count(), 1);
}

#[tokio::test]
async fn a_caller_has_so_many_keys_of_a_tool_and_no_more() {
    let (folder, store) = folder();
    store.reserve(new(&["k0"], "d", "a0"), now()).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    let fill = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 99999) \
                insert into idempotency select subject, tenant, tool, 'k' || i, digest, 'a', created, null, expires \
                from idempotency, n";
    database.execute(fill, []).unwrap();
    let refused = store.reserve(new(&["one more"], "d", "a1"), now()).await;
    assert!(matches!(&refused, Err(StoreError::Limit(why)) if why.contains("100000")), "{refused:?}");
    assert_eq!(store.reserve(new(&["k7"], "d", "a1"), now()).await.unwrap(), open("a"), "those that are there count");
    let other = NewReservation { keys: vec![ReservationKey::new(&caller("eve"), "pay", "k")], ..new(&[], "d", "a1") };
    assert_eq!(store.reserve(other, now()).await.unwrap(), Reservation::Fresh, "another caller has its own");
    end(&store, "a", now()).await;
    let later = now() + SignedDuration::from_mins(2);
    assert_eq!(store.reserve(new(&["one more"], "d", "a1"), later).await.unwrap(), Reservation::Fresh);
}

#[tokio::test]
async fn a_key_of_the_fifth_format_keeps_its_day() {
    let (folder, store) = folder();
    store.reserve(new(&["k"], "d", "a1"), now()).await.unwrap();
    end(&store, "a1", now()).await;
    drop(store);
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    database.execute_batch("drop index idempotency_by_end; alter table idempotency drop column expires").unwrap();
    database.execute_batch(crate::WITHOUT_UNDOS).unwrap();
    database.pragma_update(None, "user_version", 5).unwrap();
    drop(database);
    let store = Store::new(folder.path());
    let look = |hours| store.reservation(vec![key("k")], Digest::new("d"), now() + SignedDuration::from_hours(hours));
    assert_eq!(look(23).await.unwrap(), ended("a1"));
    assert_eq!(look(24).await.unwrap(), Reservation::Fresh);
}

#[tokio::test]
async fn what_is_stored_is_for_its_owner_alone() {
    let (folder, store) = folder();
    store.reserve(new(&["k"], "d", "a1"), now()).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
}
