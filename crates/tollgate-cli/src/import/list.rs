//! One list of one client: the file within its limits, and the servers in it as they were written. What a server's fields
//! mean is `server`'s to say.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate::limits::CLIENT_LIST_BYTES_MAX;

use super::client::{Client, Place};
use super::jsonc;

/// Why a list can not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ListFault {
    /// What is wrong, and where it is known what was expected.
    pub(crate) message: String,
    pub(crate) line: Option<usize>,
    /// In characters, from 1.
    pub(crate) column: Option<usize>,
}

impl ListFault {
    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: None, column: None }
    }

    /// `column_bytes` counts bytes from 1, as parsers do.
    pub(super) fn at(text: &str, line: usize, column_bytes: usize, message: String) -> Self {
        let before = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let column = before.bytes().take(column_bytes).filter(|byte| byte & 0xC0 != 0x80).count();
        Self { message, line: Some(line), column: Some(column.max(1)) }
    }
}

/// A server as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) fields: Value,
}

/// A list that could be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    pub(crate) entries: Vec<Entry>,
    /// What the client asks people for, and in which words (VS Code's `inputs`).
    pub(crate) inputs: BTreeMap<String, String>,
}

/// Reads a list. `folder` is the project whose servers are meant where a file has those of several.
pub(crate) fn read(place: &Place, folder: &Path) -> Result<List, ListFault> {
    let text = text(&place.file)?;
    let is_toml = place.client == Client::Codex || place.file.extension().is_some_and(|extension| extension == "toml");
    let root = if is_toml { toml(&text)? } else { jsonc::parse(&text)? };
    let Value::Object(root) = root else { return Err(ListFault::whole("an object was expected, `{ … }`")) };
    let tables = tables(place.client, is_toml, &root, folder)?;
    let mut list = List { entries: Vec::new(), inputs: inputs(&root) };
    for table in tables {
        let Value::Object(servers) = table else {
            return Err(ListFault::whole("the servers were expected as an object, `{ \"NAME\": { … } }`"));
        };
        let entries = servers.iter().map(|(name, fields)| Entry { name: name.clone(), fields: fields.clone() });
        list.entries.extend(entries);
    }
    Ok(list)
}

/// The tables of servers in a file, the nearest first.
fn tables<'a>(
    client: Client,
    is_toml: bool,
    root: &'a Map<String, Value>,
    folder: &Path,
) -> Result<Vec<&'a Value>, ListFault> {
    let (keys, may_lack): (&[&str], _) = match client {
        _ if is_toml => (&["mcp_servers"], true),
        Client::VsCode => (&["servers"], false),
        Client::Unnamed => (&["mcpServers", "servers"], false),
        Client::ClaudeCode if root.contains_key("projects") => (&["mcpServers"], true),
        // They keep other settings in the same file.
        Client::ClaudeDesktop => (&["mcpServers"], true),
        Client::ClaudeCode | Client::Cursor | Client::Codex | Client::Typed => (&["mcpServers"], false),
    };
    let own = root.get("projects").and_then(|projects| projects.get(folder.to_str()?)?.get("mcpServers"));
    let common = keys.iter().find_map(|key| root.get(*key));
    let found: Vec<&Value> = own.into_iter().chain(common).collect();
    if found.is_empty() && !may_lack && !root.is_empty() {
        let expected: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        return Err(ListFault::whole(format!("it has no {}", expected.join(" and no "))));
    }
    Ok(found)
}

fn inputs(root: &Map<String, Value>) -> BTreeMap<String, String> {
    let inputs = root.get("inputs").and_then(Value::as_array).into_iter().flatten();
    let text = |input: &Value, key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
    inputs.filter_map(|input| Some((text(input, "id")?, text(input, "description").unwrap_or_default()))).collect()
}

fn text(path: &Path) -> Result<String, ListFault> {
    let unread = |error: std::io::Error| ListFault::whole(format!("it cannot be read: {error}"));
    let metadata = path.metadata().map_err(unread)?;
    if !metadata.is_file() {
        return Err(ListFault::whole("it is not a file"));
    }
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too long, also one that grows.
    File::open(path).and_then(|file| file.take(CLIENT_LIST_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(unread)?;
    if bytes.len() as u64 > CLIENT_LIST_BYTES_MAX {
        return Err(ListFault::whole(format!("it has more than {CLIENT_LIST_BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = valid.iter().rev().take_while(|byte| **byte != b'\n').filter(|byte| **byte & 0xC0 != 0x80).count();
        ListFault { message: "it is not UTF-8".into(), line: Some(line), column: Some(column + 1) }
    })?;
    // Some editors begin a file with a byte order mark.
    Ok(text.strip_prefix('\u{FEFF}').map(str::to_owned).unwrap_or(text))
}

fn toml(text: &str) -> Result<Value, ListFault> {
    toml::from_str(text).map_err(|error| {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        ListFault::at(text, line, before.len() - line_start + 1, error.message().trim().replace('\n', ", "))
    })
}
