//! Rules in words, for descriptions: short, because a model reads them with each request.

use serde_json::{Map, Value};

/// A rule that only its JSON can tell.
const RULE_CHARS_MAX: usize = 600;

/// A rule in words where it is a choice of required keys, else its JSON.
pub(super) fn rule(keyword: &str, value: &Value) -> String {
    let required = |branch: &Value| -> Option<String> {
        let branch = branch.as_object().filter(|branch| branch.len() == 1)?;
        let keys: Vec<_> = branch.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
        (!keys.is_empty()).then(|| format!("`{}`", keys.join("` with `")))
    };
    let choices: Option<Vec<String>> = value.as_array().and_then(|branches| branches.iter().map(required).collect());
    match (keyword, choices) {
        ("anyOf", Some(choices)) => format!("Give at least one of: {}.", choices.join(", ")),
        ("oneOf", Some(choices)) => format!("Give exactly one of: {}.", choices.join(", ")),
        _ => format!("Must also satisfy `{keyword}`: {}.", json(value)),
    }
}

/// The condition of a schema, if it has one.
pub(super) fn condition(map: &Map<String, Value>) -> Option<String> {
    map.get("if")?;
    let parts = ["if", "then", "else"].into_iter().filter_map(|key| Some((key.to_owned(), map.get(key)?.clone())));
    Some(format!("Must also satisfy {}.", json(&Value::Object(parts.collect()))))
}

/// A limit of one value.
pub(super) fn limit(keyword: &str, value: &Value) -> String {
    let shown = json(value);
    match keyword {
        "minLength" => format!("At least {shown} characters."),
        "maxLength" => format!("At most {shown} characters."),
        "pattern" => format!("Must match the pattern {shown}."),
        "format" => format!("Format: {}.", value.as_str().unwrap_or_default()),
        "minimum" => format!("At least {shown}."),
        "maximum" => format!("At most {shown}."),
        "exclusiveMinimum" => format!("More than {shown}."),
        "exclusiveMaximum" => format!("Less than {shown}."),
        "multipleOf" => format!("A multiple of {shown}."),
        "minItems" => format!("At least {shown} items."),
        "maxItems" => format!("At most {shown} items."),
        "uniqueItems" => "No item twice.".to_owned(),
        "minProperties" => format!("At least {shown} keys."),
        "maxProperties" => format!("At most {shown} keys."),
        "enum" => format!("One of {shown}."),
        _ => rule(keyword, value),
    }
}

/// A value as JSON, cut where it is long.
pub(super) fn json(value: &Value) -> String {
    let json = value.to_string();
    let shown: String = json.chars().take(RULE_CHARS_MAX).collect();
    if shown.len() < json.len() { format!("{shown} …") } else { shown }
}
