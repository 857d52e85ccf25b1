//! Errors in Chinese, where the configuration says so: the words are others, codes, fields and pointers are the same.

use serde_json::{Value, json};

use crate::shop::Shop;

fn is_chinese(value: &Value) -> bool {
    value.as_str().unwrap_or_default().chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

/// What may not depend on the language.
fn contract(outcome: &Value) -> Value {
    let mut error = outcome["error"].clone();
    for key in ["message", "hint"] {
        error[key] = json!(null);
    }
    for detail in error["details"].as_array_mut().into_iter().flatten() {
        detail["message"] = json!(null);
    }
    json!([outcome["status"], error])
}

#[test]
fn the_words_change_and_the_contract_stays() {
    let english = Shop::bare();
    let chinese = Shop::with("language = \"zh\"\n");
    for (tool, arguments) in [
        ("raed_file", "{}"),
        ("no_such", "{}"),
        ("read_file", "{\"path\""),
        ("read_file", "[]"),
        ("read_file", "{}"),
        ("read_file", r#"{"path":"a","ofset":1}"#),
        ("read_file", r#"{"path":1,"offset":"x","limit":0}"#),
        ("read_file", r#"{"path":"missing.txt"}"#),
        ("read_file", r#"{"path":"../outside"}"#),
        ("write_file", r#"{"path":"tollgate.toml","content":""}"#),
        ("calculate", r#"{"expression":"1/0"}"#),
    ] {
        let call = ["call", tool, arguments];
        let (en, zh) = (english.tollgate(&call), chinese.tollgate(&call));
        let (en_json, zh_json) = (en.json(), zh.json());
        assert_eq!((en.code, contract(&en_json)), (zh.code, contract(&zh_json)), "{tool} {arguments}");
        assert!(is_chinese(&zh_json["error"]["message"]), "{zh_json}");
        assert!(!is_chinese(&en_json["error"]["message"]), "{en_json}");
        for outcome in [&en_json, &zh_json] {
            assert!(outcome["error"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{outcome}");
        }
        for detail in zh_json["error"]["details"].as_array().unwrap() {
            assert!(is_chinese(&detail["message"]) || tool != "read_file" || arguments.contains(".."), "{zh_json}");
        }
    }
    let wrong = Shop::with("language = \"fr\"\n").tollgate(&["tools", "list"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("zh"), "{}", wrong.stderr);
}

#[test]
fn a_role_is_spoken_to_in_its_own_language() {
    let config = |house: &str| {
        format!(
            "language = \"{house}\"\n[roles.beijing]\ntools = [\"*\"]\nlanguage = \"zh\"\n\
             [roles.berlin]\ntools = [\"*\"]\nlanguage = \"en\"\n[roles.tianjin]\ninherits = \"beijing\"\n"
        )
    };
    for house in ["en", "zh"] {
        let shop = Shop::with(&config(house));
        for (role, expected) in [
            ("beijing", true),
            ("tianjin", true),
            ("berlin", false),
            ("developer", house == "zh"),
            ("reader", house == "zh"),
        ] {
            let outcome = shop.tollgate(&["call", "calculate", r#"{"expression":"1/0"}"#, "--role", role]).json();
            assert_eq!(is_chinese(&outcome["error"]["message"]), expected, "{house} {role} {outcome}");
        }
    }
    let wrong = Shop::with("[roles.a]\ntools = [\"*\"]\nlanguage = \"fr\"\n").tollgate(&["tools", "list"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("roles.a") && wrong.stderr.contains("zh"), "{}", wrong.stderr);
}
