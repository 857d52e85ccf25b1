//! The tools that MCP's conformance suite asks a server for by name, as tools for the real gate. What each must answer is
//! in the descriptions of the suite's scenarios (`conformance list`, 0.2.0-alpha.12).

pub(crate) mod asking;
mod changing;
mod tasks;

use serde_json::{Value, json};
use tollgate_types::{
    BoxFuture, ClientCapability, Content, Cx, HEADER_KEYWORD, Permission, ProgressUpdate, Risk, Tool, ToolDefinition,
    ToolError, ToolOutput,
};

pub use changing::Trigger;

/// A red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// A header without samples.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

/// The tool whose schema is to be shown as it is.
const DIALECT: &str = "json_schema_2020_12_tool";

/// The tool with a parameter that is repeated as a header.
const HEADERS: &str = "test_custom_headers";

/// One tool of the conformance suite.
pub struct Fixture {
    name: &'static str,
    does: Does,
}

enum Does {
    Answer(Vec<Content>),
    Fail(&'static str),
    Progress,
    Need(ClientCapability),
    Ask(asking::Asks),
    Work(tasks::Works),
}

/// All of them.
pub fn fixtures() -> Vec<Fixture> {
    let text = |text: &str| Content::Text(text.to_owned());
    let simple = || Does::Answer(vec![text("This is a simple text response for testing.")]);
    let image = || Content::Other(json!({ "type": "image", "data": PNG, "mimeType": "image/png" }));
    let audio = Content::Other(json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" }));
    let embedded = resource("test://embedded-resource", "text/plain", "This is an embedded resource content.");
    let mixed = resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#);
    [
        ("test_simple_text", simple()),
        ("test_streaming_elicitation", simple()),
        ("test_logging_tool", simple()),
        ("test_tool_with_logging", Does::Ask(asking::Asks::Log)),
        ("test_image_content", Does::Answer(vec![image()])),
        ("test_audio_content", Does::Answer(vec![audio])),
        ("test_embedded_resource", Does::Answer(vec![embedded])),
        ("test_multiple_content_types", Does::Answer(vec![text("Multiple content types test:"), image(), mixed])),
        ("test_error_handling", Does::Fail("This tool intentionally returns an error for testing")),
        ("test_tool_with_progress", Does::Progress),
        ("test_missing_capability", Does::Need(ClientCapability::Sampling)),
        (DIALECT, simple()),
        (HEADERS, simple()),
    ]
    .into_iter()
    .chain(asking::ALL.map(|(name, asks)| (name, Does::Ask(asks))))
    .chain(tasks::ALL.map(|(name, works)| (name, Does::Work(works))))
    .map(|(name, does)| Fixture { name, does })
    .collect()
}

fn resource(uri: &str, kind: &str, text: &str) -> Content {
    Content::Other(json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } }))
}

impl Tool for Fixture {
    fn definition(&self) -> ToolDefinition {
        let mut definition = ToolDefinition::new(self.name, "A fixture of the conformance suite.");
        (definition.risk, definition.permission) = (Risk::Read, Permission::Read);
        if let Does::Work(works) = self.does {
            definition.execution = tasks::execution(works);
        }
        if self.name == DIALECT {
            definition.input_schema = changing::dialect();
        }
        if self.name == HEADERS {
            let region = json!({ "type": "string", HEADER_KEYWORD: "Region" });
            definition.input_schema = json!({ "type": "object", "properties": { "region": region } });
        }
        definition
    }

    fn check(&self, _: &Value, cx: &Cx) -> Result<(), ToolError> {
        match self.does {
            Does::Need(capability) if !cx.client.offers(capability) => Err(ToolError::client_lacks(capability)),
            _ => Ok(()),
        }
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match &self.does {
                Does::Answer(content) => Ok(ToolOutput { content: content.clone(), structured: None, raw: None }),
                Does::Fail(message) => Err(ToolError::new(*message)),
                Does::Progress => {
                    for progress in [0.0, 50.0, 100.0] {
                        cx.progress.report(ProgressUpdate { progress, total: Some(100.0), message: None });
                        tokio::task::yield_now().await;
                    }
                    Ok(ToolOutput::text("Progress is complete."))
                }
                Does::Ask(asks) => asking::run(*asks, &arguments, &cx).await,
                Does::Work(works) => tasks::run(*works, &arguments, &cx).await,
                Does::Need(capability) => Ok(ToolOutput::text(format!("The client offers {}.", capability.as_str()))),
            }
        })
    }
}
