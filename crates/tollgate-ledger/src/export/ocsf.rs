//! Events of the Open Cybersecurity Schema Framework, 1.8.0 (<https://schema.ocsf.io/1.8.0/classes/api_activity>): what
//! a tool call is to a system that collects security events.

use serde_json::{Map, Value, json};

use crate::attempt::{Asker, Attempt};
use crate::index::Found;
use crate::{Event, Record};

const VERSION: &str = "1.8.0";
const CLASS_UID: u64 = 6003;

/// The attempt as an API Activity.
pub(super) fn event(found: &Found) -> Value {
    let attempt = &found.attempt;
    let (activity_id, activity_name) = activity(attempt);
    let (status_id, status) = status(attempt);
    let (severity_id, severity) = severity(attempt);
    let mut event = json!({
        "activity_id": activity_id, "activity_name": activity_name,
        "category_uid": 6, "category_name": "Application Activity",
        "class_uid": CLASS_UID, "class_name": "API Activity",
        "type_uid": CLASS_UID * 100 + activity_id, "type_name": format!("API Activity: {activity_name}"),
        "time": attempt.time.as_millisecond(),
        "severity_id": severity_id, "severity": severity,
        "status_id": status_id, "status": status,
        "metadata": metadata(found),
        "actor": actor(&attempt.caller),
        "src_endpoint": { "svc_name": if attempt.caller.surface.is_empty() { "unknown" } else { &attempt.caller.surface } },
        "api": api(found),
        "message": format!("{} asked for {}: {}", attempt.caller.subject, attempt.tool, attempt.status),
        "unmapped": unmapped(attempt),
    });
    if let Some(event) = event.as_object_mut() {
        put(event, "status_code", &attempt.code);
        put(event, "status_detail", attempt.decision.as_ref().map_or("", |ruling| &ruling.reason));
    }
    event
}

fn put(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), Value::from(text));
    }
}

fn activity(attempt: &Attempt) -> (u64, &'static str) {
    match attempt.risk.as_str() {
        "read" => (2, "Read"),
        "write" => (3, "Update"),
        "dangerous" => (99, "Other"),
        _ => (0, "Unknown"),
    }
}

fn status(attempt: &Attempt) -> (u64, &str) {
    match attempt.status.as_str() {
        "done" => (1, "Success"),
        "refused" | "failed" => (2, "Failure"),
        "unknown" => (0, "Unknown"),
        other => (99, other),
    }
}

fn severity(attempt: &Attempt) -> (u64, &'static str) {
    match attempt.status.as_str() {
        "unknown" => (4, "High"),
        "refused" => (3, "Medium"),
        "failed" => (2, "Low"),
        _ => (1, "Informational"),
    }
}

fn metadata(found: &Found) -> Value {
    let attempt = &found.attempt;
    let mut metadata = json!({
        "version": VERSION,
        "product": { "name": "Tollgate", "vendor_name": "Tollgate", "version": env!("CARGO_PKG_VERSION") },
        "uid": attempt.attempt,
        "log_name": "audit",
        "original_time": attempt.time.to_string(),
        "sequence": found.records.first().map_or(0, Record::seq),
    });
    if let Some(metadata) = metadata.as_object_mut() {
        put(metadata, "tenant_uid", &attempt.caller.tenant);
        put(metadata, "correlation_uid", &attempt.caller.session);
    }
    metadata
}

fn actor(caller: &Asker) -> Value {
    let mut actor = Map::new();
    put(&mut actor, "app_name", "Tollgate");
    if !caller.subject.is_empty() {
        let user = json!({ "name": caller.subject, "groups": [{ "name": caller.role }] });
        actor.insert("user".to_owned(), user);
    }
    if !caller.session.is_empty() {
        actor.insert("session".to_owned(), json!({ "uid": caller.session }));
    }
    Value::Object(actor)
}

fn api(found: &Found) -> Value {
    let attempt = &found.attempt;
    let said = |key: &str| found.records.iter().find_map(|record| record.get(key));
    let mut request = Map::new();
    request.insert("uid".to_owned(), Value::from(attempt.call_id.as_str()));
    request.extend(said("arguments").map(|arguments| ("data".to_owned(), arguments.clone())));
    let mut api = Map::new();
    api.insert("operation".to_owned(), Value::from(attempt.tool.as_str()));
    api.insert("service".to_owned(), json!({ "name": "Tollgate" }));
    api.insert("request".to_owned(), Value::Object(request));
    if attempt.ended.is_some() {
        let mut response = Map::new();
        put(&mut response, "error", &attempt.code);
        match said("result") {
            Some(Value::String(message)) if attempt.status != "done" => put(&mut response, "error_message", message),
            Some(result) => drop(response.insert("data".to_owned(), result.clone())),
            None => {}
        }
        api.insert("response".to_owned(), Value::Object(response));
    }
    Value::Object(api)
}

/// What the framework has no word for.
fn unmapped(attempt: &Attempt) -> Value {
    let mut unmapped = Map::new();
    let ruling = attempt.decision.as_ref();
    for (key, text) in [
        ("risk", attempt.risk.as_str()),
        ("permission", &attempt.permission),
        ("tool_code", &attempt.tool_code),
        ("effect", ruling.map_or("", |ruling| &ruling.effect)),
        ("rule", ruling.map_or("", |ruling| &ruling.rule)),
        ("approval", attempt.approval.as_deref().unwrap_or_default()),
        ("parent", attempt.parent.as_deref().unwrap_or_default()),
    ] {
        put(&mut unmapped, key, text);
    }
    if let Some(duration) = attempt.duration_ms {
        unmapped.insert("duration_ms".to_owned(), Value::from(duration));
    }
    if attempt.erased {
        unmapped.insert("erased".to_owned(), Value::from(true));
    }
    unmapped.insert("was_started".to_owned(), Value::from(attempt.events.has(Event::Started)));
    Value::Object(unmapped)
}
