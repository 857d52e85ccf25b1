//! `[[tool]]` programs as they really behave.

use serde_json::json;

use crate::shop::Shop;

fn config(tools: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, script) in tools {
        text.push_str(&format!(
            "[[tool]]\nname = \"{name}\"\ndescription = \"d\"\nrisk = \"read\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n\
             execution = {{ timeout_ms = 2000 }}\n"
        ));
    }
    text
}

#[test]
fn every_way_to_misbehave() {
    let shop = Shop::with(&config(&[
        ("nothing", "true"),
        ("rubbish", r"printf '\377\376\001'"),
        ("flood", "head -c 1073741824 /dev/zero"),
        ("endless", "sleep 100"),
        ("children", "sleep 100 & echo parent"),
        ("denies", r#"echo '{"ok":false,"error":"NO_STOCK","message":"none left","hint":"ask tomorrow"}'"#),
        ("fails", "echo it broke >&2; exit 7"),
        ("deaf", "exec 0<&-; echo fine"),
        ("env", "echo \"${TOLLGATE_TEST_SECRET:-none}\""),
    ]));
    let cases: &[(&str, i32, &str, &str)] = &[
        ("nothing", 0, "done", "printed nothing"),
        ("rubbish", 1, "failed", "UTF-8"),
        ("flood", 1, "failed", "result_too_large"),
        ("endless", 1, "failed", "timeout"),
        ("children", 0, "done", "parent"),
        ("denies", 1, "failed", "NO_STOCK"),
        ("fails", 1, "failed", "it broke"),
        ("deaf", 0, "done", "fine"),
        ("env", 0, "done", "none"),
    ];
    for (tool, code, status, part) in cases {
        let done = {
            let mut command = shop.command(&["call", tool, r#"{"a":1}"#]);
            crate::shop::Done::from(command.env("TOLLGATE_TEST_SECRET", "leaked").output().unwrap())
        };
        assert_eq!(done.code, *code, "{tool}: {} {}", done.stdout, done.stderr);
        assert_eq!(done.json()["status"], *status, "{tool}");
        assert!(done.stdout.contains(part), "{tool}: {}", done.stdout);
    }
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn a_program_gets_its_arguments_and_its_value_is_structured() {
    let shop = Shop::with(&config(&[("echo", "cat")]));
    let done = shop.tollgate(&["call", "echo", r#"{"城市":"北京"}"#]);
    assert_eq!(done.json()["result"]["structured"], json!({"城市": "北京"}));
}

#[test]
fn a_configured_secret_reaches_the_program_and_nobody_else() {
    let shop = Shop::with(&format!(
        "env = {{ SHOP_TOKEN = {{ env = \"REAL_TOKEN\" }} }}\n{}",
        config(&[("show", "echo token is $SHOP_TOKEN; echo $SHOP_TOKEN >&2; test -n \"$SHOP_TOKEN\"")])
    ));
    let mut command = shop.command(&["call", "show"]);
    let done = crate::shop::Done::from(command.env("REAL_TOKEN", "zq-injected-4711").output().unwrap());
    assert_eq!(done.code, 0, "{}", done.stdout);
    assert!(!done.stdout.contains("zq-injected-4711") && done.stdout.contains("[redacted"), "{}", done.stdout);
    assert!(!shop.ledger().join("\n").contains("zq-injected-4711"));
    let missing = shop.tollgate(&["call", "show"]);
    assert!(missing.stderr.contains("`REAL_TOKEN` is not set"), "{}", missing.stderr);
}

#[cfg(unix)]
#[test]
fn a_program_ends_with_the_one_who_started_it() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process};
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let shop = Shop::with(&config(&[("slow", "trap ': > told; exit 1' TERM; echo $$ > pid; sleep 977 & wait")]));
        let mut child = shop.start(&["call", "slow"]);
        let pid_file = shop.path().join("pid");
        let pid = loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) {
                break pid;
            }
            std::thread::yield_now();
        };
        kill_process(Pid::from_child(&child), signal).unwrap();
        drop(child.stdin.take());
        let done = crate::shop::Done::from(child.wait_with_output().unwrap());
        assert_eq!((done.code, done.json()["error"]["error"].clone()), (1, json!("cancelled")), "{signal:?}");
        assert!(shop.path().join("told").exists(), "it was asked to end first");
        assert!(test_kill_process(pid).is_err(), "{signal:?}: it runs on");
        let last: serde_json::Value = serde_json::from_str(shop.ledger().last().unwrap()).unwrap();
        assert_eq!((&last["event"], &last["outcome"]["code"]), (&json!("finished"), &json!("cancelled")));
    }
}
