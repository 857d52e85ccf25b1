//! Calls of tools that are kept from who asked: told once, many at once, and only those.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_types::{
    AttemptId, CallId, CallKind, Caller, Clock, Code, Observed, Observer as _, Status, Surface, visible,
};
use tollgate_webhook::Webhook;

use crate::receiver::{Does, Receiver, World};

fn seen(world: &World, webhook: &Webhook, attempt: &str, code: Option<Code>) {
    let call = Observed {
        attempt: AttemptId::new(attempt),
        call_id: CallId::new("c"),
        parent: None,
        caller: Arc::new(Caller::new("agent-7", "support", Surface::Rest).with_tenant("acme")),
        kind: CallKind::Tool,
        protocol: None,
        tool: "refund\u{202e}order".into(),
        definition: None,
        trace: None,
        above: None,
        began: world.clock.now(),
        took: Duration::ZERO,
        stages: Vec::new(),
        status: if code.is_some() { Status::Refused } else { Status::Done },
        code,
        tool_code: None,
        decision: None,
        approval: None,
        retries: 0,
        is_replayed: false,
        sandbox: "none",
        arguments: None,
        result: None,
    };
    webhook.seen(&Arc::new(call));
}

#[tokio::test]
async fn what_was_forbidden_is_told_together_and_nothing_else_is() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    for code in [None, Some(Code::UnknownTool), Some(Code::Denied), Some(Code::Timeout)] {
        seen(&world, &webhook, "other", code);
    }
    for number in 0..150 {
        seen(&world, &webhook, &format!("a{number}"), Some(Code::Forbidden));
    }
    let [got] = &receiver.got(1).await[..] else { unreachable!("one message for all") };
    webhook.stop().await;
    assert_eq!(receiver.count().await, 1);
    let message = got.json();
    assert_eq!((&message["type"], &message["data"]["more"]), (&json!("calls.forbidden"), &json!(50)));
    let calls = message["data"]["calls"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["attempt"], &calls[99]["attempt"]), (100, &json!("a0"), &json!("a99")));
    let caller = json!({"subject": "agent-7", "role": "support", "tenant": "acme", "surface": "rest", "session": null});
    assert_eq!((&calls[0]["caller"], &calls[0]["tool"]), (&caller, &json!("refund\u{202e}order")));
    assert!(!std::str::from_utf8(&got.body).unwrap().chars().any(visible::is_hidden));
}

#[tokio::test]
async fn it_is_sent_again_under_its_id_and_the_rest_waits_for_it() {
    let receiver = Receiver::new(&[Does::Answers(503), Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |_| {});
    seen(&world, &webhook, "a0", Some(Code::Forbidden));
    receiver.got(1).await;
    seen(&world, &webhook, "a1", Some(Code::Forbidden));
    // It is due a second after the receiver's answer was heard, whenever that is.
    while receiver.count().await < 3 {
        world.clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    }
    let got = receiver.got(3).await;
    webhook.stop().await;
    let attempts: Vec<_> = got.iter().map(|got| got.json()["data"]["calls"][0]["attempt"].clone()).collect();
    assert_eq!(attempts, [json!("a0"), json!("a0"), json!("a1")]);
    assert_eq!(got[0].header("webhook-id"), got[1].header("webhook-id"));
    assert_ne!(got[0].header("webhook-id"), got[2].header("webhook-id"));
}

#[tokio::test]
async fn who_wants_none_gets_none() {
    let receiver = Receiver::new(&[Does::Answers(200)]).await;
    let world = World::new();
    let webhook = world.webhook(receiver.address, |config| config.alerts = false);
    seen(&world, &webhook, "a0", Some(Code::Forbidden));
    webhook.start();
    webhook.stop().await;
    assert_eq!(receiver.count().await, 0);
}
