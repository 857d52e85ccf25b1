//! Sessions through the store's door: what is stored, what goes, and who may work in one.

use jiff::SignedDuration;
use tollgate_store::{NewCall, NewReservation, ReservationKey, SessionMeta, StepKind, Store, StoreError};
use tollgate_types::{ApprovalId, AttemptId, Digest, limits, uuid_v7};

use crate::{caller, folder, now};

fn meta(id: &str, name: Option<&str>) -> SessionMeta {
    SessionMeta {
        id: id.into(),
        name: name.map(str::to_owned),
        caller: caller("bob"),
        model: "default".into(),
        system: Some("be brief".into()),
        created: now(),
        updated: now(),
        bytes: 0,
        forked_from: None,
    }
}

fn call(key: Option<&str>) -> NewCall {
    NewCall { key: key.map(str::to_owned), is_whole: true }
}

#[tokio::test]
async fn steps_are_kept_and_the_first_outcome_stays() {
    let (_folder, store) = folder();
    let id = uuid_v7(now());
    store.add_session(meta(&id, Some("s1"))).await.unwrap();
    assert!(matches!(store.add_session(meta("other", Some("s1"))).await, Err(StoreError::Conflict(_))));
    store.add_step(&id, (1, StepKind::Prompt), "问".into(), vec![], now()).await.unwrap();
    store.add_step(&id, (2, StepKind::Turn), "turn".into(), vec![call(Some("k")), call(None)], now()).await.unwrap();
    assert!(store.add_step(&id, (2, StepKind::Turn), "again".into(), vec![], now()).await.is_err(), "a place once");
    store.keep_waiting(&id, (2, 0), ApprovalId::new("a1")).await.unwrap();
    store.keep_outcome(&id, (2, 1), "first".into(), now()).await.unwrap();
    assert!(store.keep_outcome(&id, (2, 1), "second".into(), now()).await.is_err());

    for wanted in ["s1", id.as_str(), id.get(..20).unwrap(), id.get(28..).unwrap()] {
        assert_eq!(store.session(wanted).await.unwrap().id, id, "{wanted}");
    }
    let steps = store.steps(&id).await.unwrap();
    assert_eq!((steps.len(), steps[0].body.as_str(), steps[1].calls.len()), (2, "问", 2));
    assert_eq!(steps[1].calls[0].approval, Some(ApprovalId::new("a1")));
    assert_eq!(steps[1].calls[1].outcome.as_deref(), Some("first"));
    let listed = store.sessions().await.unwrap();
    assert_eq!((listed[0].turns, listed[0].open, listed[0].waiting, listed[0].last_calls), (1, 1, 1, 2));
    assert_eq!(listed[0].meta.bytes as usize, "问turnfirst".len());
    store.withdraw_prompt(&id, 1).await.unwrap();
    assert_eq!(store.steps(&id).await.unwrap().len(), 2, "only the last step can be taken back");
}

#[tokio::test]
async fn a_session_has_a_limit_and_an_outcome_has_none() {
    let (_folder, store) = folder();
    store.add_session(meta("s", None)).await.unwrap();
    let long = "x".repeat(limits::SESSION_BYTES_MAX as usize);
    store.add_step("s", (1, StepKind::Turn), long, vec![call(Some("k"))], now()).await.unwrap();
    let more = store.add_step("s", (2, StepKind::Prompt), "y".into(), vec![], now()).await;
    assert!(matches!(more, Err(StoreError::Limit(_))), "{more:?}");
    store.keep_outcome("s", (1, 0), "z".into(), now()).await.unwrap();
}

#[tokio::test]
async fn the_one_not_used_for_longest_goes_unless_it_is_open_or_in_use() {
    let (folder, store) = folder();
    for (at, id) in ["open", "used", "old"].into_iter().enumerate() {
        let updated = now() - SignedDuration::from_hours(9 - i64::try_from(at).unwrap());
        store.add_session(SessionMeta { updated, ..meta(id, None) }).await.unwrap();
    }
    let before = now() - SignedDuration::from_hours(10);
    store.add_step("open", (1, StepKind::Turn), "t".into(), vec![call(Some("k"))], before).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    database
        .execute(
            "with recursive counted(value) as (select 1 union all select value + 1 from counted where value < ?2) \
             insert into sessions (id, caller, model, created, updated) \
             select 's' || value, s.caller, 'm', 1, ?1 from sessions s, counted where s.id = 'old'",
            rusqlite::params![now().as_microsecond(), limits::SESSIONS_KEPT_MAX - 3],
        )
        .unwrap();
    let held = Store::new(folder.path());
    let _lock = held.lock_session("used").unwrap();
    store.add_session(meta("new", None)).await.unwrap();
    let mut statement = database.prepare("select id from sessions").unwrap();
    let ids: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(ids.len(), limits::SESSIONS_KEPT_MAX as usize);
    assert!(!ids.contains(&"old".to_owned()));
    assert!(["open", "used", "new"].iter().all(|id| ids.contains(&(*id).to_owned())));
}

#[tokio::test]
async fn a_key_is_remembered_for_as_long_as_a_session_waits_on_it() {
    let (_folder, store) = folder();
    store.add_session(meta("s", None)).await.unwrap();
    store.add_step("s", (1, StepKind::Turn), "t".into(), vec![call(Some("mine"))], now()).await.unwrap();
    let new = |key: &str, attempt: &str| NewReservation {
        keys: vec![ReservationKey::new(&caller("bob"), "pay", key)],
        digest: Digest::new("d"),
        attempt: AttemptId::new(attempt),
        ttl_ms: limits::IDEMPOTENCY_TTL_MS,
    };
    for key in ["mine", "other"] {
        store.reserve(new(key, "a"), now()).await.unwrap();
        store.fulfil(AttemptId::new("a"), "the end".into(), now()).await.unwrap();
    }
    let later = now() + SignedDuration::from_hours(48);
    store.reserve(new("third", "b"), later).await.unwrap();
    assert_eq!(store.key_holder(&caller("bob"), "pay", "mine").await.unwrap(), Some(AttemptId::new("a")));
    assert_eq!(store.key_holder(&caller("bob"), "pay", "other").await.unwrap(), None);
    assert_eq!(store.key_holder(&caller("eve"), "pay", "mine").await.unwrap(), None);
    assert_eq!(store.key_holder(&caller("bob"), "spare", "mine").await.unwrap(), None);
    store.keep_outcome("s", (1, 0), "told".into(), later).await.unwrap();
    store.reserve(new("third", "c"), later).await.unwrap();
    assert_eq!(store.key_holder(&caller("bob"), "pay", "mine").await.unwrap(), None);
}

#[tokio::test]
async fn a_copy_ends_with_a_turn_that_is_whole() {
    let (_folder, store) = folder();
    store.add_session(meta("s", Some("s1"))).await.unwrap();
    assert!(matches!(store.fork_session("s1", ("c".into(), None), None, now()).await, Err(StoreError::NotFound(_))));
    store.add_step("s", (1, StepKind::Prompt), "p".into(), vec![], now()).await.unwrap();
    store.add_step("s", (2, StepKind::Turn), "t1".into(), vec![call(Some("k1"))], now()).await.unwrap();
    store.keep_outcome("s", (2, 0), "o1".into(), now()).await.unwrap();
    store.add_step("s", (3, StepKind::Turn), "t2".into(), vec![call(Some("k2"))], now()).await.unwrap();
    let open = store.fork_session("s1", ("c".into(), None), Some(2), now()).await;
    assert!(matches!(open, Err(StoreError::Conflict(_))), "{open:?}");
    let copy = store.fork_session("s1", ("c".into(), Some("s2".into())), None, now()).await.unwrap();
    assert_eq!((copy.forked_from.as_deref(), copy.name.as_deref(), copy.bytes), (Some("s"), Some("s2"), 5));
    let steps = store.steps("c").await.unwrap();
    assert_eq!((steps.len(), steps[1].calls[0].new.key.clone()), (2, None), "its keys stay behind");
    assert_eq!(steps[1].calls[0].outcome.as_deref(), Some("o1"));
    assert_eq!(store.steps("s").await.unwrap().len(), 3);
}

#[test]
fn one_works_in_it_and_a_file_that_was_left_is_taken_over() {
    let (folder, store) = folder();
    let other = Store::new(folder.path());
    let lock = store.lock_session("s").unwrap();
    assert!(matches!(other.lock_session("s"), Err(StoreError::Conflict(_))));
    let _beside = other.lock_session("t").unwrap();
    drop(lock);
    let path = folder.path().join("sessions/s.lock");
    assert!(!path.exists());
    std::fs::write(&path, "4711").unwrap();
    drop(other.lock_session("s").unwrap());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_store_of_the_second_format_is_brought_to_this_one() {
    let (folder, store) = folder();
    store.add_session(meta("s", None)).await.unwrap();
    drop(store);
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    for table in ["sessions", "session_steps", "session_calls", "spending", "spending_held", "deliveries", "messages"] {
        database.execute(&format!("drop table {table}"), []).unwrap();
    }
    database.execute_batch("drop index idempotency_by_end; alter table idempotency drop column expires").unwrap();
    database.execute_batch(crate::WITHOUT_UNDOS).unwrap();
    database.pragma_update(None, "user_version", 2).unwrap();
    drop(database);
    let store = Store::new(folder.path());
    assert_eq!(store.sessions().await.unwrap(), []);
    store.add_session(meta("s", None)).await.unwrap();
    assert_eq!(store.session("s").await.unwrap(), meta("s", None));
}
