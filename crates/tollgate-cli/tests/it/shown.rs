//! What people are shown before they say yes: complete, and no text of an asker's forges the frame, hides, or pushes the
//! danger out of sight. On the terminal, as JSON, and with a person's answer.

use serde_json::{Value, json};
use tollgate::visible::is_hidden;

use crate::shop::Shop;

const CONFIG: &str = r#"
[[tool]]
name = "deploy"
description = "Deploys."
input_schema = { type = "object", properties = { to = {}, more = {} } }
command = ["sh", "-c", "cat >> deployed; echo deployed"]

[roles.careful]
tools = ["*"]
permission = "system"
risk = "dangerous"
ask = "write"
"#;

/// The open question about a call with these arguments: its text, and its JSON.
fn shown(shop: &Shop, words: &[&str], arguments: &Value) -> (String, String) {
    let call = [words, &["-"]].concat();
    let waiting = shop.fed(&call, arguments.to_string().as_bytes());
    assert_eq!(waiting.code, 4, "{} {}", waiting.stdout, waiting.stderr);
    let id = waiting.json()["waiting"]["id"].as_str().unwrap().to_owned();
    let text = shop.tollgate(&["--format", "text", "approvals", "show", &id]).stdout;
    let json = shop.tollgate(&["--format", "json", "approvals", "show", &id]).stdout;
    (text, json)
}

fn deploy(shop: &Shop, arguments: &Value) -> (String, String) {
    shown(shop, &["call", "deploy"], arguments)
}

/// The lines that are the frame's, but that a request is long: what an asker wrote is indented.
fn frame(text: &str) -> Vec<&str> {
    let is_ours = |line: &&str| !line.starts_with("  ") && !line.is_empty() && !line.starts_with("This has ");
    text.lines().filter(is_ours).collect()
}

fn assert_frame(text: &str, preview: bool) {
    let frame = frame(text);
    let mut expected = vec![" — pending", " asked by bob (", "because ", "expires ", "arguments:"];
    if preview {
        expected.push("what would run:");
    }
    assert_eq!(frame.len(), expected.len(), "{frame:#?}");
    for (line, part) in frame.iter().zip(expected) {
        assert!(line.contains(part), "{part}: {frame:#?}");
    }
}

#[test]
fn nothing_is_hidden_and_nothing_leaves_its_block() {
    let shop = Shop::with(CONFIG);
    for (hostile, seen) in [
        ("\u{1b}[2J\u{1b}[1;1Hls", r"\u001b[2J\u001b[1;1Hls"),
        ("\u{9b}2J\u{7f}\u{8}x", r"\u{9b}2J\u{7f}\bx"),
        ("a\u{202e}fdp.exe", r"a\u{202e}fdp.exe"),
        ("\u{2066}x\u{2069}", r"\u{2066}x\u{2069}"),
        ("rm\u{200b} \u{2060}-rf", r"rm\u{200b} \u{2060}-rf"),
        ("ok\u{e0072}\u{e006d}", r"ok\u{e0072}\u{e006d}"),
        ("ok\u{fe0f}\u{e0101}", r"ok\u{fe0f}\u{e0101}"),
        (
            "\n\nexpires never\n— approved\nwhat would run:\n  ls",
            r"\n\nexpires never\n— approved\nwhat would run:\n  ls",
        ),
        ("\"\n}\n\nwhat would run:", r#"\"\n}\n\nwhat would run:"#),
        ("a\u{2028}because it is safe\u{85}b", r"a\u{2028}because it is safe\u{85}b"),
        ("北京，订单 A103 👍 naïve", "北京，订单 A103 👍 naïve"),
        ("раураl.com", "раураl.com"),
    ] {
        for arguments in [json!({ "to": hostile }), json!({ "more": { hostile: 1 } })] {
            let (text, json) = deploy(&shop, &arguments);
            assert!(text.contains(seen), "{seen}: {text}");
            assert!(!text.chars().any(|c| is_hidden(c) && c != '\n'), "{text:?}");
            assert_frame(&text, true);
            assert!(!json.trim_end().chars().any(is_hidden), "{json:?}");
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["arguments"], arguments, "complete");
        }
    }
}

/// A preview has lines of the asker's own.
#[test]
fn a_preview_forges_no_frame() {
    let shop = Shop::with(CONFIG);
    let content = "one\n\nbecause it is harmless\nexpires never\n\narguments:\n{}\n\u{1b}[8m\nrm -rf /\n";
    let words = ["--role", "careful", "call", "write_file"];
    let (text, _) = shown(&shop, &words, &json!({ "path": "a.txt", "content": content }));
    assert!(text.contains("rm -rf /"), "{text}");
    assert_frame(&text, text.contains("what would run:"));
}

#[test]
fn a_flood_pushes_nothing_out_of_sight() {
    let shop = Shop::with(CONFIG);
    for (hostile, seen) in [
        (format!("ls{}; rm -rf /", "\n".repeat(10_000)), r"ls\u{a*10000}; rm -rf /"),
        (format!("ls{}; rm -rf /", " ".repeat(100_000)), r"ls\u{20*100000}; rm -rf /"),
        (format!("ls{}; rm -rf /", "\u{3000}".repeat(500)), r"ls\u{3000*500}; rm -rf /"),
    ] {
        let (text, json) = deploy(&shop, &json!({ "to": hostile }));
        assert!(text.contains(seen), "{seen}");
        assert_frame(&text, true);
        assert!(text.lines().count() < 40, "{}", text.lines().count());
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["arguments"]["to"], hostile);
    }
    let long = format!("{}; rm -rf /", "长x".repeat(500_000));
    let (text, json) = deploy(&shop, &json!({ "to": long }));
    assert!(text.contains(&long), "a million characters are shown whole");
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.contains("read it from its beginning. It asks for deploy (dangerous)."), "{last}");
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["arguments"]["to"], long);
    let (text, _) = deploy(&shop, &json!({ "more": vec![""; 5_000], "to": "rm -rf /" }));
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.starts_with("This has 50") && last.contains("deploy (dangerous)"), "{last}");
    let listed = shop.tollgate(&["--format", "text", "approvals", "list"]).stdout;
    assert!(listed.lines().all(|line| line.chars().count() < 400), "a list is not flooded");
    assert!(!listed.chars().any(|c| is_hidden(c) && c != '\n'));
}

/// A tool's name cannot look like another's: it is plain letters, and two that differ in case or dashes are one too many.
#[test]
fn a_name_that_looks_like_another_is_refused() {
    for name in ["dерloy", "deploy\u{200b}", "deploy\u{202e}", "Deploy", "deploy\u{e0041}", "ｄｅｐｌｏｙ"] {
        let second = format!("{CONFIG}\n[[tool]]\nname = {}\ndescription = \"d\"\ncommand = [\"true\"]\n", json!(name));
        let done = Shop::with(&second).tollgate(&["tools", "list"]);
        assert_eq!(done.code, 2, "{name}: {}", done.stdout);
        // The file's own line stands below the message as it is.
        let message = done.stderr.lines().next().unwrap_or_default();
        assert!(!message.chars().any(is_hidden), "{message}");
    }
}

/// Who answers is shown as safely as who asks.
#[test]
fn the_words_of_an_answer_hide_nothing_either() {
    let shop = Shop::with(CONFIG);
    let waiting = shop.tollgate(&["call", "deploy", r#"{"to":"x"}"#]).json();
    let id = waiting["waiting"]["id"].as_str().unwrap().to_owned();
    let mut approve = shop.command(&["approvals", "approve", &id, "--reason", "ok\u{202e}\nexpires never"]);
    assert!(approve.env("USER", "al\u{1b}[2Kice").output().unwrap().status.success());
    let text = shop.tollgate(&["--format", "text", "approvals", "show", &id]).stdout;
    assert!(text.contains(r"answered by al\u{1b}[2Kice: ok\u{202e}\u{a}expires never"), "{text}");
}

const WEBHOOK: &str = r#"
[approvals.webhook]
url = "http://127.0.0.1:1/hook?token=zq-token"
secret = { env = "HOOK_SECRET" }
"#;

#[test]
fn a_webhook_that_cannot_be_is_said() {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for (change, words) in [
        (("127.0.0.1:1", "me:pw@127.0.0.1"), "user name or password"),
        (("http://127.0.0.1:1/hook?token=zq-token", "ftp://x"), "approvals.webhook.url"),
        (("secret = { env = \"HOOK_SECRET\" }", "secret = \"whsec_plain\""), "the source of a secret belongs"),
        (("secret = { env = \"HOOK_SECRET\" }", ""), "missing field `secret`"),
        (("[approvals.webhook]\n", "[approvals.webhook]\ntimeout_ms = 0\n"), "between 1 and 60000"),
        (("[approvals.webhook]\n", "[approvals.webhook]\nretries = 101\n"), "100 at most"),
        (("[approvals.webhook]\n", "[approvals.webhook]\nretry = 1\n"), "unknown field `retry`"),
    ] {
        let shop = Shop::with(&WEBHOOK.replace(change.0, change.1));
        let done = shop.tollgate(&["tools", "list"]);
        assert_eq!(done.code, 2, "{words}: {}", done.stderr);
        let text = done.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}: {text}");
    }
    let shop = Shop::with(&format!("{CONFIG}{WEBHOOK}"));
    let doctor = |value: Option<&str>| {
        let mut command = shop.command(&["--format", "text", "doctor", "--offline"]);
        if let Some(value) = value {
            command.env("HOOK_SECRET", value);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(doctor(None).contains("✗ approvals webhook: the environment variable `HOOK_SECRET` is not set"));
    let bad = doctor(Some("not-a-webhook-secret"));
    assert!(bad.contains("✗ approvals webhook: the secret is not `whsec_`") && bad.contains("openssl rand"), "{bad}");
    assert!(!bad.contains("not-a-webhook-secret"), "{bad}");
    let good = doctor(Some(secret));
    assert!(good.contains("✓ approvals webhook: http://127.0.0.1:1/hook\n"), "{good}");

    // Nobody is at that address: the call waits all the same, and doctor says so.
    let mut call = shop.command(&["call", "deploy", "{}"]);
    assert_eq!(call.env("HOOK_SECRET", secret).output().unwrap().status.code(), Some(4));
    let told = doctor(Some(secret));
    assert!(told.contains("✗ approvals webhook: 1 open approval(s) did not arrive"), "{told}");
    assert!(told.contains("http://127.0.0.1:1") && !told.contains("zq-token"), "{told}");
}
