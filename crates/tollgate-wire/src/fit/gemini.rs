//! Gemini's `parameters`: the words of OpenAPI 3.0 for a schema that was made narrow before.

use serde_json::{Map, Value};

use super::at_mut;

/// Writes a narrow schema with Gemini's words: types in capitals, and null as `nullable`.
pub(super) fn translate(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(branches)) = at_mut(schema, "anyOf") {
        let is_null = |branch: &Value| branch.get("type").is_some_and(|kind| kind == "null");
        let before = branches.len();
        branches.retain(|branch| !is_null(branch));
        let is_nullable = branches.len() < before;
        if let [Value::Object(only)] = branches.as_mut_slice() {
            let mut only = std::mem::take(only);
            schema.remove("anyOf");
            join_descriptions(schema, &mut only);
            only.append(schema);
            *schema = only;
            translate(schema);
        }
        if is_nullable {
            schema.insert("nullable".to_owned(), true.into());
        }
        if !schema.contains_key("anyOf") {
            return;
        }
    }
    if let Some(kind) = at_mut(schema, "type") {
        let is_null = |kind: &Value| kind == "null";
        let (name, is_nullable) = match &*kind {
            Value::Array(kinds) => (kinds.iter().find(|kind| !is_null(kind)), kinds.iter().any(is_null)),
            kind => (Some(kind).filter(|kind| !is_null(kind)), is_null(kind)),
        };
        let name = name.and_then(Value::as_str).unwrap_or("string").to_ascii_uppercase();
        *kind = name.into();
        if is_nullable {
            schema.insert("nullable".to_owned(), true.into());
        }
    }
    if let Some(Value::Array(values)) = at_mut(schema, "enum") {
        values.retain(|value| !value.is_null());
    }
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(all)) => all.values_mut().filter_map(Value::as_object_mut).for_each(translate),
            ("anyOf", Value::Array(all)) => all.iter_mut().filter_map(Value::as_object_mut).for_each(translate),
            ("items", Value::Object(map)) => translate(map),
            _ => {}
        }
    }
}

fn join_descriptions(outer: &mut Map<String, Value>, inner: &mut Map<String, Value>) {
    if let (Some(Value::String(outer)), Some(Value::String(inner))) =
        (outer.get_mut("description"), inner.get("description"))
    {
        *outer = format!("{outer} {inner}");
    }
}
