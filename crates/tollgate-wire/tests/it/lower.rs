//! What goes out for schemas of all kinds: golden files, the shared cases, and laws.

mod golden;
mod laws;
mod schemas;
mod shared;
mod subset;

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_types::ToolDefinition;
use tollgate_wire::{Dialect, GeminiSchema, Lowered, Target, lower};

/// Each form in which tools go out.
fn targets() -> [(&'static str, Target); 7] {
    let gemini = Target::of(Dialect::Gemini);
    [
        ("chat", Target::of(Dialect::Chat)),
        ("chat_strict", Target::of(Dialect::Chat).strictly()),
        ("responses_strict", Target::of(Dialect::Responses).strictly()),
        ("anthropic", Target::of(Dialect::Anthropic)),
        ("anthropic_strict", Target::of(Dialect::Anthropic).strictly()),
        ("gemini", gemini),
        ("gemini_openapi", Target { gemini: GeminiSchema::OpenApi, ..gemini }),
    ]
}

fn tool(schema: Value) -> ToolDefinition {
    ToolDefinition { input_schema: schema, ..ToolDefinition::new("t", "Does it.") }
}

fn lowered(definition: &ToolDefinition, target: Target) -> (Value, Lowered) {
    let lowered = lower(&[Arc::new(definition.clone())], &target).unwrap();
    (serde_json::from_str(lowered.tools().get()).unwrap(), lowered)
}

/// A schema as it goes out, if one does, and whether the server shall hold the model to it.
fn sent(tools: &Value) -> Option<(Value, bool)> {
    let tool = &tools[0];
    let places = [
        (&tool["function"]["parameters"], &tool["function"]["strict"]),
        (&tool["parameters"], &tool["strict"]),
        (&tool["input_schema"], &tool["strict"]),
        (&tool["functionDeclarations"][0]["parametersJsonSchema"], &Value::Null),
        (&tool["functionDeclarations"][0]["parameters"], &Value::Null),
    ];
    let (schema, strict) = places.into_iter().find(|(schema, _)| !schema.is_null())?;
    Some((schema.clone(), *strict == json!(true)))
}
