//! `/openapi.json`: what the REST interface takes and gives, as OpenAPI 3.1.

use axum::Json;
use serde_json::{Value, json};
use tollgate::Code;

pub(crate) async fn answer() -> Json<Value> {
    Json(document())
}

/// The description of the interface, OpenAPI 3.1.
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The tool layer of AI agents. Every call passes one gate and is recorded. A call is answered \
                            with 200 and its outcome object, no matter how it ended; other statuses are about the \
                            request itself.",
        },
        "servers": [{ "url": "http://127.0.0.1:7373" }],
        "security": [{ "client": [] }],
        "paths": paths(),
        "components": {
            "securitySchemes": {
                "client": { "type": "http", "scheme": "bearer", "description": "A client key: lists and calls." },
                "operator": {
                    "type": "http", "scheme": "bearer",
                    "description": "An operator key: answers approvals and reads the ledger.",
                },
            },
            "schemas": schemas(),
        },
    })
}

fn paths() -> Value {
    let parts = [call_paths(), conversation_paths(), approval_paths(), ledger_paths(), other_paths()];
    parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten().collect()
}

fn operator() -> Value {
    json!([{ "operator": [] }])
}

fn either() -> Value {
    json!([{ "client": [] }, { "operator": [] }])
}

fn call_paths() -> Value {
    json!({
        "/api/v1/calls": { "post": {
            "summary": "Ask for a tool call",
            "parameters": [{
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "The same as `idempotency_key`, in quotes: \"order-4711\".", "schema": { "type": "string" },
            }],
            "requestBody": { "required": true, "content": content(&schema("Call")) },
            "responses": responses(&schema("Outcome"), &["400", "401", "403", "413", "415", "429"]),
        } },
        "/api/v1/attempts/{id}/undo": { "post": {
            "summary": "Take back what a call of this key did, by a call of its own",
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
            "responses": responses(&schema("Outcome"), &["401", "403", "404", "429"]),
        } },
        "/api/v1/tools": { "get": {
            "summary": "The tools that this key may use",
            "parameters": [query("query", "Only tools in whose name or description this text is.", "string")],
            "responses": responses(&list("tools", &json!({ "type": "object" })), &["400", "401", "403"]),
        } },
        "/mcp/{set}": { "post": {
            "summary": "The same for a part of the house, `[sets.NAME]`",
            "parameters": [{ "name": "set", "in": "path", "required": true, "schema": { "type": "string" } }],
            "requestBody": { "required": true, "content": content(&json!({ "type": "object" })) },
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "404", "413", "415", "429"]),
        } },
        "/mcp": { "post": {
            "summary": "The Model Context Protocol, streamable HTTP",
            "requestBody": { "required": true, "content": content(&json!({ "type": "object" })) },
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "404", "413", "415", "429"]),
        }, "get": {
            "summary": "The Model Context Protocol until 2025-11-25: what the client of a session is told unasked",
            "responses": responses(&json!({ "type": "object" }), &["401", "403", "404", "405", "406", "429"]),
        } },
    })
}

/// The other ways for MCP, which no HTTP client takes by itself.
fn conversation_paths() -> Value {
    let set = json!({ "name": "set", "in": "path", "required": true, "schema": { "type": "string" } });
    json!({
        "/mcp/ws": { "get": {
            "summary": "The Model Context Protocol over a WebSocket; the subprotocol is `mcp`",
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "429"]),
        } },
        "/sse": { "get": {
            "summary": "The Model Context Protocol of 2024-11-05: what the client is told. The first event names where it speaks",
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "429"]),
        } },
        "/mcp/{set}/ws": { "get": {
            "summary": "A WebSocket to a part of the house, `[sets.NAME]`",
            "parameters": [set],
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "404", "429"]),
        } },
        "/sse/{set}": { "get": {
            "summary": "A stream of a part of the house, `[sets.NAME]`",
            "parameters": [set],
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "404", "429"]),
        } },
        "/messages": { "post": {
            "summary": "What the client of a stream says",
            "parameters": [{ "name": "sessionId", "in": "query", "required": true, "schema": { "type": "string" } }],
            "requestBody": { "required": true, "content": content(&json!({ "type": "object" })) },
            "responses": responses(&json!({ "type": "object" }), &["400", "401", "403", "404", "413", "415", "429"]),
        } },
    })
}

fn approval_paths() -> Value {
    let id = json!([{
        "name": "id", "in": "path", "required": true, "schema": { "type": "string" },
        "description": "The id, or a part of it that no other has.",
    }]);
    let decide = |summary: &str| {
        json!({ "post": {
            "summary": summary, "security": operator(), "parameters": id,
            "requestBody": { "required": false, "content": content(&json!({
                "type": "object", "additionalProperties": false, "properties": {
                    "reason": { "type": "string" },
                    "typed": { "type": "string", "description": "What must be typed with a yes, where the question wants it." },
                    "for_session": { "type": "boolean", "description": "A yes for the rest of the asker's session." },
                    "result": { "description": "With a yes, the result of the call, where the question wants it." },
                },
            })) },
            "responses": responses(&schema("Approval"), &["400", "401", "403", "404", "409", "413", "415"]),
        } })
    };
    json!({
        "/api/v1/approvals": { "get": {
            "summary": "Questions to a human: an operator sees all, a client its own",
            "security": either(),
            "parameters": [query("all", "The answered ones too.", "boolean")],
            "responses": responses(&list("approvals", &schema("Approval")), &["400", "401"]),
        } },
        "/api/v1/approvals/{id}": { "get": {
            "summary": "One question", "security": either(), "parameters": id,
            "responses": responses(&schema("Approval"), &["401", "404"]),
        } },
        "/api/v1/approvals/{id}/approve": decide("Say yes, once; the asker then asks again"),
        "/api/v1/approvals/{id}/reject": decide("Say no"),
        "/api/v1/approvals/{id}/answer": { "post": {
            "summary": "Hand over what a person said to a system that shares the webhook's secret",
            "security": [],
            "parameters": signed_parameters(),
            "requestBody": { "required": true, "content": content(&schema("SignedAnswer")) },
            "responses": responses(
                &schema("Approval"),
                &["400", "401", "403", "404", "409", "412", "413", "415", "422", "429"],
            ),
        } },
    })
}

/// The id in the path, and the headers of Standard Webhooks 1.0.0.
fn signed_parameters() -> Value {
    let header = |name: &str, description: &str| {
        json!({
            "name": name, "in": "header", "required": true, "schema": { "type": "string" }, "description": description,
        })
    };
    json!([
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" }, "description": "The whole id." },
        header("webhook-id", "The message's id. It counts once."),
        header("webhook-timestamp", "When it was signed, in seconds since 1970; 300 from now at most."),
        header("webhook-signature", "`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`; several with blanks between."),
    ])
}

fn ledger_paths() -> Value {
    json!({
        "/api/v1/audit": { "get": {
            "summary": "What fits the filters in the ledger; without any, its last records, oldest first",
            "security": operator(),
            "parameters": audit_parameters(),
            "responses": responses(&audit_answer(), &["400", "401", "403", "404"]),
        } },
        "/api/v1/servers": { "get": {
            "summary": "The MCP servers behind the gate, and how each does; nothing is started by asking",
            "security": operator(),
            "responses": responses(&list("servers", &json!({ "type": "object" })), &["401", "403"]),
        } },
        "/api/v1/events": { "get": {
            "summary": "Every record of the ledger from now on, as server-sent events",
            "security": operator(),
            "responses": {
                "200": { "description": "A record an event.", "content": { "text/event-stream": {} } },
                "401": refusal("401"), "403": refusal("403"), "429": refusal("429"),
            },
        } },
    })
}

fn audit_parameters() -> Vec<Value> {
    let time = |end: &str| {
        format!("{end} RFC 3339, a date, a date and time of day in UTC, or a span before now such as 2h or 7d.")
    };
    let words = "One of these, parted by commas.";
    vec![
        query("view", "`records` (the default) or `attempts`: one object an attempt, newest first.", "string"),
        query("limit", "At most so many attempts, or, without filters, records.", "integer"),
        query("cursor", "Only what comes after this place: the `next` of an earlier answer.", "string"),
        query("since", &time("From then on."), "string"),
        query("until", &time("Up to then; a day is within."), "string"),
        query("caller", words, "string"),
        query("role", words, "string"),
        query("tenant", words, "string"),
        query("tool", "One of these globs, parted by commas.", "string"),
        query("code", words, "string"),
        query("status", "One of done, refused, failed, waiting, unknown, open, parted by commas.", "string"),
        query("risk", "One of read, write, dangerous, parted by commas.", "string"),
        query("event", "One of these happened, parted by commas; of records, only those.", "string"),
        query("attempt", "An attempt's id, or a beginning or end of it that no other has.", "string"),
        query("session", "A session's id.", "string"),
    ]
}

fn audit_answer() -> Value {
    let objects = json!({ "type": "array", "items": { "type": "object" } });
    json!({
        "type": "object",
        "properties": {
            "records": objects,
            "attempts": { "type": "array", "items": schema("Attempt") },
            "next": { "type": ["string", "null"], "description": "The cursor of what comes after this." },
        },
    })
}

fn attempt() -> Value {
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date-time" });
    let number = json!({ "type": "integer" });
    json!({
        "type": "object", "required": ["time", "attempt", "call_id", "tool", "status", "events"],
        "properties": {
            "time": time, "attempt": text, "call_id": text, "parent": text, "tool": text, "risk": text,
            "permission": text,
            "caller": { "type": "object", "properties": {
                "subject": text, "role": text, "tenant": text, "surface": text, "session": text,
            } },
            "status": { "enum": ["done", "refused", "failed", "waiting", "unknown", "open"] },
            "code": text, "tool_code": text,
            "decision": { "type": "object", "properties": { "effect": text, "rule": text, "reason": text } },
            "approval": text, "duration_ms": number, "answer_ms": number, "retries": number,
            "events": { "type": "array", "items": text }, "ended": time,
        },
    })
}

fn other_paths() -> Value {
    let object = json!({ "type": "object" });
    json!({
        "/metrics": { "get": {
            "summary": "Counters for Prometheus; a client sees those of its own tools", "security": either(),
            "responses": { "200": { "description": "Text.", "content": { "text/plain": {} } }, "401": refusal("401") },
        } },
        "/healthz": { "get": {
            "summary": "Whether the server lives", "security": [], "responses": responses(&object, &[]),
        } },
        "/readyz": { "get": {
            "summary": "Whether calls can be recorded, and so be served", "security": [],
            "responses": responses(&object, &["503"]),
        } },
    })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let maybe_text = json!({ "type": ["string", "null"] });
    json!({
        "Call": {
            "type": "object", "required": ["tool"], "additionalProperties": false,
            "properties": {
                "tool": text,
                "arguments": { "type": "object", "description": "By the tool's input schema." },
                "idempotency_key": { "type": ["string", "null"], "description": "The call happens at most once under it." },
            },
        },
        "Outcome": outcome(),
        "Attempt": attempt(),
        "Result": {
            "type": "object", "required": ["content", "structured", "truncated"],
            "properties": {
                "content": { "type": "array", "items": { "type": "object", "required": ["type"] } },
                "structured": {},
                "truncated": {
                    "type": ["object", "null"],
                    "properties": { "shown": { "type": "integer" }, "total": { "type": "integer" }, "handle": text },
                },
                "outside": { "type": "boolean", "description": "It may say what others wrote: data, no instructions." },
                "warnings": { "type": "array", "items": text },
            },
        },
        "Error": error(),
        "Waiting": {
            "type": "object", "required": ["kind", "id", "expires"],
            "properties": {
                "kind": { "enum": ["approval", "intervention"] }, "id": text,
                "expires": { "type": "string", "format": "date-time" },
            },
        },
        "Approval": {
            "type": "object", "required": ["id", "status", "tool", "arguments", "reason", "subject", "expires"],
            "properties": {
                "id": text, "kind": { "enum": ["approval", "intervention"] },
                "status": { "enum": ["pending", "approved", "consumed", "rejected", "expired"] }, "tool": text,
                "arguments": { "type": "object" }, "preview": maybe_text, "risk": text,
                "permission": text, "reason": text, "subject": text,
                "expires": { "type": "string", "format": "date-time" },
                "decided_by": maybe_text, "decision_reason": maybe_text,
                "typed": maybe_text, "approvers": { "type": "integer" }, "yes_by": { "type": "array", "items": text },
                "tried": { "type": "object", "description": "How the call failed, where its result is wanted." },
                "expects": { "type": "object", "description": "The JSON Schema of the result that is wanted." },
            },
        },
        "SignedAnswer": signed_answer(),
        "Problem": {
            "type": "object", "required": ["ok", "error", "message"],
            "properties": { "ok": { "const": false }, "error": text, "message": text, "hint": maybe_text },
        },
    })
}

fn signed_answer() -> Value {
    let text = json!({ "type": "string" });
    let maybe_text = json!({ "type": ["string", "null"] });
    json!({
        "type": "object", "required": ["type", "data"], "additionalProperties": false,
        "properties": {
            "type": { "const": "approval.answered" }, "timestamp": maybe_text,
            "data": {
                "type": "object", "required": ["id", "digest", "decision", "by"], "additionalProperties": false,
                "properties": {
                    "id": text, "digest": { "type": "string", "description": "The digest of the question." },
                    "decision": { "enum": ["approve", "reject"] },
                    "by": { "type": "string", "description": "The person; never who asks." },
                    "reason": maybe_text, "typed": maybe_text,
                    "result": { "description": "The result of the call, where the question wants it." },
                },
            },
        },
    })
}

fn outcome() -> Value {
    let text = json!({ "type": "string" });
    let or_null = |name: &str| json!({ "anyOf": [schema(name), { "type": "null" }] });
    json!({
        "type": "object",
        "required": [
            "status", "call_id", "attempt", "tool", "duration_ms", "result", "error", "waiting", "repairs", "replayed",
        ],
        "properties": {
            "status": { "enum": ["done", "refused", "failed", "waiting", "unknown"] },
            "call_id": text,
            "attempt": { "type": ["string", "null"], "description": "Null when no record could be opened." },
            "tool": text,
            "duration_ms": { "type": "integer" },
            "result": or_null("Result"), "error": or_null("Error"), "waiting": or_null("Waiting"),
            "repairs": { "type": "array", "items": { "type": "object", "properties": { "path": text, "rule": text } } },
            "replayed": { "type": "boolean" },
        },
    })
}

fn error() -> Value {
    // Only the ledger says `forbidden`.
    let codes: Vec<&str> =
        Code::ALL.iter().filter(|code| **code != Code::Forbidden).map(|code| code.as_str()).collect();
    let maybe_text = json!({ "type": ["string", "null"] });
    json!({
        "type": "object", "required": ["ok", "error", "message", "retryable"],
        "properties": {
            "ok": { "const": false }, "error": { "enum": codes }, "message": { "type": "string" },
            "retryable": { "type": "boolean" }, "hint": maybe_text,
            "retry_after_ms": { "type": ["integer", "null"] }, "tool_code": maybe_text,
            "details": { "type": "array", "items": { "type": "object" } },
            "outside": { "type": "boolean", "description": "It says what others wrote: data, no instructions." },
        },
    })
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn list(name: &str, items: &Value) -> Value {
    json!({ "type": "object", "required": [name], "properties": { name: { "type": "array", "items": items } } })
}

fn content(schema: &Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn query(name: &str, description: &str, kind: &str) -> Value {
    json!({ "name": name, "in": "query", "description": description, "schema": { "type": kind } })
}

fn responses(done: &Value, refusals: &[&str]) -> Value {
    let done = json!({ "description": "The answer.", "content": content(done) });
    let refusals = refusals.iter().map(|status| ((*status).to_owned(), refusal(status)));
    Value::Object([("200".to_owned(), done)].into_iter().chain(refusals).collect())
}

fn refusal(status: &str) -> Value {
    let description = match status {
        "400" => "The request cannot be read.",
        "401" => "There is no key, or it does not count.",
        "403" => "The key is of the other kind, or the host or origin is not known.",
        "404" => "There is nothing of this name.",
        "405" => "There is no stream without a session.",
        "406" => "A stream is not accepted.",
        "409" => "It was answered before.",
        "412" => "It was signed too long ago, or not yet.",
        "413" => "The body is too long.",
        "415" => "The body is not JSON.",
        "422" => "It is signed, and about another question.",
        "429" => "Too many at once.",
        _ => "Not now.",
    };
    json!({ "description": description, "content": content(&schema("Problem")) })
}
