//! What is seen of a server from outside: traces that come in by HTTP, and the metrics that its dashboard asks for.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tollgate::TraceContext;

use crate::world::{World, door};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b8-00";

fn read(parent: &str) -> Option<TraceContext> {
    TraceContext::read([parent], ["a=1"])
}

#[tokio::test]
async fn the_place_in_a_trace_comes_in_headers() {
    let door = door();
    let world = World::before(&door, Duration::from_secs(5)).await;
    let rest = |headers: &[(&str, &str)]| {
        let body = json!({ "tool": "echo", "arguments": {} });
        let mut request = world.client(Method::POST, "/api/v1/calls").json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async { assert_eq!(request.send().await.unwrap().status(), 200) }
    };
    for (headers, expected) in [
        (&[("traceparent", PARENT), ("tracestate", "a=1")][..], read(PARENT)),
        (&[("tracestate", "a=1")], None),
        (&[("traceparent", "rubbish"), ("tracestate", "a=1")], None),
        (&[("traceparent", PARENT), ("traceparent", PARENT)], None),
    ] {
        rest(headers).await;
        assert_eq!(door.calls().last().unwrap().1.trace, expected, "{headers:?}");
    }

    // Over MCP what the message says counts more than what the headers say.
    let mcp = |meta: Value| {
        let mut params = json!({ "name": "echo", "arguments": {}, "_meta": meta });
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let request = world
            .client(Method::POST, "/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "echo")
            .header("traceparent", PARENT)
            .header("tracestate", "a=1")
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
        async { assert_eq!(request.send().await.unwrap().status(), 200) }
    };
    for (meta, expected) in [
        (json!({}), read(PARENT)),
        (json!({ "traceparent": OTHER, "tracestate": "a=1" }), read(OTHER)),
        (json!({ "traceparent": "rubbish" }), read(PARENT)),
    ] {
        mcp(meta.clone()).await;
        assert_eq!(door.calls().last().unwrap().1.trace, expected, "{meta}");
    }
    world.end().await;
}

async fn metrics(world: &World, is_operator: bool) -> String {
    let request = match is_operator {
        true => world.operator(Method::GET, "/metrics"),
        false => world.client(Method::GET, "/metrics"),
    };
    request.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn stages_are_counted_for_operators_alone() {
    let world = World::new().await;
    world.call("calculate", &json!({ "expression": "1" })).await;
    world.call("calculate", &json!({})).await;
    world.call("made_up", &json!({})).await;
    let text = metrics(&world, true).await;
    for line in [
        r#"tollgate_stage_duration_seconds_count{stage="open"} 3"#,
        r#"tollgate_stage_duration_seconds_count{stage="validate"} 2"#,
        r#"tollgate_stage_duration_seconds_count{stage="run"} 1"#,
        r#"tollgate_stage_duration_seconds_bucket{stage="run",le="+Inf"} 1"#,
        r#"tollgate_stage_ended_total{stage="validate",code="invalid_arguments"} 1"#,
        r#"tollgate_stage_ended_total{stage="find",code="unknown_tool"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("traced_calls"), "nobody said where spans go");
    let text = metrics(&world, false).await;
    assert!(!text.contains("tollgate_stage_"), "where calls end tells of tools that a client may not know: {text}");
    world.end().await;
}

/// A house in which everything that can be counted is there.
const FULL: &str = r#"
[telemetry]
endpoint = "http://127.0.0.1:9"
[approvals.webhook]
url = "http://127.0.0.1:9/hook"
secret = { file = "hook.secret" }
[audit.anchor]
file = "anchor.jsonl"
"#;

/// The format of the text, as Prometheus 0.0.4 says it, and the names that it has.
fn names(text: &str) -> BTreeSet<String> {
    let (mut names, mut described) = (BTreeSet::new(), Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let words: Vec<&str> = comment.splitn(3, ' ').collect();
            if words[0] == "HELP" {
                assert!(words[2].ends_with('.'), "{line}");
                assert!(!described.contains(&words[1].to_owned()), "{line} is there twice");
                described.push(words[1].to_owned());
            }
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let family = described.last().unwrap();
        let rest = name.strip_prefix(family.as_str());
        assert!(["", "_bucket", "_sum", "_count"].map(Some).contains(&rest), "{line} is not of {family}");
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        names.insert(name.to_owned());
    }
    names.extend(described);
    names
}

/// Every name and label that the dashboard asks for is one that there is.
#[tokio::test]
async fn the_dashboard_asks_for_what_there_is() {
    let world = World::beside(FULL, &[("hook.secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]).await;
    world.call("calculate", &json!({ "expression": "1" })).await;
    world.call("calculate", &json!({})).await;
    let text = metrics(&world, true).await;
    let names = names(&text);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let dashboard = std::fs::read_to_string(root.join("examples/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut asked = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        assert!(panel["type"] == "row" || !targets.is_empty(), "{panel}");
        asked.extend(targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    assert!(asked.len() > 10, "{asked:?}");
    let mut used = BTreeSet::new();
    for query in &asked {
        for rest in query.split("tollgate_").skip(1) {
            let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            let name = format!("tollgate_{}", rest.chars().take_while(is_of_name).collect::<String>());
            assert!(names.contains(&name), "`{query}` asks for `{name}`, which is not there:\n{text}");
            used.insert(name);
        }
        for labels in query.split(" by (").skip(1) {
            for label in labels.split(')').next().unwrap().split(',').map(str::trim) {
                let is_there = label == "le" || text.contains(&format!("{label}=\""));
                assert!(is_there, "`{query}` groups by `{label}`, which nothing has");
            }
        }
    }
    assert!(used.len() > 10, "{used:?}");
    world.end().await;
}
