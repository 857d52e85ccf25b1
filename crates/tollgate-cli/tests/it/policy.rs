//! `tollgate policy`: checked with places, tested with cases, explained; and rules that change while somebody is served.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::http::{Server, key};
use crate::shop::Shop;

const CONFIG: &str = r#"
[roles.clerk]
tools = ["calculate", "write_file", "read_file"]
permission = "write"
risk = "write"

[policy]
file = "rules.cedar"

[policy.sets]
files = ["*_file"]

[[policy.argument]]
name = "path"
tools = ["*_file"]
pointer = "/path"
type = "string"
"#;

const RULES: &str = r#"@id("no-env") @reason("leave .env alone")
@match("{'role':'clerk','tool':'write_file','args':{'path':'.env'}}")
forbid (principal, action, resource in Tollgate::ToolSet::"files")
when { context.args has path && context.args.path like "*.env" }
unless { context.approved };
"#;

fn shop(rules: &str) -> Shop {
    let shop = Shop::with(CONFIG);
    std::fs::write(shop.path().join("rules.cedar"), rules).unwrap();
    shop
}

#[test]
fn a_good_policy_is_listed() {
    let done = shop(RULES).tollgate(&["policy", "check"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let report = done.json();
    assert_eq!(
        report["rules"][0],
        json!({
            "id": "no-env", "effect": "forbid", "reason": "leave .env alone", "reads": ["path"], "examples": 1,
        })
    );
    assert_eq!(report["ok"], true);
    let text = shop(RULES).tollgate(&["policy", "check", "--format", "text"]);
    assert!(text.stdout.contains("no-env") && text.stdout.contains("forbid"), "{}", text.stdout);
    assert_eq!(Shop::bare().tollgate(&["policy", "check"]).code, 0, "without rules the roles are checked");
}

#[test]
fn what_is_broken_is_refused_with_its_place_by_every_command() {
    let broken = format!(
        "{RULES}\n@id(\"b\")\nforbid (principal, action, resource)\nwhen {{ context.args.pth == \"x\" }};\n\
        @id(\"c\") permit (principal in Tollgate::Role::\"clrk\", action, resource);\n"
    );
    let shop = shop(&broken);
    let done = shop.tollgate(&["policy", "check"]);
    assert_eq!(done.code, 2);
    let faults = done.json()["faults"].clone();
    let places: Vec<(u64, &str)> = faults
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| (fault["line"].as_u64().unwrap(), fault["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(places, [(9, "b"), (10, "c")], "{faults}");
    let text = shop.tollgate(&["policy", "check", "--format", "text"]);
    for part in ["rules.cedar:9:", "pth", "no role is named `clrk`", "clerk"] {
        assert!(text.stderr.contains(part), "{part}: {}", text.stderr);
    }
    // Nothing is served by a broken policy.
    let refused = shop.tollgate(&["call", "calculate", r#"{"expression":"1+1"}"#]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("rules.cedar:9"), "{}", refused.stderr);
    assert!(refused.stderr.contains("and 1 more"), "{}", refused.stderr);
}

#[test]
fn declarations_that_are_wrong_name_their_key() {
    let cases = [
        ("pointer = \"/path\"", "pointer = \"path\"", "write `/path`"),
        ("type = \"string\"", "type = \"text\"", "unknown value `text`"),
        ("file = \"rules.cedar\"", "file = \"nix.cedar\"", "nix.cedar"),
        ("file = \"rules.cedar\"", "flie = \"rules.cedar\"", "did you mean `file`?"),
        ("file = \"rules.cedar\"", "file = \"rules.cedar\"\nutc_offset = \"Berlin\"", "+08:00"),
        ("files = [\"*_file\"]", "files = []", "names no tools"),
    ];
    for (right, wrong, words) in cases {
        let shop = Shop::with(&CONFIG.replace(right, wrong));
        std::fs::write(shop.path().join("rules.cedar"), RULES).unwrap();
        let done = shop.tollgate(&["policy", "check"]);
        assert_eq!(done.code, 2, "{wrong}: {}", done.stdout);
        assert!(done.stderr.contains(words), "{wrong}: {}", done.stderr);
    }
}

#[test]
fn a_case_that_is_not_as_expected_fails() {
    let shop = shop(RULES);
    let cases = "[tools.write_file]\nrisk = \"write\"\npermission = \"write\"\nsource = \"builtin\"\n\
        [[case]]\nname = \"env\"\nrole = \"clerk\"\ntool = \"write_file\"\nargs = { path = \".env\" }\nexpect = \"deny\"\n\
        [[case]]\nrole = \"clerk\"\ntool = \"write_file\"\nargs = { path = \"a\" }\nexpect = \"allow\"\n";
    std::fs::write(shop.path().join("rules.cases.toml"), cases).unwrap();
    let done = shop.tollgate(&["policy", "test"]);
    assert_eq!(done.code, 1);
    let report = done.json();
    assert_eq!((report["ok"].clone(), report["cases"].clone()), (json!(false), json!(2)));
    assert_eq!(report["failed"][0]["case"], "env");
    assert_eq!(report["failed"][0]["found"], "ask");
    assert_eq!(report["failed"][0]["rule"], "cedar:no-env");
    for (right, wrong) in [("expect = \"deny\"", "expect = \"no\""), ("\"clerk\"", "\"clrk\""), ("args", "arguments")] {
        std::fs::write(shop.path().join("rules.cases.toml"), cases.replace(right, wrong)).unwrap();
        let done = shop.tollgate(&["policy", "test"]);
        assert_eq!(done.code, 2, "{wrong}");
        assert!(done.stderr.contains("rules.cases.toml"), "{}", done.stderr);
    }
}

#[test]
fn a_call_is_explained() {
    let shop = shop(RULES);
    let explain = |role: &str, tool: &str, arguments: &str| {
        shop.tollgate(&["--role", role, "policy", "explain", tool, arguments])
    };
    let done = explain("clerk", "write_file", r#"{"path": ".env", "content": "x"}"#);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let report = done.json();
    assert_eq!((report["call"]["effect"].clone(), report["list"]["effect"].clone()), (json!("ask"), json!("allow")));
    assert_eq!(report["rules"][0]["id"], "no-env");
    assert_eq!(report["rules"][0]["applies_approved"], "no");
    assert_eq!(report["changes"][0], "a human's yes: then it runs");
    let done = explain("reader", "write_file", r#"{"path": "a", "content": "x"}"#);
    assert_eq!(done.code, 3, "{}", done.stderr);
    let report = done.json();
    assert_eq!(report["list"]["effect"], "deny");
    assert_eq!(report["call"]["rule"], "role:reader:risk");
    assert!(report["changes"].as_array().unwrap().contains(&json!("the role `clerk`: allow")), "{report}");
    let text = shop.tollgate(&[
        "--role",
        "clerk",
        "--format",
        "text",
        "policy",
        "explain",
        "write_file",
        r#"{"path": ".env"}"#,
    ]);
    for part in ["ask", "applies until a human says yes", "forbid (principal", "What the role grants"] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    assert_eq!(explain("clerk", "no_such_tool", "{}").code, 2);
    assert_eq!(explain("clerk", "write_file", "{").code, 2);
}

#[test]
fn a_rule_about_no_tool_is_pointed_out() {
    let slip = RULES.replace("in Tollgate::ToolSet::\"files\"", "== Tollgate::Tool::\"calculat\"");
    let slip = slip.lines().filter(|line| !line.starts_with("@match")).collect::<Vec<_>>().join("\n");
    let done = shop(&slip).tollgate(&["tools", "list"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let words = "the rule `no-env` is about the tool `calculat`, which is not there: did you mean `calculate`?";
    assert!(done.stderr.contains(words), "{}", done.stderr);
}

#[test]
fn the_rules_are_out_of_reach_of_the_tools() {
    let shop = shop(RULES);
    let done =
        shop.tollgate(&["--role", "developer", "call", "write_file", r#"{"path": "rules.cedar", "content": ""}"#]);
    assert_ne!(done.code, 0, "{}", done.stdout);
    assert_eq!(std::fs::read_to_string(shop.path().join("rules.cedar")).unwrap(), RULES);
}

/// One request to a server on standard input and output, and its answer.
fn asked(stdin: &mut impl Write, stdout: &mut impl BufRead, request: &Value) -> Value {
    writeln!(stdin, "{request}").unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn rules_that_change_count_at_once_and_broken_ones_never() {
    let shop = shop(RULES);
    let mut server = shop.start(&["--role", "clerk", "serve", "--stdio"]);
    let mut stdin = server.stdin.take().unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut stderr = BufReader::new(server.stderr.take().unwrap()).lines();
    let mut said = |words: &str| {
        let line = stderr.by_ref().map_while(Result::ok).find(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("it never said `{words}`"))
    };
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "calculate", "arguments": {"expression": "1+1"}}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    asked(&mut stdin, &mut stdout, &hello);
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    let mut is_refused = || asked(&mut stdin, &mut stdout, &call)["result"]["isError"] == true;
    assert!(!is_refused());
    let no = format!(
        "{RULES}\n@id(\"no\") forbid (principal, action, resource == Tollgate::Tool::\"calculate\") unless {{ context.approved }};\n"
    );
    std::fs::write(shop.path().join("rules.cedar"), no).unwrap();
    said("the policy changed");
    assert!(is_refused());
    std::fs::write(shop.path().join("rules.cedar"), "forbid (").unwrap();
    let broken = said("stays as it was");
    assert!(broken.contains("rules.cedar:1"), "{broken}");
    assert!(is_refused(), "the last good one counts");
    std::fs::write(shop.path().join("rules.cedar"), RULES).unwrap();
    said("the policy changed");
    assert!(!is_refused());
    drop(stdin);
    server.wait().unwrap();
}

/// What is broken at the start is not served; what is broken later is said, counted, and does not count.
#[test]
fn a_broken_policy_is_refused_at_the_start_and_counted_later() {
    let broken = shop("@id(\"x\") forbid (principal in Tollgate::Role::\"nobody\", action, resource);\n");
    for args in [&["serve", "--bind", "127.0.0.1:0"][..], &["serve", "--stdio"]] {
        let done = broken.tollgate(args);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{args:?}");
        for part in ["rules.cedar:1:", "no role is named `nobody`", "clerk, developer, reader"] {
            assert!(done.stderr.contains(part), "{args:?}: {part}: {}", done.stderr);
        }
    }
    assert!(broken.tollgate(&["--role", "nobody", "serve", "--stdio"]).stderr.contains("nobody"));

    let shop = shop(RULES);
    let server = Server::start(&shop, &[]);
    let counted = |line: &str| {
        let text = server.ask("GET", "/metrics", &key(&shop, "operator"), "").1;
        text.as_str().unwrap().lines().any(|found| found == line)
    };
    assert!(counted("tollgate_policy_broken 0") && counted("tollgate_policy_reloads_total{result=\"failed\"} 0"));
    std::fs::write(shop.path().join("rules.cedar"), "forbid (").unwrap();
    let comes = |line: &str| (0..20_000).any(|_| counted(line));
    assert!(comes("tollgate_policy_broken 1"));
    assert!(counted("tollgate_policy_reloads_total{result=\"failed\"} 1"));
    std::fs::write(shop.path().join("rules.cedar"), format!("{RULES}\n// more\n")).unwrap();
    assert!(comes("tollgate_policy_broken 0"));
    #[cfg(unix)]
    assert_eq!(server.end(), Some(0));
}
