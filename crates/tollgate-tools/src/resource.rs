//! What resources of the house have in common: their URIs, and the objects of MCP that they answer with.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value, json};
use tollgate_types::{CallKind, Permission, Raw, Risk, Source, SourceKind, ToolDefinition, ToolError};

use crate::typed::READS;

/// What may not stand in a segment of a path (RFC 3986 §3.3).
const ODD: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// What one completion may offer (MCP, Completion: data types).
const VALUES_MAX: usize = 100;

/// A text as a part of a URI; its `/` stay.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ODD).to_string()
}

/// The text that a part of a URI stands for. None where there is another way to write it: what is named has one name.
pub(crate) fn decoded(part: &str) -> Option<String> {
    let text = percent_decode_str(part).decode_utf8().ok()?.into_owned();
    (encoded(&text) == part).then_some(text)
}

/// The entry of a resource or a template that only reads.
pub(crate) fn entry(kind: CallKind, uri: &str, description: &str, listing: Value) -> ToolDefinition {
    let is_exact = kind == CallKind::Resource;
    let schema = if is_exact { json!({ "const": uri }) } else { json!({ "type": "string" }) };
    ToolDefinition {
        annotations: READS,
        risk: Risk::Read,
        permission: Permission::Read,
        source: Source::of(SourceKind::Builtin),
        input_schema: json!({ "type": "object", "properties": { "uri": schema }, "required": ["uri"] }),
        listing: raw(&listing),
        ..ToolDefinition::new(format!("resources/{uri}"), description).of_kind(kind)
    }
}

/// What a list says of an entry.
pub(crate) fn raw(listing: &Value) -> Option<Raw> {
    serde_json::value::to_raw_value(listing).ok().map(Raw::from)
}

/// The URI that is asked for.
pub(crate) fn uri(arguments: &Value) -> &str {
    arguments.get("uri").and_then(Value::as_str).unwrap_or_default()
}

/// There is nothing of this URI, or nothing that may be known of.
pub(crate) fn missing(uri: &str) -> ToolError {
    ToolError::new(format!("there is no resource `{uri}`")).with_tool_code("NOT_FOUND")
}

/// What was read, under `text` or `blob` (MCP, Resources: reading resources).
pub(crate) fn contents(uri: &str, mime: &str, member: &str, said: String) -> Value {
    let mut contents = Map::new();
    contents.insert("uri".into(), uri.into());
    contents.insert("mimeType".into(), mime.into());
    contents.insert(member.into(), said.into());
    json!({ "contents": [contents] })
}

/// What the value of the template's argument `name` may begin with, if it is asked about.
pub(crate) fn begun<'a>(asked: &'a Value, name: &str) -> Option<&'a str> {
    let part = |pointer: &str| asked.pointer(pointer).and_then(Value::as_str);
    part("/argument/name").filter(|asked| *asked == name)?;
    part("/argument/value")
}

/// What an argument may be (MCP, Completion).
pub(crate) fn completion(values: &[String]) -> Value {
    let shown: Vec<&String> = values.iter().take(VALUES_MAX).collect();
    json!({ "completion": { "values": shown, "total": values.len(), "hasMore": values.len() > VALUES_MAX } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_in_one_way() {
        for text in ["a", "docs/读 我.md", "100%", "a#b?c", "a+b=c;d,e&f", "[x]{y}|^`\\", "a:b@c!$'()*~"] {
            assert_eq!(decoded(&encoded(text)).as_deref(), Some(text));
        }
        for other in ["%61", "%e8%af%bb", "读", "a b", "%", "%ff", "a%2Fb", "%2E%2E"] {
            assert_eq!(decoded(other), None, "{other}");
        }
    }
}
