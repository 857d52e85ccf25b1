//! Both eras, apart and on one connection.

use serde_json::{Value, json};

use crate::door::Fixture;
use crate::peer::{CAPABILITIES, Peer, VERSION, bare, initialize, modern};
use crate::schema;

/// The code of an error answer, and null for a result.
fn code(answer: &Value) -> Value {
    answer["error"]["code"].clone()
}

#[tokio::test]
async fn the_handshake_takes_what_was_asked_for_or_the_latest() {
    for (asked, given) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
    ] {
        let mut peer = Peer::start(Fixture::new().0);
        let answer = peer.ask(&bare(1, "initialize", &initialize(asked))).await;
        assert_eq!(
            answer["result"],
            json!({ "protocolVersion": given, "capabilities": {
                "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true }, "completions": {}, "logging": {},
            },
                "serverInfo": { "name": "tollgate", "version": "0.1.0" }, "instructions": "Ask for less." })
        );
    }
}

#[tokio::test]
async fn discovery_says_all_that_a_stateless_client_needs() {
    let mut peer = Peer::start(Fixture::new().0);
    let answer = peer.ask(&modern("d", "server/discover", &json!({}))).await;
    assert_eq!(
        answer["result"],
        json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {
                "tools": { "listChanged": true }, "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true }, "completions": {}, "logging": {},
            },
            "instructions": "Ask for less.", "ttlMs": 60_000, "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "tollgate", "version": "0.1.0" } } })
    );
}

#[tokio::test]
async fn before_the_handshake_a_bare_request_is_told_what_is_missing() {
    let mut peer = Peer::start(Fixture::new().0);
    for (method, expected) in [
        ("tools/list", json!(-32602)),
        ("tools/call", json!(-32602)),
        ("logging/setLevel", json!(-32602)),
        ("server/discover", json!(-32602)),
        ("prompts/lists", json!(-32601)),
        ("ping", Value::Null),
    ] {
        let answer = peer.ask(&bare(1, method, &json!({ "name": "echo" }))).await;
        assert_eq!(code(&answer), expected, "{method}: {answer}");
    }
    let answer = peer.ask(&bare(2, "tools/list", &json!({}))).await;
    let hint = "Invalid params: `tools/list` needs `initialize` first, or `io.modelcontextprotocol/protocolVersion` in `_meta`";
    assert_eq!(answer["error"]["message"], hint);
}

#[tokio::test]
async fn a_stateless_request_must_have_its_meta() {
    let table = [
        (json!({ VERSION: "2026-07-28" }), -32602),
        (json!({ CAPABILITIES: {} }), -32602),
        (json!({ "io.modelcontextprotocol/clientInfo": { "name": "n", "version": "1" } }), -32602),
        (json!({ VERSION: 20_260_728, CAPABILITIES: {} }), -32602),
        (json!({ VERSION: null, CAPABILITIES: {} }), -32602),
        (json!({ VERSION: "2026-07-28", CAPABILITIES: [] }), -32602),
        (json!({ VERSION: "2025-11-25", CAPABILITIES: {} }), -32022),
        (json!({ VERSION: "2027-01-01" }), -32022),
        (json!([]), -32602),
    ];
    let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
    for (meta, expected) in table {
        for method in ["server/discover", "tools/list", "no/such"] {
            let answer = peer.ask(&bare(1, method, &json!({ "_meta": meta }))).await;
            assert_eq!(code(&answer), expected, "{method} with {meta}: {answer}");
        }
    }
}

#[tokio::test]
async fn an_unsupported_version_is_told_the_supported_ones() {
    let mut peer = Peer::start(Fixture::new().0);
    let answer =
        peer.ask(&bare(1, "tools/list", &json!({ "_meta": { VERSION: "1900-01-01", CAPABILITIES: {} } }))).await;
    schema::check("2026-07-28", "UnsupportedProtocolVersionError", &answer);
    assert_eq!(answer["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "1900-01-01" }));
}

#[tokio::test]
async fn what_the_stateless_era_removed_is_unknown_to_it() {
    let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "notifications/initialized", ""] {
        assert_eq!(code(&peer.ask(&modern(1, method, &initialize("2025-11-25"))).await), -32601, "{method}");
    }
}

#[tokio::test]
async fn the_eras_share_a_connection_and_nothing_else() {
    let mut peer = Peer::start(Fixture::new().0);
    let is_stateless = |answer: &Value| answer["result"].get("resultType").is_some();
    let call = json!({ "name": "echo", "arguments": {} });

    assert!(is_stateless(&peer.ask(&modern(1, "tools/call", &call)).await));
    // A stateless call is no handshake.
    assert_eq!(code(&peer.ask(&bare(2, "tools/call", &call)).await), -32602);
    peer.ask(&bare(3, "initialize", &initialize("2025-03-26"))).await;
    assert!(is_stateless(&peer.ask(&modern(4, "tools/call", &call)).await));
    // And does not change what the handshake agreed on: 2025-03-26 has no structured results.
    let answer = peer.ask(&bare(5, "tools/call", &call)).await;
    assert!(!is_stateless(&answer) && answer["result"].get("structuredContent").is_none(), "{answer}");
    assert!(is_stateless(&peer.ask(&modern(6, "server/discover", &json!({}))).await));
    assert_eq!(code(&peer.ask(&bare(7, "ping", &json!({}))).await), Value::Null);
}

#[tokio::test]
async fn wrong_params_are_invalid_params() {
    let mut peer = Peer::handshaken(Fixture::new().0, "2025-11-25").await;
    let table = [
        ("tools/list", r"[]"),
        ("tools/list", r#""x""#),
        ("tools/list", r#"{"cursor":1}"#),
        ("tools/list", r#"{"_meta":"x"}"#),
        ("tools/call", r"{}"),
        ("tools/call", r#"{"name":1}"#),
        ("tools/call", r#"{"name":"echo","name":"hold"}"#),
        ("tools/call", r#"{"name":"echo","arguments":[1]}"#),
        ("tools/call", r#"{"name":"echo","arguments":"{}"}"#),
        ("tools/call", r#"{"name":"echo","arguments":{},"arguments":{"a":1}}"#),
        ("tools/call", r#"{"name":"echo","_meta":{"progressToken":1.5}}"#),
        ("tools/call", r#"{"name":"echo","_meta":{"progressToken":{}}}"#),
        ("logging/setLevel", r#"{"level":"loud"}"#),
        ("logging/setLevel", r"{}"),
        ("initialize", r#"{"capabilities":{},"clientInfo":{}}"#),
        ("initialize", r#"{"protocolVersion":"2025-11-25"}"#),
    ];
    for (method, params) in table {
        let answer = peer.ask(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)).await;
        assert_eq!(code(&answer), -32602, "{method} {params}: {answer}");
        assert_eq!(answer["id"], 1);
    }
    assert_eq!(code(&peer.ask(&bare(2, "logging/setLevel", &json!({ "level": "debug" }))).await), Value::Null);
    assert_eq!(code(&peer.ask(r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":null}"#).await), Value::Null);
}
