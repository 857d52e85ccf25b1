//! Rules in words, for descriptions: short, because a model reads them with each request.

use serde_json::Value;

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
        _ => format!("The arguments must also satisfy `{keyword}`: {}", json(value)),
    }
}

/// A value as JSON, cut where it is long.
pub(super) fn json(value: &Value) -> String {
    let json = value.to_string();
    let shown: String = json.chars().take(RULE_CHARS_MAX).collect();
    if shown.len() < json.len() { format!("{shown} …") } else { shown }
}
