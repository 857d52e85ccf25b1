//! What clients are told unasked, in both eras.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_types::{CallKind, Door};

use crate::peer::{Peer, bare, modern};
use crate::shelf::{Is, Shelf};

const TAG: &str = "io.modelcontextprotocol/subscriptionId";

fn door(shelf: &Arc<Shelf>) -> Arc<dyn Door> {
    Arc::<Shelf>::clone(shelf)
}

async fn handshaken(shelf: &Arc<Shelf>) -> Peer {
    let mut peer = Peer::handshaken(door(shelf), "2025-11-25").await;
    // Its answer shows that what came before was taken.
    peer.ask(&bare("first", "ping", &json!({}))).await;
    peer
}

fn listen(id: impl Into<Value>, notifications: &Value) -> String {
    modern(id, "subscriptions/listen", &json!({ "notifications": notifications }))
}

fn uri(uri: &str) -> Value {
    json!({ "uri": uri })
}

async fn until(mut look: impl FnMut() -> bool) {
    let looked = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), looked).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_once_that_its_list_changed_and_nothing_of_what_is_kept_from_it() {
    let shelf = Shelf::new();
    let mut peer = handshaken(&shelf).await;
    until(|| shelf.changes.count().0 == 1).await;
    for n in 0..500 {
        shelf.put(CallKind::Tool, &format!("hidden_{n}"), Is::Hidden);
    }
    shelf.put(CallKind::Tool, "come_and_gone", Is::Shown);
    shelf.take("come_and_gone");
    for n in 0..500 {
        shelf.put(CallKind::Tool, &format!("tool_{n}"), Is::Shown);
    }
    let told = peer.receive().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    shelf.put(CallKind::Prompt, "prompts/greet", Is::Shown);
    shelf.put(CallKind::Template, "resources/demo://t/{id}", Is::Shown);
    let mut told = [peer.receive().await["method"].clone(), peer.receive().await["method"].clone()];
    told.sort_by_key(Value::to_string);
    assert_eq!(told, ["notifications/prompts/list_changed", "notifications/resources/list_changed"]);
    // What the client lists by itself it knows.
    shelf.put(CallKind::Tool, "last", Is::Shown);
    let listed = peer.ask(&bare(1, "tools/list", &json!({}))).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 501);
    shelf.put(CallKind::Prompt, "prompts/other", Is::Shown);
    assert_eq!(peer.receive().await["method"], "notifications/prompts/list_changed");
    let (rest, _) = peer.close().await;
    assert_eq!(rest, Vec::<Value>::new());
    assert_eq!(shelf.changes.count(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_did_not_shake_hands_is_told_nothing() {
    let shelf = Shelf::new();
    let mut peer = Peer::start(door(&shelf));
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    peer.ask(&modern(1, "server/discover", &json!({}))).await;
    shelf.put(CallKind::Tool, "new", Is::Shown);
    peer.ask(&bare(2, "initialize", &crate::peer::initialize("2025-06-18"))).await;
    let refused = peer.ask(&bare(3, "resources/unsubscribe", &json!({}))).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(shelf.changes.count(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_followed_by_a_call_until_it_is_taken_back_or_forbidden() {
    let shelf = Shelf::new();
    let mut peer = handshaken(&shelf).await;
    for (id, name, code) in [
        (1, "demo://a", None),
        (2, "my.x+demo://b", None),
        (3, "demo://secret", Some(-32002)),
        (4, "demo://nothing", Some(-32002)),
    ] {
        let answer = peer.ask(&bare(id, "resources/subscribe", &uri(name))).await;
        assert_eq!(answer["error"]["code"].as_i64(), code, "{answer}");
    }
    let asked: Vec<_> = shelf.calls.lock().unwrap().iter().map(|call| (call.kind, call.name.clone())).collect();
    assert_eq!(asked[1], (CallKind::Subscription, "mcp__my_x__resources/demo://b".to_owned()));
    assert_eq!(shelf.changes.count(), (1, 2), "what was refused is not followed");

    shelf.changes.updated("resources/demo://secret", None);
    shelf.changes.updated("mcp__my_x__resources/demo://b", None);
    let told = peer.receive().await;
    assert_eq!((&told["method"], &told["params"]), (&json!("notifications/resources/updated"), &uri("my.x+demo://b")));

    // Kept from the client from now on: it is told that its list changed, and nothing of the resource.
    shelf.put(CallKind::Resource, "mcp__my_x__resources/demo://b", Is::Hidden);
    shelf.changes.updated("mcp__my_x__resources/demo://b", None);
    assert_eq!(peer.receive().await["method"], "notifications/resources/list_changed");
    until(|| shelf.changes.count() == (1, 1)).await;
    // What is gone for a while is followed on.
    shelf.take("resources/demo://a");
    assert_eq!(peer.receive().await["method"], "notifications/resources/list_changed");
    shelf.put(CallKind::Resource, "resources/demo://a", Is::Shown);
    assert_eq!(peer.receive().await["method"], "notifications/resources/list_changed");
    shelf.changes.updated("resources/demo://a", None);
    assert_eq!(peer.receive().await["params"], uri("demo://a"));

    assert_eq!(peer.ask(&bare(5, "resources/unsubscribe", &uri("demo://a"))).await["result"], json!({}));
    assert_eq!(peer.ask(&bare(6, "resources/unsubscribe", &uri("demo://never"))).await["result"], json!({}));
    assert_eq!(shelf.changes.count(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_question_to_listen_is_acknowledged_tagged_and_told_what_it_asked_for() {
    let shelf = Shelf::new();
    let mut peer = Peer::start(door(&shelf));
    let wanted = json!({ "toolsListChanged": true, "promptsListChanged": false,
        "resourceSubscriptions": ["demo://a", "demo://secret", "my.x+demo://b", "demo://nothing"] });
    let told = peer.ask(&listen("one", &wanted)).await;
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(told["params"]["_meta"][TAG], "one");
    let granted = json!({ "toolsListChanged": true, "resourceSubscriptions": ["demo://a", "my.x+demo://b"] });
    assert_eq!(told["params"]["notifications"], granted);
    let told = peer.ask(&listen(2, &json!({ "promptsListChanged": true }))).await;
    assert_eq!(told["params"]["notifications"], json!({ "promptsListChanged": true }));

    shelf.changes.updated("resources/demo://a", None);
    let told = peer.receive().await;
    assert_eq!((&told["params"]["uri"], &told["params"]["_meta"][TAG]), (&json!("demo://a"), &json!("one")));
    shelf.put(CallKind::Resource, "resources/demo://new", Is::Shown);
    shelf.put(CallKind::Prompt, "prompts/p", Is::Shown);
    let told = peer.receive().await;
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    assert_eq!(told["params"]["_meta"][TAG], 2);

    // Taken back without an answer; the other goes on, and is ended well with the connection.
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"one"}}"#).await;
    until(|| shelf.changes.count() == (1, 0)).await;
    shelf.put(CallKind::Tool, "t", Is::Shown);
    let refused = peer.ask(&listen(2, &json!({}))).await;
    assert_eq!(refused["error"]["code"], -32600, "its id is taken");
    let (rest, _) = peer.close().await;
    assert_eq!((rest.len(), &rest[0]["id"], &rest[0]["result"]["_meta"][TAG]), (1, &json!(2), &json!(2)), "{rest:?}");
    assert_eq!(shelf.changes.count(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn odd_filters_and_too_many_questions_are_refused() {
    let shelf = Shelf::new();
    let mut peer = Peer::start(door(&shelf));
    let many: Vec<String> = (0..1_001).map(|n| format!("demo://{n}")).collect();
    for odd in [json!(null), json!([]), json!({ "toolsListChanged": "yes" }), json!({ "resourceSubscriptions": many })]
    {
        let answer = peer.ask(&listen("odd", &odd)).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let nothing = peer.ask(&modern("none", "subscriptions/listen", &json!({}))).await;
    assert_eq!(nothing["error"]["code"], -32602);
    for id in 0..16 {
        assert_eq!(peer.ask(&listen(id, &json!({}))).await["params"]["notifications"], json!({}));
    }
    assert_eq!(peer.ask(&listen(16, &json!({}))).await["error"]["code"], -32000);
    // They take no call's place.
    assert_eq!(peer.ask(&modern("call", "resources/list", &json!({}))).await["id"], "call");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_costs_no_more_than_it_follows_and_misses_nothing() {
    let shelf = Shelf::new();
    let mut peer = Peer::with_pipe(door(&shelf), 512);
    peer.ask(&listen(1, &json!({ "toolsListChanged": true, "resourceSubscriptions": ["demo://a"] }))).await;
    for n in 0..20_000 {
        shelf.changes.updated("resources/demo://a", None);
        if n % 1_000 == 0 {
            shelf.put(CallKind::Tool, &format!("tool_{n}"), Is::Shown);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    shelf.put(CallKind::Tool, "the_last", Is::Shown);
    let mut told = Vec::new();
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(1), peer.receive()).await {
        told.push(message["method"].as_str().unwrap().to_owned());
    }
    let of = |method: &str| told.iter().filter(|told| *told == method).count();
    let (lists, updates) = (of("notifications/tools/list_changed"), of("notifications/resources/updated"));
    assert!((1..50).contains(&lists) && (1..100).contains(&updates), "{lists} {updates}");
    assert_eq!(peer.ask(&modern(2, "tools/list", &json!({}))).await["id"], 2);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_resources_are_followed_and_let_go_and_none_is_left() {
    let shelf = Shelf::new();
    let mut peer = handshaken(&shelf).await;
    for n in 0..5_000 {
        peer.ask(&bare(2 * n, "resources/subscribe", &uri("demo://a"))).await;
        peer.ask(&bare(2 * n + 1, "resources/unsubscribe", &uri("demo://a"))).await;
    }
    assert_eq!(shelf.changes.count(), (1, 0));
    drop(peer);
    until(|| shelf.changes.count() == (0, 0)).await;
}
