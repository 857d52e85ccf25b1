//! Lists and results as they come: nothing is lost that can be kept, and what is wrong is wrong alone.

use tollgate_guard::client::Credentials;
use tollgate_mcp::upstream::{Override, UpstreamError};
use tollgate_types::{Code, Permission, Risk, SourceKind};

use super::*;

#[tokio::test]
async fn one_bad_tool_is_set_aside_alone() {
    let say = |tools: &str, risk, permission, description: Option<&str>| Override {
        tools: tools.into(),
        risk,
        permission,
        description: description.map(ToOwned::to_owned),
        ..Override::default()
    };
    let configure = |folder: &Path| {
        let mut config = double(folder, "files", &["bad-tools"]);
        config.overrides = vec![
            say("read_*", Some(Risk::Read), Some(Permission::Read), None),
            say("read_file", None, None, Some("Reads a file.")),
        ];
        vec![config]
    };
    let house = House::of(configure, limits());
    house.upstreams.settle(NEVER).await;
    let status = house.status();
    let long = &status.tools[3];
    let named = ["mcp__files__good", "mcp__files__read_file", "mcp__files__dotted_name_10c733ab", long];
    assert_eq!(status.tools, named, "{status:?}");
    assert_eq!(long.len(), 64);
    let why: Vec<(&str, &str)> = status.quarantined.iter().map(|it| (it.tool.as_str(), it.reason.as_str())).collect();
    let expected = [
        ("no_schema", "it has no `inputSchema`"),
        ("bad_type", "number of things"),
        ("remote_ref", "$ref"),
        ("not_object", "object"),
        ("good", "registered already"),
        ("GOOD", "looks like"),
        ("number 9", "missing field `name`"),
        ("number 10", "invalid type"),
    ];
    assert_eq!(why.len(), expected.len(), "{why:?}");
    for ((tool, reason), (expected_tool, part)) in why.iter().zip(expected) {
        assert_eq!(*tool, expected_tool);
        assert!(reason.contains(part), "{tool}: {reason}");
    }

    let good = find(&house.upstreams, "mcp__files__good").definition();
    assert_eq!((good.risk, good.permission), (Risk::Dangerous, Permission::Network), "hints are not believed");
    assert_eq!((good.annotations.read_only, good.annotations.idempotent), (Some(true), Some(true)));
    assert_eq!(good.output_schema, Some(json!({"type": "object"})));
    assert_eq!((good.source.kind, good.source.server.as_deref()), (SourceKind::Mcp, Some("files")));
    assert!(good.source.version.unwrap().starts_with("sha256:"));
    let read = find(&house.upstreams, "mcp__files__read_file").definition();
    assert_eq!((read.risk, read.permission, &*read.description), (Risk::Read, Permission::Read, "Reads a file."));
    // The name is looked up, not taken apart.
    assert!(house.call("mcp__files__dotted_name_10c733ab", json!({})).await.is_ok());
    assert_eq!(house.log().last().unwrap()["params"]["name"], "dotted.name");
}

#[tokio::test]
async fn lists_come_to_an_end() {
    for (character, tools, error) in
        [("pages", 5, None), ("circle", 3, Some("in circles")), ("endless", 100, Some("more than 100 pages"))]
    {
        let house = House::with(&[character]).await;
        let status = house.status();
        assert_eq!(status.tools.len() + status.quarantined.len(), tools, "{character}: {status:?}");
        let said = status.last_error.unwrap_or_default();
        assert!(error.map_or(said.is_empty(), |part| said.contains(part)), "{character}: {said}");
    }
    let house = House::with(&["deep"]).await;
    let status = house.status();
    assert_eq!((status.tools.len(), status.quarantined.len()), (1, 1), "{status:?}");
    assert!(status.quarantined[0].reason.contains("nested deeper"));
    let error = house.call("mcp__x__echo", json!({"do": "deep"})).await.unwrap_err();
    assert!(error.message.contains("nested deeper"), "{error:?}");
}

#[tokio::test]
async fn results_pass_unharmed() {
    let house = House::with(&["legacy"]).await;
    let output = house.call("mcp__x__echo", json!({"do": "exact"})).await.unwrap();
    let expected = [
        Content::Other(json!({"type": "hologram", "depth": 3, "more": {"a": [1]}})),
        Content::Other(json!({"type": "text", "text": "t", "annotations": {"p": 1}})),
        Content::Text("plain".into()),
        Content::Text(r#"{"type":"n","n":123456789012345678901234567890}"#.into()),
    ];
    assert_eq!(output.content, expected);
    assert_eq!(output.structured, Some(json!({"n": u64::MAX})));

    let output = house.call("mcp__x__echo", json!({"do": "big"})).await.unwrap();
    assert_eq!(text(&output), r#"{"n":123456789012345678901234567890}"#);
    assert_eq!(output.structured, None, "a number that would lose digits stays text");

    let error = house.call("mcp__x__echo", json!({"do": "fail"})).await.unwrap_err();
    assert_eq!((error.code, &*error.message), (Code::ToolError, "no such order"));
    let error = house.call("mcp__x__echo", json!({"do": "refuse"})).await.unwrap_err();
    assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("RPC_-32603")));
    assert_eq!(error.message, "`x`: error -32603: no");
}

#[tokio::test]
async fn a_list_that_changes_is_asked_for_again() {
    let house = House::with(&["change"]).await;
    assert_eq!((house.status().tools.len(), house.changes.load(Ordering::SeqCst)), (1, 1));
    let before = find(&house.upstreams, "mcp__x__grow");
    house.call("mcp__x__grow", json!({})).await.unwrap();
    until("the new tool is there", || house.status().tools.len() == 2).await;
    assert_eq!(house.changes.load(Ordering::SeqCst), 2);
    house.call("mcp__x__grown", json!({})).await.unwrap();
    let after = find(&house.upstreams, "mcp__x__grow");
    assert!(Arc::ptr_eq(&before, &after), "what did not change need not be taken in anew");
}

#[tokio::test]
async fn what_is_configured_wrongly_is_said_at_once() {
    let folder = TempDir::new().unwrap();
    let start = |configs| {
        Upstreams::start(configs, limits(), RealClock::new(), Arc::new(|_: &str| {})).map(|_| ()).unwrap_err()
    };
    for name in ["", "a__b", "_a", "a_", "a.b", "ü", &"x".repeat(33)] {
        let error = start(vec![double(folder.path(), name, &[])]);
        assert!(matches!(error, UpstreamError::BadName { .. }), "{name}: {error}");
    }
    let twice = start(vec![double(folder.path(), "a", &[]), double(folder.path(), "a", &[])]);
    assert_eq!(twice.to_string(), "two servers are named `a`");
    let mut bad_glob = double(folder.path(), "a", &[]);
    bad_glob.overrides.push(Override { tools: "[".into(), ..Override::default() });
    assert!(matches!(start(vec![bad_glob]), UpstreamError::BadGlob { .. }));
    let url = UpstreamConfig::new("a", UpstreamKind::Http { url: "ftp://x".into(), headers: Credentials::default() });
    assert!(matches!(start(vec![url]), UpstreamError::BadUrl { .. }));
}
