//! The traps of a pipe: rubbish, floods, giants, and every way to say goodbye.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_mcp::ServeError;

use crate::door::{Event, Fixture};
use crate::peer::{Peer, bare, initialize, modern};

fn hold() -> Value {
    json!({ "name": "hold" })
}

#[tokio::test]
async fn notifications_before_anything_else_are_ignored() {
    let mut peer = Peer::start(Fixture::new().0);
    for _ in 0..10_000 {
        peer.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }
    // Not even a call may be made by a notification: nobody would hear how it ended.
    peer.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"boom"}}"#).await;
    peer.send("").await;
    peer.send("\r").await;
    assert_eq!(peer.ask(&bare(1, "initialize", &initialize("2025-11-25"))).await["id"], 1);
}

#[tokio::test]
async fn rubbish_is_answered_and_the_next_message_is_served() {
    let mut peer = Peer::start(Fixture::new().0);
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for (line, code, id) in [
        ("rubbish", -32700, Value::Null),
        ("{", -32700, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, Value::Null),
        (deep.as_str(), -32600, json!(9)),
    ] {
        peer.send_bytes(format!("{line}\n").as_bytes()).await;
        let answer = peer.receive().await;
        assert_eq!((&answer["error"]["code"], answer.get("id")), (&json!(code), Some(&id)), "{answer}");
    }
    peer.send_bytes(b"\xff\xfe\n").await;
    assert_eq!(peer.receive().await["error"]["code"], -32700);
    assert_eq!(peer.ask(&bare(1.5, "ping", &json!({}))).await["id"], 1.5);
}

#[tokio::test]
async fn a_giant_line_is_skipped_and_answered_under_its_id() {
    let mut peer = Peer::start(Fixture::new().0);
    peer.send_bytes(br#"{"jsonrpc":"2.0","id":"giant","method":"tools/call","params":{"name":""#).await;
    for _ in 0..10 * 1024 {
        peer.send_bytes(&[b'x'; 1024]).await;
    }
    peer.send_bytes(b"\"}}\n").await;
    let answer = peer.receive().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("giant"), &json!(-32600)));
    assert_eq!(peer.ask(&bare(1, "ping", &json!({}))).await["id"], 1);
}

#[tokio::test]
async fn a_client_that_goes_away_is_no_error() {
    for lines in [vec![], vec![modern(1, "server/discover", &json!({}))], vec![bare(1, "ping", &json!({}))]] {
        let mut peer = Peer::start(Fixture::new().0);
        for line in &lines {
            peer.send(line).await;
        }
        let (rest, ended) = peer.close().await;
        assert_eq!(rest.len(), lines.len());
        assert!(ended.is_ok(), "{ended:?}");
    }
}

#[tokio::test]
async fn the_last_line_needs_no_line_feed() {
    let mut peer = Peer::start(Fixture::new().0);
    peer.send_bytes(br#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#).await;
    let (rest, ended) = peer.close().await;
    assert_eq!(rest[0]["error"]["code"], -32601);
    assert!(ended.is_ok());
}

#[tokio::test]
async fn running_calls_are_answered_after_the_input_ended() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    for id in 0..100 {
        peer.send(&modern(id, "tools/call", &hold())).await;
    }
    events.recv().await.unwrap();
    door.release.add_permits(100);
    let (rest, ended) = peer.close().await;
    assert_eq!(rest.len(), 100);
    assert!(ended.is_ok() && rest.iter().all(|answer| answer["result"]["isError"] == false));
}

#[tokio::test(start_paused = true)]
async fn calls_that_outlive_the_input_by_five_seconds_are_cancelled_and_told_so() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    peer.send(&modern("late", "tools/call", &hold())).await;
    events.recv().await.unwrap();
    let (rest, ended) = peer.close().await;
    assert_eq!((rest.len(), &rest[0]["id"], &rest[0]["error"]["code"]), (1, &json!("late"), &json!(-32603)));
    assert_eq!(events.recv().await, Some(Event::Dropped("late".into())));
    assert!(ended.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn a_client_that_closes_its_reading_end_ends_the_server_and_its_calls() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    peer.send(&modern("orphan", "tools/call", &hold())).await;
    events.recv().await.unwrap();
    peer.send(&modern("d", "server/discover", &json!({}))).await;
    assert!(peer.stop_reading().await.is_ok());
    assert_eq!(events.recv().await, Some(Event::Dropped("orphan".into())));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_does_not_keep_the_server() {
    let mut peer = Peer::with_pipe(Fixture::new().0, 64);
    peer.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n",
    )
    .await;
    let ended = tokio::time::timeout(Duration::from_secs(60), peer.close_without_reading()).await.unwrap();
    assert!(matches!(ended, Err(ServeError::Stalled)), "{ended:?}");
}
