//! `tools/list`.

use serde_json::{Value, json};

use crate::door::Fixture;
use crate::peer::{Peer, bare, modern};

fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_era_gets_the_definitions_in_its_form() {
    let mut peer = Peer::handshaken(Fixture::with_tools(["echo".to_owned()]).0, "2025-11-25").await;
    let legacy = peer.ask(&bare(1, "tools/list", &json!({}))).await["result"].clone();
    let modern = peer.ask(&modern(2, "tools/list", &json!({}))).await["result"].clone();

    assert_eq!(legacy["tools"][0]["inputSchema"]["type"], "object");
    assert_eq!(legacy.as_object().unwrap().len(), 1);
    assert_eq!(legacy["tools"], modern["tools"]);
    // A promise that shortened results and errors would break, so it is not made.
    assert_eq!(modern["tools"][0].get("outputSchema"), None);
    assert_eq!((&modern["ttlMs"], &modern["cacheScope"]), (&json!(60_000), &json!("private")));
    assert_eq!(modern["resultType"], "complete");
}

#[tokio::test]
async fn pages_hold_every_tool_once() {
    let all: Vec<_> = (0..450).map(|n| format!("tool_{n:03}")).collect();
    let mut peer = Peer::start(Fixture::with_tools(all.clone()).0);
    let (mut seen, mut sizes, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let answer = peer.ask(&modern(1, "tools/list", &params)).await;
        sizes.push(names(&answer).len());
        seen.extend(names(&answer));
        let Some(cursor) = answer["result"].get("nextCursor") else { break };
        params = json!({ "cursor": cursor });
    }
    assert_eq!(seen, all);
    assert_eq!(sizes, [200, 200, 50]);
}

#[tokio::test]
async fn exactly_one_page_has_no_next() {
    let mut peer = Peer::start(Fixture::with_tools((0..200).map(|n| format!("tool_{n:03}"))).0);
    let answer = peer.ask(&modern(1, "tools/list", &json!({ "cursor": null }))).await;
    assert_eq!((names(&answer).len(), answer["result"].get("nextCursor")), (200, None));
}

#[tokio::test]
async fn a_cursor_of_somebody_else_is_refused() {
    let mut peer = Peer::start(Fixture::new().0);
    for cursor in ["", "2", "bogus", "ZWNobw", "eyJwYWdlIjogM30=", "…"] {
        let answer = peer.ask(&modern(1, "tools/list", &json!({ "cursor": cursor }))).await;
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
    }
}
