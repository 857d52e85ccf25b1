//! Lists that are none: each says file, line, column and what was expected, and costs only itself.

use serde_json::json;

use super::*;

#[test]
fn a_broken_list_costs_only_itself() {
    type Case = (&'static [u8], Option<u64>, Option<u64>, &'static str);
    let cases: &[Case] = &[
        (b"{\n  \"mcpServers\": {\n    \"a\" {}\n  }\n}", Some(3), Some(9), "expected `:`"),
        ("{\"mcpServers\": {\"北京\" x}}".as_bytes(), Some(1), Some(22), "expected `:`"),
        (b"{\"mcpServers\": {", Some(1), Some(16), "EOF while parsing an object"),
        (b"{\"mcpServers\": {\"a\": {},\n\"a\": {}}}", Some(2), Some(8), "`a` is there twice"),
        (b"", Some(1), Some(1), "EOF while parsing a value"),
        (b"[]", None, None, "an object was expected"),
        (b"{\"mcpServers\": []}", None, None, "the servers were expected as an object"),
        (b"{\"servers\": {}}", None, None, "it has no `mcpServers`"),
        (b"{\n\"a\": \"\xff\"}", Some(2), Some(7), "it is not UTF-8"),
        (b"\xff\xfe{\x00}\x00", Some(1), Some(1), "it is not UTF-8"),
    ];
    for (bytes, line, column, message) in cases {
        let desk = Desk::new();
        put(desk.shop.path(), ".mcp.json", bytes);
        put(desk.shop.path(), ".vscode/mcp.json", r#"{"servers": {"good": {"command": "good"}}}"#);
        let done = desk.tollgate(&["init"]);
        let fault = &done.json()["lists"][0]["fault"];
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(done.code, 1, "{shown}");
        assert_eq!((&fault["line"], &fault["column"]), (&json!(line), &json!(column)), "{shown}: {fault}");
        assert!(fault["message"].as_str().unwrap().contains(message), "{shown}: {fault}");
        assert!(desk.toml().contains("[mcp.good]"), "{shown}");
        let text = desk.tollgate(&["--format", "text", "init", "--import", "claude"]);
        let place = line.map(|line| format!("line {line}, column {}: ", column.unwrap())).unwrap_or_default();
        assert!(text.stdout.starts_with(&format!(".mcp.json (Claude Code): {place}")), "{}", text.stdout);
    }
}

#[test]
fn what_is_no_file_of_a_fit_size_is_not_read() {
    let desk = Desk::new();
    std::fs::create_dir(desk.shop.path().join(".mcp.json")).unwrap();
    std::fs::create_dir(desk.shop.path().join(".vscode")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        desk.shop.path().join(".vscode/mcp.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    put(desk.shop.path(), ".cursor/mcp.json", b"");
    let large = std::fs::File::options().write(true).open(desk.shop.path().join(".cursor/mcp.json")).unwrap();
    large.set_len(64 * 1024 * 1024).unwrap();
    put(desk.shop.path(), ".codex/config.toml", "a = 1\n[mcp_servers\n");
    let done = desk.tollgate(&["init"]);
    let faults: Vec<String> = done.json()["lists"]
        .as_array()
        .unwrap()
        .iter()
        .map(|list| list["fault"]["message"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(faults[..3], ["it is not a file", "it has more than 33554432 bytes", "it is not a file"]);
    assert_eq!((done.code, &done.json()["lists"][3]["fault"]["line"]), (1, &json!(2)), "{faults:?}");
}

#[test]
fn a_byte_order_mark_is_no_fault() {
    let desk = Desk::new();
    put(desk.shop.path(), ".mcp.json", "\u{FEFF}{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    assert_eq!(desk.tollgate(&["init"]).code, 0);
    assert!(desk.toml().contains("[mcp.a]"));
}

#[test]
fn servers_that_make_no_sense_cost_only_themselves() {
    let cases = [
        (json!(7), "it is not an object"),
        (json!({}), "neither `command` nor `url`"),
        (json!({"command": "a", "url": "https://x"}), "both `command` and `url`"),
        (json!({"command": ["a"]}), "`command` was expected to be a text"),
        (json!({"command": ""}), "`command` is empty"),
        (json!({"command": "a | b"}), "a line for a shell"),
        (json!({"command": "a", "args": "b"}), "`args` was expected to be a list"),
        (json!({"command": "a", "args": [{}]}), "`args` was expected to be a text"),
        (json!({"command": "a", "env": []}), "`env` was expected to be a table"),
        (json!({"command": "a", "env": {"A=B": "c"}}), "`env` has a name that can be none"),
        (json!({"command": "a", "env": {"API_KEY": "zq"}}), "less than 4 bytes"),
        (json!({"command": "a", "env": {"A": "${A"}}), "is not closed"),
        (json!({"command": "a", "envFile": "none.env"}), "`envFile`"),
        (json!({"command": "a", "disabled": "no"}), "true or false"),
        (json!({"url": "ftp://x/"}), "does not begin with `http://`"),
        (json!({"url": "https://bob:zq-planted@x/"}), "url"),
        (json!({"url": "https://x/?api_key=zq-planted-4711"}), "its `url` holds a secret"),
        (json!({"url": "https://${HOST}/mcp"}), "the variable `HOST`"),
    ];
    for (fields, reason) in cases {
        let desk = Desk::new();
        put(
            desk.shop.path(),
            ".mcp.json",
            json!({"mcpServers": {"bad": fields, "good": {"command": "g"}}}).to_string(),
        );
        let done = desk.tollgate(&["init"]);
        let report = done.json();
        let bad = server(&report, ".mcp.json", "bad");
        assert_eq!((done.code, &bad["outcome"]), (1, &json!("refused")), "{fields}");
        assert!(bad["notes"][0].as_str().unwrap().contains(reason), "{fields}: {bad}");
        assert!(desk.toml().contains("[mcp.good]") && !desk.toml().contains("[mcp.bad]"), "{fields}");
        assert!(!done.stdout.contains(PLANTED) && !done.stderr.contains(PLANTED), "{fields}: {}", done.stdout);
    }
}
