//! Each client's list, and what of it is said in `tollgate.toml`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::*;
use crate::http::{Server, key};

/// What was appended to the file that `init` writes.
fn added(desk: &Desk) -> String {
    let text = desk.toml();
    let start = include_str!("../../../assets/tollgate.toml");
    desk.plain(text.strip_prefix(start).unwrap())
}

#[test]
fn what_is_written() {
    let desk = Desk::full();
    let done = desk.tollgate(&["init"]);
    assert_eq!(done.code, 1, "one is refused: {}", done.stderr);
    insta::assert_snapshot!(added(&desk));
}

#[test]
fn what_is_said() {
    let desk = Desk::full();
    put(desk.home.path(), ".cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#);
    let done = desk.tollgate(&["--format", "text", "init"]);
    insta::assert_snapshot!(desk.plain(&done.stdout));
    assert_eq!(done.stderr, "wrote tollgate.toml\n");
}

#[test]
fn no_secret_is_shown_or_stands_in_the_file() {
    let desk = Desk::full();
    for args in [["init", "--dry-run"].as_slice(), &["--format", "text", "init", "--dry-run"], &["init"]] {
        let done = desk.tollgate(args);
        assert!(!done.stdout.contains(PLANTED) && !done.stderr.contains(PLANTED), "{args:?}: {}", done.stdout);
    }
    assert!(!desk.toml().contains(PLANTED));
    let secrets = desk.shop.path().join(".tollgate/secrets");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(secrets.parent().unwrap()), mode(&secrets)), (0o700, 0o700));
    let kept = [
        ("tracker-Authorization", "Bearer zq-planted-header-4711"),
        ("database-TOLLGATE_ARG_3", "postgres://bob:zq-planted-address-4711@db/shop"),
        ("tracker_2-TRACKER_KEY", "zq-planted-file-4711"),
        (".gitignore", "*\n"),
    ];
    for (name, text) in kept {
        assert_eq!(std::fs::read_to_string(secrets.join(name)).unwrap(), text);
        assert_eq!(mode(&secrets.join(name)), 0o600, "{name}");
    }
    assert_eq!(std::fs::read_dir(&secrets).unwrap().count(), kept.len());
}

/// A server in a few lines, which says what it was started with.
const SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    if ask["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif ask["method"] == "tools/list":
        result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
    elif ask["method"] == "tools/call":
        said = [sys.argv[1:], os.getcwd(), {name: os.environ.get(name) for name in ["KEY", "MIXED", "FALLEN"]}]
        result = {"content": [{"type": "text", "text": "".join(c + "." for c in json.dumps(said))}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result}), flush=True)
"#;

#[test]
fn what_was_taken_over_runs_as_it_ran_there() {
    let desk = Desk::new();
    put(desk.shop.path(), "sub/server.py", SERVER);
    let list = json!({"mcpServers": {"one": {
        "command": "python3",
        "args": ["server.py", "--token", "zq-planted-4711", "it's ${WORD}", "${UNSET:-$(touch x)}", ""],
        "cwd": "sub",
        "env": {"KEY": "${WORD}", "MIXED": "a ${WORD} `b`", "FALLEN": "${UNSET:-back \"up\"}"},
    }}});
    put(desk.shop.path(), ".mcp.json", list.to_string());
    assert_eq!(desk.tollgate(&["init"]).code, 0);
    assert!(!desk.toml().contains(PLANTED));
    let text = desk.toml().replace("# [mcp.one.tools.\"get_*\"]\n# risk", "[mcp.one.tools.\"*\"]\nrisk");
    let text = text.replace("role = \"developer\"", "role = \"tester\"")
        + "[roles.tester]\ntools = [\"*\"]\npermission = \"network\"\nrisk = \"read\"\n";
    std::fs::write(desk.shop.path().join("tollgate.toml"), text).unwrap();
    let mut command = desk.command(&["mcp", "list"]);
    let listed = Done::from(command.env("WORD", "hello \"$x\"").output().unwrap());
    assert_eq!(listed.json()[0]["tools"], json!(["mcp__one__say"]), "{} {}", listed.stdout, listed.stderr);
    let mut command = desk.command(&["call", "mcp__one__say"]);
    let called = Done::from(command.env("WORD", "hello \"$x\"").output().unwrap());
    let text = called.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    // Told letter by letter, so that what is a secret here is not hidden.
    let letters: Vec<char> = text.chars().step_by(2).collect();
    let said: Value = serde_json::from_str(&letters.into_iter().collect::<String>()).unwrap();
    assert_eq!(said[0], json!(["--token", "zq-planted-4711", "it's hello \"$x\"", "$(touch x)", ""]));
    assert_eq!(said[1], desk.shop.path().canonicalize().unwrap().join("sub").to_str().unwrap());
    assert_eq!(said[2], json!({"KEY": "hello \"$x\"", "MIXED": "a hello \"$x\" `b`", "FALLEN": "back \"up\""}));
    let missing = desk.tollgate(&["mcp", "list"]);
    assert!(missing.stderr.contains("`WORD` is not set"), "{}", missing.stderr);
}

#[test]
fn an_endpoint_takes_the_key_that_stood_in_the_list() {
    let there = Shop::bare();
    let endpoint = Server::start(&there, &["--role", "reader"]);
    let (right, url) = (key(&there, "client"), format!("http://{}/mcp", endpoint.address));
    let entry = |key: &str| json!({"type": "http", "url": url, "headers": {"Authorization": format!("Bearer {key}")}});
    let desk = Desk::new();
    put(desk.shop.path(), ".mcp.json", json!({"mcpServers": {"right": entry(&right)}}).to_string());
    put(desk.shop.path(), ".cursor/mcp.json", json!({"mcpServers": {"wrong": entry("zq-planted-4711")}}).to_string());
    assert_eq!(desk.tollgate(&["init"]).code, 0);
    assert!(!desk.toml().contains(&right) && !desk.toml().contains(PLANTED));
    let done = desk.tollgate(&["doctor"]);
    let report = done.json();
    let of = |name: &str| report.as_array().unwrap().iter().find(|finding| finding["what"] == name).unwrap();
    let (right, wrong) = (of("MCP server right"), of("MCP server wrong"));
    assert_eq!((done.code, &right["ok"]), (1, &json!(true)), "{right}");
    assert!(right["found"].as_str().unwrap().starts_with("http, revision 2026-07-28, "), "{right}");
    assert!(wrong["found"].as_str().unwrap().contains("401"), "{wrong}");
    assert!(wrong["mend"].as_str().unwrap().contains("[mcp.wrong]"), "{wrong}");
    #[cfg(unix)]
    assert_eq!(endpoint.end(), Some(0));
}

#[test]
fn a_program_that_writes_without_asking_can_not_rewrite_a_server() {
    let desk = Desk::new();
    put(desk.shop.path(), "sub/server.py", SERVER);
    let list = r#"{"mcpServers": {"one": {"command": "python3", "args": ["server.py"], "cwd": "sub"}}}"#;
    put(desk.shop.path(), ".mcp.json", list);
    assert_eq!(desk.tollgate(&["init"]).code, 0);
    let write = r#"{"path": "sub/server.py", "content": "x", "overwrite": true}"#;
    let done = desk.tollgate(&["call", "write_file", write]);
    assert_eq!((done.code, &done.json()["error"]["error"]), (3, &json!("denied")), "{}", done.stdout);
}

#[test]
fn the_lists_of_the_user_are_named_and_taken_when_asked_for() {
    let desk = Desk::new();
    let project = desk.shop.path().canonicalize().unwrap();
    let claude = json!({
        "numStartups": 3,
        "mcpServers": {"everywhere": {"command": "everywhere"}},
        "projects": {
            project.to_str().unwrap(): {"mcpServers": {"here": {"command": "here"}}, "history": []},
            "/elsewhere": {"mcpServers": {"elsewhere": {"command": "elsewhere"}}},
        },
    });
    let desktop = r#"{"globalShortcut": "", "mcpServers": {"desk": {"command": "desk"}}}"#;
    put(desk.home.path(), ".claude.json", claude.to_string());
    put(desk.home.path(), ".config/Claude/claude_desktop_config.json", desktop);
    put(desk.home.path(), "Library/Application Support/Claude/claude_desktop_config.json", desktop);
    put(desk.home.path(), ".config/Code/User/mcp.json", r#"{"servers": {"code": {"command": "code"}}}"#);
    put(desk.home.path(), ".codex/config.toml", "[mcp_servers.cod]\ncommand = \"cod\"\n");
    put(desk.home.path(), ".cursor/mcp.json", r#"{"mcpServers": {}}"#);
    let first = desk.tollgate(&["init"]);
    let report = first.json();
    assert_eq!((first.code, &report["lists"]), (0, &json!([])));
    let seen: Vec<(&str, u64)> = report["seen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|seen| (seen["command"].as_str().unwrap(), seen["servers"].as_u64().unwrap()))
        .collect();
    let of = |client| format!("tollgate init --import {client}");
    let (claude, desktop, code, codex) = (of("claude"), of("claude-desktop"), of("vscode"), of("codex"));
    assert_eq!(seen, [(claude.as_str(), 2), (&desktop, 1), (&desktop, 1), (&code, 1), (&codex, 1)]);
    let done = desk.tollgate(&["init", "--import", "claude,codex"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    for name in ["here", "everywhere", "cod"] {
        assert!(desk.toml().contains(&format!("[mcp.{name}]\ncommand = \"{name}\"\n")), "{name}");
    }
    assert!(!desk.toml().contains("elsewhere"));
    let all = desk.tollgate(&["init", "--import", "all"]);
    assert_eq!((all.code, all.json()["seen"].clone()), (0, json!([])));
    assert!(desk.toml().contains("[mcp.desk]") && desk.toml().contains("[mcp.code]"));
    assert_eq!(desk.toml().matches("[mcp.desk]").count(), 1);
}

#[test]
fn tollgate_does_not_call_itself() {
    let desk = Desk::new();
    let list = json!({"mcpServers": {
        "gate": {"command": "/usr/local/bin/tollgate", "args": ["serve", "--stdio"]},
        "http": {"url": "http://localhost:7373/mcp"},
        "other": {"command": "tollgate-like", "args": ["serve"]},
    }});
    put(desk.shop.path(), ".mcp.json", list.to_string());
    let done = desk.tollgate(&["init"]);
    let report = done.json();
    let outcomes = ["gate", "http", "other"].map(|name| server(&report, ".mcp.json", name)["outcome"].clone());
    assert_eq!((done.code, outcomes), (0, ["itself", "itself", "added"].map(Value::from)));
    assert_eq!(desk.toml().matches("\n[mcp.").count(), 1);
}

#[test]
fn a_file_that_is_named_and_words_that_are_none() {
    let desk = Desk::new();
    put(desk.shop.path(), "other.json", r#"{"servers": {"s": {"url": "http://127.0.0.1:9/mcp"}}}"#);
    assert_eq!(desk.tollgate(&["init", "--import", "other.json,none"]).code, 0);
    assert!(desk.toml().contains("url = \"http://127.0.0.1:9/mcp\""));
    let typo = desk.tollgate(&["init", "--import", "cursors"]);
    assert!(typo.code == 2 && typo.stderr.contains("cursor"), "{}", typo.stderr);
    let none = desk.tollgate(&["init", "--import", "cursor"]);
    assert!(none.code == 2 && none.stderr.contains(".cursor/mcp.json"), "{}", none.stderr);
}
