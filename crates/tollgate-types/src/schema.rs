//! JSON Schemas of Rust types, as a model should read them.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a tool's arguments.
///
/// ```
/// #[derive(schemars::JsonSchema)]
/// struct Lines {
///     /// How many.
///     count: usize,
/// }
/// let schema = tollgate_types::input_schema::<Lines>();
/// assert_eq!(schema["properties"]["count"]["description"], "How many.");
/// assert!(schema["properties"]["count"].get("format").is_none());
/// ```
pub fn input_schema<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_deserialize())
}

/// The schema of a tool's structured result.
pub fn output_schema<T: JsonSchema>() -> Value {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(|schema: &mut Schema| {
            // Rust's own number formats tell a model nothing and are unknown to JSON Schema: clients warn of them.
            if schema.get("format").and_then(Value::as_str).is_some_and(is_of_rust) {
                schema.remove("format");
            }
            // Where a comment was wrapped is nothing that a model should read.
            if let Some(Value::String(text)) = schema.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            if schema.get("default").is_some_and(Value::is_null) {
                schema.remove("default");
            }
        }));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}

fn is_of_rust(format: &str) -> bool {
    format.contains("int") || matches!(format, "float" | "double")
}
