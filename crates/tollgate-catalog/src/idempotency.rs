//! What a definition may say of the keys under which its calls happen once.

use serde_json::Value;
use tollgate_types::{SourceKind, ToolDefinition, limits::HANDED_NAME_CHARS_MAX};

/// What is wrong, if anything is.
pub(crate) fn check(definition: &ToolDefinition) -> Result<(), String> {
    let own = &definition.idempotency;
    if let Some(pointer) = &own.argument {
        if own.derive {
            return Err("`derive` and `argument` are two keys, and one of them is meant".into());
        }
        check_argument(pointer, &definition.input_schema)?;
    }
    match &own.hand_on {
        Some(name) => check_name(name, definition.source.kind),
        None => Ok(()),
    }
}

/// Each call has the argument, so that none gets by without a key.
fn check_argument(pointer: &str, schema: &Value) -> Result<(), String> {
    let Some(path) = pointer.strip_prefix('/') else {
        return Err(format!("`argument = \"{pointer}\"` is no JSON Pointer, such as `/order_id`"));
    };
    let name = path.split('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let Some(property) = schema.get("properties").and_then(|all| all.get(&name)) else {
        return Err(format!("`input_schema` has no property `{name}`, which `argument` names"));
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(&name)));
    if is_required || property.get("default").is_some() {
        return Ok(());
    }
    Err(format!("`input_schema` must have `{name}` in `required` or give it a default, because it is the key"))
}

/// A name for a header, a variable and a member of `_meta` alike: a token (RFC 9110 §5.6.2), with a prefix where that is
/// usual (MCP, Base protocol: `_meta`).
fn check_name(name: &str, kind: SourceKind) -> Result<(), String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let is_prefixed = kind == SourceKind::Mcp && name.contains('/');
    if name.is_empty()
        || name.len() > HANDED_NAME_CHARS_MAX
        || !name.chars().all(|c| is_fit(c) || is_prefixed && c == '/')
    {
        return Err(format!("`hand_on = {name:?}` is no name of a header or a variable"));
    }
    let is_the_protocols = name == "progressToken" || name.starts_with("io.modelcontextprotocol/");
    match kind {
        SourceKind::Builtin => Err("a built-in tool hands its key on to nobody: leave `hand_on` out".into()),
        SourceKind::Mcp if is_the_protocols => Err(format!("`hand_on = {name:?}` is a name of the protocol's own")),
        SourceKind::Mcp | SourceKind::Native | SourceKind::Program | SourceKind::Http | SourceKind::Provider => Ok(()),
    }
}
