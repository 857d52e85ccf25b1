//! Calls of tools that only a provider defines, some of which it hands back to whoever asks: a shell, a patch, a server that
//! wants a yes. Nobody here runs them. Each is told like a call that the provider ran, and one that was handed back is answered
//! with a refusal, for a conversation with a call and no answer is refused as a whole.

use serde_json::{Map, Value, json};

use crate::object::Object;
use crate::turn::HostedCall;

use super::item::kind;

/// What a model is told of a call that was handed back.
const REFUSED: &str = "It was not run: calls that the provider hands back are not run here. Go on without this tool.";

/// The types of such calls, the types of what answers them, and the provider's names for the tools.
const KINDS: [(&str, &str, &str); 6] = [
    ("local_shell_call", "local_shell_call_output", "local_shell"),
    ("shell_call", "shell_call_output", "shell"),
    ("apply_patch_call", "apply_patch_call_output", "apply_patch"),
    ("tool_search_call", "tool_search_output", "tool_search"),
    ("computer_call", "computer_call_output", "computer"),
    ("mcp_approval_request", "mcp_approval_response", "mcp"),
];

/// Such a call in a turn.
pub(super) struct Handed {
    kind: &'static (&'static str, &'static str, &'static str),
    fields: Map<String, Value>,
    /// What the provider says came of it, where it ran it after all.
    output: Option<Value>,
}

/// Whether items of this type are such calls.
pub(super) fn is_one(kind: &str) -> bool {
    KINDS.iter().any(|(call, ..)| *call == kind)
}

/// Those among some items, in their order. What they came to may stand among more items than these.
pub(super) fn among<'a>(items: impl Iterator<Item = &'a str>, outputs: impl Iterator<Item = &'a str>) -> Vec<Handed> {
    let mut found: Vec<Handed> = items.filter_map(Handed::of).collect();
    if found.is_empty() {
        return found;
    }
    for output in outputs.filter_map(|item| serde_json::from_str::<Value>(item).ok()) {
        if let Some(handed) = found.iter_mut().find(|handed| handed.is_answered_by(&output)) {
            handed.output = Some(output.get("output").or_else(|| output.get("tools")).cloned().unwrap_or(output));
        }
    }
    found
}

impl Handed {
    fn of(item: &str) -> Option<Self> {
        // Most items are none, and some are long.
        if !item.contains("_call\"") && !item.contains("_request\"") {
            return None;
        }
        let fields: Object<'_> = serde_json::from_str(item).ok()?;
        let kind = kind(&fields);
        let kind = KINDS.iter().find(|(call, ..)| *call == kind)?;
        Some(Self { kind, fields: fields.into_map(), output: None })
    }

    /// Whether whoever asks is to answer it.
    pub(super) fn is_back(&self) -> bool {
        self.output.is_none() && self.text("execution") != "server"
    }

    fn is_answered_by(&self, output: &Value) -> bool {
        let text = |name| output.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let named = text("call_id").or_else(|| text("approval_request_id")).or_else(|| text("id"));
        text("type") == Some(self.kind.1)
            && named.is_some_and(|id| [self.text("call_id"), self.text("id")].contains(&id))
    }

    fn text(&self, name: &str) -> &str {
        self.fields.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The call as one that the provider ran; one that it handed back has failed.
    pub(super) fn told(&self) -> HostedCall {
        let words = ["action", "actions", "operation", "arguments"];
        let arguments = words.iter().filter_map(|name| self.fields.get(*name)).find(|value| !value.is_null());
        let arguments = match arguments {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let is_mcp = self.kind.2 == "mcp";
        HostedCall {
            id: self.text(if self.text("call_id").is_empty() { "id" } else { "call_id" }).to_owned(),
            name: self.kind.2.to_owned(),
            arguments: if is_mcp {
                json!({ "server": self.text("server_label"), "tool": self.text("name"), "arguments": arguments })
                    .to_string()
            } else {
                arguments
            },
            result: self
                .output
                .as_ref()
                .map(Value::to_string)
                .or_else(|| self.is_back().then(|| json!(REFUSED).to_string())),
            is_error: self.is_back(),
        }
    }

    /// What goes back for one that was handed back; none where the provider takes no refusal.
    pub(super) fn answer(&self) -> Option<Value> {
        if !self.is_back() {
            return None;
        }
        let (_, kind, tool) = *self.kind;
        let (id, call_id) = (self.text("id"), self.text("call_id"));
        Some(match tool {
            "local_shell" => {
                json!({ "type": kind, "id": id, "call_id": call_id, "output": json!(REFUSED).to_string() })
            }
            "shell" => {
                // What a shell says of a command that may not be run.
                let said = json!({ "stdout": "", "stderr": REFUSED, "outcome": { "type": "exit", "exit_code": 126 } });
                json!({ "type": kind, "call_id": call_id, "output": [said] })
            }
            "apply_patch" => json!({ "type": kind, "call_id": call_id, "status": "failed", "output": REFUSED }),
            "tool_search" => {
                json!({ "type": kind, "call_id": call_id, "execution": "client", "status": "completed", "tools": [] })
            }
            // OpenAI's document wants a `request_id` beside it that it does not describe and its libraries do not know.
            "mcp" => json!({ "type": kind, "approval_request_id": id, "approve": false, "reason": REFUSED }),
            // Only a picture of a screen answers it.
            _ => return None,
        })
    }
}
