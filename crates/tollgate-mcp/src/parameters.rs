//! Parameters that a tool wants repeated as headers (MCP 2026-07-28, Streamable HTTP: custom headers from tool parameters):
//! which those are, by the tool's schema, and their values in one call.

use std::collections::BTreeMap;

use serde_json::{Number, Value};
use tollgate_types::HEADER_KEYWORD as KEYWORD;

use crate::encoded;

/// Parameters of one tool that are repeated.
const MIRRORED_MAX: usize = 64;

/// A parameter that is repeated as a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// The header's name after `Mcp-Param-`.
    name: String,
    /// The properties that lead to it.
    path: Vec<String>,
}

/// The parameters that a schema wants repeated.
///
/// # Errors
/// When an annotation is none that may be: the tool must then not be used.
pub(crate) fn declared(schema: &Value) -> Result<Vec<Mirrored>, String> {
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

/// What the headers of a request repeat: by their names after `Mcp-Param-`, in lower case. Nothing of what is there twice or
/// does not decode.
pub(crate) type Repeated = BTreeMap<String, Option<String>>;

/// The headers of one call. What is not there, or null, has none.
pub(crate) fn headers(mirrored: &[Mirrored], arguments: &Value) -> Vec<(String, String)> {
    let header = |one: &Mirrored| Some((format!("Mcp-Param-{}", one.name), encoded::value(&one.text(arguments)?)));
    mirrored.iter().filter_map(header).collect()
}

/// What headers say otherwise than the arguments. Headers that the schema does not know are left.
pub(crate) fn misfit(mirrored: &[Mirrored], arguments: &Value, repeated: &Repeated) -> Option<String> {
    mirrored.iter().find_map(|one| {
        let (name, text) = (&one.name, one.text(arguments));
        match (repeated.get(&name.to_ascii_lowercase()), text) {
            (None, None) => None,
            (None, Some(_)) => Some(format!("`Mcp-Param-{name}` is missing")),
            (Some(None), _) => Some(format!("`Mcp-Param-{name}` must be there once, in visible ASCII, and decode")),
            (Some(Some(said)), Some(text)) if *said == text || number(said).is_some_and(|said| said == text) => None,
            (Some(Some(_)), _) => Some(format!("`Mcp-Param-{name}` is not `{}` of the arguments", one.path.join("."))),
        }
    })
}

/// A number as it is written here.
fn number(said: &str) -> Option<String> {
    said.parse().ok().map(|number| written(&number))
}

/// `42.0` is an integer to a schema, and is written as one.
fn written(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

impl Mirrored {
    /// Its value in these arguments as a text. What is not there, or null, has none.
    fn text(&self, arguments: &Value) -> Option<String> {
        match self.path.iter().try_fold(arguments, |value, name| value.get(name))? {
            Value::String(text) => Some(text.clone()),
            Value::Bool(is) => Some(is.to_string()),
            Value::Number(number) => Some(written(number)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
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

    #[test]
    fn headers_say_what_the_arguments_say() {
        let schema = json!({"properties": {
            "region": {"type": "string", KEYWORD: "Region"},
            "page": {"type": "object", "properties": {"size": {"type": "integer", KEYWORD: "Size"}}},
            "all": {"type": "boolean", KEYWORD: "All"},
        }});
        let mirrored = declared(&schema).unwrap();
        let said = |pairs: &[(&str, Option<&str>)]| -> Repeated {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), text.map(str::to_owned))).collect()
        };
        for (arguments, headers, misfit_said) in [
            (json!({"region": "上海"}), said(&[("region", Some("上海"))]), None),
            (json!({"region": null}), said(&[]), None),
            (json!({"page": {"size": 42.0}, "all": true}), said(&[("size", Some("42")), ("all", Some("true"))]), None),
            (json!({"page": {"size": 42}}), said(&[("size", Some("42.0"))]), None),
            (json!({}), said(&[("other", Some("x"))]), None),
            (json!({"region": "eu"}), said(&[]), Some("`Mcp-Param-Region` is missing")),
            (json!({"region": "eu"}), said(&[("region", None)]), Some("must be there once")),
            (json!({"region": "eu"}), said(&[("region", Some("EU"))]), Some("is not `region` of the arguments")),
            (json!({}), said(&[("region", Some("eu"))]), Some("is not `region`")),
            (json!({"page": {"size": 42}}), said(&[("size", Some("43"))]), Some("is not `page.size`")),
            (json!({"all": true}), said(&[("all", Some("True"))]), Some("is not `all`")),
        ] {
            let found = misfit(&mirrored, &arguments, &headers);
            let is_so = match (&found, misfit_said) {
                (Some(found), Some(part)) => found.contains(part),
                (found, part) => found.is_none() && part.is_none(),
            };
            assert!(is_so, "{arguments} {headers:?}: {found:?}");
        }
        let back: Repeated = headers(&mirrored, &json!({"region": " 上海", "page": {"size": 1e3}, "all": false}))
            .into_iter()
            .map(|(name, value)| (name.replace("Mcp-Param-", "").to_lowercase(), encoded::text(&value)))
            .collect();
        assert_eq!(misfit(&mirrored, &json!({"region": " 上海", "page": {"size": 1000}, "all": false}), &back), None);
    }
}
