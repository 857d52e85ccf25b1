//! Two schemas that both must hold, as one.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::kinds;

/// What two schemas become.
pub(super) enum Joined {
    /// One schema that says what both say.
    Whole(Map<String, Value>),
    /// Nothing fits both.
    Never,
    /// They cannot be said as one; the first of them.
    Apart(Map<String, Value>),
}

/// Joins two schemas. Neither has a `$ref` or an `allOf`; below them `allOf` is written where both say something of one
/// place.
pub(super) fn join(one: Map<String, Value>, other: Map<String, Value>) -> Joined {
    if one.is_empty() {
        return Joined::Whole(other);
    }
    let mut whole = one.clone();
    if !close(&mut whole, &one, &other) {
        return Joined::Apart(one);
    }
    for (keyword, theirs) in other {
        let Some(mine) = whole.get_mut(&keyword) else {
            whole.insert(keyword, theirs);
            continue;
        };
        if *mine == theirs {
            continue;
        }
        match joined(&keyword, mine, theirs) {
            Some(Some(value)) => *mine = value,
            Some(None) => return Joined::Never,
            None => return Joined::Apart(one),
        }
    }
    Joined::Whole(whole)
}

/// What one schema says of keys that it does not name holds for those that only the other names.
fn close(whole: &mut Map<String, Value>, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let rest =
        |map: &Map<String, Value>| map.get("additionalProperties").filter(|rest| **rest != Value::Bool(true)).cloned();
    let names =
        |map: &Map<String, Value>| map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let has = |map: &Map<String, Value>, keyword| map.contains_key(keyword);
    if [one, other].iter().any(|map| has(map, "unevaluatedProperties")) {
        return false;
    }
    let has_items = |map| has(map, "items") || has(map, "prefixItems");
    if has(one, "prefixItems") && has_items(other) || has(other, "prefixItems") && has_items(one) {
        return false;
    }
    let (mine, theirs) = (rest(one), rest(other));
    if mine.is_none() && theirs.is_none() {
        return true;
    }
    if [one, other].iter().any(|map| has(map, "patternProperties")) {
        return false;
    }
    let (ours, others) = (names(one), names(other));
    let mut properties = ours.clone();
    if let Some(rest) = theirs {
        for (name, property) in &mut properties {
            if !others.contains_key(name) {
                *property = both(property.take(), rest.clone());
            }
        }
    }
    if let Some(rest) = mine {
        let unnamed = others.keys().filter(|name| !ours.contains_key(*name));
        properties.extend(unnamed.map(|name| (name.clone(), rest.clone())));
    }
    if !properties.is_empty() {
        whole.insert("properties".to_owned(), properties.into());
    }
    true
}

/// One keyword of two schemas: some value, none where nothing fits, and nothing at all where it cannot be said.
fn joined(keyword: &str, mine: &Value, theirs: Value) -> Option<Option<Value>> {
    match keyword {
        "title" | "description" | "default" | "examples" => Some(Some(mine.clone())),
        "type" => Some(common_kinds(mine, &theirs)),
        "required" => Some(Some(union(mine, theirs))),
        "properties" => Some(Some(side_by_side(mine, theirs))),
        "items" | "additionalProperties" => Some(Some(both(mine.clone(), theirs))),
        "enum" => {
            let theirs = theirs.as_array()?;
            let common: Vec<Value> = mine.as_array()?.iter().filter(|value| theirs.contains(value)).cloned().collect();
            Some((!common.is_empty()).then(|| Value::Array(common)))
        }
        "uniqueItems" => Some(Some(Value::Bool(true))),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            Some(Some(stricter(mine, theirs, Ordering::Less)))
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            Some(Some(stricter(mine, theirs, Ordering::Greater)))
        }
        _ => None,
    }
}

fn both(one: Value, other: Value) -> Value {
    match (&one, &other) {
        (Value::Bool(false), _) | (_, Value::Bool(true)) => one,
        (_, Value::Bool(false)) | (Value::Bool(true), _) => other,
        _ if one == other => one,
        _ => json!({ "allOf": [one, other] }),
    }
}

fn common_kinds(mine: &Value, theirs: &Value) -> Option<Value> {
    let common = kinds::said(mine).and(kinds::said(theirs));
    let mut names: Vec<Value> = common.iter().map(|kind| kind.as_str().into()).collect();
    if names.len() > 1 { Some(Value::Array(names)) } else { names.pop() }
}

fn union(mine: &Value, theirs: Value) -> Value {
    let mut all = mine.as_array().cloned().unwrap_or_default();
    for name in theirs.as_array().into_iter().flatten() {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    Value::Array(all)
}

fn side_by_side(mine: &Value, theirs: Value) -> Value {
    let mut all = mine.as_object().cloned().unwrap_or_default();
    if let Value::Object(theirs) = theirs {
        for (name, schema) in theirs {
            let schema = match all.remove(&name) {
                Some(mine) => both(mine, schema),
                None => schema,
            };
            all.insert(name, schema);
        }
    }
    Value::Object(all)
}

/// The one of two limits that is not in this order to the other.
fn stricter(mine: &Value, theirs: Value, loose: Ordering) -> Value {
    let order = mine.as_f64().partial_cmp(&theirs.as_f64());
    if order == Some(loose) { theirs } else { mine.clone() }
}
