//! `tools/list`.

use serde_json::{Value, json};
use tollgate_types::{Code, ErrorObject};

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
    assert_eq!((&modern["ttlMs"], &modern["cacheScope"]), (&json!(60_000), &json!("private")));
    assert_eq!(modern["resultType"], "complete");
}

#[tokio::test]
async fn the_output_schema_holds_for_results_and_for_errors() {
    let mut peer = Peer::start(Fixture::with_tools(["echo".to_owned()]).0);
    let listed = peer.ask(&modern(1, "tools/list", &json!({}))).await;
    let schema = &listed["result"]["tools"][0]["outputSchema"];
    assert_eq!(schema["type"], "object");
    let error = ErrorObject::new(Code::InvalidArguments, "the arguments do not fit");
    for (value, fits) in [
        (json!({"echo": {"a": 1}}), true),
        (serde_json::to_value(error).unwrap(), true),
        (json!({"echo": 1}), false),
        (json!({}), false),
        (json!("text"), false),
    ] {
        assert_eq!(jsonschema::is_valid(schema, &value), fits, "{value}");
    }
}

#[tokio::test]
async fn pages_hold_every_tool_once() {
    let all: Vec<_> = (0..2_250).map(|n| format!("tool_{n:04}")).collect();
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
    assert_eq!(sizes, [1_000, 1_000, 250]);
}

#[tokio::test]
async fn exactly_one_page_has_no_next() {
    let mut peer = Peer::start(Fixture::with_tools((0..1_000).map(|n| format!("tool_{n:04}"))).0);
    let answer = peer.ask(&modern(1, "tools/list", &json!({ "cursor": null }))).await;
    assert_eq!((names(&answer).len(), answer["result"].get("nextCursor")), (1_000, None));
}

#[tokio::test]
async fn a_cursor_of_somebody_else_is_refused() {
    let mut peer = Peer::start(Fixture::new().0);
    for cursor in ["", "2", "bogus", "ZWNobw", "eyJwYWdlIjogM30=", "…"] {
        let answer = peer.ask(&modern(1, "tools/list", &json!({ "cursor": cursor }))).await;
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
    }
}
