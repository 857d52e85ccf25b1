//! A server's tools as definitions: each is read apart, and what makes no sense is set aside with the reason.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_catalog::Catalog;
use tollgate_types::{Annotations, Permission, Raw, Risk, Source, SourceKind, ToolDefinition, limits};

use super::config::Rule;
use super::name;
use super::status::Quarantined;
use crate::jsonrpc::scan::is_deeper_than;
use crate::parameters::{self, Mirrored};

/// A tool's whole text as the server sent it.
const TOOL_BYTES_MAX: usize = 1024 * 1024;
const NAME_CHARS_SHOWN: usize = 128;
const HASH_CHARS: usize = 64;

/// A tool that can be used.
#[derive(Debug, PartialEq)]
pub(super) struct Known {
    pub(super) definition: ToolDefinition,
    /// The server's own name for it.
    pub(super) remote: String,
    /// The parameters that go along as headers.
    pub(super) mirrored: Vec<Mirrored>,
    /// Whether the server wants each call to be a task (MCP 2025-11-25, Tasks: tool-level negotiation).
    pub(super) wants_task: bool,
}

/// A list, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) known: Vec<Known>,
    pub(super) quarantined: Vec<Quarantined>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    execution: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Execution {
    task_support: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Hints {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
    open_world_hint: Option<bool>,
}

/// Sorts a list of tools. `repeats_headers`: what the server wants as headers is sent as headers.
pub(super) fn sort(server: &str, rules: &[Rule], raws: &[Box<RawValue>], repeats_headers: bool) -> Sorted {
    sorted(raws, |raw| read(server, rules, raw, repeats_headers))
}

/// Why something on a list makes no sense, and what it is where its name does not say that.
pub(super) type Odd = (Option<String>, String);

/// Sorts a list of what `read` makes sense of.
pub(super) fn sorted(raws: &[Box<RawValue>], read: impl Fn(&RawValue) -> Result<Known, Odd>) -> Sorted {
    let mut sorted = Sorted::default();
    // The catalog knows best what can be registered; this one is thrown away.
    let catalog = Catalog::new();
    for (index, raw) in raws.iter().enumerate() {
        let known = read(raw).and_then(|known| {
            let registered = catalog.register(known.definition.clone());
            registered.map(|_| known).map_err(|error| (None, error.to_string()))
        });
        match known {
            Ok(known) => sorted.known.push(known),
            Err((tool, reason)) => {
                let tool = tool.or_else(|| name_of(raw)).unwrap_or_else(|| format!("number {}", index + 1));
                sorted.quarantined.push(Quarantined { tool, reason });
            }
        }
    }
    sorted
}

fn name_of(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let named: Named<'_> = serde_json::from_str(raw.get()).ok()?;
    Some(named.name.chars().take(NAME_CHARS_SHOWN).flat_map(char::escape_debug).collect())
}

/// Whether it can be looked at.
pub(super) fn bounded(raw: &RawValue) -> Result<(), Odd> {
    if raw.get().len() > TOOL_BYTES_MAX {
        return Err((None, "its definition is larger than 1 MiB".to_owned()));
    }
    if is_deeper_than(raw.get().as_bytes(), limits::JSON_DEPTH_MAX) {
        return Err((None, format!("its definition is nested deeper than {} levels", limits::JSON_DEPTH_MAX)));
    }
    Ok(())
}

/// Where something on a server's list comes from; the digest of all that the server says of it makes it part of the pin.
pub(super) fn source(server: &str, raw: &RawValue) -> Source {
    Source {
        server: Some(server.to_owned()),
        version: Some(format!("sha256:{}", name::hex(raw.get().as_bytes(), HASH_CHARS))),
        ..Source::of(SourceKind::Mcp)
    }
}

/// What the operator says of it under this name.
pub(super) fn overridden(definition: &mut ToolDefinition, rules: &[Rule], name: &str) {
    for rule in rules.iter().filter(|rule| rule.matcher.is_match(name)) {
        definition.risk = rule.said.risk.unwrap_or(definition.risk);
        definition.permission = rule.said.permission.unwrap_or(definition.permission);
        definition.cost = rule.said.cost.clone().or(definition.cost.take());
        definition.idempotency.repeatable |= rule.said.repeatable;
        if let Some(description) = &rule.said.description {
            definition.description.clone_from(description);
        }
    }
}

fn read(server: &str, rules: &[Rule], raw: &RawValue, repeats_headers: bool) -> Result<Known, Odd> {
    let because = |reason: &str| (None, reason.to_owned());
    bounded(raw)?;
    let tool: RawTool<'_> = serde_json::from_str(raw.get()).map_err(|error| (None, error.to_string()))?;
    if tool.name.is_empty() {
        return Err(because("its name is empty"));
    }
    let input = tool.input_schema.ok_or_else(|| because("it has no `inputSchema`"))?;
    let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).map_err(|error| (None, error.to_string()));
    let description = tool.description.or_else(|| tool.title.clone()).unwrap_or_else(|| tool.name.clone());
    let mut definition = ToolDefinition::new(name::local(server, &tool.name), description);
    definition.title = tool.title.map(Cow::into_owned);
    definition.input_schema = value(input)?;
    let mirrored = match repeats_headers {
        true => parameters::declared(&definition.input_schema).map_err(|reason| (None, reason))?,
        false => Vec::new(),
    };
    definition.output_schema = tool.output_schema.map(value).transpose()?;
    definition.annotations = annotations(tool.annotations);
    definition.source = source(server, raw);
    definition.listing = Some(Raw::from(raw));
    // What a server says of its own harmlessness is a hint for people (MCP, Tools: annotations are untrusted).
    (definition.risk, definition.permission) = (Risk::Dangerous, Permission::Network);
    overridden(&mut definition, rules, &tool.name);
    let execution: Option<Execution> = tool.execution.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let wants_task = execution.is_some_and(|it| it.task_support.as_deref() == Some("required"));
    Ok(Known { definition, remote: tool.name.into_owned(), mirrored, wants_task })
}

fn annotations(raw: Option<&RawValue>) -> Annotations {
    let hints: Hints = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    Annotations {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    }
}
