//! A schema for servers that read it to the model and enforce nothing: an object with `properties` at the root, none of the
//! keywords that they refuse there, and below it what JSON Schema says, written as the newest draft has it.

use serde_json::{Map, Value, json};

use super::{Fitted, Refusal, words};

/// Keywords that servers refuse at the root of a schema.
const COMPOSING: &[&str] = &["anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"];
/// How many `$ref` are followed before a schema counts as one that refers to itself.
const REFS_MAX: usize = 8;

pub(super) fn fit(schema: &Value) -> Fitted {
    let mut root = root(schema);
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let (mut told, mut losses) = (Vec::new(), Vec::new());
    for keyword in COMPOSING {
        let Some(value) = root.remove(*keyword) else { continue };
        for branch in value.as_array().into_iter().flatten() {
            let branch = follow(branch, schema);
            for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
                properties.entry(name.clone()).or_insert_with(|| property.clone());
            }
        }
        told.push(words::rule(keyword, &value));
        losses.push(Refusal::new("", format!("`{keyword}` cannot stand at the root of a schema")));
    }
    properties.retain(|_, property| *property != Value::Bool(false));
    let mut lowered = Map::new();
    lowered.insert("type".to_owned(), json!("object"));
    lowered.insert("properties".to_owned(), Value::Object(properties));
    root.remove("type");
    lowered.append(&mut root);
    let mut lowered = Value::Object(lowered);
    tidy(&mut lowered);
    let schema = match lowered {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    Fitted { schema, words: told, losses, ..Fitted::default() }
}

/// The root itself, where it refers: what stands beside `$ref` counts as well, its definitions above all.
fn root(schema: &Value) -> Map<String, Value> {
    let mut root = match follow(schema, schema) {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    if let Some(whole) = schema.as_object().filter(|whole| whole.contains_key("$ref")) {
        for (key, value) in whole.iter().filter(|(key, _)| *key != "$ref") {
            root.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    root.retain(|key, _| !matches!(key.as_str(), "$schema" | "$id" | "$ref"));
    root
}

/// What a local `$ref` refers to.
fn follow<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    for _ in 0..REFS_MAX {
        let target =
            schema.get("$ref").and_then(Value::as_str).and_then(|target| root.pointer(target.strip_prefix('#')?));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// Puts right what servers refuse anywhere: an array that does not say what is in it, an object that does not say what it
/// has, a boolean as a schema, and what older drafts wrote otherwise.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        Value::Object(map) => tidy_map(map),
        _ => {}
    }
}

fn tidy_map(map: &mut Map<String, Value>) {
    if map.get("items").is_some_and(Value::is_array) {
        let rest = map.remove("additionalItems");
        if let Some(tuple) = map.remove("items") {
            map.entry("prefixItems").or_insert(tuple);
        }
        map.insert("items".to_owned(), rest.unwrap_or_else(|| json!({})));
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let Some(Value::Bool(is_exclusive)) = map.get(exclusive) else { continue };
        let number = if *is_exclusive { map.remove(limit) } else { None };
        map.remove(exclusive);
        map.extend(number.map(|number| (exclusive.to_owned(), number)));
    }
    if may_be(map, "array") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    if may_be(map, "object") {
        map.entry("properties").or_insert_with(|| json!({}));
    }
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas", Value::Object(all)) => {
                all.values_mut().for_each(tidy);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(all)) => all.iter_mut().for_each(tidy),
            ("items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames", schema) => tidy(schema),
            // Here servers know the boolean.
            ("additionalProperties", Value::Object(map)) => tidy_map(map),
            _ => {}
        }
    }
}

/// Whether a schema names a type.
fn may_be(map: &Map<String, Value>, name: &str) -> bool {
    match map.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}
