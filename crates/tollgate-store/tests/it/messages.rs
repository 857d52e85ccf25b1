//! Answers that come in messages: each counts once, for what it names, from any process and after a restart.

use jiff::{SignedDuration, Timestamp};
use tollgate_store::{Answer, Approval, ApprovalStatus, Claim, Message, NewApproval, Store, StoreError, Taken};
use tollgate_types::{ApprovalId, Digest};

use crate::{folder, now, question, yes};

async fn ask(store: &Store, question: NewApproval) -> Approval {
    let Claim::Asked(asked) = store.claim(question, now()).await.unwrap() else { panic!("asked") };
    asked
}

fn message(id: &str, asked: &Approval) -> Message {
    Message { id: id.into(), approval: asked.id.clone(), digest: asked.digest.clone(), result: None }
}

fn by(name: &str) -> Answer {
    Answer { by: name.into(), ..yes() }
}

async fn status(store: &Store, asked: &Approval) -> ApprovalStatus {
    store.approval(asked.id.as_str(), now()).await.unwrap().status
}

#[tokio::test]
async fn a_message_counts_once_in_every_process() {
    let (folder, store) = folder();
    let (first, second) = (ask(&store, question("bob", "a")).await, ask(&store, question("bob", "b")).await);
    assert!(matches!(
        store.answer_by_message(message("m1", &first), by("alice"), now()).await.unwrap(),
        Taken::Decides(_)
    ));
    drop(store);
    let store = Store::new(folder.path());
    for asked in [&first, &second] {
        let error = store.answer_by_message(message("m1", asked), by("alice"), now()).await.unwrap_err();
        assert!(matches!(&error, StoreError::Replayed { id } if id == "m1"), "{error}");
    }
    assert_eq!(status(&store, &second).await, ApprovalStatus::Pending);
    store.answer_recorded(first.id.clone(), by("alice"), now()).await.unwrap();
    assert_eq!(status(&store, &first).await, ApprovalStatus::Approved);
    let twice = store.answer_by_message(message("m2", &first), by("alice"), now()).await.unwrap_err();
    assert!(matches!(twice, StoreError::Conflict(_)), "answered already: {twice}");
}

/// What is refused changes nothing, and does not use its message up: the sender may put it right.
#[tokio::test]
async fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let (_folder, store) = folder();
    let asked = ask(&store, NewApproval { typed: Some("pay".into()), ..question("bob", "d") }).await;
    let other = Message { digest: Digest::new("another"), ..message("m", &asked) };
    let end: String = asked.id.as_str().chars().skip(24).collect();
    let part = Message { approval: ApprovalId::new(end), ..message("m", &asked) };
    let nobody = Message { approval: ApprovalId::new("0000-0000"), ..message("m", &asked) };
    let typed = |name: &str| Answer { typed: Some("pay".into()), ..by(name) };
    type Is = fn(&StoreError) -> bool;
    let cases: [(Message, Answer, Is); 7] = [
        (other, typed("alice"), |error| matches!(error, StoreError::Foreign(_))),
        (part, typed("alice"), |error| matches!(error, StoreError::NotFound(_))),
        (nobody, typed("alice"), |error| matches!(error, StoreError::NotFound(_))),
        (message("m", &asked), typed("bob"), |error| matches!(error, StoreError::OwnCall { .. })),
        (message("m", &asked), typed("  BOB "), |error| matches!(error, StoreError::OwnCall { .. })),
        (message("m", &asked), by("alice"), |error| matches!(error, StoreError::NotTyped { .. })),
        (message("m", &asked), Answer { typed: Some("Pay".into()), ..by("alice") }, |error| {
            matches!(error, StoreError::NotTyped { .. })
        }),
    ];
    for (message, answer, is_expected) in cases {
        let error = store.answer_by_message(message, answer, now()).await.unwrap_err();
        assert!(is_expected(&error), "{error}");
        assert_eq!(status(&store, &asked).await, ApprovalStatus::Pending);
    }
    let no = Answer { approved: false, ..by("bob") };
    assert!(store.answer_by_message(message("m", &asked), no, now()).await.is_ok(), "who asks may take it back");
}

#[tokio::test]
async fn two_persons_are_two_however_their_names_are_written() {
    let (_folder, store) = folder();
    let asked = ask(&store, NewApproval { approvers: 2, ..question("bob", "d") }).await;
    assert!(matches!(
        store.answer_by_message(message("m1", &asked), by("Alice  Li"), now()).await.unwrap(),
        Taken::OneOf(_)
    ));
    store.yes_recorded(asked.id.clone(), "Alice  Li".into(), now()).await.unwrap();
    for name in ["Alice  Li", "alice li", " ALICE LI "] {
        let error = store.answer_by_message(message("m2", &asked), by(name), now()).await.unwrap_err();
        assert!(matches!(&error, StoreError::Conflict(_)), "{name}: {error}");
        assert!(store.yes_recorded(asked.id.clone(), name.into(), now()).await.is_err(), "{name}");
    }
    let error = store.answer_by_message(message("m2", &asked), by("bob"), now()).await.unwrap_err();
    assert!(matches!(error, StoreError::OwnCall { .. }), "who asks is no second person: {error}");
    assert!(matches!(
        store.answer_by_message(message("m2", &asked), by("李雷"), now()).await.unwrap(),
        Taken::Decides(_)
    ));
}

#[tokio::test]
async fn of_a_message_that_comes_many_times_at_once_one_is_taken() {
    let (folder, store) = folder();
    let asked = ask(&store, question("bob", "d")).await;
    let answers = (0..8).map(|_| {
        let (store, message) = (Store::new(folder.path()), message("m", &asked));
        async move { store.answer_by_message(message, by("alice"), now()).await.is_ok() }
    });
    assert_eq!(futures_util::future::join_all(answers).await.into_iter().filter(|taken| *taken).count(), 1);
}

#[tokio::test]
async fn ids_are_forgotten_when_nobody_would_believe_them_or_when_nothing_was_recorded() {
    let (_folder, store) = folder();
    let asked = ask(&store, question("bob", "d")).await;
    store.answer_by_message(message("m", &asked), by("alice"), now()).await.unwrap();
    store.forget_message("m".into()).await.unwrap();
    store.answer_by_message(message("m", &asked), by("alice"), now()).await.unwrap();

    let at = |hours: i64| -> Timestamp { now() + SignedDuration::from_hours(hours) };
    let late = NewApproval { expires: at(100), ..question("bob", "e") };
    let asked = ask(&store, late).await;
    let again = |hours| store.answer_by_message(message("m", &asked), by("alice"), at(hours));
    assert!(matches!(again(47).await, Err(StoreError::Replayed { .. })));
    assert!(again(49).await.is_ok());
}
