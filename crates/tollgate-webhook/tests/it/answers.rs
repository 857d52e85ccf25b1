//! Which signed answers are genuine, in time, and answers.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tollgate_types::{Clock, limits};
use tollgate_webhook::{Headers, Received, Refusal, Webhook};

use crate::receiver::{SECRET, World};

const ID: &str = "0198c7a0-0000-7000-8000-000000000001";

/// Signs without the code that is tested.
fn sign(id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn webhook(world: &World) -> Webhook {
    world.webhook(SocketAddr::from(([127, 0, 0, 1], 9)), |_| {})
}

fn body(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = json!({
        "type": "approval.answered",
        "data": { "id": ID, "digest": "d", "decision": "approve", "by": "alice" },
    });
    change(&mut body);
    body.to_string().into_bytes()
}

fn read(webhook: &Webhook, id: &str, timestamp: &str, body: &[u8]) -> Result<Received, Refusal> {
    let signature = sign(id, timestamp, body);
    let headers = Headers { id: Some(id), timestamp: Some(timestamp), signature: Some(&signature) };
    webhook.read(ID, headers, body)
}

#[test]
fn an_answer_says_who_said_what_to_which_question() {
    let world = World::new();
    let now = world.clock.now().as_second().to_string();
    let body = body(|body| {
        body["timestamp"] = json!("2026-01-02T03:04:05Z");
        body["data"]["reason"] = json!("已核对");
        body["data"]["typed"] = json!("pay");
        body["data"]["by"] = json!(" 李雷 ");
    });
    let received = read(&webhook(&world), "msg_1", &now, &body).unwrap();
    assert_eq!((received.message.id.as_str(), received.message.approval.as_str()), ("msg_1", ID));
    assert_eq!(received.message.digest.as_str(), "d");
    let answer = received.answer;
    assert!(answer.approved);
    assert_eq!(
        (answer.by.as_str(), answer.reason.as_deref(), answer.typed.as_deref()),
        ("李雷", Some("已核对"), Some("pay"))
    );
}

#[test]
fn times_count_for_five_minutes_both_ways() {
    let world = World::new();
    let webhook = webhook(&world);
    let now = world.clock.now().as_second();
    for (offset, is_good) in [(0, true), (-300, true), (300, true), (-301, false), (301, false), (-86_400, false)] {
        let read = read(&webhook, "m", &(now + offset).to_string(), &body(|_| {}));
        assert_eq!(read.is_ok(), is_good, "{offset}");
        assert!(is_good || matches!(read, Err(Refusal::Stale { seconds, .. }) if seconds == offset.abs()), "{offset}");
    }
    let then = now.to_string();
    world.clock.advance(Duration::from_secs(301));
    assert!(matches!(read(&webhook, "m", &then, &body(|_| {})), Err(Refusal::Stale { .. })));
}

#[test]
fn what_is_not_signed_or_not_by_us_is_refused_before_it_is_read() {
    let world = World::new();
    let webhook = webhook(&world);
    let now = world.clock.now().as_second().to_string();
    let body = body(|_| {});
    let signature = sign("m", &now, &body);
    let good = Headers { id: Some("m"), timestamp: Some(&now), signature: Some(&signature) };
    assert!(webhook.read(ID, good, &body).is_ok());
    for (headers, header) in [
        (Headers { id: None, ..good }, "webhook-id"),
        (Headers { id: Some(""), ..good }, "webhook-id"),
        (Headers { id: Some("a.b"), ..good }, "webhook-id"),
        (Headers { id: Some("a b"), ..good }, "webhook-id"),
        (Headers { timestamp: None, ..good }, "webhook-timestamp"),
        (Headers { timestamp: Some("soon"), ..good }, "webhook-timestamp"),
        (Headers { timestamp: Some("-5"), ..good }, "webhook-timestamp"),
        (Headers { timestamp: Some("99999999999999999999999"), ..good }, "webhook-timestamp"),
        (Headers { signature: None, ..good }, "webhook-signature"),
    ] {
        assert_eq!(webhook.read(ID, headers, &body).unwrap_err(), Refusal::Unsigned { header });
    }
    let long = "m".repeat(129);
    assert_eq!(read(&webhook, &long, &now, &body).unwrap_err(), Refusal::Unsigned { header: "webhook-id" });
    for headers in [
        Headers { signature: Some(""), ..good },
        Headers { signature: Some("v1,AAAA"), ..good },
        Headers { id: Some("n"), ..good },
    ] {
        assert_eq!(webhook.read(ID, headers, &body).unwrap_err(), Refusal::WrongSignature);
    }
    let spaced = [&body[..], b" "].concat();
    assert_eq!(webhook.read(ID, good, &spaced).unwrap_err(), Refusal::WrongSignature);
    assert_eq!(
        webhook.read(ID, good, b"not json").unwrap_err(),
        Refusal::WrongSignature,
        "nothing is said of its form"
    );
}

/// A signature over `id.time.body` must stand for one reading of the three alone.
#[test]
fn a_signature_is_not_split_anew() {
    let world = World::new();
    let webhook = webhook(&world);
    let now = world.clock.now().as_second().to_string();
    let body = body(|_| {});
    let longer = [now.as_bytes(), b".", &body].concat();
    let signature = sign("m", &now, &longer);
    let id = format!("m.{now}");
    let headers = Headers { id: Some(&id), timestamp: Some(&now), signature: Some(&signature) };
    assert_eq!(webhook.read(ID, headers, &body).unwrap_err(), Refusal::Unsigned { header: "webhook-id" });
}

#[test]
fn what_is_signed_and_no_answer_to_this_question_is_refused() {
    let world = World::new();
    let webhook = webhook(&world);
    let now = world.clock.now().as_second().to_string();
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 14] = [
        (|body| body["type"] = json!("approval.requested"), "type"),
        (|body| body["extra"] = json!(1), "extra"),
        (|body| body["data"]["for_session"] = json!(true), "for_session"),
        (|body| body["data"]["decision"] = json!("yes"), "decision"),
        (|body| body["data"]["decision"] = json!(true), "decision"),
        (|body| body["data"]["by"] = json!(""), "by"),
        (|body| body["data"]["by"] = json!("   "), "by"),
        (|body| body["data"]["by"] = json!("ali\u{200b}ce"), "by"),
        (|body| body["data"]["by"] = json!("alice\nstatus: approved"), "by"),
        (|body| body["data"]["by"] = json!("x".repeat(limits::APPROVER_CHARS_MAX + 1)), "by"),
        (|body| body["data"]["reason"] = json!("x".repeat(limits::ANSWER_REASON_CHARS_MAX + 1)), "reason"),
        (|body| drop(body["data"].as_object_mut().unwrap().remove("digest")), "digest"),
        (|body| drop(body["data"].as_object_mut().unwrap().remove("by")), "by"),
        (|body| *body = json!([1]), "body"),
    ];
    for (change, word) in cases {
        let body = body(change);
        let refusal = read(&webhook, "m", &now, &body).unwrap_err();
        assert!(matches!(&refusal, Refusal::Malformed(_)), "{word}: {refusal}");
        assert!(refusal.to_string().contains(word) || word == "decision" || word == "type", "{word}: {refusal}");
    }
    let twice =
        br#"{"type":"approval.answered","data":{"id":"x","id":"y","digest":"d","decision":"approve","by":"a"}}"#;
    assert!(matches!(read(&webhook, "m", &now, twice), Err(Refusal::Malformed(_))));
    let other = body(|body| body["data"]["id"] = json!("another\u{1b}[2K"));
    let refusal = read(&webhook, "m", &now, &other).unwrap_err();
    assert_eq!(refusal, Refusal::Elsewhere("another\\u{1b}[2K".into()));
}

#[test]
fn a_yes_may_bring_a_result_and_a_no_may_not() {
    let world = World::new();
    let now = world.clock.now().as_second().to_string();
    let with = |decision: &str| {
        body(|body| {
            body["data"]["decision"] = json!(decision);
            body["data"]["result"] = json!({"count": 12});
        })
    };
    let received = read(&webhook(&world), "m", &now, &with("approve")).unwrap();
    assert_eq!(received.message.result, Some(json!({"count": 12})));
    let refused = read(&webhook(&world), "m", &now, &with("reject")).unwrap_err();
    assert!(matches!(&refused, Refusal::Malformed(why) if why.contains("`result`")), "{refused}");
}
