//! Shape: what the model sees of a result. The whole is kept, errors are never cut away.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tollgate_policy::Effect;
use tollgate_store::ResultMeta;
use tollgate_types::{
    CallResult, Content, ErrorObject, Flaw, Risk, Text, ToolDefinition, ToolError, ToolOutput, Truncated, limits,
};

use super::run::Ran;
use super::validate::Valid;
use super::{Stop, presentable, store_unavailable};
use crate::gate::{Inner, Trip};
use crate::meta::READ_RESULT;

pub(crate) async fn shape(trip: Trip<'_>, ran: Ran) -> Result<CallResult, Stop> {
    let (cleared, mut output) = ran.into_parts();
    let gate = trip.gate.inner();
    let entry = cleared.entry();
    let size = size_bytes(&output);
    if size > limits::RESULT_BYTES_MAX {
        let text = if entry.definition.risk == Risk::Read { Text::TooLarge } else { Text::TooLargeDone };
        return Err(Stop::Error(text.error(&[("size", &size), ("max", &limits::RESULT_BYTES_MAX)])));
    }
    // A marker need not fit the schema that the secret fitted.
    let misfit = misfit(entry, &output);
    redact(gate, &mut output);
    if let Some(error) = misfit {
        // The caller is told what is wrong with it; the ledger keeps what it was.
        trip.attempt.record_result(gate, &output);
        return Err(Stop::Error(presentable(gate, error)));
    }
    cut(trip, &entry.definition, output).await
}

/// The same for a result that a human gave: it was checked when it was given.
pub(super) async fn given(trip: Trip<'_>, valid: &Valid, mut output: ToolOutput) -> Result<CallResult, Stop> {
    redact(trip.gate.inner(), &mut output);
    cut(trip, &valid.entry().definition, output).await
}

fn size_bytes(output: &ToolOutput) -> usize {
    let text: usize = output
        .content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.len(),
            Content::Other(value) => json_len(value),
        })
        .sum();
    text + output.structured.as_ref().map_or(0, json_len)
}

/// The length of a value's compact JSON, without making it.
fn json_len(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| json_len(item) + 1).sum::<usize>() + 1,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + json_len(value)).sum::<usize>() + 1,
    }
}

/// Injected secrets leave by no door, and others by none that the operator did not open to them.
fn redact(gate: &Inner, output: &mut ToolOutput) {
    for part in &mut output.content {
        match part {
            Content::Text(text) => {
                if let Cow::Owned(clean) = gate.redactor.result(text) {
                    *text = clean;
                }
            }
            Content::Other(value) => gate.redactor.result_value(value),
        }
    }
    if let Some(value) = &mut output.structured {
        gate.redactor.result_value(value);
    }
}

/// A tool that says `ok: false` or `success: false` has failed, whatever its exit said.
pub(super) fn own_failure(output: &ToolOutput) -> Option<ToolError> {
    let parsed;
    let object = match (&output.structured, output.content.as_slice()) {
        (Some(value), _) => value.as_object()?,
        (None, [Content::Text(text)]) if text.trim_start().starts_with('{') => {
            parsed = serde_json::from_str::<Value>(text).ok()?;
            parsed.as_object()?
        }
        _ => return None,
    };
    let says_no = |key: &str| object.get(key) == Some(&Value::Bool(false));
    if !says_no("ok") && !says_no("success") {
        return None;
    }
    // Its words stand beside the no, or in an object under `error`.
    let inner = object.get("error").and_then(Value::as_object);
    let found = |keys: &[&str]| {
        let of = |object: &Map<String, Value>| keys.iter().find_map(|key| object.get(*key).cloned());
        inner.and_then(of).or_else(|| of(object))
    };
    let text = |keys: &[&str]| found(keys).and_then(|value| value.as_str().map(str::to_owned));
    let said = object.get("error").and_then(Value::as_str);
    let message = text(&["message", "error_message", "detail"]);
    let code = text(&["error_code", "code", "type"]);
    // A lone `error` is a code when it looks like one, and else the message.
    let is_code =
        said.is_some_and(|said| said.len() <= limits::TOOL_CODE_CHARS_MAX && !said.contains(char::is_whitespace));
    let tool_code = code.or_else(|| said.filter(|_| is_code).map(str::to_owned));
    let message = message.or_else(|| said.map(str::to_owned)).unwrap_or_else(|| "the tool reports a failure".into());
    let mut error = ToolError::new(message);
    error.tool_code = tool_code;
    error.hint = text(&["suggestion", "hint"]);
    error.retryable = found(&["retryable"]).and_then(|value| value.as_bool()).unwrap_or(false);
    Some(error)
}

pub(super) fn misfit(entry: &tollgate_catalog::Entry, output: &ToolOutput) -> Option<ErrorObject> {
    let schema = entry.output.as_ref()?;
    let violations = match &output.structured {
        Some(value) => schema.validate(value),
        None => vec![Flaw::NoValue.at("", &[])],
    };
    if violations.is_empty() {
        return None;
    }
    Some(Text::OutputMisfit.error(&[]).with_details(violations))
}

async fn cut(trip: Trip<'_>, definition: &ToolDefinition, output: ToolOutput) -> Result<CallResult, Stop> {
    let gate = trip.gate.inner();
    let limit_chars = definition.output.max_length;
    let text = joined(&output.content);
    let is_long = text.len() > limit_chars && text.chars().nth(limit_chars).is_some();
    let is_wide = output.structured.as_ref().is_some_and(|value| json_len(value) > limit_chars * 4);
    if !is_long && !is_wide {
        if !gate.envelope {
            return Ok(CallResult { content: output.content, structured: output.structured, truncated: None });
        }
        let data = output.structured.clone().unwrap_or_else(|| Value::from(text.as_ref()));
        let mut content = vec![Content::Text(json!({ "ok": true, "data": data }).to_string())];
        content.extend(others(output.content));
        return Ok(CallResult { content, structured: output.structured, truncated: None });
    }
    let json = output.structured.as_ref().map(Value::to_string);
    let is_json = json.as_deref() == Some(text.as_ref());
    let whole = if is_long { text.clone().into_owned() } else { json.unwrap_or_default() };
    let handle = keep(trip, definition, whole).await?;
    let pruned = output.structured.and_then(|value| prune(value, limit_chars, definition.output_schema.is_some()));
    let fitting = pruned.as_ref().filter(|pruned| is_json && pruned.fits);
    let (head, shown, total) = match fitting {
        Some(pruned) => (pruned.value.to_string(), pruned.shown, pruned.total),
        None => head(&text, limit_chars),
    };
    let unit = if fitting.is_some() { "items" } else { "lines" };
    let note = match &definition.output.truncation_message {
        Some(message) => format!("{message} Handle: {handle}"),
        None if may_read_on(trip) => {
            format!("shown {shown} of {total} {unit}; the rest: read_result with handle \"{handle}\"")
        }
        None => format!("shown {shown} of {total} {unit}; ask for less to see the rest"),
    };
    let shown_text = match (gate.envelope, fitting) {
        (false, _) => format!("{head}\n[{note}]"),
        (true, Some(pruned)) => json!({ "ok": true, "data": pruned.value, "note": note }).to_string(),
        (true, None) => json!({ "ok": true, "data": head, "note": note }).to_string(),
    };
    let mut content = vec![Content::Text(shown_text)];
    content.extend(others(output.content));
    let truncated = Some(Truncated { shown, total, handle });
    Ok(CallResult { content, structured: pruned.map(|pruned| pruned.value), truncated })
}

/// Keeps the whole. A change whose result cannot be kept must not look as if it could be asked for again.
async fn keep(trip: Trip<'_>, definition: &ToolDefinition, whole: String) -> Result<String, Stop> {
    let gate = trip.gate.inner();
    let meta = ResultMeta {
        caller: (*trip.attempt.caller).clone(),
        tool: definition.name.clone(),
        attempt: trip.attempt.id.clone(),
    };
    gate.store.keep_result(meta, whole, gate.clock.now()).await.map_err(|error| {
        if definition.risk == Risk::Read {
            return store_unavailable(&error);
        }
        tracing::error!("the result of attempt {} could not be kept: {error}", trip.attempt.id);
        Stop::Error(Text::ResultUnkept.error(&[]))
    })
}

/// Whether the caller has the tool that a cut result points to.
fn may_read_on(trip: Trip<'_>) -> bool {
    let gate = trip.gate.inner();
    gate.catalog.get(READ_RESULT).is_some_and(|entry| {
        let decision = gate.decide_listing(&gate.policy.now(), &trip.attempt.caller, &entry.definition);
        decision.effect != Effect::Deny
    })
}

fn joined(content: &[Content]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        Content::Other(_) => None,
    });
    let first = texts.next().unwrap_or_default();
    texts.fold(Cow::Borrowed(first), |joined, text| Cow::Owned(format!("{joined}\n{text}")))
}

/// The parts that are not text.
fn others(content: Vec<Content>) -> impl Iterator<Item = Content> {
    content.into_iter().filter(|part| matches!(part, Content::Other(_)))
}

/// The first whole lines that fit, and how many of how many they are. A line that alone is too long is cut inside.
fn head(text: &str, limit_chars: usize) -> (String, usize, usize) {
    let total = text.lines().count();
    let (mut end, mut used, mut shown) = (0, 0, 0);
    for line in text.split_inclusive('\n') {
        let chars = line.chars().count();
        if used + chars > limit_chars {
            break;
        }
        (end, used, shown) = (end + line.len(), used + chars, shown + 1);
    }
    if shown == 0 {
        return (text.chars().take(limit_chars).collect(), 0, total);
    }
    (text.get(..end).unwrap_or_default().trim_end_matches('\n').to_owned(), shown, total)
}

struct Pruned {
    value: Value,
    shown: usize,
    total: usize,
    fits: bool,
}

/// Takes items off the longest list of a value until it fits. What cannot be made to fit is left out, but where the tool
/// promises a value by an output schema: then it stays as it is.
fn prune(mut value: Value, limit_chars: usize, has_promise: bool) -> Option<Pruned> {
    let whole = json_len(&value);
    let Some(list) = longest_list(&mut value) else {
        let fits = whole <= limit_chars;
        return (fits || has_promise).then_some(Pruned { value, shown: 1, total: 1, fits });
    };
    let total = list.len();
    let mut over = whole.saturating_sub(limit_chars);
    while over > 0 {
        let Some(item) = list.pop() else { break };
        over = over.saturating_sub(json_len(&item) + 1);
    }
    let shown = list.len();
    let fits = json_len(&value) <= limit_chars;
    (fits || has_promise).then_some(Pruned { value, shown, total, fits })
}

fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        Value::Object(map) => map
            .values_mut()
            .filter_map(Value::as_array_mut)
            .max_by_key(|items| items.iter().map(json_len).sum::<usize>()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_cuts_at_a_line() {
        assert_eq!(head("one\ntwo\nthree", 8), ("one\ntwo".into(), 2, 3));
        assert_eq!(head("北京上海广州", 2), ("北京".into(), 0, 1));
        assert_eq!(head("a\n\n\nb", 3), ("a".into(), 2, 4));
    }

    #[test]
    fn prune_takes_items_off_the_longest_list() {
        let value = json!({"rows": (0..100).collect::<Vec<_>>(), "columns": ["n"]});
        let pruned = prune(value, 100, false).unwrap();
        assert_eq!(pruned.total, 100);
        assert!(pruned.shown > 10 && pruned.shown < 100);
        assert_eq!(pruned.value["columns"], json!(["n"]));
        assert!(prune(json!("x".repeat(200)), 100, false).is_none());
        assert!(!prune(json!("x".repeat(200)), 100, true).unwrap().fits);
    }

    #[test]
    fn a_failure_that_a_tool_reports_is_a_failure() {
        let said = |value: Value| own_failure(&ToolOutput::structured(value));
        let error = said(
            json!({"success": false, "error_code": "SKU_NOT_FOUND", "message": "no A1O3", "suggestion": "try A103"}),
        );
        let error = error.unwrap();
        assert_eq!(error.tool_code.as_deref(), Some("SKU_NOT_FOUND"));
        assert_eq!((error.message.as_str(), error.hint.as_deref()), ("no A1O3", Some("try A103")));
        let error = said(json!({"ok": false, "error": "rate_limit", "retryable": true})).unwrap();
        assert!(error.retryable);
        assert_eq!(error.tool_code.as_deref(), Some("rate_limit"));
        let nested = json!({"ok": false, "error": {"code": "NOPE", "message": "no such", "suggestion": "try x"}});
        let error = said(nested).unwrap();
        assert_eq!((error.tool_code.as_deref(), error.message.as_str()), (Some("NOPE"), "no such"));
        assert_eq!(error.hint.as_deref(), Some("try x"));
        let error = said(json!({"success": false, "error": "the shelf is empty"})).unwrap();
        assert_eq!((error.tool_code, error.message.as_str()), (None, "the shelf is empty"));
        assert!(said(json!({"ok": true})).is_none());
        assert!(said(json!({"ok": "false"})).is_none());
        assert!(own_failure(&ToolOutput::text(r#" {"ok":false}"#)).is_some());
        assert!(own_failure(&ToolOutput::text("ok: false")).is_none());
    }
}
