//! `call_tool`: how a tool is called that is not in the list, because the list would be too long. It is no tool of the
//! gate: the call inside it is, and that alone passes the gate and is recorded.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tollgate_types::{Call, Category, Source, SourceKind, Text, ToolDefinition};

use super::selection::SEARCH_TOOLS;

/// The name.
pub(super) const CALL_TOOL: &str = "call_tool";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Makes the call that is meant of a call of `call_tool`; one that says none is refused.
pub(super) fn unwrap(call: &mut Call) {
    let (name, arguments) = match serde_json::from_str::<Inner<'_>>(&call.arguments) {
        Ok(inner) => (inner.name, inner.arguments.map_or("{}", RawValue::get).to_owned()),
        Err(error) => {
            let what = format!("`{CALL_TOOL}` wants {{\"name\": \"…\", \"arguments\": {{…}}}}: {error}");
            call.refusal.get_or_insert_with(|| Text::NotAnObject.error(&[("what", &what)]));
            return;
        }
    };
    (call.name, call.arguments) = (name, arguments);
}

/// Its definition.
pub(super) fn call_tool() -> Arc<ToolDefinition> {
    static CALL: LazyLock<Arc<ToolDefinition>> = LazyLock::new(|| {
        let mut tool = ToolDefinition::new(CALL_TOOL, "Calls one of the tools that are not listed here, by its name.");
        tool.title = Some("Call a tool".into());
        tool.when = Some(format!("Use it with a name and arguments as {SEARCH_TOOLS} told them."));
        tool.when_not = Some("Do not guess names or arguments: search first.".into());
        tool.category = Category::Action;
        tool.source = Source::of(SourceKind::Builtin);
        tool.input_schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The tool's name." },
                "arguments": { "type": "object", "description": "Its arguments, by its own schema." },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        Arc::new(tool)
    });
    Arc::clone(&CALL)
}
