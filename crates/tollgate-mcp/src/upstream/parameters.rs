//! Parameters that a tool wants repeated as headers (MCP 2026-07-28, Streamable HTTP: custom headers from tool parameters):
//! which those are, by the tool's schema, and their values in one call.

use serde_json::Value;

use super::encoded;

/// The annotation in the schema of a property.
const KEYWORD: &str = "x-mcp-header";
/// Parameters of one tool that are repeated.
const MIRRORED_MAX: usize = 64;

/// A parameter that is repeated as a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirrored {
    /// The header's name after `Mcp-Param-`.
    name: String,
    /// The properties that lead to it.
    path: Vec<String>,
}

/// The parameters that a schema wants repeated.
///
/// # Errors
/// When an annotation is none that may be: the tool must then not be used.
pub(super) fn declared(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    walk(schema, Some(Vec::new()), &mut found)?;
    if found.len() > MIRRORED_MAX {
        return Err(format!("it wants more than {MIRRORED_MAX} parameters as headers"));
    }
    Ok(found)
}

/// `path` leads here over `properties` alone; none where something else lies between.
fn walk(schema: &Value, path: Option<Vec<String>>, found: &mut Vec<Mirrored>) -> Result<(), String> {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Array(several) => return several.iter().try_for_each(|below| walk(below, None, found)),
        _ => return Ok(()),
    };
    if let Some(name) = keywords.get(KEYWORD) {
        found.push(mirrored(name, keywords.get("type"), path.clone(), found)?);
    }
    for (keyword, below) in keywords {
        match (keyword.as_str(), below) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    let path = path.clone().map(|path| [path, vec![name.clone()]].concat());
                    walk(property, path, found)?;
                }
            }
            ("$defs" | "definitions" | "patternProperties" | "dependentSchemas", Value::Object(named)) => {
                named.values().try_for_each(|below| walk(below, None, found))?;
            }
            // Values, in which the word means nothing.
            ("const" | "enum" | "default" | "examples" | KEYWORD, _) => {}
            _ => walk(below, None, found)?,
        }
    }
    Ok(())
}

fn mirrored(
    name: &Value,
    kind: Option<&Value>,
    path: Option<Vec<String>>,
    found: &[Mirrored],
) -> Result<Mirrored, String> {
    // RFC 9110 §5.6.2: token.
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    let name = name.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    let name = name.ok_or_else(|| format!("`{KEYWORD}` is not the name of a header"))?;
    let path = path.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| format!("`{KEYWORD}` stands where `properties` alone do not lead"))?;
    let is_plain = |kind: &Value| matches!(kind.as_str(), Some("string" | "integer" | "boolean"));
    let is_plain = match kind {
        // A value that may be null is left out when it is.
        Some(Value::Array(kinds)) => {
            kinds.iter().any(is_plain) && kinds.iter().all(|kind| is_plain(kind) || kind == "null")
        }
        kind => kind.is_some_and(is_plain),
    };
    if !is_plain {
        return Err(format!("`{KEYWORD}` is for parameters of type string, integer or boolean"));
    }
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
        return Err(format!("`{KEYWORD}` names the header `{name}` twice"));
    }
    Ok(Mirrored { name: name.to_owned(), path })
}

/// The headers of one call. What is not there, or null, has none.
pub(super) fn headers(mirrored: &[Mirrored], arguments: &Value) -> Vec<(String, String)> {
    let value = |mirrored: &Mirrored| {
        let found = mirrored.path.iter().try_fold(arguments, |value, name| value.get(name))?;
        let text = match found {
            Value::String(text) => encoded::value(text),
            Value::Bool(is) => is.to_string(),
            Value::Number(number) => match number.as_f64() {
                // `42.0` is an integer to a schema, and is written as one.
                Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
                _ => number.to_string(),
            },
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((format!("Mcp-Param-{}", mirrored.name), text))
    };
    mirrored.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_are_taken_where_they_may_stand_and_nowhere_else() {
        let text = |header: &str| json!({"type": "string", KEYWORD: header});
        for (schema, names) in [
            (json!({"properties": {"a": text("A"), "b": {"type": "string"}}}), Ok(vec!["A"])),
            (json!({"properties": {"a": {"type": "object", "properties": {"b": text("Deep")}}}}), Ok(vec!["Deep"])),
            (json!({"properties": {"a": {"type": ["integer", "null"], KEYWORD: "A"}}}), Ok(vec!["A"])),
            (json!({"properties": {KEYWORD: {"type": "string"}}}), Ok(vec![])),
            (json!({"properties": {"a": {"type": "object", "default": {KEYWORD: 7}}}}), Ok(vec![])),
            (json!({"properties": {"a": text("")}}), Err("not the name")),
            (json!({"properties": {"a": text("a b")}}), Err("not the name")),
            (json!({"properties": {"a": text("名")}}), Err("not the name")),
            (json!({"properties": {"a": text("a\r\nb")}}), Err("not the name")),
            (json!({"properties": {"a": {"type": "string", KEYWORD: 7}}}), Err("not the name")),
            (json!({"properties": {"a": {"type": "number", KEYWORD: "A"}}}), Err("of type string")),
            (json!({"properties": {"a": {"type": "null", KEYWORD: "A"}}}), Err("of type string")),
            (json!({"properties": {"a": {KEYWORD: "A"}}}), Err("of type string")),
            (json!({"properties": {"a": text("My"), "b": text("my")}}), Err("twice")),
            (json!({KEYWORD: "A", "type": "string"}), Err("`properties` alone")),
            (json!({"properties": {"a": {"type": "array", "items": text("A")}}}), Err("`properties` alone")),
            (json!({"anyOf": [{"properties": {"a": text("A")}}]}), Err("`properties` alone")),
            (json!({"$defs": {"x": text("A")}}), Err("`properties` alone")),
        ] {
            let read = declared(&schema);
            match (&read, names) {
                (Ok(found), Ok(names)) => {
                    assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), names, "{schema}");
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{schema}: {error}"),
                _ => panic!("{schema}: {read:?}"),
            }
        }
    }

    #[test]
    fn values_go_as_text_that_a_header_takes() {
        let plain = |kind: &str, header: &str| json!({"type": kind, KEYWORD: header});
        let schema = json!({"properties": {
            "s": plain("string", "S"), "i": plain("integer", "I"), "b": plain("boolean", "B"),
            "deep": {"type": "object", "properties": {"s": plain("string", "D")}},
        }});
        let mirrored = declared(&schema).unwrap();
        for (arguments, expected) in [
            (json!({"s": "us-west1", "i": -7, "b": false}), vec![("S", "us-west1"), ("I", "-7"), ("B", "false")]),
            (json!({"s": "", "i": 42.0}), vec![("S", ""), ("I", "42")]),
            (json!({"s": "Hello, 世界"}), vec![("S", "=?base64?SGVsbG8sIOS4lueVjA==?=")]),
            (json!({"s": " padded "}), vec![("S", "=?base64?IHBhZGRlZCA=?=")]),
            (json!({"s": "line1\r\nline2"}), vec![("S", "=?base64?bGluZTENCmxpbmUy?=")]),
            (json!({"s": null, "deep": {"s": "in"}}), vec![("D", "in")]),
            (json!({"deep": "none"}), vec![]),
        ] {
            let headers = headers(&mirrored, &arguments);
            let expected: Vec<(String, String)> =
                expected.into_iter().map(|(name, value)| (format!("Mcp-Param-{name}"), value.to_owned())).collect();
            assert_eq!(headers, expected, "{arguments}");
        }
    }
}
