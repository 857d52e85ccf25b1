//! The documentation of the configuration, made from its types.

use std::fmt::Write as _;

use serde_json::Value;

use super::Config;

/// The JSON Schema (2020-12) of `tollgate.toml`.
pub fn json_schema() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// The page `docs/config.md`.
pub fn page(schema: &Value) -> String {
    let mut page = String::from(
        "# Configuration\n\nGenerated from the code by `tollgate docs`. The file is `tollgate.toml` in the current folder or a \
         parent, else `~/.config/tollgate/tollgate.toml`, or what `--config` names. Every key has a default. The JSON Schema is \
         `config.schema.json`, for editors that know it.\n\n## Top level\n",
    );
    table(&mut page, schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for (name, definition) in definitions.into_iter().flatten() {
        let text = definition.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(page, "\n## {name}\n\n{text}");
        match definition.get("properties") {
            Some(_) => table(&mut page, definition),
            None => choices(&mut page, definition),
        }
    }
    page
}

fn table(page: &mut String, object: &Value) {
    let _ = writeln!(page, "\n| key | type | default | meaning |\n|---|---|---|---|");
    for (key, property) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let text = property.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
        let default = property.get("default").map(|value| format!("`{value}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{key}` | {} | {default} | {} |", kind(property), text.replace('|', "\\|"));
    }
}

fn kind(property: &Value) -> String {
    if let Some(name) = property.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let of = |key: &str| property.get(key).map(kind);
    if let Some(all) = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| property.get(*key)).and_then(Value::as_array) {
        let kinds: Vec<String> = all.iter().map(kind).filter(|kind| kind != "null").collect();
        return kinds.join(" or ");
    }
    match property.get("type") {
        Some(Value::String(name)) if name == "array" => {
            format!("list of {}", of("items").unwrap_or_else(|| "values".into()))
        }
        Some(Value::String(name)) if name == "object" => match of("additionalProperties") {
            Some(inner) if inner != "value" => format!("table of {inner}"),
            _ => "table".into(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect();
            names.join(" or ")
        }
        _ => "value".into(),
    }
}

fn choices(page: &mut String, definition: &Value) {
    let listed = ["oneOf", "anyOf"].iter().find_map(|key| definition.get(*key)).and_then(Value::as_array);
    for choice in listed.into_iter().flatten() {
        let text = choice.get("description").and_then(Value::as_str).unwrap_or_default();
        let name = choice
            .get("const")
            .and_then(Value::as_str)
            .map(|name| format!("`{name}`"))
            .or_else(|| {
                let keys = choice.get("properties")?.as_object()?.keys();
                Some(keys.map(|key| format!("`{key} = …`")).collect::<Vec<_>>().join(", "))
            })
            .unwrap_or_else(|| kind(choice));
        let _ = writeln!(page, "- {name}: {text}");
    }
    for name in definition.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(page, "- `{name}`");
    }
}
