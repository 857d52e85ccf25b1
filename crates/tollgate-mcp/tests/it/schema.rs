//! The official schemas, cut to what this server sends.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

static REVISIONS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    [("2025-11-25", include_str!("schema/2025-11-25.json")), ("2026-07-28", include_str!("schema/2026-07-28.json"))]
        .into_iter()
        .map(|(revision, text)| (revision, serde_json::from_str(text).unwrap()))
        .collect()
});

/// Compiled once each: some tests receive thousands of lines.
static VALIDATORS: Mutex<BTreeMap<(String, String), Arc<Validator>>> = Mutex::new(BTreeMap::new());

fn validator(revision: &str, definition: &str) -> Arc<Validator> {
    let key = (revision.to_owned(), definition.to_owned());
    let compile = || {
        let mut schema = REVISIONS[revision].clone();
        schema["$ref"] = json!(format!("#/$defs/{definition}"));
        Arc::new(jsonschema::validator_for(&schema).unwrap())
    };
    Arc::clone(VALIDATORS.lock().unwrap().entry(key).or_insert_with(compile))
}

/// Stops the test unless `value` is a `definition` of the revision.
pub(crate) fn check(revision: &str, definition: &str, value: &Value) {
    let validator = validator(revision, definition);
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not a {definition} of {revision}: {errors:?}\n{value:#}");
}

/// The name of the result of a method.
pub(crate) fn result_of(method: &str) -> &'static str {
    match method {
        "initialize" => "InitializeResult",
        "server/discover" => "DiscoverResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "ping" | "logging/setLevel" => "EmptyResult",
        other => panic!("`{other}` has no result here"),
    }
}

#[test]
#[should_panic(expected = "not a CallToolResult of 2026-07-28")]
fn the_check_itself_finds_what_is_missing() {
    check("2026-07-28", "CallToolResult", &json!({ "content": [] }));
}
