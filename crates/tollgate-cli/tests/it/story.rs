//! `tollgate audit show`: the story of an attempt in each language.

use serde_json::{Value, json};

use crate::shop::Shop;

/// What differs from run to run has a name instead.
fn normal(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    let is_hash = |word: &str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_made_of = |word: &str, marks: &str| {
        word.len() >= 8 && word.chars().all(|char| char.is_ascii_digit() || marks.contains(char))
    };
    let named = |word: &str| match word {
        id if is_id(id) => "<id>".to_owned(),
        hash if is_hash(hash) => "<hash>".to_owned(),
        day if is_made_of(day, "-") => "<day>".to_owned(),
        time if is_made_of(time, ":") => "<time>".to_owned(),
        other => other.to_owned(),
    };
    let line = |line: &str| {
        let mut words: Vec<String> = Vec::new();
        for word in line.split(' ').skip_while(|word| word.is_empty()) {
            let bare = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
            let is_unit = ["ms", "s", "min"].contains(&bare);
            let is_number = |word: &String| word == "<n>" || word.parse::<f64>().is_ok();
            // How long something took: a number and its unit, once or twice.
            if is_unit && words.pop_if(|before| is_number(before)).is_some() {
                words.pop_if(|before| before == "<n>");
                words.push("<n>".to_owned());
            } else {
                words.push(if bare.is_empty() { word.to_owned() } else { word.replace(bare, &named(bare)) });
            }
        }
        words.join(" ")
    };
    text.lines().map(|it| line(it) + "\n").collect()
}

fn told(shop: &Shop, attempt: &Value, more: &[&str]) -> String {
    let attempt = attempt.as_str().unwrap();
    let mut command = shop.command(&[&["--format", "text", "audit", "show", attempt], more].concat());
    command.env("TZ", "UTC").env("LC_ALL", "C");
    let done: crate::shop::Done = command.output().unwrap().into();
    assert_eq!(done.code, 0, "{}", done.stderr);
    normal(&done.stdout)
}

#[test]
fn a_story_is_told_in_two_languages() {
    let shop =
        Shop::with("[roles.clerk]\ntools = [\"*\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"always\"\n");
    let call = ["--role", "clerk", "call", "calculate", r#"{"expression":"6*7"}"#, "--idempotency-key", "k-1"];
    let waits = shop.tollgate(&call).json();
    let id = waits["waiting"]["id"].as_str().unwrap();
    assert_eq!(shop.tollgate(&["approvals", "approve", id, "--reason", "可以"]).code, 0);
    let ran = shop.tollgate(&call).json();
    let refused = shop.tollgate(&["call", "没有这个工具", r#"{"x":1}"#]).json();
    for (name, attempt) in [("waits", &waits["attempt"]), ("ran", &ran["attempt"]), ("refused", &refused["attempt"])] {
        insta::assert_snapshot!(format!("{name}_en"), told(&shop, attempt, &["--lang", "en"]));
        insta::assert_snapshot!(format!("{name}_zh"), told(&shop, attempt, &["--lang", "zh"]));
    }
    let long = json!({"expression": "1+".repeat(1500)}).to_string();
    let long = shop.tollgate(&["call", "calculate", &long]).json();
    assert!(told(&shop, &long["attempt"], &["--lang", "zh"]).contains("个字符，账本只保留其 SHA-256"));

    for (level, more) in [("contents", None), ("whole", Some("--whole"))] {
        let attempt = ran["attempt"].as_str().unwrap();
        let erase = ["audit", "erase", "--attempt", attempt, "--reason", "客户要求"];
        let done = shop.tollgate(&erase.into_iter().chain(more).collect::<Vec<_>>());
        assert_eq!(done.code, 0, "{}", done.stderr);
        insta::assert_snapshot!(format!("erased_{level}_en"), told(&shop, &ran["attempt"], &["--lang", "en"]));
        insta::assert_snapshot!(format!("erased_{level}_zh"), told(&shop, &ran["attempt"], &["--lang", "zh"]));
    }
}

#[test]
fn the_locale_says_the_language_unless_the_command_line_does() {
    let shop = Shop::bare();
    let ran = shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]).json();
    let attempt = ran["attempt"].as_str().unwrap();
    let told = |locale: &[(&str, &str)], more: &[&str]| {
        let mut command = shop.command(&[&["--format", "text", "audit", "show", attempt], more].concat());
        for name in ["LC_ALL", "LC_MESSAGES", "LANG"] {
            command.env_remove(name);
        }
        command.envs(locale.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let is_chinese = |text: String| text.contains("完成");
    assert!(is_chinese(told(&[("LANG", "zh_CN.UTF-8")], &[])));
    assert!(is_chinese(told(&[("LC_ALL", "zh_TW.UTF-8"), ("LANG", "en_US.UTF-8")], &[])));
    assert!(!is_chinese(told(&[("LC_ALL", "C"), ("LANG", "zh_CN.UTF-8")], &[])));
    assert!(!is_chinese(told(&[], &[])));
    assert!(!is_chinese(told(&[("LANG", "zh_CN.UTF-8")], &["--lang", "en"])));
}
