//! The resources and prompts that MCP's conformance suite asks a server for by name, as entries for the real gate.

use serde_json::{Value, json};
use tollgate_types::{BoxFuture, CallKind, Cx, Permission, Risk, Tool, ToolDefinition, ToolError, ToolOutput};

use crate::fixtures::{PNG, asking};

/// The prompt that asks the client before it answers.
const ASKING: &str = "prompts/test_input_required_result_prompt";

/// One resource, template or prompt of the conformance suite.
pub struct EntryFixture {
    name: &'static str,
    kind: CallKind,
    schema: Value,
    says: fn(&Value) -> Value,
}

/// All of them.
pub fn entry_fixtures() -> Vec<EntryFixture> {
    let entry = |kind, name, schema, says: fn(&Value) -> Value| EntryFixture { name, kind, schema, says };
    let read = |uri: &str| properties(&[("uri", json!({ "const": uri }))]);
    let text = || json!({ "type": "string" });
    vec![
        entry(CallKind::Resource, "resources/test://static-text", read("test://static-text"), |_| {
            contents("test://static-text", "text/plain", "text", "This is the content of the static text resource.")
        }),
        entry(CallKind::Resource, "resources/test://static-binary", read("test://static-binary"), |_| {
            contents("test://static-binary", "image/png", "blob", PNG)
        }),
        entry(CallKind::Resource, "resources/test://watched-resource", read("test://watched-resource"), |_| {
            contents("test://watched-resource", "text/plain", "text", "Watched resource content")
        }),
        entry(CallKind::Template, "resources/test://template/{id}/data", properties(&[("uri", text())]), templated),
        entry(CallKind::Prompt, "prompts/test_simple_prompt", properties(&[]), |_| {
            messages(&[said("This is a simple prompt for testing.")])
        }),
        entry(
            CallKind::Prompt,
            "prompts/test_prompt_with_arguments",
            properties(&[("arg1", text()), ("arg2", text())]),
            with_arguments,
        ),
        entry(
            CallKind::Prompt,
            "prompts/test_prompt_with_embedded_resource",
            properties(&[("resourceUri", text())]),
            embedding,
        ),
        entry(CallKind::Prompt, "prompts/test_prompt_with_image", properties(&[]), |_| {
            let image = json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
            messages(&[image, said("Please analyze the image above.")])
        }),
        entry(CallKind::Prompt, ASKING, properties(&[]), |context| messages(&[said(&context.to_string())])),
    ]
}

fn properties(all: &[(&str, Value)]) -> Value {
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<_, _> = all.iter().map(|(name, one)| ((*name).to_owned(), one.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn contents(uri: &str, mime_type: &str, form: &str, content: &str) -> Value {
    json!({ "contents": [{ "uri": uri, "mimeType": mime_type, form: content }] })
}

fn said(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn messages(contents: &[Value]) -> Value {
    let messages: Vec<_> = contents.iter().map(|content| json!({ "role": "user", "content": content })).collect();
    json!({ "messages": messages })
}

fn given<'a>(arguments: &'a Value, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn templated(arguments: &Value) -> Value {
    let uri = given(arguments, "uri");
    let id = uri.trim_start_matches("test://template/").trim_end_matches("/data");
    let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
    contents(uri, "application/json", "text", &data.to_string())
}

fn with_arguments(arguments: &Value) -> Value {
    let (one, two) = (given(arguments, "arg1"), given(arguments, "arg2"));
    messages(&[said(&format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))])
}

fn embedding(arguments: &Value) -> Value {
    let text = "Embedded resource content for testing.";
    let resource = json!({ "uri": given(arguments, "resourceUri"), "mimeType": "text/plain", "text": text });
    messages(&[
        json!({ "type": "resource", "resource": resource }),
        said("Please process the embedded resource above."),
    ])
}

impl Tool for EntryFixture {
    fn definition(&self) -> ToolDefinition {
        let mut definition = ToolDefinition::new(self.name, "A fixture of the conformance suite.").of_kind(self.kind);
        (definition.risk, definition.permission) = (Risk::Read, Permission::Read);
        definition.input_schema = self.schema.clone();
        definition
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let result = match cx.kind {
                CallKind::Completion => {
                    json!({ "completion": { "values": ["paris", "park", "party"], "total": 150, "hasMore": true } })
                }
                _ if self.name == ASKING => (self.says)(&asking::context(&cx).await?),
                _ => (self.says)(&arguments),
            };
            Ok(ToolOutput { structured: Some(result), ..ToolOutput::default() })
        })
    }
}
