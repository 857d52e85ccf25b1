//! Schemas and values by chance.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Schemas of arguments: objects with parts that refer to each other.
pub(super) fn any_root() -> impl Strategy<Value = Value> {
    let parts = prop::collection::vec(any_schema(), 3);
    (any_object(any_schema()), parts).prop_map(|(mut root, parts)| {
        let names = ["A", "B", "C"].map(str::to_owned);
        root["$defs"] = Value::Object(names.into_iter().zip(parts).collect());
        root
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    any_leaf().prop_recursive(3, 24, 4, |inner| {
        let several = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            4 => any_object(inner.clone()),
            3 => (inner.clone(), any_limits(&["minItems", "maxItems"])).prop_map(|(items, limits)| {
                joined(json!({"type": "array", "items": items}), limits)
            }),
            1 => several().prop_map(|places| json!({"type": "array", "prefixItems": places})),
            2 => several().prop_map(|all| json!({"anyOf": all})),
            1 => several().prop_map(|all| json!({"oneOf": all})),
            1 => several().prop_map(|all| json!({"allOf": all})),
            1 => (inner.clone(), any_leaf()).prop_map(|(one, other)| {
                json!({"type": "object", "properties": {"a": one}, "anyOf": [{"required": ["a"]}, {"properties": {"b": other}}]})
            }),
        ]
    })
}

fn any_leaf() -> impl Strategy<Value = Value> {
    let text = any_limits(&["minLength", "maxLength"]);
    let number = || any_limits(&["minimum", "maximum", "exclusiveMinimum", "multipleOf"]);
    let format = prop::sample::select(vec!["date-time", "uri", "email", "colour"]);
    let value = || prop::sample::select(vec![json!("a"), json!("b"), json!(1), json!(2.5), json!(null), json!(true)]);
    prop_oneof![
        4 => text.prop_map(|limits| joined(json!({"type": "string"}), limits)),
        1 => format.prop_map(|format| json!({"type": "string", "format": format, "description": "A text."})),
        3 => number().prop_map(|limits| joined(json!({"type": "integer"}), limits)),
        2 => number().prop_map(|limits| joined(json!({"type": "number"}), limits)),
        1 => Just(json!({"type": "boolean", "default": false})),
        1 => Just(json!({"type": ["string", "integer", "null"]})),
        2 => prop::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
        1 => value().prop_map(|value| json!({"const": value})),
        3 => prop::sample::select(vec!["A", "B", "C"]).prop_map(|name| json!({"$ref": format!("#/$defs/{name}")})),
        1 => Just(json!({"$ref": "#/$defs/A", "description": "Elsewhere."})),
        1 => Just(json!({"not": {"type": "string"}, "type": ["string", "integer"]})),
    ]
}

fn any_object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["a", "b", "c", "键"]);
    let property = (name, inner, any::<bool>());
    let rest =
        prop::sample::select(vec![None, None, Some(json!(false)), Some(json!(true)), Some(json!({"type": "string"}))]);
    // Open objects cannot be strict: they are seldom.
    let rest = (rest, 0..8u8).prop_map(|(rest, chance)| rest.filter(|rest| *rest == json!(false) || chance == 0));
    (prop::collection::vec(property, 0..4), rest).prop_map(|(all, rest)| {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, schema, is_required) in all {
            if is_required && !required.contains(&json!(name)) {
                required.push(json!(name));
            }
            properties.insert(name.to_owned(), schema);
        }
        let mut object = json!({"type": "object", "properties": properties, "required": required});
        if let Some(rest) = rest {
            object["additionalProperties"] = rest;
        }
        object
    })
}

/// Some of these limits, seldom.
fn any_limits(keywords: &'static [&'static str]) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((prop::sample::select(keywords), 1..6u8), 0..2)
        .prop_map(|all| all.into_iter().map(|(keyword, limit)| (keyword.to_owned(), limit.into())).collect())
}

fn joined(mut schema: Value, limits: Map<String, Value>) -> Value {
    schema.as_object_mut().unwrap().extend(limits);
    schema
}

/// Something that a server held to a strict schema may send; sometimes it fits no limit.
pub(super) fn value(root: &Value, schema: &Value, dice: &mut impl FnMut(usize) -> usize, depth: usize) -> Value {
    if depth > 12 {
        return Value::Null;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return value(root, root.pointer(reference.trim_start_matches('#')).unwrap(), dice, depth + 1);
    }
    if let Some(all) = schema["enum"].as_array() {
        return all[dice(all.len())].clone();
    }
    if let Some(all) = schema["anyOf"].as_array() {
        let at = if depth > 6 { all.len() - 1 } else { dice(all.len()) };
        return value(root, &all[at], dice, depth + 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[dice(kinds.len())].clone(),
        kind => kind.clone(),
    };
    match kind.as_str().unwrap() {
        "null" => Value::Null,
        "boolean" => (dice(2) == 0).into(),
        "integer" => [-1, 0, 1, 2, 3, 6, 12][dice(7)].into(),
        "number" => [-1.5, 0.5, 1.0, 2.5, 4.0][dice(5)].into(),
        "string" => ["", "a", "abc", "a@example.org", "2026-11-30T10:00:00Z", "中文"][dice(6)].into(),
        "array" => {
            let count = schema["minItems"].as_u64().unwrap_or_default() as usize + dice(3);
            (0..count).map(|_| value(root, &schema["items"], dice, depth + 1)).collect()
        }
        "object" => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let mut object = Map::new();
            for (name, property) in schema["properties"].as_object().unwrap() {
                if required.contains(&json!(name)) || dice(2) == 0 {
                    object.insert(name.clone(), value(root, property, dice, depth + 1));
                }
            }
            object.into()
        }
        other => panic!("no such type: {other}"),
    }
}
