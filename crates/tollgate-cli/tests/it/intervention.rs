//! What no rung solved: a human gives the result from another process, and it comes to the one who asks again.

use serde_json::json;

use crate::shop::Shop;

const CONFIG: &str = r#"
[[tool]]
name = "stock"
description = "Counts a shelf."
command = ["sh", "-c", "echo run >> runs; echo 'the scanner is broken' >&2; exit 1"]
risk = "read"
permission = "read"
output_schema = { type = "object", properties = { count = { type = "integer" } }, required = ["count"] }
on_error = { default = "human" }
"#;

fn runs(shop: &Shop) -> usize {
    std::fs::read_to_string(shop.path().join("runs")).unwrap_or_default().lines().count()
}

#[test]
fn from_a_failure_to_a_humans_result() {
    let shop = Shop::with(CONFIG);
    let call = || shop.tollgate(&["call", "stock", r#"{"shelf":"A1"}"#]);
    let waiting = call();
    assert_eq!(waiting.code, 4, "{}", waiting.stdout);
    let outcome = waiting.json();
    assert_eq!((&outcome["status"], &outcome["waiting"]["kind"]), (&json!("waiting"), &json!("intervention")));
    assert_eq!(outcome["error"]["error"], "intervention_required");
    assert!(outcome["waiting"]["expires"].is_string());
    let id = outcome["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (call().json()["waiting"]["id"].clone(), runs(&shop)),
        (json!(id), 1),
        "not tried while somebody is asked"
    );

    let listed = shop.tollgate(&["approvals", "list"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["kind"]), (&json!(id), &json!("intervention")));
    let shown = shop.tollgate(&["approvals", "show", &id]).json();
    assert!(shown["tried"]["message"].as_str().unwrap().contains("the scanner is broken"), "{shown}");
    let shown = shop.tollgate(&["--format", "text", "approvals", "show", &id]).stdout;
    for part in ["it wants the result of the call, or a no", "what was tried", "\"count\""] {
        assert!(shown.contains(part), "{shown}");
    }
    for wrong in [&["approvals", "approve", &id][..], &["approvals", "approve", &id, "--result", "{"]] {
        assert_eq!(shop.tollgate(wrong).code, 2, "{wrong:?}");
    }
    let unfit = shop.tollgate(&["approvals", "approve", &id, "--result", r#"{"count":"many"}"#]);
    assert!(unfit.code == 2 && unfit.stderr.contains("/count"), "{}", unfit.stderr);
    std::fs::write(shop.path().join("counted.json"), r#"{"count":12}"#).unwrap();
    let given =
        shop.tollgate(&["approvals", "approve", &id, "--result", "@counted.json", "--reason", "counted by hand"]);
    assert_eq!(given.code, 0, "{}", given.stderr);

    let done = call();
    assert_eq!((done.code, done.json()["result"]["structured"]["count"].clone()), (0, json!(12)), "{}", done.stdout);
    assert!(done.stdout.contains("given by bob"), "{}", done.stdout);
    assert_eq!((call().code, runs(&shop)), (4, 2), "once; then the tool is asked again");
    assert!(shop.ledger().iter().any(|line| line.contains("the result was given by bob")));
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn a_no_reaches_the_asker_and_denied_is_escalated_where_that_is_said() {
    let shop = Shop::with(&format!(
        "{CONFIG}\n[tools.read_file]\nsecurity = {{ blocked_patterns = [\"private\"] }}\non_error = {{ default = \"fail\", denied = \"human\" }}\n"
    ));
    let id = shop.tollgate(&["call", "stock"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.tollgate(&["approvals", "reject", &id, "--reason", "盘点中"]).code, 0);
    let refused = shop.tollgate(&["call", "stock"]);
    assert_eq!((refused.code, refused.json()["error"]["error"].clone()), (3, json!("approval_rejected")));
    assert!(refused.stdout.contains("盘点中"));

    let read = || shop.tollgate(&["call", "read_file", r#"{"path":"private.txt"}"#]);
    let waiting = read();
    assert_eq!(waiting.code, 4, "{}", waiting.stdout);
    let id = waiting.json()["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.tollgate(&["approvals", "show", &id]).json()["tried"]["code"], "denied");
    assert_eq!(shop.tollgate(&["approvals", "reject", &id]).code, 0);
    assert_eq!(read().json()["error"]["error"], "approval_rejected");

    // A tool that is kept from a role stays none; only the operator hears of it.
    let hidden = shop.tollgate(&["--role", "reader", "call", "write_file", r#"{"path":"x","content":""}"#]);
    assert_eq!((hidden.code, hidden.json()["error"]["error"].clone()), (3, json!("unknown_tool")));
    assert!(hidden.stderr.contains("forbidden"), "{}", hidden.stderr);
}
