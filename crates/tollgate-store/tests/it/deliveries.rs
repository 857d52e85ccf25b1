//! Open questions as an outbox: each is taken by one process at a time, and none is lost.

use jiff::{SignedDuration, Timestamp};
use tollgate_store::{Answer, Claim, Due, Store};

use crate::{folder, now, question, say, yes};

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

async fn ask(store: &Store, digest: &str) -> String {
    let Claim::Asked(asked) = store.claim(question("bob", digest), now()).await.unwrap() else { panic!("asked") };
    asked.id.to_string()
}

/// The ids and tries of what is due, taken for 20 s.
async fn take(store: &Store, at: i64) -> Vec<(String, u32)> {
    let due = store.take_due(8, after(at + 20), after(at)).await.unwrap();
    due.into_iter().map(|Due { approval, tries }| (approval.id.to_string(), tries)).collect()
}

#[tokio::test]
async fn a_question_is_taken_by_one_and_again_when_its_process_died() {
    let (folder, store) = folder();
    let other = Store::new(folder.path());
    assert_eq!(take(&store, 0).await, []);
    let id = ask(&other, "d").await;
    assert_eq!(take(&store, 0).await, [(id.clone(), 1)]);
    assert_eq!(take(&other, 19).await, [], "somebody has it in hand");
    assert_eq!(take(&other, 20).await, [(id.clone(), 2)], "who had it never came back");
    let id = store.approval(&id, now()).await.unwrap().id;
    store.delivered(id, after(21)).await.unwrap();
    assert_eq!(take(&store, 10_000).await.len() + take(&other, 100).await.len(), 0);
}

#[tokio::test]
async fn what_did_not_arrive_is_tried_again_at_its_time_or_given_up_and_can_be_seen() {
    let (_folder, store) = folder();
    let id = ask(&store, "d").await;
    let approval = store.approval(&id, now()).await.unwrap().id;
    assert_eq!(store.undelivered(now()).await.unwrap(), []);
    take(&store, 0).await;
    store.not_delivered(approval.clone(), "the receiver answered 500".into(), Some(after(60))).await.unwrap();
    let [waiting] = &store.undelivered(after(1)).await.unwrap()[..] else { panic!("one") };
    assert_eq!(
        (waiting.tries, waiting.again, waiting.fault.as_str()),
        (1, Some(after(60)), "the receiver answered 500")
    );
    assert_eq!(take(&store, 59).await, []);
    assert_eq!(take(&store, 60).await, [(id, 2)]);
    store.not_delivered(approval, "the receiver answered 410".into(), None).await.unwrap();
    assert_eq!(take(&store, 3_000).await, []);
    assert_eq!(store.undelivered(after(61)).await.unwrap()[0].again, None);
    assert_eq!(store.undelivered(after(3_600)).await.unwrap(), [], "what has expired concerns nobody");
}

#[tokio::test]
async fn only_what_can_be_answered_is_due_oldest_first() {
    let (_folder, store) = folder();
    let mut ids = Vec::new();
    for digest in ["a", "b", "c", "d"] {
        ids.push(ask(&store, digest).await);
    }
    let answered = store.approval(&ids[0], now()).await.unwrap();
    say(&store, &answered, yes()).await;
    let rejected = store.approval(&ids[1], now()).await.unwrap();
    say(&store, &rejected, Answer { approved: false, ..yes() }).await;
    let due = store.take_due(1, after(20), now()).await.unwrap();
    assert_eq!(due.len(), 1, "no more than asked for");
    assert!(ids[2..].contains(&due[0].approval.id.to_string()));
    assert_eq!(take(&store, 3_600).await, [], "expired");
}

#[tokio::test]
async fn of_many_processes_one_takes_it() {
    let (folder, store) = folder();
    ask(&store, "d").await;
    let takes = (0..8).map(|_| {
        let store = Store::new(folder.path());
        async move { take(&store, 0).await.len() }
    });
    assert_eq!(futures_util::future::join_all(takes).await.into_iter().sum::<usize>(), 1);
}
