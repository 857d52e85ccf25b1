//! `tollgate audit erase` and `retain`: what is gone is gone from every file, what is left is said, and who asked twice is
//! not served twice.

use serde_json::{Value, json};

use crate::redact::files;
use crate::shop::{Done, Shop};

const CONFIG: &str = r#"
[roles.clerk]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"

[roles.careful]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "always"

[[tool]]
name = "say"
description = "Says it, and much more."
command = ["sh", "-c", "cat; head -c 20000 /dev/zero | tr '\\0' x"]
"#;

fn as_user(shop: &Shop, user: &str, args: &[&str]) -> Done {
    shop.command(args).env("USER", user).output().unwrap().into()
}

/// The files of the data folder that hold a text.
fn holders(shop: &Shop, text: &str) -> Vec<String> {
    let mut all = Vec::new();
    files(&shop.path().join(".tollgate"), &mut all);
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    all.into_iter().filter(|(_, bytes)| holds(bytes)).map(|(place, _)| place).collect()
}

fn rows(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn one_persons_content_goes_from_every_file() {
    let shop = Shop::with(CONFIG);
    let say = |user: &str, role: &str, text: &str, key: &str| {
        let arguments = json!({"text": text}).to_string();
        as_user(&shop, user, &["--role", role, "call", "say", &arguments, "--idempotency-key", key])
    };
    assert_eq!(say("alice", "clerk", "王小明的住址", "k-1").code, 0);
    assert_eq!(say("carol", "clerk", "carols own words", "k-2").code, 0);
    let waits = say("alice", "careful", "李雷的电话", "k-3").json();
    let id = waits["waiting"]["id"].as_str().unwrap();
    assert_eq!(shop.tollgate(&["approvals", "approve", id]).code, 0);
    assert_eq!(say("alice", "careful", "李雷的电话", "k-3").code, 0);
    for text in ["王小明的住址", "李雷的电话"] {
        assert!(holders(&shop, text).len() >= 3, "ledger, store and results: {:?}", holders(&shop, text));
    }
    let erase = |more: &[&str]| {
        shop.tollgate(&[&["audit", "erase", "--caller", "alice", "--reason", "asked for"], more].concat())
    };
    let whole = shop.ledger();
    let would = erase(&["--dry-run"]).json();
    assert_eq!((&would["dry_run"], &would["attempts"]), (&json!(true), &json!(3)));
    assert_eq!(shop.ledger(), whole, "only a look");

    let done = erase(&[]);
    let said = done.json();
    assert_eq!((done.code, &said["records"]), (0, &would["records"]), "{}", done.stderr);
    let copies = &said["copies"];
    assert_eq!((&copies["results"], &copies["answers"], &copies["approvals"]), (&json!(2), &json!(2), &json!(1)));
    assert!(said["remains"].to_string().contains("SHA-256"));
    for text in ["王小明的住址", "李雷的电话"] {
        assert_eq!(holders(&shop, text), [] as [String; 0]);
    }
    assert!(holders(&shop, "carols own words").len() >= 3);

    let report = shop.tollgate(&["audit", "verify"]).json();
    assert_eq!((&report["ok"], &report["erased"]["records"]), (&json!(true), &said["records"]), "{report}");
    let found = rows(&shop.tollgate(&["audit", "query", "--caller", "alice"]));
    assert!(found.len() == 3 && found.iter().all(|attempt| attempt["erased"] == true), "{found:?}");
    let text = shop.tollgate(&["--format", "text", "audit", "query", "--caller", "alice"]).stdout;
    assert!(text.contains("done, erased") && text.contains("waiting"), "{text}");
    assert_eq!(shop.tollgate(&["audit", "report"]).json()["erased"], 3);
    let tail = shop.tollgate(&["--format", "text", "audit", "tail"]).stdout;
    assert!(tail.contains("records erased by bob: asked for"), "{tail}");
    assert!(shop.tollgate(&["approvals", "show", id]).stdout.contains("\"erased\""));
    let again = say("alice", "clerk", "王小明的住址", "k-1").json();
    assert_eq!((&again["replayed"], &again["status"]), (&json!(true), &json!("done")), "never twice");
    assert!(again.to_string().contains("its answer was erased since"), "{again}");

    let done = erase(&["--whole"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(rows(&shop.tollgate(&["audit", "query", "--caller", "alice"])).len(), 0);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
    let text = shop.tollgate(&["--format", "text", "audit", "verify"]).stdout;
    assert!(text.contains("erased: content of"), "{text}");
    for format in ["jsonl", "csv", "ocsf"] {
        let export = shop.tollgate(&["audit", "export", "--format", format]);
        assert!(export.code == 0 && export.stdout.contains("erased") && !export.stdout.contains("alice"), "{format}");
    }
}

#[test]
fn what_cannot_be_meant_is_said() {
    let shop = Shop::with(CONFIG);
    let erase = |args: &[&str]| shop.tollgate(&[&["audit", "erase"], args].concat());
    let none = erase(&["--caller", "bob", "--reason", "r"]);
    assert!(none.code == 6 && none.stderr.contains("there is no ledger"), "{}", none.stderr);
    assert!(!shop.path().join(".tollgate").exists(), "nothing is made to erase nothing");
    shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]);
    for (args, says) in [
        (&["--caller", "bob"][..], "--reason"),
        (&["--reason", "r"], "--before"),
        (&["--attempt", "ffffffff", "--reason", "r"], "no attempt"),
        (&["--before", "soon", "--reason", "r"], "2h"),
    ] {
        let done = erase(args);
        assert!(done.code == 2 && done.stderr.contains(says), "{args:?}: {}", done.stderr);
    }
    assert_eq!(erase(&["--before", "2020-01-01", "--reason", "r"]).json()["records"], 0);
    assert_eq!(erase(&["--caller", "nobody", "--reason", "r"]).json()["attempts"], 0);
    let retain = shop.tollgate(&["audit", "retain"]);
    assert!(retain.code == 2 && retain.stderr.contains("[audit.retention]"), "{}", retain.stderr);
    assert_eq!(shop.tollgate(&["audit", "verify"]).json()["erased"], Value::Null);
}

#[test]
fn periods_have_bounds() {
    for (config, line) in [
        ("[audit]\nrotate_after = \"5m\"\n", "audit.rotate_after"),
        ("[audit]\nrotate_after = \"367d\"\n", "audit.rotate_after"),
        ("[audit]\nrotate_bytes = 1000\n", "audit.rotate_bytes"),
        ("[audit.retention]\nkeep = \"12h\"\n", "audit.retention.keep"),
        ("[audit.retention]\ncontents = \"9999999999999999999d\"\n", "audit.retention.contents"),
        ("[audit.retention]\ncontents = \"90d\"\nkeep = \"30d\"\n", "audit.retention.contents"),
    ] {
        let done = Shop::with(config).tollgate(&["call", "calculate", r#"{"expression":"1"}"#]);
        assert!(done.code == 2 && done.stderr.contains(line), "{config}: {}", done.stderr);
    }
    let shop = Shop::with("[audit]\nrotate_after = \"1d\"\n[audit.retention]\ncontents = \"13w\"\nkeep = \"400d\"\n");
    assert_eq!(shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]).code, 0);
    for args in [&["audit", "retain", "--dry-run"][..], &["audit", "retain"]] {
        let done = shop.tollgate(args);
        assert_eq!((done.code, &done.json()["records"]), (0, &json!(0)), "{}", done.stderr);
    }
}
