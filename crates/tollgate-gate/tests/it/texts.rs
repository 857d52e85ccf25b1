//! What a model reads of a call that did not work: the same codes, pointers and fields in every language, a next step in each,
//! and nothing of our own inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate_types::{Code, ErrorObject, Language, Outcome, Risk, ToolError, ToolOutput};

use crate::world::{Setup, World, tool};

/// Cases of the field: calls that models made wrong.
const CASES: &str = include_str!("../cases/errors.jsonl");

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

fn error(outcome: &Outcome) -> &ErrorObject {
    outcome.end.error().unwrap()
}

#[tokio::test]
async fn what_models_do_wrong_is_told_in_every_language() {
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (name, arguments) = (case["name"].as_str().unwrap(), case["arguments"].as_str().unwrap());
        for language in Language::ALL {
            let runs: Arc<AtomicUsize> = Arc::default();
            let counted = Arc::clone(&runs);
            let tool = tool(case["tool"]["name"].as_str().unwrap(), Risk::Read, move |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Ok(ToolOutput::text("ran")) }
            });
            let tools = vec![tool.schema(case["tool"]["input_schema"].clone()).arc()];
            let world = World::with(Setup { tools, language, ..Setup::default() });
            let outcome = world.raw(name, arguments).await;
            let (error, expected) = (error(&outcome), &case["expected"]);
            assert_eq!(error.error.as_str(), expected["code"], "{case}");
            assert_eq!(runs.load(Ordering::SeqCst), 0, "{case}");
            let detail = error.details.first();
            if let Some(path) = expected["path"].as_str() {
                assert_eq!(detail.unwrap().path, path, "{case}");
            }
            if expected["unknown"].is_array() {
                let detail = detail.unwrap();
                assert_eq!(
                    (json!(detail.unknown), json!(detail.accepted)),
                    (expected["unknown"].clone(), expected["accepted"].clone())
                );
            }
            let hint = error.hint.as_deref().unwrap();
            assert_eq!(is_chinese(&error.message), language == Language::Zh, "{}", error.message);
            // What a parser says of a text it says in English.
            assert!(!hint.is_empty() && is_chinese(hint) == (language == Language::Zh), "{hint}");
        }
    }
}

#[tokio::test]
async fn the_nearest_tool_and_value_are_named() {
    for (language, near, meant) in [
        (Language::En, "did you mean `asc`?", "`lmit` (did you mean `limit`?)"),
        (Language::Zh, "是否想用 `asc`？", "`lmit`（是否想用 `limit`？）"),
    ] {
        let sort = tool("sort_rows", Risk::Read, |_, _| async { Ok(ToolOutput::text("")) }).schema(json!({
            "type": "object",
            "properties": {"order": {"enum": ["asc", "desc"]}, "limit": {"type": "integer", "minimum": 1}},
            "required": ["order"],
            "additionalProperties": false,
        }));
        let world = World::with(Setup { tools: vec![sort.arc()], language, ..Setup::default() });
        let outcome = world.call("sort_rows", json!({"order": "acs", "limit": 0, "lmit": 3})).await;
        let error = error(&outcome);
        let told: Vec<_> = error.details.iter().map(|detail| detail.message.as_str()).collect();
        assert!(told.iter().any(|told| told.contains(near)), "{told:?}");
        assert!(told.iter().any(|told| told.contains(meant)), "{told:?}");
        assert_eq!(error.details.len(), 3);
        let unknown = world.call("sort_row", json!({})).await;
        assert!(unknown.end.error().unwrap().hint.as_deref().unwrap().contains("`sort_rows`"));
    }
}

#[tokio::test]
async fn a_tools_own_words_stay_and_lose_their_secrets() {
    let broken = tool("broken", Risk::Read, |_, _| async {
        Err(ToolError::new("the key zq-injected-secret is wrong").with_tool_code("NO_KEY"))
    });
    let secrets = vec![tollgate_types::Secret::new("zq-injected-secret")];
    let world = World::with(Setup { tools: vec![broken.arc()], secrets, language: Language::Zh, ..Setup::default() });
    let outcome = world.call("broken", json!({})).await;
    let error = error(&outcome);
    assert!(error.message.starts_with("工具报告失败：the key ") && !error.message.contains("zq-injected"), "{error:?}");
    assert!(is_chinese(error.hint.as_deref().unwrap()));
    assert_eq!(error.tool_code.as_deref(), Some("NO_KEY"));
}

/// Why the record cannot be written stands in the operator's log; a model learns of no path and no database.
#[tokio::test]
async fn internals_are_never_told() {
    let world = World::new([crate::world::echo().arc()]);
    let held = crate::record::hold(&world);
    let outcome = world.call("echo", json!({"text": "x"})).await;
    drop(held);
    assert_eq!(outcome.code(), Some(Code::AuditUnavailable));
    let said = serde_json::to_string(&outcome).unwrap();
    for inside in [world.folder.path().to_str().unwrap(), "segment", "store.db", "SQL", "os error"] {
        assert!(!said.contains(inside), "{said}");
    }
}
