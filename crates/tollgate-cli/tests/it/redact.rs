//! No secret leaves: every byte that Tollgate wrote or sent is searched for what was planted. And `audit redact`, case by
//! case.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_testkit::model::{ModelServer, Step};

use crate::shop::{Done, Shop};

/// What Tollgate hands out itself, and what others bring. Put together here, so that no scanner takes them for real ones.
pub(crate) const INJECTED: &str = "zq-injected/4711+secret";
pub(crate) const KEY: &str = "zq-model-key-0815";

pub(crate) fn token() -> String {
    format!("ghp_{}", "G7hJ9kL2mN4pQ6rS8tU0vW1xY3zA5bC7dE9f")
}

/// A text that holds a secret of each kind.
fn planted() -> String {
    format!(
        "password: zq-named-secret-7\n{{\"apiKey\":\"zq-json-secret-7\",\"n\":1}}\nsee https://bob:zq-url-secret-7@h.test/x?a=1\n\
         Authorization: Bearer zq-header-secret-7\nuse {} here\ncard 4111 1111 1111 1111\n",
        token()
    )
}

/// Parts that must be nowhere.
fn parts() -> Vec<String> {
    let planted = ["zq-named", "zq-json", "zq-url", "zq-header", "zq-arg", "zq-prompt", "4111 1111 1111 1111"];
    let injected =
        [INJECTED, KEY, "zq-injected", "enEtaW5qZWN0ZWQvNDcx", "7a712d696e6a6563746564", "zq-injected%2F4711"];
    planted.into_iter().chain(injected).map(str::to_owned).chain([token()]).collect()
}

fn config(model: &str) -> String {
    format!(
        r#"
env = {{ SHOP_TOKEN = {{ env = "REAL_TOKEN" }} }}

[models.default]
base_url = "{model}"
model = "scripted"
api_key = {{ env = "MODEL_KEY" }}

[[tool]]
name = "leak"
description = "Prints notes. Its key is {token}."
when = "Use it with password=zq-named-secret-7."
input_schema = {{ type = "object", properties = {{ token = {{ type = "string", default = "zq-arg-default" }} }} }}
command = ["sh", "-c", "cat notes.txt; echo \"is $SHOP_TOKEN\"; printf %s \"$SHOP_TOKEN\" | base64; cat notes.txt >&2; echo $SHOP_TOKEN >&2"]
risk = "read"

[[tool]]
name = "fails"
description = "Fails."
command = ["sh", "-c", "cat notes.txt >&2; echo $SHOP_TOKEN >&2; cat notes.txt; exit 3"]
risk = "read"

[[tool]]
name = "pay"
description = "Pays."
command = ["sh", "-c", "cat notes.txt"]

[[tool]]
name = "ask"
description = "Asks."
input_schema = {{ type = "object", properties = {{ q = {{ type = "string" }} }} }}
http = {{ url = "http://127.0.0.1:9/x?token=zq-url-secret-7", headers = {{ Authorization = {{ env = "REAL_TOKEN" }} }} }}
risk = "read"
"#,
        token = token()
    )
}

pub(crate) fn shop(model: &str) -> Shop {
    let shop = Shop::with(&config(model));
    std::fs::write(shop.path().join("notes.txt"), planted()).unwrap();
    // A line that is cut in the middle of a secret, wherever it is cut.
    let long: String =
        (1970..2001).map(|at| format!("{}{INJECTED}{}\n", "x,".repeat(at / 2), ",y".repeat(900))).collect();
    std::fs::write(shop.path().join("long.txt"), long).unwrap();
    shop
}

fn done(shop: &Shop, args: &[&str]) -> Done {
    let mut command = shop.command(args);
    command.env("REAL_TOKEN", INJECTED).env("MODEL_KEY", KEY).output().unwrap().into()
}

/// Every file below a folder, as bytes.
pub(crate) fn files(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

pub(crate) fn search(seen: &[(String, Vec<u8>)]) {
    for (place, bytes) in seen {
        for part in parts() {
            let at = bytes.windows(part.len()).position(|window| window == part.as_bytes());
            let around =
                at.map(|at| bytes[at.saturating_sub(80)..(at + 80).min(bytes.len())].escape_ascii().to_string());
            assert!(around.is_none(), "`{part}` is in {place}: {around:?}");
        }
    }
}

/// One command for each way out.
fn commands(text: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["-vv", "call", "leak", text],
        vec!["-vv", "call", "fails", text],
        vec!["-vv", "call", "pay", text],
        vec!["-vv", "call", "ask", r#"{"q":"x"}"#],
        vec!["-vv", "call", "nothing_so_named", text],
        vec!["-vv", "call", "leak", "{\"password\": \"zq-arg-secret-7\", oops"],
        vec!["call", "read_file", r#"{"path":"notes.txt"}"#],
        vec!["call", "read_file", r#"{"path":"long.txt"}"#],
        vec!["call", "search_files", r#"{"pattern":"secret"}"#],
        vec!["call", "write_file", r#"{"path":"new.txt","content":"password=zq-arg-secret-7"}"#],
        vec!["approvals", "list"],
        vec!["--format", "text", "approvals", "list"],
        vec!["tools", "list"],
        vec!["tools", "show", "leak"],
        vec!["-vv", "run", "log in with password=zq-prompt-secret-7", "--json", "--record", "record.jsonl"],
        vec!["sessions", "list"],
        vec!["audit", "tail", "-n", "100"],
        vec!["--format", "text", "audit", "tail", "-n", "100"],
        vec!["doctor", "--offline"],
    ]
}

/// What a client on standard input and output is told, and what goes to standard error beside it.
fn served(shop: &Shop, arguments: &Value) -> [(String, Vec<u8>); 2] {
    use std::io::Write;
    use std::process::Stdio;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let params = json!({"name": "leak", "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
    let mut command = shop.command(&["-vv", "serve", "--stdio", "--role", "developer"]);
    command.env("REAL_TOKEN", INJECTED).env("MODEL_KEY", KEY);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    write!(child.stdin.take().unwrap(), "{hello}\n{list}\n{call}\n").unwrap();
    let served = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&served.stdout).contains("[redacted:"), "the call was answered");
    [("serve (stdout)".into(), served.stdout), ("serve (stderr)".into(), served.stderr)]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_byte_that_leaves_holds_a_secret() {
    let arguments = json!({"token": "zq-arg-secret-7", "note": format!("{} and {INJECTED}", token())});
    let server = ModelServer::start(vec![
        Step::calls([
            ("call_1", "leak", arguments.clone()),
            ("call_2", "read_file", json!({"path": "notes.txt"})),
            ("call_3", "fails", json!({"password": "zq-arg-secret-7"})),
        ]),
        Step::text("done"),
    ])
    .await;
    let shop = shop(&server.base_url());
    let text = arguments.to_string();
    let mut seen = Vec::new();
    for args in &commands(&text) {
        let run = tokio::task::block_in_place(|| done(&shop, args));
        seen.push((format!("{args:?} (stdout)"), run.stdout.into_bytes()));
        seen.push((format!("{args:?} (stderr)"), run.stderr.into_bytes()));
    }
    seen.extend(tokio::task::block_in_place(|| served(&shop, &arguments)));
    server.assert_clean();
    assert_eq!(server.requests().len(), 2);
    seen.push(("what the model was asked".into(), Value::from(server.requests()).to_string().into_bytes()));
    files(&shop.path().join(".tollgate"), &mut seen);
    seen.push(("record.jsonl".into(), std::fs::read(shop.path().join("record.jsonl")).unwrap()));
    let marks: usize = seen.iter().map(|(_, bytes)| bytes.windows(10).filter(|w| w == b"[redacted:").count()).sum();
    let bytes: usize = seen.iter().map(|(_, bytes)| bytes.len()).sum();
    println!("{} places, {bytes} bytes, {marks} marks", seen.len());
    assert!(seen.len() > 45 && marks > 100, "{marks} marks in {} places", seen.len());
    search(&seen);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn results_show_more_where_the_operator_says_so() {
    let shop = Shop::with(&format!(
        "[redact]\nresults = false\n{}",
        config("http://127.0.0.1:9/v1").replace("env = {", "[env]\n#")
    ));
    std::fs::write(shop.path().join("notes.txt"), planted()).unwrap();
    let shown = done(&shop, &["call", "read_file", r#"{"path":"notes.txt"}"#]);
    assert!(shown.stdout.contains("zq-named-secret-7"), "{}", shown.stdout);
    assert!(!shop.ledger().join("\n").contains("zq-named"), "the ledger never does");
}

#[test]
fn the_filter_passes_the_shared_cases() {
    use std::process::Stdio;
    let shop = Shop::bare();
    let mut complaints = Vec::new();
    let lines: Vec<Value> = include_str!("../../../tollgate-guard/tests/cases/redaction.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        let case: Value = serde_json::from_slice(&base64(line["case_b64"].as_str().unwrap())).unwrap();
        let input = case["input"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
        let mut args = vec!["audit", "redact", "--profile", case["profile"].as_str().unwrap_or("default")];
        let secrets = case["injected_secrets"].as_array().map_or(0, Vec::len);
        let names: Vec<String> = (0..secrets).map(|at| format!("SECRET_{at}")).collect();
        names.iter().for_each(|name| args.extend(["--secret-env", name]));
        let mut command = shop.command(&args);
        for (at, name) in names.iter().enumerate() {
            command.env(name, case["injected_secrets"][at].as_str().unwrap());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let done = Done::from(child.wait_with_output().unwrap());
        let texts = |key: &str| case[key].as_array().cloned().unwrap_or_default();
        let has = |text: &Value| done.stdout.contains(text.as_str().unwrap());
        let is_kept = case["expected"] != "keep" || done.stdout == input;
        let is_right = !texts("must_not_appear").iter().any(has) && texts("must_appear").iter().all(has) && is_kept;
        if done.code != 0 || !is_right {
            complaints.push(format!("{} {case} -> {} {}", line["id"], done.stdout, done.stderr));
        }
    }
    println!("{} of {} cases pass the filter", lines.len() - complaints.len(), lines.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(!shop.path().join(".tollgate").exists(), "it makes no data folder");
}

/// RFC 4648 §4.
fn base64(text: &str) -> Vec<u8> {
    let value =
        |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|c| *c == byte);
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        held = held << 6 | u32::try_from(six).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn the_filter_says_what_it_lacks() {
    let shop = Shop::bare();
    let done = shop.fed(&["audit", "redact", "--secret-env", "NOT_SET_HERE"], b"x");
    assert!(done.code == 2 && done.stderr.contains("NOT_SET_HERE"), "{}", done.stderr);
    let passed = shop.fed(&["audit", "redact"], b"plain \xe4\xbd\xa0 and password=hunter2hunter2\n");
    assert!(passed.stdout.starts_with("plain 你 and password=[redacted:password") && passed.stdout.ends_with("]\n"));
    let again = shop.fed(&["audit", "redact"], passed.stdout.as_bytes());
    assert_eq!(again.stdout, passed.stdout);
}

#[test]
fn the_operators_rules_are_checked_when_they_are_read() {
    let rule = |more: &str| format!("[redact]\nprofile = \"pii\"\n\n[[redact.rule]]\nname = \"ticket\"\n{more}\n");
    let good = "pattern = \"TCK-([0-9]{6})\"\nkeywords = [\"tck\"]\nexamples = { match = [\"TCK-123456\"], not_match = [\"TCK-1\"] }";
    let shop = Shop::with(&rule(good));
    let done = shop.fed(&["audit", "redact"], b"TCK-123456 13812345678\n");
    assert_eq!(done.stdout, "TCK-[redacted:ticket] [redacted:phone]\n", "{}", done.stderr);
    let default = shop.fed(&["audit", "redact", "--profile", "default"], b"TCK-123456 13812345678\n");
    assert_eq!(default.stdout, "TCK-[redacted:ticket] 13812345678\n");
    for (more, line, part) in [
        ("pattern = \"TCK-(\"", "tollgate.toml:6", "unclosed group"),
        ("pattern = \"x*\"", "tollgate.toml:6", "matches where nothing is"),
        ("pattern = \"TCK-[0-9]{6}\"\nexamples = { match = [\"TCK-12\"] }", "tollgate.toml:7", "hides nothing"),
        ("pattern = \"TCK\"\nexamples = { not_match = [\"TCK-12\"] }", "tollgate.toml:7", "hides something"),
    ] {
        let shop = Shop::with(&rule(more));
        let done = shop.fed(&["--format", "text", "audit", "redact"], b"x");
        let told = done.stderr.replace("\n  │ ", " ");
        assert!(done.code == 2 && told.contains(line) && told.contains(part), "{more}: {}", done.stderr);
        assert_eq!(done.stdout, "");
    }
}
