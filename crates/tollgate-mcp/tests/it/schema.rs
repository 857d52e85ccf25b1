//! The official schemas, cut to what this server sends.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The extension, which has a schema of its own.
pub(crate) const TASKS: &str = "tasks";

static REVISIONS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    [
        ("2025-11-25", include_str!("schema/2025-11-25.json")),
        ("2026-07-28", include_str!("schema/2026-07-28.json")),
        (TASKS, include_str!("schema/tasks.json")),
    ]
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
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        "tasks/get" => "GetTaskResult",
        "tasks/update" => "UpdateTaskResult",
        "tasks/cancel" => "CancelTaskResult",
        "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => "EmptyResult",
        other => panic!("`{other}` has no result here"),
    }
}

/// What a request or notification of ours is, in each revision that has it.
pub(crate) fn sent_as(method: &str) -> &'static [(&'static str, &'static str)] {
    match method {
        "notifications/progress" => &[("2026-07-28", "ProgressNotification"), ("2025-11-25", "ProgressNotification")],
        "notifications/message" => {
            &[("2026-07-28", "LoggingMessageNotification"), ("2025-11-25", "LoggingMessageNotification")]
        }
        "notifications/tools/list_changed" => {
            &[("2026-07-28", "ToolListChangedNotification"), ("2025-11-25", "ToolListChangedNotification")]
        }
        "notifications/resources/list_changed" => {
            &[("2026-07-28", "ResourceListChangedNotification"), ("2025-11-25", "ResourceListChangedNotification")]
        }
        "notifications/prompts/list_changed" => {
            &[("2026-07-28", "PromptListChangedNotification"), ("2025-11-25", "PromptListChangedNotification")]
        }
        "notifications/resources/updated" => {
            &[("2026-07-28", "ResourceUpdatedNotification"), ("2025-11-25", "ResourceUpdatedNotification")]
        }
        "notifications/subscriptions/acknowledged" => &[("2026-07-28", "SubscriptionsAcknowledgedNotification")],
        "notifications/cancelled" => &[("2025-11-25", "CancelledNotification")],
        "elicitation/create" => &[("2025-11-25", "ElicitRequest")],
        "sampling/createMessage" => &[("2025-11-25", "CreateMessageRequest")],
        "roots/list" => &[("2025-11-25", "ListRootsRequest")],
        other => panic!("`{other}` is not sent"),
    }
}

#[test]
#[should_panic(expected = "not a CallToolResult of 2026-07-28")]
fn the_check_itself_finds_what_is_missing() {
    check("2026-07-28", "CallToolResult", &json!({ "content": [] }));
}
