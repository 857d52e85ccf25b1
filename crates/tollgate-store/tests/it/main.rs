//! The state of a data folder, through its public door, on real files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod deliveries;
mod idempotency;
mod line;
mod messages;
mod results;
mod sessions;
mod spending;
mod tasks;
mod undo;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;
use tollgate_store::{
    AccessKey, Answer, Approval, ApprovalStatus, Binding, Claim, InstallKey, KeyKind, NewApproval, Store, StoreError,
    Taken, Unsettled,
};
use tollgate_types::{ApprovalId, AttemptId, CallId, Caller, Digest, Permission, Pin, Risk, Surface, uuid_v7};

/// What the sixth format did not have is taken out.
const WITHOUT_UNDOS: &str = "drop table undos; alter table approvals drop column kind; \
    alter table approvals drop column tried; alter table approvals drop column expects; \
    alter table approvals drop column result;";

fn now() -> Timestamp {
    "2026-11-30T08:00:00Z".parse().unwrap()
}

fn caller(subject: &str) -> Caller {
    Caller::new(subject, "developer", Surface::Cli)
}

fn question(subject: &str, digest: &str) -> NewApproval {
    NewApproval {
        id: ApprovalId::new(uuid_v7(now())),
        binding: Binding { caller: caller(subject), pin: Pin::new("pin"), digest: Digest::new(digest) },
        attempt: AttemptId::new(uuid_v7(now())),
        call_id: CallId::new("c1"),
        tool: "send_email".into(),
        risk: Risk::Dangerous,
        permission: Permission::Network,
        arguments: json!({"to": "ops@example.com"}),
        preview: Some("SMTP …".into()),
        reason: "the tool is dangerous".into(),
        expires: now() + SignedDuration::from_hours(1),
        typed: None,
        approvers: 1,
        intervention: None,
    }
}

fn yes() -> Answer {
    Answer { approved: true, by: "alice".into(), reason: None, typed: None }
}

async fn say(store: &Store, asked: &Approval, answer: Answer) {
    store.answer(asked.id.as_str(), answer.clone(), now()).await.unwrap();
    store.answer_recorded(asked.id.clone(), answer, now()).await.unwrap();
}

fn folder() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    (folder, store)
}

#[tokio::test]
async fn a_yes_fits_once_and_only_the_same_asker_and_arguments() {
    let (_folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d1"), now()).await.unwrap() else { panic!("asked anew") };
    let Claim::Pending(pending) = store.claim(question("bob", "d1"), now()).await.unwrap() else { panic!("pending") };
    assert_eq!(asked.id, pending.id);
    say(&store, &asked, yes()).await;

    assert!(matches!(store.claim(question("carol", "d1"), now()).await.unwrap(), Claim::Asked(_)));
    assert!(matches!(store.claim(question("bob", "d2"), now()).await.unwrap(), Claim::Asked(_)));
    let Claim::Approved(used) = store.claim(question("bob", "d1"), now()).await.unwrap() else { panic!("approved") };
    assert_eq!(used.decided_by.as_deref(), Some("alice"));
    assert!(store.consume(used.id.clone(), now()).await.unwrap());
    assert!(!store.consume(used.id, now()).await.unwrap(), "once");
    assert!(matches!(store.claim(question("bob", "d1"), now()).await.unwrap(), Claim::Asked(_)), "used up");
    assert_eq!(store.approval(asked.id.as_str(), now()).await.unwrap().status, ApprovalStatus::Consumed);
}

#[tokio::test]
async fn another_surface_role_or_pin_asks_anew() {
    let (_folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    say(&store, &asked, yes()).await;
    type Change = fn(&mut NewApproval);
    let changes: [Change; 4] = [
        |q| q.binding.caller.role = "reader".into(),
        |q| q.binding.caller.surface = Surface::McpStdio,
        |q| q.binding.caller.tenant = Some("acme".into()),
        |q| q.binding.pin = Pin::new("another"),
    ];
    for change in changes {
        let mut other = question("bob", "d");
        change(&mut other);
        assert!(matches!(store.claim(other, now()).await.unwrap(), Claim::Asked(_)));
    }
    let mut same = question("bob", "d");
    same.binding.caller.session = Some("another conversation".into());
    assert!(matches!(store.claim(same, now()).await.unwrap(), Claim::Approved(_)));
}

#[tokio::test]
async fn a_no_and_a_timeout_are_told_once() {
    let (_folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    let no = Answer { approved: false, by: "alice".into(), reason: Some("not today".into()), typed: None };
    say(&store, &asked, no).await;
    let Claim::Rejected(told) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("rejected") };
    assert_eq!(told.decision_reason.as_deref(), Some("not today"));

    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked anew") };
    say(&store, &asked, yes()).await;
    let later = now() + SignedDuration::from_hours(2);
    assert!(
        matches!(store.claim(question("bob", "d"), later).await.unwrap(), Claim::Expired(_)),
        "a yes grows old too"
    );
}

#[tokio::test]
async fn answers_are_taken_once_and_from_any_process() {
    let (folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    let other = Store::new(folder.path());
    let tail: String = asked.id.as_str().chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
    other.answer(&tail, yes(), now()).await.unwrap();
    assert!(matches!(store.claim(question("bob", "d"), now()).await.unwrap(), Claim::Pending(_)), "not recorded yet");
    other.answer_recorded(asked.id.clone(), yes(), now()).await.unwrap();
    assert!(matches!(store.answer(asked.id.as_str(), yes(), now()).await, Err(StoreError::Conflict(_))));
    for unknown in ["", "%", "no", "0000000000000000"] {
        assert!(matches!(store.answer(unknown, yes(), now()).await, Err(StoreError::NotFound(_))), "{unknown:?}");
    }
}

#[tokio::test]
async fn of_two_answers_at_once_only_the_recorded_one_counts() {
    let (_folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    let no = Answer { approved: false, by: "carol".into(), reason: None, typed: None };
    store.answer(asked.id.as_str(), no.clone(), now()).await.unwrap();
    store.answer(asked.id.as_str(), yes(), now()).await.unwrap();
    let late = store.answer_recorded(asked.id.clone(), no, now()).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "the record of the no must not make the yes count");
    assert_eq!(store.approvals(true, now()).await.unwrap().len(), 1, "still open");
    store.answer_recorded(asked.id, yes(), now()).await.unwrap();
    assert!(store.approvals(true, now()).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_must_be_typed_is_typed_exactly() {
    let (_folder, store) = folder();
    let question = NewApproval { typed: Some("订单 A103".into()), ..question("bob", "d") };
    let Claim::Asked(asked) = store.claim(question, now()).await.unwrap() else { panic!("asked") };
    let typed = |text: &str| Answer { typed: Some(text.into()), ..yes() };
    for wrong in [yes(), typed(""), typed("A103"), typed("订单 a103"), typed("订单  A103"), typed("yes")] {
        let error = store.answer(asked.id.as_str(), wrong, now()).await.unwrap_err();
        assert!(matches!(&error, StoreError::NotTyped { expected } if expected == "订单 A103"), "{error}");
    }
    let no = Answer { approved: false, ..yes() };
    assert!(matches!(store.answer(asked.id.as_str(), no, now()).await.unwrap(), Taken::Decides(_)), "a no needs none");
    say(&store, &asked, typed(" 订单 A103\n")).await;
    assert_eq!(store.approval(asked.id.as_str(), now()).await.unwrap().status, ApprovalStatus::Approved);
}

#[tokio::test]
async fn where_two_must_say_yes_one_is_not_enough_and_counts_once() {
    let (_folder, store) = folder();
    let two = |digest: &str| NewApproval { approvers: 2, ..question("bob", digest) };
    let by = |name: &str| Answer { by: name.into(), ..yes() };
    let Claim::Asked(asked) = store.claim(two("d"), now()).await.unwrap() else { panic!("asked") };
    let id = asked.id.as_str();
    assert!(matches!(store.answer(id, by("alice"), now()).await.unwrap(), Taken::OneOf(_)));
    assert!(matches!(store.answer(id, by("bert"), now()).await.unwrap(), Taken::OneOf(_)), "nothing is recorded yet");
    let half = store.yes_recorded(asked.id.clone(), "alice".into(), now()).await.unwrap();
    assert_eq!((half.status, half.yes_by), (ApprovalStatus::Pending, vec!["alice".to_owned()]));
    assert!(matches!(store.claim(two("d"), now()).await.unwrap(), Claim::Pending(_)));
    assert!(matches!(store.answer(id, by("alice"), now()).await, Err(StoreError::Conflict(_))), "another person must");
    assert!(matches!(store.answer(id, by("bert"), now()).await.unwrap(), Taken::Decides(_)));
    store.answer_recorded(asked.id.clone(), by("bert"), now()).await.unwrap();
    assert!(matches!(store.claim(two("d"), now()).await.unwrap(), Claim::Approved(_)));

    // Two at the same moment, each thinking to be the first.
    let Claim::Asked(asked) = store.claim(two("e"), now()).await.unwrap() else { panic!("asked") };
    for name in ["alice", "bert"] {
        assert!(matches!(store.answer(asked.id.as_str(), by(name), now()).await.unwrap(), Taken::OneOf(_)));
    }
    store.yes_recorded(asked.id.clone(), "alice".into(), now()).await.unwrap();
    let both = store.yes_recorded(asked.id.clone(), "bert".into(), now()).await.unwrap();
    assert_eq!(both.status, ApprovalStatus::Approved);

    // One no is enough.
    let Claim::Asked(asked) = store.claim(two("f"), now()).await.unwrap() else { panic!("asked") };
    store.yes_recorded(asked.id.clone(), "alice".into(), now()).await.unwrap();
    say(&store, &asked, Answer { approved: false, ..by("carol") }).await;
    assert!(matches!(store.claim(two("f"), now()).await.unwrap(), Claim::Rejected(_)));
}

#[tokio::test]
async fn a_store_of_the_first_format_is_brought_to_this_one() {
    let (folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    drop(store);
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    for column in ["typed", "approvers", "yes_by"] {
        database.execute(&format!("alter table approvals drop column {column}"), []).unwrap();
    }
    for table in
        ["grants", "sessions", "session_steps", "session_calls", "spending", "spending_held", "deliveries", "messages"]
    {
        database.execute(&format!("drop table {table}"), []).unwrap();
    }
    database.execute_batch("drop index idempotency_by_end; alter table idempotency drop column expires").unwrap();
    database.execute_batch(WITHOUT_UNDOS).unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
    drop(database);

    let store = Store::new(folder.path());
    let Claim::Pending(found) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("lost") };
    assert_eq!((found.id, found.typed, found.approvers), (asked.id.clone(), None, 1));
    say(&store, &asked, yes()).await;
    assert!(matches!(store.claim(question("bob", "d"), now()).await.unwrap(), Claim::Approved(_)));
}

#[tokio::test]
async fn of_many_at_once_one_uses_the_yes() {
    let (folder, store) = folder();
    let Claim::Asked(asked) = store.claim(question("bob", "d"), now()).await.unwrap() else { panic!("asked") };
    say(&store, &asked, yes()).await;
    let claims = (0..8).map(|_| {
        let store = Store::new(folder.path());
        async move {
            match store.claim(question("bob", "d"), now()).await.unwrap() {
                Claim::Approved(approval) => store.consume(approval.id, now()).await.unwrap(),
                _ => false,
            }
        }
    });
    let used = futures_util::future::join_all(claims).await;
    assert_eq!(used.into_iter().filter(|used| *used).count(), 1);
}

#[tokio::test]
async fn a_kept_result_is_its_callers_alone() {
    let (folder, store) = folder();
    let handle = store.keep_result(results::meta("bob", "a1"), "全部内容".into(), now()).await.unwrap();
    let read = |caller: Caller, handle: &str| {
        let handle = handle.to_owned();
        let store = store.clone();
        async move { store.with_result(&caller, &handle, now(), |mut kept| kept.text()).await.unwrap() }
    };
    assert_eq!(read(caller("bob"), &handle).await.unwrap().unwrap(), "全部内容");
    let others = [caller("carol"), caller("bob").with_tenant("acme"), Caller::new("bob", "reader", Surface::Cli)];
    for other in others {
        assert!(read(other, &handle).await.is_none());
    }
    assert!(read(caller("bob"), "res_0").await.is_none());
    for file in std::fs::read_dir(folder.path().join("results")).unwrap() {
        std::fs::write(file.unwrap().path(), "forged").unwrap();
    }
    assert!(matches!(read(caller("bob"), &handle).await.unwrap(), Err(StoreError::Corrupt(_))));
}

#[tokio::test]
async fn old_results_are_forgotten() {
    let (folder, store) = folder();
    let handle = store.keep_result(results::meta("bob", "a1"), "old".into(), now()).await.unwrap();
    let later = now() + SignedDuration::from_hours(24 * 8);
    let bob = caller("bob");
    let read = |at| store.with_result(&bob, &handle, at, |mut kept| kept.text());
    assert!(read(later).await.unwrap().is_none(), "before anything was removed");
    assert!(read(now()).await.unwrap().is_some());
    store.keep_result(results::meta("bob", "a2"), "new".into(), later).await.unwrap();
    assert!(read(now()).await.unwrap().is_none());
    assert_eq!(std::fs::read_dir(folder.path().join("results")).unwrap().count(), 1);
}

#[tokio::test]
async fn unsettled_attempts_wait_for_a_human() {
    let (_folder, store) = folder();
    let one = Unsettled {
        attempt: AttemptId::new("a1"),
        call_id: "c1".into(),
        tool: "pay".into(),
        time: "2026-11-30T08:00:00Z".into(),
        caller: "bob".into(),
    };
    store.take_over(std::slice::from_ref(&one), &[]).unwrap();
    store.take_over(std::slice::from_ref(&one), &[]).unwrap();
    assert_eq!(store.unsettled().await.unwrap(), vec![one.clone()]);
    assert!(store.settle(one.attempt.clone()).await.unwrap());
    assert!(!store.settle(one.attempt).await.unwrap());
}

#[test]
fn the_install_key_is_made_once_and_private() {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| InstallKey::load(folder.path()).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().as_bytes().to_vec()).collect()
    });
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
    let path = folder.path().join("keys/install.key");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    std::fs::write(&path, "short").unwrap();
    assert!(InstallKey::load(folder.path()).unwrap_err().to_string().contains("expected 32 bytes, found 5"));
}

#[test]
fn a_digest_knows_values_not_spellings() {
    let folder = tempfile::tempdir().unwrap();
    let key = InstallKey::load(folder.path()).unwrap();
    let digest = |text: &str| key.digest(&serde_json::from_str(text).unwrap()).unwrap();
    assert_eq!(digest(r#"{"a":1,"b":2.0}"#), digest(r#"{ "b": 2, "a": 1 }"#));
    assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":"1"}"#));
    for (one, other) in [
        ("1234567890123456789", "1234567890123456788"),
        ("9007199254740993", "9007199254740992"),
        ("18446744073709551615", "18446744073709551614"),
        ("-9007199254740993", "-9007199254740994"),
    ] {
        let order = |id: &str| digest(&format!(r#"{{"orders":[{{"id":{id}}}],"note":"x"}}"#));
        assert_ne!(order(one), order(other), "{one}");
        assert_eq!(order(one), digest(&format!(r#"{{"note":"x", "orders":[{{"id": {one}}}]}}"#)));
    }
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let (folder, store) = folder();
    store.unsettled().await.unwrap();
    rusqlite::Connection::open(folder.path().join("store.db"))
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = Store::new(folder.path()).unsettled().await.unwrap_err();
    assert!(error.to_string().contains("format version 99"), "{error}");
}

fn key(name: &str, kind: KeyKind) -> AccessKey {
    let hash = format!("hash of {name}");
    AccessKey { name: name.into(), kind, role: "reader".into(), hash, created: now(), revoked: None }
}

#[tokio::test]
async fn the_first_keys_are_made_once_and_a_name_is_given_once() {
    let (_folder, store) = folder();
    let first = vec![key("client", KeyKind::Client), key("operator", KeyKind::Operator)];
    let failed = store.add_first_access_keys(first.clone(), || Err(StoreError::Limit("no disk".into()))).await;
    assert!(failed.is_err());
    assert_eq!(store.access_keys().await.unwrap(), [], "what could not be handed over does not count");
    assert!(store.add_first_access_keys(first.clone(), || Ok(())).await.unwrap());
    assert!(!store.add_first_access_keys(vec![key("other", KeyKind::Client)], || Ok(())).await.unwrap());
    assert_eq!(store.access_keys().await.unwrap(), first);

    let later = now() + SignedDuration::from_hours(1);
    assert_eq!(store.revoke_access_key("client".into(), now()).await.unwrap().revoked, Some(now()));
    assert_eq!(store.revoke_access_key("client".into(), later).await.unwrap().revoked, Some(now()));
    assert!(matches!(store.revoke_access_key("nobody".into(), now()).await, Err(StoreError::NotFound(_))));
    assert!(matches!(store.add_access_key(key("client", KeyKind::Client)).await, Err(StoreError::Conflict(_))));
    store.add_access_key(key("ci", KeyKind::Client)).await.unwrap();
    assert_eq!(store.access_keys().await.unwrap().len(), 3);
}
