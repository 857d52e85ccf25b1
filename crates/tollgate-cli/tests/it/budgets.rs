//! Budgets across processes, and where they are shown.

use serde_json::{Value, json};

use crate::shop::Shop;

const CONFIG: &str = r#"
[[tool]]
name = "pay"
description = "Pays."
command = ["sh", "-c", "echo paid >> paid.txt; echo paid"]
risk = "read"
input_schema = { type = "object", properties = { amount = { type = "number" } } }
cost = { argument = "/amount" }

[[budget]]
tools = ["pay"]
per = ["caller", "day"]
units = 100
"#;

fn paid(shop: &Shop) -> usize {
    std::fs::read_to_string(shop.path().join("paid.txt")).map_or(0, |text| text.lines().count())
}

#[test]
fn of_processes_that_race_for_the_last_units_one_gets_them() {
    let shop = Shop::with(CONFIG);
    assert_eq!(shop.tollgate(&["call", "pay", r#"{"amount": 39.5}"#]).code, 0);
    let racing: Vec<_> = (0..5).map(|_| shop.start(&["call", "pay", r#"{"amount": 60}"#])).collect();
    let ended: Vec<_> = racing.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let codes: Vec<_> = ended.iter().map(|output| output.status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 4, "{codes:?}");
    for refused in ended.iter().filter(|output| output.status.code() == Some(3)) {
        let outcome: Value = serde_json::from_slice(&refused.stdout).unwrap();
        let error = &outcome["error"];
        assert_eq!((&error["error"], &error["retryable"]), (&json!("budget_exceeded"), &json!(false)));
        assert!(error["message"].as_str().unwrap().contains("0.5 of 100 are left (99.5 spent, budget 1) until 20"));
    }
    assert_eq!(paid(&shop), 2);
    assert_eq!(shop.tollgate(&["call", "pay", r#"{"amount": 0.5}"#]).code, 0, "another process, and the last half");
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn what_is_spent_and_left_is_shown() {
    let shop = Shop::with(CONFIG);
    assert_eq!(shop.tollgate(&["call", "pay", r#"{"amount": 60}"#]).code, 0);
    let shown = shop.tollgate(&["tools", "show", "pay"]).json();
    let report = &shown["budgets"][0];
    let sums = ["budget", "units", "spent", "left"].map(|key| report[key].as_str().unwrap());
    assert_eq!(sums, ["budget 1", "100", "60", "40"]);
    assert_eq!(shown["cost"], json!({ "argument": "/amount", "per_unit": "1" }));
    let text = shop.tollgate(&["--format", "text", "tools", "show", "pay"]).stdout;
    assert!(text.contains("costs 1 × `/amount`\nbudget 1: 40 of 100 units left (60 spent) until 20"), "{text}");
    assert_eq!(shop.tollgate(&["tools", "show", "calculate"]).json().get("budgets"), None);

    let explained = shop.tollgate(&["policy", "explain", "pay", r#"{"amount": 50}"#]).json();
    assert_eq!((&explained["cost"], &explained["budgets"][0]["left"]), (&json!("50"), &json!("40")));
    let text = shop.tollgate(&["--format", "text", "policy", "explain", "pay"]).stdout;
    assert!(text.contains("the call: cannot be said: there is nothing at `/amount`"), "{text}");

    let report = shop.tollgate(&["doctor", "--offline"]).json();
    let finding = report.as_array().unwrap().iter().find(|finding| finding["what"] == "budget 1").unwrap();
    let found = finding["found"].as_str().unwrap();
    assert!(found.starts_with("100 units for pay; spent on 20") && found.ends_with(": bob 60"), "{found}");
}

#[test]
fn a_look_at_budgets_makes_no_folder() {
    let shop = Shop::with(CONFIG);
    let report = shop.tollgate(&["doctor", "--offline"]).json();
    let finding = report.as_array().unwrap().iter().find(|finding| finding["what"] == "budget 1").unwrap();
    assert_eq!(finding["found"], "100 units for pay; nothing is spent");
    assert!(!shop.path().join(".tollgate").exists());
}

#[test]
fn what_nobody_saw_end_is_spent_until_somebody_says_that_it_did_not_happen() {
    let slow = CONFIG.replace("echo paid >> paid.txt; echo paid", "touch began; sleep 60");
    let shop = Shop::with(&slow);
    let mut child = shop.start(&["call", "pay", r#"{"amount": 60}"#]);
    while !shop.path().join("began").exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let left = || shop.tollgate(&["tools", "show", "pay"]).json()["budgets"][0]["left"].clone();
    assert_eq!(left(), "40");
    assert_eq!(shop.tollgate(&["call", "pay", r#"{"amount": 60}"#]).json()["error"]["error"], "budget_exceeded");
    let unsettled = shop.tollgate(&["audit", "settle"]).json();
    let attempt = unsettled[0]["attempt"].as_str().unwrap();
    assert_eq!(shop.tollgate(&["audit", "settle", attempt, "--as", "failed", "--note", "not at the bank"]).code, 0);
    assert_eq!(left(), "100");
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}
