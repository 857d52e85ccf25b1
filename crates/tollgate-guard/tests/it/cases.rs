//! The shared redaction cases. They are kept in base64, because their values look like real secrets to scanners.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tollgate_guard::redact::{Options, Profile, Redactor};
use tollgate_types::Secret;

fn strings<'a>(case: &'a Value, field: &str) -> Vec<&'a str> {
    case.get(field).and_then(Value::as_array).into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

/// What is wrong with the redaction of a case, if anything.
fn complaint(case: &Value) -> Option<String> {
    let secrets = strings(case, "injected_secrets").into_iter().map(Secret::new);
    let profile = match case.get("profile").and_then(Value::as_str) {
        Some("pii") => Profile::Pii,
        _ => Profile::Default,
    };
    let redactor = Redactor::with_options(b"install key", &Options { profile, ..Options::default() }).unwrap();
    secrets.for_each(|secret| redactor.add_secret(&secret));
    let input = case.get("input").unwrap();
    let output = match input.as_str() {
        Some(text) => redactor.text(text).into_owned(),
        None => {
            let mut value = input.clone();
            redactor.value(&mut value);
            value.to_string()
        }
    };
    let leaked = strings(case, "must_not_appear").into_iter().find(|text| output.contains(text));
    let lost = strings(case, "must_appear").into_iter().find(|text| !output.contains(text));
    let changed =
        case.get("expected").unwrap() == "keep" && output != input.as_str().map_or(input.to_string(), str::to_owned);
    (leaked.is_some() || lost.is_some() || changed).then(|| format!("{case} -> {output}"))
}

#[test]
fn the_shared_cases_hold() {
    let mut complaints = Vec::new();
    let mut passed = 0;
    for line in include_str!("../cases/redaction.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let id = line.get("id").unwrap().as_str().unwrap();
        let case: Value =
            serde_json::from_slice(&STANDARD.decode(line.get("case_b64").unwrap().as_str().unwrap()).unwrap()).unwrap();
        match complaint(&case) {
            None => passed += 1,
            Some(complaint) => complaints.push(format!("{id} {complaint}")),
        }
    }
    println!("{passed} of {} cases hold", passed + complaints.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(passed > 100);
}
