//! What older drafts of JSON Schema wrote otherwise, as the newest has it.

use serde_json::{Map, Value, json};

/// Whether a schema has what was written otherwise.
pub(super) fn is_old(map: &Map<String, Value>) -> bool {
    map.iter().any(|(key, value)| match key.as_str() {
        "items" => value.is_array(),
        "exclusiveMinimum" | "exclusiveMaximum" => value.is_boolean(),
        _ => false,
    })
}

/// Renews one schema, and nothing below it.
pub(super) fn renew(map: &mut Map<String, Value>) {
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
}
