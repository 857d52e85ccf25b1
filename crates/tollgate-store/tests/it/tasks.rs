//! Tasks: found by who made them, ended once, bounded, and gone with their time or by erasure.

use jiff::SignedDuration;
use tollgate_store::{CopiesOf, NewTask, TaskEnd};
use tollgate_types::{AttemptId, BootId, limits};

use crate::{caller, folder, now};

fn task(id: &str, subject: &str) -> NewTask {
    NewTask { id: id.into(), caller: caller(subject), boot: BootId::new("b1") }
}

fn end(text: &str) -> TaskEnd {
    let expires = now() + SignedDuration::from_hours(1);
    TaskEnd { attempt: Some(AttemptId::new("a1")), at: now(), text: text.into(), expires }
}

#[tokio::test]
async fn only_who_made_it_finds_it_and_its_first_end_stands() {
    let (_folder, store) = folder();
    assert!(store.begin_task(task("t1", "bob"), now()).await.unwrap());
    let found = store.task("t1".into(), caller("bob"), now()).await.unwrap().unwrap();
    assert_eq!((found.boot.as_str(), found.created, found.end), ("b1", now(), None));
    let mut others = vec![caller("carol"), caller("bob"), caller("bob")];
    others[1].role = "reader".into();
    others[2].tenant = Some("acme".into());
    for other in others {
        assert_eq!(store.task("t1".into(), other, now()).await.unwrap(), None);
    }
    for text in ["first", "second"] {
        store.end_task("t1".into(), end(text)).await.unwrap();
    }
    let found = store.task("t1".into(), caller("bob"), now()).await.unwrap().unwrap();
    assert_eq!(found.end, Some((now(), "first".into())));
    let late = now() + SignedDuration::from_hours(1);
    assert_eq!(store.task("t1".into(), caller("bob"), late).await.unwrap(), None);
    store.end_task("none".into(), end("nobody's")).await.unwrap();
}

#[tokio::test]
async fn a_caller_has_so_many_and_no_more_until_they_expire() {
    let (_folder, store) = folder();
    let large = "x".repeat(usize::try_from(limits::TASKS_KEPT_BYTES_MAX).unwrap());
    assert!(store.begin_task(task("large", "carol"), now()).await.unwrap());
    store.end_task("large".into(), end(&large)).await.unwrap();
    assert!(!store.begin_task(task("more", "carol"), now()).await.unwrap());
    assert!(store.begin_task(task("other", "bob"), now()).await.unwrap(), "one caller's results are not another's");
    let later = now() + SignedDuration::from_hours(1);
    assert!(store.begin_task(task("more", "carol"), later).await.unwrap());
}

#[tokio::test]
async fn what_is_erased_of_an_attempt_is_erased_of_its_task() {
    let (_folder, store) = folder();
    for of in [CopiesOf::Attempts(vec!["a1".into()]), CopiesOf::Before(now() + SignedDuration::from_secs(1))] {
        store.begin_task(task("t1", "bob"), now()).await.unwrap();
        store.end_task("t1".into(), end("王小明")).await.unwrap();
        let copies = store.erase(of, "{}".into(), now()).await.unwrap();
        assert_eq!(copies.answers, 1);
        assert_eq!(store.task("t1".into(), caller("bob"), now()).await.unwrap(), None);
    }
}
