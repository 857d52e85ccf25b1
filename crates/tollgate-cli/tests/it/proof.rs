//! The ledger on the command line: what was kept elsewhere, proofs, and what opens again after damage.

use serde_json::json;

use crate::audit::calls;
use crate::shop::Shop;

#[test]
fn what_was_kept_elsewhere_shows_that_the_end_is_gone() {
    let shop = Shop::with("[audit.anchor]\nfile = \"kept/checkpoints.jsonl\"\nevery = \"1ms\"\n");
    std::fs::create_dir(shop.path().join("kept")).unwrap();
    calls(&shop, 1);
    let (early, checkpoints) = (shop.ledger(), shop.path().join(".tollgate/audit/checkpoints"));
    let early_checkpoints = std::fs::read(&checkpoints).unwrap();
    calls(&shop, 1);
    let key = shop.tollgate(&["audit", "key"]).json()["key"].as_str().unwrap().to_owned();
    std::fs::write(shop.path().join("kept/ledger.vkey"), format!("{key}\n")).unwrap();
    let verify = ["audit", "verify", "--pubkey", "kept/ledger.vkey", "--anchor", "kept/checkpoints.jsonl"];
    let report = shop.tollgate(&verify).json();
    assert_eq!((&report["ok"], &report["checkpoints"]["unproven"]), (&json!(true), &json!(0)), "{report}");
    assert!(report["checkpoints"]["anchored"].as_u64() >= Some(2), "each command had its last one kept: {report}");

    shop.write_ledger(&early);
    let done = shop.tollgate(&["audit", "verify"]);
    assert_eq!((done.code, done.json()["fault"]["kind"].clone()), (1, json!("truncated")));
    std::fs::write(&checkpoints, early_checkpoints).unwrap();
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0, "whole in itself");
    let done = shop.tollgate(&verify);
    assert_eq!((done.code, done.json()["fault"]["seq"].clone()), (1, json!(early.len() + 1)), "{}", done.stdout);
}

#[test]
fn a_record_is_proved_and_what_cannot_be_is_said() {
    let shop = Shop::bare();
    assert_eq!(shop.tollgate(&["audit", "key"]).code, 6);
    calls(&shop, 1);
    let since = shop.tollgate(&["audit", "prove", "4"]).json()["checkpoint"].as_str().unwrap().to_owned();
    std::fs::write(shop.path().join("since.txt"), &since).unwrap();
    calls(&shop, 1);
    let proof = shop.tollgate(&["audit", "prove", "6", "--since", "since.txt"]).json();
    assert_eq!(proof["record"], shop.ledger()[5]);
    assert_eq!((&proof["index"], &proof["since"]["checkpoint"]), (&json!(5), &json!(since)));
    let refused = shop.tollgate(&["audit", "prove", "9"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("covers the records up to 8"), "{}", refused.stderr);
    assert_eq!(shop.tollgate(&["audit", "prove", "1", "--since", "tollgate.toml"]).code, 2);
    for (flag, code) in [("--pubkey", 2), ("--anchor", 6)] {
        assert_eq!(shop.tollgate(&["audit", "verify", flag, "nowhere"]).code, code, "{flag}");
    }
}

#[test]
fn damage_to_what_was_signed_opens_only_when_somebody_says_so() {
    let shop = Shop::bare();
    calls(&shop, 3);
    let mut lines = shop.ledger();
    lines.truncate(9);
    shop.write_ledger(&lines);
    let call = ["call", "calculate", r#"{"expression":"1"}"#];
    let refused = shop.tollgate(&call);
    assert_eq!(refused.code, 6);
    assert!(refused.stderr.contains("tollgate audit recover"), "{}", refused.stderr);
    let refused = shop.tollgate(&["audit", "recover"]);
    assert_eq!(refused.code, 6);
    assert!(refused.stderr.contains("--accept-damage"), "{}", refused.stderr);
    let said = shop.tollgate(&["audit", "recover", "--accept-damage"]).json();
    assert_eq!((&said["ok"], &said["is_new_key"]), (&json!(true), &json!(true)));
    assert_eq!(shop.tollgate(&["audit", "recover"]).json()["is_new_key"], json!(false));
    assert_eq!(shop.tollgate(&call).code, 0);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
    assert!(shop.ledger().iter().any(|line| line.contains("the operator accepted damage")));
}
