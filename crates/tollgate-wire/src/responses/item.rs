//! Items of Responses, read: what a model said, what it asks for, what its provider ran, and what nobody here understands.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::chat::delta::{Unescape, scalar_text};
use crate::object::Object;
use crate::turn::HostedCall;

use super::handed;

/// One item.
#[derive(Debug)]
pub(super) enum Item {
    /// Text with nothing else to it.
    Text(String),
    /// Text that goes back as it stands: it has an id, or more than text.
    Message { text: String, is_refusal: bool },
    /// A call that waits for a result.
    Call(Call),
    /// A call that the provider ran.
    Hosted(HostedCall),
    /// Anything else, such as a thought.
    Other,
}

/// A call that waits for a result.
#[derive(Debug, Clone, Default)]
pub(super) struct Call {
    pub(super) wire_id: String,
    pub(super) name: String,
    /// Its arguments, or the text of a call that takes one.
    pub(super) input: String,
    pub(super) is_text: bool,
    /// Whether the server says that it is not whole.
    pub(super) is_cut: bool,
    /// Whether half of a surrogate pair is missing in it.
    pub(super) is_lossy: bool,
    /// What else there is of it.
    pub(super) more: Map<String, Value>,
}

impl Item {
    pub(super) fn of(raw: &RawValue) -> Result<Self, serde_json::Error> {
        let fields: Object<'_> = serde_json::from_str(raw.get())?;
        Ok(match &*kind(&fields) {
            "message" => message(fields),
            "function_call" => Self::Call(Call::of(fields, "arguments")),
            "custom_tool_call" => Self::Call(Call { is_text: true, ..Call::of(fields, "input") }),
            kind if handed::is_one(kind) => Self::Other,
            kind => match kind.strip_suffix("_call") {
                Some(tool) => Self::Hosted(hosted(tool, fields.into_map())),
                None => Self::Other,
            },
        })
    }
}

/// The type of an item; messages may go without.
pub(super) fn kind(fields: &Object<'_>) -> String {
    match fields.text("type") {
        Some(kind) => kind.into_owned(),
        None if fields.text("role").is_some() => "message".to_owned(),
        None => String::new(),
    }
}

impl Call {
    fn of(mut fields: Object<'_>, input: &str) -> Self {
        fields.take("type");
        let call_id = scalar_text(fields.take("call_id")).into_owned();
        // Servers that know one id alone.
        let own_id = fields.text("id").unwrap_or_default().into_owned();
        let mut pieces = Unescape::default();
        let text = fields.take(input).map(|input| pieces.piece(input).into_owned()).unwrap_or_default();
        Self {
            wire_id: if call_id.is_empty() { own_id } else { call_id },
            name: scalar_text(fields.take("name")).into_owned(),
            input: text,
            is_text: false,
            is_cut: matches!(fields.text("status").as_deref(), Some("incomplete" | "failed")),
            is_lossy: pieces.has_lost(),
            more: fields.into_map(),
        }
    }
}

/// What the model says. Only what is text and nothing else is told as text.
fn message(mut fields: Object<'_>) -> Item {
    let content = fields.take("content");
    let (text, is_refusal, mut is_plain) = content.map_or_else(|| (String::new(), false, true), message_text);
    for known in ["type", "role", "status"] {
        fields.take(known);
    }
    is_plain &= fields.into_values().all(|(_, value)| value.is_null());
    if is_plain { Item::Text(text) } else { Item::Message { text, is_refusal } }
}

/// The text of a content, whether it is a refusal, and whether there is no more to it.
fn message_text(content: &RawValue) -> (String, bool, bool) {
    if content.get().starts_with('"') {
        return (Unescape::default().piece(content).into_owned(), false, true);
    }
    let (mut text, mut is_refusal, mut is_plain) = (String::new(), false, true);
    let parts: Vec<Object<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
    for mut part in parts {
        let kind = part.take("type").map(|kind| scalar_text(Some(kind)).into_owned()).unwrap_or_default();
        let words = part.take("text");
        let refusal = part.take("refusal");
        text.push_str(&scalar_text(words.or(refusal)));
        is_refusal |= refusal.is_some();
        let is_bare =
            part.into_values().all(|(_, value)| value.is_null() || value.as_array().is_some_and(Vec::is_empty));
        is_plain &= is_bare && words.is_some() && kind != "refusal";
    }
    (text, is_refusal, is_plain)
}

/// A call that the provider ran, in whichever words it tells of it.
fn hosted(tool: &str, fields: Map<String, Value>) -> HostedCall {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let json = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let first = |names: &[&str]| names.iter().filter_map(|name| fields.get(*name)).find(|value| !value.is_null());
    let is_failed = matches!(fields.get("status").and_then(Value::as_str), Some("failed" | "incomplete"));
    HostedCall {
        id: text("id"),
        name: tool.to_owned(),
        arguments: match first(&["arguments", "action", "queries", "code"]) {
            // A remote server has tools of its own.
            Some(arguments) if tool == "mcp" => {
                serde_json::json!({ "server": text("server_label"), "tool": text("name"), "arguments": json(arguments) })
                    .to_string()
            }
            arguments => arguments.map(json).unwrap_or_default(),
        },
        result: first(&["output", "outputs", "results"]).map(json),
        is_error: is_failed || fields.get("error").is_some_and(|error| !error.is_null()),
    }
}
