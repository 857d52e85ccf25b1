//! A yes from another process: one asker, these arguments, once.

use serde_json::json;

use crate::shop::Shop;

const CONFIG: &str = r#"
[[tool]]
name = "deploy"
description = "Deploys."
command = ["sh", "-c", "cat >> deployed; echo deployed"]
"#;

#[test]
fn from_waiting_to_done() {
    let shop = Shop::with(CONFIG);
    let deploy = |arguments: &str| shop.tollgate(&["call", "deploy", arguments]);
    let waiting = deploy(r#"{"to":"staging"}"#);
    assert_eq!(waiting.code, 4);
    let id = waiting.json()["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(deploy(r#"{"to": "staging"}"#).json()["waiting"]["id"], json!(id), "the same question");

    let listed = shop.tollgate(&["approvals", "list"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(id)));
    let shown = shop.tollgate(&["--format", "text", "approvals", "show", &id]).stdout;
    for part in ["deploy", "\"to\": \"staging\"", "cat >> deployed", "asked by bob (developer) through cli"] {
        assert!(shown.contains(part), "{shown}");
    }
    let approved = shop.tollgate(&["approvals", "approve", &id, "--reason", "tested"]);
    assert_eq!((approved.code, approved.json()["status"].clone()), (0, json!("approved")));
    assert_eq!(shop.tollgate(&["approvals", "approve", &id]).code, 2, "answered already");

    assert_eq!(deploy(r#"{"to":"production"}"#).code, 4, "other arguments ask anew");
    let mut other = shop.command(&["call", "deploy", r#"{"to":"staging"}"#]);
    assert_eq!(other.env("USER", "eve").output().unwrap().status.code(), Some(4), "another asker asks anew");
    assert!(!shop.path().join("deployed").exists());
    assert_eq!(deploy(r#"{"to":"staging"}"#).code, 0);
    assert_eq!(std::fs::read_to_string(shop.path().join("deployed")).unwrap(), r#"{"to":"staging"}"#);
    assert_eq!(deploy(r#"{"to":"staging"}"#).code, 4, "used up");

    let events: Vec<String> = shop
        .ledger()
        .iter()
        .filter(|line| line.contains(&id))
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(events, ["waiting", "waiting", "approved", "started", "finished"]);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn a_no_reaches_the_asker() {
    let shop = Shop::with(CONFIG);
    let id = shop.tollgate(&["call", "deploy", "{}"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    let end: String = id.chars().skip(28).collect();
    assert_eq!(shop.tollgate(&["approvals", "reject", &end, "--reason", "冻结期"]).code, 0);
    let refused = shop.tollgate(&["call", "deploy", "{}"]);
    assert_eq!((refused.code, refused.json()["error"]["error"].clone()), (3, json!("approval_rejected")));
    assert!(refused.stdout.contains("冻结期"));
}

#[test]
fn a_changed_program_asks_anew() {
    let shop = Shop::with(CONFIG);
    let id = shop.tollgate(&["call", "deploy", "{}"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    shop.tollgate(&["approvals", "approve", &id]);
    let swapped = CONFIG.replace("Deploys.", "Deploys elsewhere.");
    std::fs::write(shop.path().join("tollgate.toml"), swapped).unwrap();
    assert_eq!(shop.tollgate(&["call", "deploy", "{}"]).code, 4);
}

#[test]
fn a_swapped_command_asks_anew() {
    let shop = Shop::with(CONFIG);
    let id = shop.tollgate(&["call", "deploy", "{}"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    shop.tollgate(&["approvals", "approve", &id]);
    let swapped = CONFIG.replace("cat >> deployed", "touch pwned");
    std::fs::write(shop.path().join("tollgate.toml"), swapped).unwrap();
    assert_eq!(shop.tollgate(&["call", "deploy", "{}"]).code, 4, "the yes was for another program");
    assert!(!shop.path().join("pwned").exists());
}

/// Many processes with one yes between them: one of them runs it.
#[test]
fn of_many_processes_one_has_the_yes() {
    let shop = Shop::with(CONFIG);
    let id = shop.tollgate(&["call", "deploy", "{}"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.tollgate(&["approvals", "approve", &id]).code, 0);
    let racers: Vec<_> = (0..4).map(|_| shop.start(&["call", "deploy", "{}"])).collect();
    let mut codes: Vec<i32> =
        racers.into_iter().map(|racer| racer.wait_with_output().unwrap().status.code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes.first(), Some(&0), "{codes:?}");
    // The others put the question anew, or were there at the same moment.
    assert!(codes.iter().skip(1).all(|code| [3, 4].contains(code)), "{codes:?}");
    assert_eq!(std::fs::read_to_string(shop.path().join("deployed")).unwrap(), "{}");
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);

    // Two who answer at once: one is taken.
    let id = shop.tollgate(&["call", "deploy", "{}"]).json()["waiting"]["id"].as_str().unwrap().to_owned();
    let answers: Vec<_> = ["approve", "reject"].map(|word| shop.start(&["approvals", word, &id])).into();
    let answered: Vec<i32> =
        answers.into_iter().map(|answer| answer.wait_with_output().unwrap().status.code().unwrap()).collect();
    assert_eq!(answered.iter().filter(|code| **code == 0).count(), 1, "{answered:?}");
}

#[test]
fn what_must_be_typed_is_said_and_then_typed() {
    let shop = Shop::with(&CONFIG.replace("command", "security = { typed_confirmation = \"/to\" }\ncommand"));
    let waiting = shop.tollgate(&["call", "deploy", r#"{"to":"生产"}"#]).json();
    let id = waiting["waiting"]["id"].as_str().unwrap();
    for typed in [&[][..], &["--typed", "staging"]] {
        let refused = shop.tollgate(&[&["approvals", "approve", id], typed].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("`生产`") && refused.stderr.contains("--typed"), "{}", refused.stderr);
    }
    assert_eq!(shop.tollgate(&["approvals", "approve", id, "--typed", "生产"]).code, 0);
}
