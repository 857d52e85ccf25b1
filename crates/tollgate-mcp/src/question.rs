//! The questions that a server may put to a client (MCP, Client features): their methods, what a client must offer for
//! them, and what an answer must be.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_types::{ClientCapabilities, ClientCapability, limits};

use crate::jsonrpc::scan::is_deeper_than;

/// The method of a question.
pub(crate) fn method(kind: ClientCapability) -> &'static str {
    match kind {
        ClientCapability::Elicitation => "elicitation/create",
        ClientCapability::Sampling => "sampling/createMessage",
        ClientCapability::Roots => "roots/list",
    }
}

/// What a method asks for, where it is a question to a client.
pub(crate) fn kind(method: &str) -> Option<ClientCapability> {
    [ClientCapability::Elicitation, ClientCapability::Sampling, ClientCapability::Roots]
        .into_iter()
        .find(|kind| self::method(*kind) == method)
}

/// Whether the client offers what this very question needs: an address is no form, and a model with tools is more than one
/// without (MCP 2025-11-25, Elicitation and Sampling: capabilities).
pub(crate) fn is_offered(client: ClientCapabilities, kind: ClientCapability, params: &RawValue) -> bool {
    #[derive(Default, Deserialize)]
    struct Needs<'a> {
        #[serde(borrow, default)]
        mode: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        tools: Option<&'a RawValue>,
    }
    let needs: Needs<'_> = serde_json::from_str(params.get()).unwrap_or_default();
    match kind {
        ClientCapability::Elicitation if needs.mode.as_deref() == Some("url") => client.elicitation_url,
        ClientCapability::Elicitation => client.elicitation,
        ClientCapability::Sampling => client.sampling && (needs.tools.is_none() || client.sampling_tools),
        ClientCapability::Roots => client.roots,
    }
}

/// What is wrong with an answer of a client, if anything is.
pub(crate) fn misfit(kind: ClientCapability, answer: &RawValue) -> Option<&'static str> {
    if is_deeper_than(answer.get().as_bytes(), limits::JSON_DEPTH_MAX) {
        return Some("it is nested too deeply");
    }
    let Ok(Value::Object(members)) = serde_json::from_str(answer.get()) else { return Some("it must be an object") };
    let is_action = |action: &str| matches!(action, "accept" | "decline" | "cancel");
    match kind {
        ClientCapability::Elicitation if !members.get("action").and_then(Value::as_str).is_some_and(is_action) => {
            Some("`action` must be `accept`, `decline` or `cancel`")
        }
        ClientCapability::Elicitation if members.get("content").is_some_and(|it| !it.is_object() && !it.is_null()) => {
            Some("`content` must be an object")
        }
        ClientCapability::Sampling if !members.get("role").is_some_and(Value::is_string) => {
            Some("`role` must be a string")
        }
        ClientCapability::Sampling if !members.get("content").is_some_and(|it| it.is_object() || it.is_array()) => {
            Some("`content` must be an object or an array")
        }
        ClientCapability::Roots if !members.get("roots").is_some_and(Value::is_array) => {
            Some("`roots` must be an array")
        }
        ClientCapability::Elicitation | ClientCapability::Sampling | ClientCapability::Roots => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn a_client_is_asked_only_what_it_offers() {
        let form = ClientCapabilities { elicitation: true, sampling: true, ..ClientCapabilities::default() };
        let pages = ClientCapabilities { elicitation_url: true, ..ClientCapabilities::default() };
        for (client, kind, params, offered) in [
            (form, ClientCapability::Elicitation, json!({ "message": "a" }), true),
            (form, ClientCapability::Elicitation, json!({ "mode": "form" }), true),
            (form, ClientCapability::Elicitation, json!({ "mode": "url" }), false),
            (pages, ClientCapability::Elicitation, json!({ "mode": "url" }), true),
            (pages, ClientCapability::Elicitation, json!({}), false),
            (form, ClientCapability::Sampling, json!({ "messages": [] }), true),
            (form, ClientCapability::Sampling, json!({ "tools": [] }), false),
            (form, ClientCapability::Roots, json!({}), false),
        ] {
            assert_eq!(is_offered(client, kind, &to_raw_value(&params).unwrap()), offered, "{kind:?} {params}");
        }
    }

    #[test]
    fn an_answer_is_what_its_question_asks_for() {
        for (kind, answer, fits) in [
            (ClientCapability::Elicitation, json!({ "action": "accept", "content": { "a": 1 } }), true),
            (ClientCapability::Elicitation, json!({ "action": "cancel" }), true),
            (ClientCapability::Elicitation, json!({ "action": "perhaps" }), false),
            (ClientCapability::Elicitation, json!({ "action": "accept", "content": [1] }), false),
            (ClientCapability::Elicitation, json!(12345), false),
            (ClientCapability::Sampling, json!({ "role": "assistant", "content": { "type": "text" } }), true),
            (ClientCapability::Sampling, json!({ "role": "assistant", "content": "text" }), false),
            (ClientCapability::Roots, json!({ "roots": [] }), true),
            (ClientCapability::Roots, json!({ "action": "accept" }), false),
        ] {
            assert_eq!(misfit(kind, &to_raw_value(&answer).unwrap()).is_none(), fits, "{kind:?} {answer}");
        }
        let deep = format!(r#"{{"action":"accept","content":{{"a":{}{}}}}}"#, "[".repeat(500), "]".repeat(500));
        assert!(misfit(ClientCapability::Elicitation, &RawValue::from_string(deep).unwrap()).is_some());
    }
}
