//! A schema for servers that read it to the model and enforce nothing: an object with `properties` at the root, none of the
//! keywords that they refuse there, and below it what JSON Schema says, written as the newest draft has it.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::join::{self, Joined};
use super::{Fitted, Refusal, drafts, words};

/// Keywords that servers refuse at the root of a schema.
const COMPOSING: &[&str] = &["anyOf", "oneOf", "allOf", "not", "enum", "const"];
/// How many `$ref` are followed before a schema counts as one that refers to itself.
const REFS_MAX: usize = 8;

pub(super) fn fit(schema: &Value) -> Result<Fitted<'_>, Refusal> {
    if let Some(root) = schema.as_object().filter(|root| is_ready(root)) {
        return Ok(Fitted { schema: Cow::Borrowed(root), ..Fitted::default() });
    }
    let mut root = root(schema);
    join_parts(&mut root, schema);
    let mut properties = match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    let (mut told, mut losses) = (Vec::new(), Vec::new());
    let lose = |keyword: &str| Refusal::new("", format!("`{keyword}` cannot stand at the root of a schema"));
    for keyword in COMPOSING {
        let Some(value) = root.remove(*keyword) else { continue };
        for branch in value.as_array().into_iter().flatten() {
            let branch = follow(branch, schema);
            for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
                properties.entry(name.clone()).or_insert_with(|| property.clone());
            }
        }
        told.push(words::rule(keyword, &value));
        losses.push(lose(keyword));
    }
    if let Some(condition) = words::condition(&root) {
        told.push(condition);
        losses.push(lose("if"));
    }
    properties.retain(|_, property| *property != Value::Bool(false));
    let mut lowered = Map::new();
    lowered.insert("type".to_owned(), json!("object"));
    lowered.insert("properties".to_owned(), Value::Object(properties));
    root.retain(|key, _| !matches!(key.as_str(), "type" | "if" | "then" | "else"));
    lowered.append(&mut root);
    tidy_map(&mut lowered);
    let lowered = Value::Object(lowered);
    if let Some(reference) = dangling(&lowered, &lowered) {
        return Err(Refusal::new("", format!("`$ref` leads to what cannot be told: {reference}")));
    }
    let Value::Object(schema) = lowered else { return Ok(Fitted::default()) };
    Ok(Fitted { schema: Cow::Owned(schema), words: told, losses, ..Fitted::default() })
}

/// Whether a schema can go out as it is. Most can.
fn is_ready(root: &Map<String, Value>) -> bool {
    let is_refused = |key: &str| COMPOSING.contains(&key) || matches!(key, "if" | "then" | "else" | "$schema" | "$id");
    root.get("type").is_some_and(|kind| kind == "object") && !root.keys().any(|key| is_refused(key)) && is_tidy(root)
}

/// Joins what `allOf` lists at the root with the root, where that can be said as one.
fn join_parts(root: &mut Map<String, Value>, schema: &Value) {
    let Some(Value::Array(parts)) = root.get("allOf") else { return };
    let mut whole = root.clone();
    whole.remove("allOf");
    for part in parts {
        let Value::Object(part) = follow(part, schema) else { return };
        let is_composed = part.keys().any(|key| COMPOSING.contains(&key.as_str()) || matches!(&**key, "$ref" | "if"));
        match join::join(whole, part.clone()) {
            Joined::Whole(joined) if !is_composed => whole = joined,
            _ => return,
        }
    }
    *root = whole;
}

/// A reference within a schema that leads nowhere.
fn dangling<'v>(part: &'v Value, root: &Value) -> Option<&'v str> {
    let map = match part {
        Value::Object(map) => map,
        Value::Array(items) => return items.iter().find_map(|item| dangling(item, root)),
        _ => return None,
    };
    let target = map.get("$ref").and_then(Value::as_str);
    let is_lost = |target: &&str| {
        let pointer = target.strip_prefix('#').map(|fragment| percent_decode_str(fragment).decode_utf8_lossy());
        pointer.is_some_and(|pointer| pointer.starts_with('/') && root.pointer(&pointer).is_none())
    };
    let mut schemas = map.iter().filter(|(key, _)| !matches!(key.as_str(), "const" | "enum" | "default" | "examples"));
    target.filter(is_lost).or_else(|| schemas.find_map(|(_, value)| dangling(value, root)))
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

/// Keywords whose values are schemas by name, schemas in a list, and one schema.
const BY_NAME: &[&str] = &["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTED: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];
const SINGLE: &[&str] = &["items", "not", "if", "then", "else", "contains", "propertyNames"];

/// Puts right what servers refuse anywhere: an array that does not say what is in it, an object that does not say what it
/// has, and a boolean as a schema.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        Value::Object(map) => tidy_map(map),
        _ => {}
    }
}

fn tidy_map(map: &mut Map<String, Value>) {
    drafts::renew(map);
    if may_be(map, "array") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    if may_be(map, "object") {
        map.entry("properties").or_insert_with(|| json!({}));
    }
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            (key, Value::Object(all)) if BY_NAME.contains(&key) => all.values_mut().for_each(tidy),
            (key, Value::Array(all)) if LISTED.contains(&key) => all.iter_mut().for_each(tidy),
            (key, schema) if SINGLE.contains(&key) => tidy(schema),
            // Here servers know the boolean.
            ("additionalProperties", Value::Object(map)) => tidy_map(map),
            _ => {}
        }
    }
}

/// Whether tidying would change nothing. Where there are references it is not asked.
fn is_tidy(map: &Map<String, Value>) -> bool {
    let is_fit = |schema: &Value| schema.as_object().is_some_and(is_tidy);
    let is_whole = |(key, value): (&String, &Value)| match (key.as_str(), value) {
        ("$ref", _) => false,
        (key, Value::Object(all)) if BY_NAME.contains(&key) => all.values().all(is_fit),
        (key, Value::Array(all)) if LISTED.contains(&key) => all.iter().all(is_fit),
        (key, schema) if SINGLE.contains(&key) => is_fit(schema),
        ("additionalProperties", Value::Object(map)) => is_tidy(map),
        _ => true,
    };
    !drafts::is_old(map)
        && (!may_be(map, "array") || map.contains_key("items"))
        && (!may_be(map, "object") || map.contains_key("properties"))
        && map.iter().all(is_whole)
}

/// Whether a schema names a type.
fn may_be(map: &Map<String, Value>, name: &str) -> bool {
    match map.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}
