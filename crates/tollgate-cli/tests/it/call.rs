//! `tollgate call`: one call, its outcome object, its exit status.

use serde_json::json;

use crate::shop::Shop;

#[test]
fn the_first_example() {
    let shop = Shop::bare();
    let done = shop.tollgate(&["call", "calculate", r#"{"expression":"34817 * 293"}"#]);
    let outcome = done.json();
    assert_eq!((done.code, &outcome["status"]), (0, &json!("done")), "{}", done.stderr);
    assert_eq!(outcome["result"]["content"][0]["text"], "10201381");
    let keys: Vec<&String> = outcome.as_object().unwrap().keys().collect();
    let contract =
        ["status", "call_id", "attempt", "tool", "duration_ms", "result", "error", "waiting", "repairs", "replayed"];
    assert_eq!(keys, contract);
    assert_eq!(done.stdout.lines().count(), 1);
}

#[test]
fn arguments_come_from_everywhere() {
    let shop = Shop::bare();
    std::fs::write(shop.path().join("args.json"), r#"{"expression":"2^64"}"#).unwrap();
    let cases: &[(&[&str], &[u8], &str)] = &[
        (&["call", "calculate", "-"], br#"{"expression":"1/3*3"}"#, "1"),
        (&["call", "calculate", "@args.json"], b"", "18446744073709551616"),
        (&["--format", "text", "call", "calculate", r#"{"expression":"1+1"}"#], b"", "2"),
    ];
    for (args, input, expected) in cases {
        let done = shop.fed(args, input);
        assert_eq!(done.code, 0, "{}", done.stderr);
        assert!(done.stdout.contains(expected), "{}", done.stdout);
    }
    let text = shop.tollgate(&["--format", "text", "call", "calculate", r#"{"expression":"1+1"}"#]);
    assert_eq!(text.stdout, "2\n");
}

#[test]
fn exit_statuses_are_the_contract() {
    let shop = Shop::with("[[tool]]\nname = \"harm\"\ndescription = \"d\"\ncommand = [\"true\"]\n");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    std::fs::write(shop.path().join("deep.json"), deep).unwrap();
    let cases: &[(&[&str], &[u8], i32, &str)] = &[
        (&["call", "calculate", r#"{"expression":"1/0"}"#], b"", 1, "tool_error"),
        (&["call", "calculate", r#"{"expr":"1"}"#], b"", 3, "invalid_arguments"),
        (&["call", "calculate", "{"], b"", 3, "invalid_json"),
        (&["call", "calculate", "-"], b"\xff\xfe", 3, "invalid_json"),
        (&["call", "calculate", "@deep.json"], b"", 3, "invalid_json"),
        (&["call", "calculate", r#"{"expression":"1","expression":"2"}"#], b"", 3, "invalid_json"),
        (&["call", "nothing"], b"", 3, "unknown_tool"),
        (&["call", "harm"], b"", 4, "approval_required"),
        (&["--role", "reader", "call", "write_file", r#"{"path":"x","content":"y"}"#], b"", 3, "unknown_tool"),
        (&["call", "read_file", r#"{"path":"../x"}"#], b"", 3, "denied"),
        (&["call", "read_file", r#"{"path":".tollgate/keys/install.key"}"#], b"", 3, "denied"),
        (&["call", "read_file", r#"{"path":"tollgate.toml"}"#], b"", 3, "denied"),
        (&["call", "write_file", r#"{"path":"tollgate.toml","content":"","overwrite":true}"#], b"", 3, "denied"),
        (&["call", "read_file", r#"{"path":"missing.txt"}"#], b"", 1, "tool_error"),
    ];
    for (args, input, code, error) in cases {
        let done = shop.fed(args, input);
        assert_eq!(done.code, *code, "{args:?}: {} {}", done.stdout, done.stderr);
        assert_eq!(done.json()["error"]["error"], *error, "{args:?}");
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    }
}

#[test]
fn usage_errors_exit_2_and_say_what_to_do() {
    let shop = Shop::bare();
    let cases: &[(&[&str], &str)] = &[
        (&["call"], "TOOL"),
        (&["call", "calculate", "@none.json"], "none.json"),
        (&["--role", "nobody", "call", "calculate"], "there is developer, reader"),
        (&["--config", "none.toml", "call", "calculate"], "tollgate init"),
        (&["approvals", "approve", "0000"], "approvals list"),
        (&["run", "hello"], "[models.default]"),
        (&["frobnicate"], "frobnicate"),
    ];
    for (args, expected) in cases {
        let done = shop.tollgate(args);
        assert_eq!(done.code, 2, "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(expected), "{args:?}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{args:?}");
    }
}

#[test]
fn a_broken_configuration_names_file_line_and_key() {
    let shop = Shop::with(
        "role = \"developer\"\n\n[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"t\"]\nrsik = \"read\"\n",
    );
    let done = shop.tollgate(&["call", "calculate", "{}"]);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""));
    for part in ["tollgate.toml:7", "tool.t.rsik", "unknown field `rsik`", "did you mean `risk`?"] {
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
}

#[test]
fn a_key_makes_it_happen_once() {
    let shop = Shop::bare();
    let write = |content: &str| {
        let arguments = json!({"path": "note.txt", "content": content, "overwrite": true}).to_string();
        shop.tollgate(&["call", "write_file", &arguments, "--idempotency-key", "k1"])
    };
    assert_eq!(write("one").json()["replayed"], false);
    std::fs::remove_file(shop.path().join("note.txt")).unwrap();
    let again = write("one").json();
    assert_eq!((&again["status"], &again["replayed"]), (&json!("done"), &json!(true)));
    assert!(!shop.path().join("note.txt").exists(), "it did not happen again");
    assert_eq!((write("two").code, write("two").json()["error"]["error"].clone()), (3, json!("conflict")));
}

#[test]
fn a_long_result_is_read_on_by_another_process() {
    let shop = Shop::bare();
    let lines: String = (1..=5000).map(|n| format!("第{n}行\n")).collect();
    std::fs::write(shop.path().join("long.txt"), &lines).unwrap();
    let first = shop.tollgate(&["call", "search_files", r#"{"pattern":"行","limit":1000}"#]).json();
    let cut = &first["result"]["truncated"];
    assert!(cut["shown"].as_u64().unwrap() < cut["total"].as_u64().unwrap(), "{cut}");
    let arguments = json!({"handle": cut["handle"], "offset": 5000}).to_string();
    let page = shop.tollgate(&["call", "read_result", &arguments]).json();
    assert_eq!(page["status"], "done", "{page}");
}
