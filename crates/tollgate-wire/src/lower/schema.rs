//! A schema as servers accept it: an object with `properties` at the root and none of the keywords that they refuse
//! there; what those said is told in the description instead.

use serde_json::{Map, Value, json};

/// Keywords that servers refuse at the root of a schema.
const COMPOSING: &[&str] = &["anyOf", "oneOf", "allOf", "not", "if", "then", "else"];
const RULE_CHARS_MAX: usize = 600;
/// How many `$ref` are followed before a schema counts as one that refers to itself.
const REFS_MAX: usize = 8;

/// The lowered schema, and sentences for the description.
pub(super) fn lower_root(schema: &Value) -> (Value, Vec<String>) {
    let mut root = match follow(schema, schema) {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    if let Some(whole) = schema.as_object().filter(|whole| whole.contains_key("$ref")) {
        // The root itself refers: what stands beside `$ref` counts as well, its definitions above all.
        for (key, value) in whole.iter().filter(|(key, _)| *key != "$ref") {
            root.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    root.retain(|key, _| !matches!(key.as_str(), "$schema" | "$id" | "$ref"));
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let mut rules = Vec::new();
    for keyword in COMPOSING {
        let Some(value) = root.remove(*keyword) else { continue };
        for branch in value.as_array().into_iter().flatten() {
            let branch = follow(branch, schema);
            for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
                properties.entry(name.clone()).or_insert_with(|| property.clone());
            }
        }
        rules.push(rule(keyword, &value));
    }
    let mut lowered = Map::new();
    lowered.insert("type".to_owned(), json!("object"));
    lowered.insert("properties".to_owned(), Value::Object(properties));
    root.remove("type");
    lowered.append(&mut root);
    let mut lowered = Value::Object(lowered);
    give_items(&mut lowered);
    (lowered, rules)
}

/// A rule in words where it is a choice of required keys, else its JSON.
fn rule(keyword: &str, value: &Value) -> String {
    let required = |branch: &Value| -> Option<String> {
        let branch = branch.as_object().filter(|branch| branch.len() == 1)?;
        let keys: Vec<_> = branch.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
        (!keys.is_empty()).then(|| format!("`{}`", keys.join("` with `")))
    };
    let choices: Option<Vec<String>> = value.as_array().and_then(|branches| branches.iter().map(required).collect());
    match (keyword, choices) {
        ("anyOf", Some(choices)) => format!("Give at least one of: {}.", choices.join(", ")),
        ("oneOf", Some(choices)) => format!("Give exactly one of: {}.", choices.join(", ")),
        _ => {
            let json = value.to_string();
            let shown: String = json.chars().take(RULE_CHARS_MAX).collect();
            let more = if shown.len() < json.len() { " …" } else { "" };
            format!("The arguments must also satisfy `{keyword}`: {shown}{more}")
        }
    }
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

/// Servers refuse an array that does not say what is in it.
fn give_items(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("type").is_some_and(|kind| kind == "array") && !map.contains_key("prefixItems") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().for_each(give_items);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(give_items)
            }
            ("items" | "additionalProperties" | "not" | "if" | "then" | "else", schema) => give_items(schema),
            _ => {}
        }
    }
}
