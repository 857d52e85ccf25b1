//! What is sent, how often, by whom, and what is left of it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use tollgate_types::{ApprovalChannel, Clock, Secret, visible};
use tollgate_webhook::{Counts, Headers, Refusal, Webhook};

use crate::receiver::{Does, Receiver, SECRET, World};

/// Waits until something is so: the worker looks every second at least.
async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let so = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), so).await.unwrap();
}

async fn counts(webhook: &Webhook, delivered: u64, failed: u64) {
    until(async || webhook.counts() == Counts { delivered, failed }).await;
}

#[tokio::test]
async fn a_question_is_sent_once_signed_complete_and_with_what_an_answer_needs() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |config| {
        config.headers = vec![("authorization".into(), Secret::new("Bearer abc"))];
    });
    let asked = world.ask(json!({"to": "李雷\u{202e}", "amount": 50})).await;
    webhook.start();
    counts(&webhook, 1, 0).await;
    webhook.stop().await;
    let [got] = &receiver.got(1).await[..] else { unreachable!("one question, one request") };
    assert_eq!((got.header("content-type"), got.header("authorization")), ("application/json", "Bearer abc"));
    assert_eq!(got.header("webhook-id"), asked.id.as_str());
    assert_eq!(got.header("webhook-timestamp"), world.clock.now().as_second().to_string());
    // Our own check of it says that it is signed, and no answer.
    let headers = Headers {
        id: Some(got.header("webhook-id")),
        timestamp: Some(got.header("webhook-timestamp")),
        signature: Some(got.header("webhook-signature")),
    };
    let reflected = webhook.read(asked.id.as_str(), headers, &got.body).unwrap_err();
    assert!(
        matches!(&reflected, Refusal::Malformed(why) if why.contains("`data`") || why.contains("unknown field")),
        "{reflected}"
    );

    let text = std::str::from_utf8(&got.body).unwrap();
    assert!(!text.chars().any(visible::is_hidden) && text.contains("李雷"), "{text}");
    let message = got.json();
    assert_eq!(message["type"], "approval.requested");
    let data = &message["data"];
    for (key, expected) in [
        ("id", json!(asked.id)),
        ("kind", json!("approval")),
        ("tool", json!("pay")),
        ("risk", json!("dangerous")),
        ("permission", json!("network")),
        ("reason", json!("the tool is dangerous")),
        ("arguments", json!({"to": "李雷\u{202e}", "amount": 50})),
        ("preview", json!("POST /pay")),
        ("typed", json!("pay")),
        ("approvers", json!(2)),
        ("digest", json!("digest-0")),
        ("expires", json!(asked.expires)),
    ] {
        assert_eq!(data[key], expected, "{key}");
    }
    let caller = json!({"subject": "bob", "role": "developer", "tenant": "acme", "surface": "rest", "session": null});
    assert_eq!(data["caller"], caller);
    assert_eq!(data["answer"]["path"], format!("/api/v1/approvals/{}/answer", asked.id));
    assert_eq!(data["text"], asked.shown());
    assert!(data["text"].as_str().unwrap().contains(r#""to": "李雷\u{202e}""#), "{}", data["text"]);
    assert!(
        world.store.approval(asked.id.as_str(), world.clock.now()).await.unwrap().is_open(),
        "a response is no answer"
    );
}

#[tokio::test]
async fn a_call_that_begins_to_wait_is_told_at_once_and_waits_for_nothing() {
    let receiver = Receiver::new(&[Does::Nothing]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    let asked = world.ask(json!({})).await;
    let question = tollgate_types::ApprovalQuestion {
        id: asked.id.clone(),
        caller: tollgate_types::Caller::new("bob", "developer", tollgate_types::Surface::Rest),
        tool: "pay".into(),
        risk: tollgate_types::Risk::Dangerous,
        permission: tollgate_types::Permission::Network,
        arguments: json!({}),
        preview: None,
        reason: String::new(),
        expires: asked.expires,
        typed: None,
    };
    let answer = webhook.ask(&question).await;
    assert_eq!(answer, tollgate_types::ApprovalAnswer::Later);
    receiver.got(1).await;
    // The receiver is silent for ever, and the end does not wait for it.
    timeout(Duration::from_secs(15), webhook.stop()).await.unwrap();
    assert_eq!(webhook.counts(), Counts::default(), "it is neither delivered nor failed");

    // Another process takes it once the first could not have it any more.
    let next = Receiver::new(&[Does::Answers(204)]).await;
    let other = world.webhook(next.address, |_| {});
    other.start();
    world.clock.advance(Duration::from_secs(31));
    counts(&other, 1, 0).await;
    other.stop().await;
}

#[tokio::test]
async fn what_another_process_asked_before_it_died_is_sent() {
    let world = World::new();
    let asked = world.ask(json!({"n": 1})).await;
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let webhook = world.webhook(receiver.address, |_| {});
    webhook.start();
    let later = world.ask(json!({"n": 2})).await;
    counts(&webhook, 2, 0).await;
    webhook.stop().await;
    let got = receiver.got(2).await;
    let ids: BTreeSet<_> = got.iter().map(|got| got.header("webhook-id")).collect();
    assert_eq!(ids, [asked.id.as_str(), later.id.as_str()].into());
}

#[tokio::test]
async fn of_several_processes_one_sends_it() {
    let world = World::new();
    for number in 0..20 {
        world.ask(json!({ "n": number })).await;
    }
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let webhooks = [(); 4].map(|()| world.webhook(receiver.address, |_| {}));
    webhooks.iter().for_each(Webhook::start);
    until(async || webhooks.iter().map(|webhook| webhook.counts().delivered).sum::<u64>() == 20).await;
    for webhook in &webhooks {
        webhook.stop().await;
    }
    assert_eq!(receiver.count().await, 20);
}

#[tokio::test]
async fn a_receiver_that_fails_is_asked_again_after_growing_pauses_under_the_same_id() {
    let receiver =
        Receiver::new(&[Does::Answers(500), Does::Answers(302), Does::AsksToWait(503, 100), Does::Answers(202)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    let asked = world.ask(json!({})).await;
    webhook.start();
    for (failed, pause) in [(1, 1), (2, 2), (3, 100)] {
        counts(&webhook, 0, failed).await;
        let waiting = world.store.undelivered(world.clock.now()).await.unwrap();
        let expected = world.clock.now() + jiff::SignedDuration::from_secs(pause);
        assert_eq!((u64::from(waiting[0].tries), waiting[0].again), (failed, Some(expected)), "{}", waiting[0].fault);
        world.clock.advance(Duration::from_secs(pause.unsigned_abs()));
    }
    counts(&webhook, 1, 3).await;
    webhook.stop().await;
    let got = receiver.got(4).await;
    assert!(
        got.iter().all(|got| got.header("webhook-id") == asked.id.as_str()),
        "a receiver can tell that it is the same"
    );
    let times: Vec<_> = got.iter().map(|got| got.header("webhook-timestamp").parse::<i64>().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "each try is signed anew: {times:?}");
    assert_eq!(world.store.undelivered(world.clock.now()).await.unwrap(), []);
}

#[tokio::test]
async fn it_is_given_up_after_so_many_tries_or_when_the_receiver_wants_no_more() {
    for (does, retries, tries) in [(Does::Answers(500), 1, 2), (Does::Answers(410), 5, 1)] {
        let receiver = Receiver::new(&[does]).await;
        let world = World::new();
        let webhook = world.webhook(receiver.address, |config| config.retries = retries);
        world.ask(json!({})).await;
        webhook.start();
        let is_over = async || {
            let waiting = world.store.undelivered(world.clock.now()).await.unwrap();
            let is_over = waiting.first().is_some_and(|one| one.again.is_none());
            world.clock.advance(Duration::from_millis(20));
            is_over
        };
        until(is_over).await;
        webhook.stop().await;
        assert_eq!(receiver.count().await, tries);
    }
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_told_of_in_the_store_without_what_is_secret() {
    let world = World::new();
    let gone = Receiver::new(&[Does::Answers(200)]).await.address;
    let webhook = world.webhook(gone, |config| {
        config.url.push_str("?token=zq-secret");
        config.headers = vec![("authorization".into(), Secret::new("Bearer zq-secret"))];
    });
    world.ask(json!({})).await;
    webhook.start();
    until(async || !world.store.undelivered(world.clock.now()).await.unwrap().is_empty()).await;
    webhook.stop().await;
    let fault = &world.store.undelivered(world.clock.now()).await.unwrap()[0].fault;
    assert!(fault.contains(&format!("http://{gone}")) && !fault.contains("zq-secret"), "{fault}");
    assert!(!format!("{webhook:?}").contains(SECRET) && !format!("{webhook:?}").contains("Bearer"), "{webhook:?}");
}

#[tokio::test]
async fn nothing_is_sent_before_the_start_and_nothing_is_made_where_nobody_asked() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    webhook.start();
    webhook.stop().await;
    assert!(!world.store.exists());
    world.ask(json!({})).await;
    let idle = world.webhook(receiver.address, |_| {});
    idle.stop().await;
    assert_eq!(receiver.count().await, 0);
}

#[tokio::test]
async fn one_that_nobody_stopped_ends_with_its_owner() {
    let receiver = Receiver::new(&[Does::Nothing]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    world.ask(json!({})).await;
    webhook.start();
    receiver.got(1).await;
    // The worker has the clock; when it is gone, only the test has it.
    drop(webhook);
    until(async || std::sync::Arc::strong_count(&world.clock) == 1).await;
}

/// Complete also where it is long; what cannot be sent as a whole is not sent in part.
#[tokio::test]
async fn a_long_question_is_sent_whole_or_not_at_all() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    let long = format!("{}; rm -rf /", "长x".repeat(500_000));
    world.ask(json!({ "text": long })).await;
    webhook.start();
    counts(&webhook, 1, 0).await;
    let data = &receiver.got(1).await[0].json()["data"];
    assert_eq!(data["arguments"]["text"], long);
    let text = data["text"].as_str().unwrap();
    assert!(
        text.contains(&long) && text.contains("It asks for pay (dangerous)"),
        "the end says that there is a beginning"
    );
    world.ask(json!({ "text": "x".repeat(tollgate_types::limits::WEBHOOK_BODY_BYTES_MAX / 2) })).await;
    counts(&webhook, 1, 1).await;
    webhook.stop().await;
    assert_eq!(receiver.count().await, 1);
    let waiting = &world.store.undelivered(world.clock.now()).await.unwrap()[0];
    assert!(waiting.again.is_none() && waiting.fault.contains("are sent at most"), "{waiting:?}");
}

#[tokio::test]
async fn while_a_secret_takes_the_place_of_another_both_sign() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let fresh = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let old = world.webhook(receiver.address, |_| {});
    let both = world.webhook(receiver.address, |config| config.secrets.insert(0, Secret::new(fresh)));
    let new = world.webhook(receiver.address, |config| config.secrets = vec![Secret::new(fresh)]);
    let asked = world.ask(json!({})).await;
    both.start();
    counts(&both, 1, 0).await;
    both.stop().await;
    let got = &receiver.got(1).await[0];
    let headers = Headers {
        id: Some(got.header("webhook-id")),
        timestamp: Some(got.header("webhook-timestamp")),
        signature: Some(got.header("webhook-signature")),
    };
    for webhook in [&old, &new] {
        let refusal = webhook.read(asked.id.as_str(), headers, &got.body).unwrap_err();
        assert!(matches!(refusal, Refusal::Malformed(_)), "signed, and no answer: {refusal}");
    }
}
