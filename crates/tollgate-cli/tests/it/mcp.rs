//! `tollgate mcp`: servers are added, looked at, measured, and their words shown.

use serde_json::{Value, json};

use crate::shop::Shop;

const SERVER: &str = r#"
import json, sys
print("it starts with zq-planted-4711", file=sys.stderr, flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    reply = {"jsonrpc": "2.0", "id": ask["id"]}
    if ask["method"] == "initialize":
        reply["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
                           "serverInfo": {"name": "Keeper", "version": "7"}, "instructions": "Ask kindly."}
    elif ask["method"] == "tools/list":
        reply["result"] = {"tools": [{"name": "good", "description": "Does good.", "inputSchema": {"type": "object"}},
                                     {"name": "bad"}]}
    elif ask["method"] == "ping":
        reply["result"] = {}
    else:
        reply["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(reply), flush=True)
"#;

const WELL: &str = "# mine\n[mcp.well]    # kept\ncommand = \"python3\"\nargs = [\"server.py\"]\n\
                    env = { A_KEY = { file = \"a.key\" } }\n[mcp.gone]\ncommand = \"no-such-program-4711\"\n";

fn shop() -> Shop {
    let shop = Shop::with(WELL);
    std::fs::write(shop.path().join("server.py"), SERVER).unwrap();
    std::fs::write(shop.path().join("a.key"), "zq-planted-4711\n").unwrap();
    shop
}

#[test]
fn one_is_inspected_measured_and_its_words_are_kept_without_secrets() {
    let shop = shop();
    let done = shop.tollgate(&["mcp", "inspect", "well"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let report = done.json();
    let server = &report["server"];
    assert_eq!((&server["state"], &server["era"]), (&json!("ready"), &json!("2025-06-18")));
    assert_eq!(server["introduction"]["name"], "Keeper");
    assert_eq!(server["introduction"]["capabilities"], json!({"tools": {"listChanged": true}}));
    assert_eq!(server["quarantined"], json!([{"tool": "bad", "reason": "it has no `inputSchema`"}]));
    let gives: Vec<&Value> = report["gives"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(gives, ["mcp__well__good"]);
    let text = shop.tollgate(&["--format", "text", "mcp", "inspect", "well"]).stdout;
    for part in ["well ready, revision 2025-06-18", "Keeper 7", "Ask kindly.", "Does good.", "bad is set aside"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("zq-planted"), "{text}");

    let done = shop.tollgate(&["mcp", "ping", "well", "--count", "3"]);
    let pinged = done.json();
    assert_eq!((done.code, pinged[0]["answered_ms"].as_array().unwrap().len()), (0, 3), "{pinged}");
    assert!(pinged[0]["up_ms"].as_f64().unwrap() > 0.0);
    let done = shop.tollgate(&["mcp", "ping"]);
    assert_eq!((done.code, &done.json()[0]["ok"]), (1, &json!(false)));
    assert!(done.json()[0]["error"].as_str().unwrap().contains("no-such-program-4711"));

    let logs = shop.tollgate(&["--format", "text", "mcp", "logs", "well"]);
    assert_eq!(logs.code, 0);
    assert!(logs.stdout.contains("it starts with [redacted:"), "{}", logs.stdout);
    assert!(!logs.stdout.contains("zq-planted"), "{}", logs.stdout);
    let one = shop.tollgate(&["mcp", "logs", "well", "--lines", "1"]).json();
    assert_eq!(one["lines"].as_array().unwrap().len(), 1);
    let none = shop.tollgate(&["mcp", "logs", "gone"]);
    assert!(none.code == 0 && none.stderr.contains("nothing is kept of `gone`"), "{}", none.stderr);

    for args in [["mcp", "inspect", "other"], ["mcp", "ping", "other"], ["mcp", "logs", "other"]] {
        let done = shop.tollgate(&args);
        assert!(done.code == 2 && done.stderr.contains("`gone`, `well`"), "{args:?}: {}", done.stderr);
    }
    assert_eq!(shop.tollgate(&["mcp", "inspect", "gone"]).code, 1);
}

#[test]
fn a_server_is_added_and_everything_else_stays() {
    let shop = shop();
    let toml = || std::fs::read_to_string(shop.path().join("tollgate.toml")).unwrap();
    let done = shop.tollgate(&["mcp", "add", "files", "--env", "MODE=fast", "npx", "-y", "@scope/files", "."]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(done.json()["lists"][0]["servers"][0]["outcome"], "added");
    let header = "Authorization: Bearer zq-planted-4712-long-enough";
    let done = shop.tollgate(&["mcp", "add", "docs", "--header", header, "https://example.com/mcp"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(shop.tollgate(&["mcp", "add", "socket", "wss://example.com/mcp"]).code, 0);
    let text = toml();
    assert!(text.contains("[mcp.socket]\nurl = \"wss://example.com/mcp\"\n"), "{text}");
    assert!(text.starts_with(WELL) && !text.contains("zq-planted"), "{text}");
    for part in [
        "[mcp.files]\ncommand = \"npx\"\nargs = [\"-y\", \"@scope/files\", \".\"]\nenv = { MODE = \"fast\" }",
        "[mcp.docs]\nurl = \"https://example.com/mcp\"\nheaders = { Authorization = { file = ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Again is nothing; another under the name is refused, and nothing is written.
    let again = shop.tollgate(&["mcp", "add", "docs", "--header", header, "https://example.com/mcp"]);
    assert_eq!((again.code, &again.json()["lists"][0]["servers"][0]["outcome"]), (0, &json!("present")));
    for (args, part) in [
        (&["docs", "https://example.com/other"][..], "[mcp.docs] is another server already"),
        (&["a__b", "https://example.com/mcp"], "can not be the name of a server"),
        (&["x"], "what is the server reached by?"),
        (&["x", "https://example.com/mcp", "more"], "stands after the address"),
        (&["x", "--env", "novalue", "prog"], "--env must be NAME=VALUE"),
        (&["x", "--header", "A: b", "prog"], "--header is for addresses"),
        (&["x", "--from", "none-such.json"], "neither a file that is there nor a client"),
    ] {
        let done = shop.tollgate(&[&["mcp", "add"], args].concat());
        assert!(done.code == 2 && done.stderr.contains(part), "{args:?}: {}", done.stderr);
    }
    assert_eq!(toml(), text);
}

#[test]
fn servers_of_a_list_are_added_all_or_one() {
    let shop = Shop::bare();
    let list = r#"{"mcpServers": {"one": {"command": "prog-one"}, "two": {"command": "prog-two"}}}"#;
    std::fs::write(shop.path().join("theirs.json"), list).unwrap();
    let dry = shop.tollgate(&["mcp", "add", "two", "--from", "theirs.json", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(!shop.path().join("tollgate.toml").exists());
    assert_eq!(shop.tollgate(&["mcp", "add", "two", "--from", "theirs.json"]).code, 0);
    let toml = || std::fs::read_to_string(shop.path().join("tollgate.toml")).unwrap();
    assert!(toml().contains("[mcp.two]") && !toml().contains("[mcp.one]"), "{}", toml());
    let missing = shop.tollgate(&["mcp", "add", "three", "--from", "theirs.json"]);
    assert!(missing.code == 2 && missing.stderr.contains("no server is named `three`"), "{}", missing.stderr);
    assert_eq!(shop.tollgate(&["mcp", "add", "--from", "theirs.json"]).code, 0);
    assert!(toml().contains("[mcp.one]") && toml().matches("[mcp.two]\n").count() == 1, "{}", toml());
}
