//! `tollgate policy explain`: what becomes of a call, by which rule and which of its conditions, and what would change it.

use serde_json::{Value, json};

use crate::policies::scenario;
use crate::shop::{Done, Shop};

const MONDAY: &str = "2026-11-30T04:00:00Z";

fn explain(shop: &Shop, args: &[&str]) -> Done {
    shop.tollgate(&[&["policy", "explain"], args].concat())
}

fn told(shop: &Shop, args: &[&str]) -> String {
    let done = explain(shop, &[&["--format", "text"], args].concat());
    assert!(done.code == 0 || done.code == 3, "{}: {}", done.code, done.stderr);
    done.stdout
}

fn payment(amount: i64, country: &str) -> String {
    let to = json!({"iban": "DE89370400440532013000", "country": country});
    json!({"payment": {"amount": amount, "to": to, "due": null}}).to_string()
}

#[test]
fn where_values_come_from_decides_and_is_told() {
    let shop = scenario("assistant");
    let mail = r#"{"to": ["ann@example.com", "eve@example.com"], "text": "Hello", "attachment": null}"#;
    let from = |origins: &str| {
        let from = format!("recipients={origins}");
        told(&shop, &["send_mail", mail, "--tainted", "--at", MONDAY, "--from", &from])
    };
    insta::assert_snapshot!("from_outside", from("user,outside"));
    insta::assert_snapshot!("from_the_model", from("user,model"));
    insta::assert_snapshot!("from_the_user", from("user"));
}

#[test]
fn time_place_and_numbers_are_told() {
    let shop = scenario("finance");
    let pay = |amount, country, more: &[&str]| {
        told(&shop, &[&["pay_invoice", payment(amount, country).as_str()], more].concat())
    };
    insta::assert_snapshot!("on_saturday", pay(1000, "SG", &["--at", "2026-11-28T04:00:00Z"]));
    insta::assert_snapshot!("too_much", pay(5_000_000, "SG", &["--at", MONDAY]));
    insta::assert_snapshot!("to_nowhere", pay(1000, "XX", &["--at", MONDAY]));
    insta::assert_snapshot!("approved", pay(1000, "SG", &["--at", MONDAY, "--approved"]));
    let close = r#"{"month": "2026-10"}"#;
    insta::assert_snapshot!("in_production", told(&shop, &["close_books", close, "--at", MONDAY]));
    let staging = ["close_books", close, "--at", MONDAY, "--environment", "staging"];
    insta::assert_snapshot!("in_staging", told(&shop, &staging));
    insta::assert_snapshot!("of_no_tenant", told(&shop, &["read_ledger", "{}", "--at", MONDAY]));
}

#[test]
fn a_pipe_gets_json() {
    let shop = scenario("support");
    let own = r#"{"order": "A-1", "customer": "C-7"}"#;
    let args = ["--role", "customer", "get_order", own, "--subject", "C-8", "--at", MONDAY, "--from", "customer=user"];
    let done = explain(&shop, &args);
    assert_eq!(done.code, 3, "{}", done.stderr);
    let report = done.json();
    assert_eq!(report["verdict"], "it is refused");
    assert_eq!(report["call"]["rule"], "cedar:own-orders");
    assert_eq!(
        report["arguments"][0],
        json!({
            "name": "customer", "pointer": "/customer", "value": "C-7", "from": ["user"],
        })
    );
    assert_eq!(report["circumstances"]["now"], "2026-11-30T05:00:00+01:00");
    let conditions = report["rules"][0]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1, "{report}");
    assert_eq!((&conditions[0]["kind"], &conditions[0]["holds"]), (&json!("unless"), &json!("no")));
    let done = explain(&shop, &["--role", "customer", "get_order", own, "--subject", "C-7"]);
    assert_eq!((done.code, &done.json()["verdict"]), (0, &json!("it runs")));
    let large = r#"{"order": "A-1", "amount": 120}"#;
    let verdict = |more: &[&str]| -> Value {
        explain(&shop, &[&["refund_order", large], more].concat()).json()["verdict"].clone()
    };
    assert_eq!(
        (verdict(&[]), verdict(&["--approved"])),
        (json!("it waits for a human's yes"), json!("it runs: a human said yes"))
    );
}

#[test]
fn what_is_said_of_origins_is_checked() {
    let shop = scenario("assistant");
    let mail = r#"{"to": ["ann@example.com"], "text": "Hello", "attachment": null}"#;
    let cases = [
        (vec!["recipients"], "--from amount=user"),
        (vec!["recipient=user"], "rules see attachment, recipients"),
        (vec!["recipients=nobody"], "user, operator, outside, tool or model"),
        (vec!["recipients=user", "recipients=tool"], "recipients=user,outside"),
    ];
    for (from, hint) in cases {
        let mut args = vec!["send_mail", mail];
        args.extend(from.iter().flat_map(|from| ["--from", from]));
        let done = explain(&shop, &args);
        assert_eq!(done.code, 2, "{from:?}");
        assert!(done.stderr.contains(hint), "{from:?}: {}", done.stderr);
    }
}
