//! `tools/call`, and how lists show a tool: the door's words in the protocol's.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use tollgate_catalog::to_definition;
use tollgate_types::{Call, ClientCapability, Content, Dialect, End, ErrorObject, Outcome, ToolDefinition};

use super::Revision;
use crate::jsonrpc::Id;

/// The definition with an output schema that every answer fits: a result fits the tool's own schema, and a failure, whose
/// structured part is the error object, fits too. Clients hold a server to what it shows (MCP, Tools: output schema):
/// TypeScript's 1.x even checks errors. The gate itself checks results against the tool's own schema, unchanged.
pub(super) fn shown(tool: &ToolDefinition) -> Value {
    let mut shown = to_definition(tool, Dialect::Mcp);
    let Some(members) = shown.as_object_mut() else { return shown };
    if let Some(own) = members.shift_remove("outputSchema") {
        members.extend(result_or_error(own).map(|schema| ("outputSchema".to_owned(), schema)));
    }
    shown
}

/// `{…the tool's properties, anyOf: [{required: the tool's}, {the error object}]}`; none for what is not an object,
/// which the handshake revisions do not know.
fn result_or_error(own: Value) -> Option<Value> {
    let Value::Object(mut schema) = own else { return None };
    if schema.get("type")? != "object" || schema.contains_key("anyOf") || schema.contains_key("oneOf") {
        return None;
    }
    schema.shift_remove("additionalProperties");
    let required = schema.shift_remove("required").unwrap_or_else(|| json!([]));
    let error = json!({
        "description": "The call did not succeed.",
        "properties": { "ok": { "const": false }, "error": { "type": "string" }, "message": { "type": "string" } },
        "required": ["ok", "error", "message"],
    });
    schema.insert("anyOf".to_owned(), json!([{ "required": required }, error]));
    Some(Value::Object(schema))
}

pub(super) fn call(id: &Id, name: String, arguments: String) -> Call {
    Call::raw(name, arguments).with_id(id.as_str())
}

/// What the client would have to offer for the call to run: a fault of the protocol, not one for the model to read (MCP
/// 2026-07-28, Base protocol: missing required client capability).
pub(super) fn client_lacks(outcome: &Outcome) -> Option<ClientCapability> {
    outcome.end.error().and_then(|error| error.client_lacks)
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallToolResult<'a> {
    content: Cow<'a, [Content]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Structured<'a>>,
    is_error: bool,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Structured<'a> {
    Result(&'a Value),
    Error(&'a ErrorObject),
}

/// What a call ended as. Every end but a result is for the model to read, a name that is no tool among them (MCP, Tools:
/// error handling).
pub(super) fn result_of(outcome: &Outcome, revision: Revision) -> CallToolResult<'_> {
    match &outcome.end {
        End::Done(result) => CallToolResult {
            content: Cow::Borrowed(&result.content),
            structured_content: result
                .structured
                .as_ref()
                .filter(|value| revision.is_stateless() || revision.has_structured_results() && value.is_object())
                .map(Structured::Result),
            is_error: false,
        },
        End::Refused(error) | End::Failed(error) | End::Waiting(_, error) | End::Unknown(error) => CallToolResult {
            content: Cow::Owned(vec![Content::Text(outcome.model_text())]),
            structured_content: revision.has_structured_results().then_some(Structured::Error(error)),
            is_error: true,
        },
    }
}
