//! What a tool says of its own failure.

use serde_json::{Map, Value};
use tollgate_types::{Content, ToolError, ToolOutput, limits};

/// A tool that says `ok: false` or `success: false` has failed, whatever its exit said.
pub(in crate::stage) fn own_failure(output: &ToolOutput) -> Option<ToolError> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
