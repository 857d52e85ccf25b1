//! `tools/call`: results, errors, progress, cancellation.

use serde_json::{Value, json};

use crate::door::{Event, Fixture};
use crate::peer::{CAPABILITIES, Peer, bare, initialize, modern};

fn call(name: &str) -> Value {
    json!({ "name": name, "arguments": {} })
}

#[tokio::test]
async fn arguments_reach_the_door_as_they_came() {
    let (door, _events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    for arguments in [
        r#"{"n":123456789012345678901234567890,"f":1.50,"e":1E400}"#,
        r#"{ "spaced" : [ 1 ,2 ] }"#,
        r#"{"a":1,"a":2}"#,
        r#"{"lone":"\ud800"}"#,
        "{}",
    ] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        );
        // Some of these are no values for serde: a plain call of the same id first tells the peer what will come.
        peer.send(&bare("c", "tools/call", &call("echo"))).await;
        peer.receive().await;
        peer.send_bytes(format!("{line}\n").as_bytes()).await;
        let answer = peer.receive().await;
        assert_eq!(door.last_call().arguments, arguments);
        assert_eq!(answer["result"]["content"][0]["text"], arguments);
    }
    for params in [r#"{"name":"echo"}"#, r#"{"name":"echo","arguments":null}"#] {
        peer.ask(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)).await;
        assert_eq!(door.last_call().arguments, "{}");
        assert_eq!(door.last_call().id.as_str(), "7");
    }
}

#[tokio::test]
async fn the_place_in_a_trace_comes_in_meta() {
    let (door, _events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
    for (meta, expected) in [
        (json!({ "traceparent": parent, "tracestate": "a=1" }), Some((parent, Some("a=1")))),
        (json!({ "traceparent": parent, "tracestate": "?" }), Some((parent, None))),
        (json!({ "traceparent": parent, "tracestate": 7 }), Some((parent, None))),
        // What is not valid says nothing, and is no error.
        (json!({ "traceparent": "00-x", "tracestate": "a=1" }), None),
        (json!({ "traceparent": 7 }), None),
        (json!({ "traceparent": null }), None),
        (json!({}), None),
    ] {
        let mut params = call("echo");
        params["_meta"] = meta;
        for line in [bare(1, "tools/call", &params), modern(2, "tools/call", &params)] {
            peer.ask(&line).await;
            let trace = door.last_call().trace;
            let seen = trace.as_ref().map(|trace| (trace.traceparent(), trace.tracestate()));
            assert_eq!(seen, expected.map(|(parent, state)| (parent.to_owned(), state)), "{line}");
        }
        assert_eq!(door.last_call().protocol, Some("2026-07-28"));
    }
}

#[tokio::test]
async fn an_idempotency_key_comes_in_meta() {
    let (door, _events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    for (meta, expected) in [
        (json!({ "tollgate/idempotencyKey": "订单 17" }), Some("订单 17")),
        (json!({ "tollgate/idempotencyKey": null }), None),
        (json!({ "idempotencyKey": "k" }), None),
    ] {
        let mut params = call("echo");
        params["_meta"] = meta;
        for line in [bare(1, "tools/call", &params), modern(2, "tools/call", &params)] {
            peer.ask(&line).await;
            assert_eq!(door.last_call().idempotency_key.as_deref(), expected, "{line}");
        }
    }
    let mut params = call("echo");
    params["_meta"] = json!({ "tollgate/idempotencyKey": 17 });
    let answer = peer.ask(&bare(3, "tools/call", &params)).await;
    assert_eq!(answer["error"]["message"], "Invalid params: `tollgate/idempotencyKey` must be a string");
}

#[tokio::test]
async fn a_structured_result_is_given_where_the_revision_can_hold_it() {
    let table = [
        ("2024-11-05", "echo", Value::Null),
        ("2025-03-26", "echo", Value::Null),
        ("2025-06-18", "echo", json!({ "id": "1" })),
        ("2025-11-25", "echo", json!({ "id": "1" })),
        ("2025-11-25", "array", Value::Null),
    ];
    for (revision, tool, structured) in table {
        let mut peer = Peer::handshaken(Fixture::new().0, revision).await;
        let answer = peer.ask(&bare(1, "tools/call", &call(tool))).await;
        assert_eq!(answer["result"]["structuredContent"], structured, "{revision} {tool}");
        assert_eq!(answer["result"]["isError"], false);
    }
    let answer = Peer::start(Fixture::new().0).ask(&modern(1, "tools/call", &call("array"))).await;
    assert_eq!(answer["result"]["structuredContent"], json!([1]));
    assert_eq!(answer["result"]["resultType"], "complete");
}

#[tokio::test]
async fn every_other_end_is_an_error_that_the_model_can_read() {
    for (tool, code) in [("refuse", "invalid_arguments"), ("wait", "approval_required")] {
        let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
        for line in [bare(1, "tools/call", &call(tool)), modern(2, "tools/call", &call(tool))] {
            let result = peer.ask(&line).await["result"].clone();
            let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!((&text["error"], &result["isError"]), (&json!(code), &json!(true)));
            assert_eq!(result["structuredContent"], text);
        }
    }
}

#[tokio::test]
async fn a_name_that_is_no_tool_is_an_error_that_the_model_can_read() {
    let (door, _events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    for line in [bare(1, "tools/call", &call("nope")), modern(2, "tools/call", &call("nope"))] {
        let result = peer.ask(&line).await["result"].clone();
        let error = &result["structuredContent"];
        assert_eq!((&result["isError"], &error["ok"]), (&json!(true), &json!(false)));
        assert_eq!(error["error"], "unknown_tool");
        assert_eq!(door.last_call().name, "nope");
    }
}

#[tokio::test]
async fn content_that_is_not_known_here_passes_unharmed() {
    let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
    let answer = peer.ask(&bare(1, "tools/call", &call("picture"))).await;
    assert_eq!(answer["result"]["content"][0]["vendor"]["n"], u64::MAX);
}

#[tokio::test]
async fn calls_run_side_by_side_and_are_answered_as_they_end() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    peer.send(&bare("slow", "tools/call", &call("hold"))).await;
    assert_eq!(events.recv().await, Some(Event::Held("slow".into())));
    assert_eq!(peer.ask(&modern("quick", "tools/call", &call("echo"))).await["id"], "quick");
    assert_eq!(peer.ask(&bare(3, "ping", &json!({}))).await["id"], 3);
    door.release.add_permits(1);
    assert_eq!(peer.receive().await["id"], "slow");
}

#[tokio::test]
async fn more_calls_than_places_are_all_answered() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    for id in 0..300 {
        peer.send(&modern(id, "tools/call", &call("hold"))).await;
    }
    for _ in 0..64 {
        events.recv().await.unwrap();
    }
    assert!(events.try_recv().is_err(), "no more than 64 run at once");
    door.release.add_permits(300);
    let mut ids = Vec::new();
    for _ in 0..300 {
        ids.push(peer.receive().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_id_that_is_still_under_way_is_not_taken_twice() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    peer.send(&modern(1, "tools/call", &call("hold"))).await;
    events.recv().await.unwrap();
    assert_eq!(peer.ask(&modern(1, "tools/call", &call("echo"))).await["error"]["code"], -32600);
    door.release.add_permits(1);
    assert_eq!(peer.receive().await["result"]["isError"], false);
    assert_eq!(peer.ask(&modern(1, "tools/call", &call("echo"))).await["result"]["isError"], false);
}

#[tokio::test]
async fn a_cancelled_call_is_dropped_and_never_answered() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::handshaken(door.clone(), "2025-11-25").await;
    for id in [json!("text"), json!(18_446_744_073_709_551_615_u64)] {
        peer.send(&bare(id.clone(), "tools/call", &call("hold"))).await;
        let Some(Event::Held(held)) = events.recv().await else { panic!("not held") };
        // Neither the wrong kind of id nor rubbish hits it.
        for wrong in
            [r#"{"requestId":"18446744073709551615"}"#, r#"{"requestId":null}"#, "{}", "[]", r#"{"requestId":{}}"#]
        {
            peer.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{wrong}}}"#)).await;
        }
        peer.ask(&bare("still", "ping", &json!({}))).await;
        assert!(events.try_recv().is_err());
        let cancelled = json!({ "requestId": id, "reason": "no longer needed" });
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }).to_string())
            .await;
        assert_eq!(events.recv().await, Some(Event::Dropped(held)));
    }
    door.release.add_permits(5);
    assert_eq!(peer.ask(&bare("after", "ping", &json!({}))).await["id"], "after");
    let (rest, ended) = peer.close().await;
    assert!(rest.is_empty() && ended.is_ok(), "{rest:?}");
}

#[tokio::test]
async fn a_call_that_waits_for_a_place_can_be_cancelled_too() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    for id in 0..65 {
        peer.send(&modern(id, "tools/call", &call("hold"))).await;
    }
    for _ in 0..64 {
        events.recv().await.unwrap();
    }
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":64}}"#).await;
    peer.send(&modern("x", "server/discover", &json!({}))).await;
    assert_eq!(peer.receive().await["id"], "x");
    door.release.add_permits(100);
    let (rest, _) = peer.close().await;
    assert_eq!(rest.len(), 64);
    assert!(rest.iter().all(|answer| answer["id"] != 64));
    assert_eq!(door.calls.lock().unwrap().len(), 64);
}

#[tokio::test]
async fn progress_goes_forward_under_the_clients_token_and_ends_with_the_answer() {
    let (door, _events) = Fixture::new();
    let mut peer = Peer::handshaken(door, "2025-11-25").await;
    for token in [json!("t"), json!(0), json!(18_446_744_073_709_551_615_u64)] {
        let params = json!({ "name": "steps", "_meta": { "progressToken": token } });
        peer.send(&bare(1, "tools/call", &params)).await;
        for step in [1.0, 2.0, 3.0] {
            let expected = json!({ "progressToken": token, "progress": step, "total": 3.0, "message": "on" });
            assert_eq!(peer.receive().await["params"], expected);
        }
        assert_eq!(peer.receive().await["id"], 1);
    }
    let (rest, _) = peer.close().await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let mut peer = Peer::start(Fixture::new().0);
    assert_eq!(peer.ask(&modern(1, "tools/call", &call("steps"))).await["id"], 1);
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_steps_but_not_the_call() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::with_pipe(door, 512);
    peer.send(&modern(1, "tools/call", &json!({ "name": "flood", "_meta": { "progressToken": 1 } }))).await;
    // Nobody has read a line yet, and still the next call is read and run.
    peer.send(&modern(2, "tools/call", &call("hold"))).await;
    assert_eq!(events.recv().await, Some(Event::Held("2".into())));
    let (mut steps, mut last) = (0, -1.0);
    let answer = loop {
        let message = peer.receive().await;
        let Some(progress) = message["params"]["progress"].as_f64() else { break message };
        assert!(progress > last);
        (steps, last) = (steps + 1, progress);
    };
    assert_eq!(answer["result"]["content"][0]["text"], "flooded");
    assert!(steps < 100_000);
}

#[tokio::test]
async fn a_panic_behind_the_door_is_an_error_answer() {
    let mut peer = Peer::start(Fixture::new().0);
    let answer = peer.ask(&modern(1, "tools/call", &call("boom"))).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)));
    assert_eq!(peer.ask(&modern(2, "tools/call", &call("echo"))).await["id"], 2);
}

/// In the stateless era it is the protocol's error, in the handshake era one for the model.
#[tokio::test]
async fn what_the_client_does_not_offer_is_said_as_its_era_says_it() {
    let offers = json!({ "sampling": {} });
    let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
    let result = peer.ask(&bare(1, "tools/call", &call("sample"))).await["result"].clone();
    assert_eq!((&result["isError"], &result["structuredContent"]["error"]), (&json!(true), &json!("unavailable")));
    assert_eq!(result["structuredContent"]["client_lacks"], "sampling");
    let error = peer.ask(&modern(2, "tools/call", &call("sample"))).await["error"].clone();
    assert_eq!(error["code"], -32021);
    assert_eq!(error["data"]["requiredCapabilities"], offers);

    let mut asked: Value = serde_json::from_str(&modern(3, "tools/call", &call("sample"))).unwrap();
    asked["params"]["_meta"][CAPABILITIES] = offers.clone();
    assert_eq!(peer.ask(&asked.to_string()).await["result"]["content"][0]["text"], "sampled");

    let mut peer = Peer::start(Fixture::new().0);
    let mut hello = initialize("2025-11-25");
    hello["capabilities"] = offers;
    peer.ask(&bare("hello", "initialize", &hello)).await;
    let answer = peer.ask(&bare(4, "tools/call", &call("sample"))).await;
    assert_eq!(answer["result"]["content"][0]["text"], "sampled");
}
