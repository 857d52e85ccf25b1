//! A server's resources, templates and prompts as entries of ours: read each apart, asked for by their own names, and
//! handed on as they came.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tollgate_types::{
    BoxFuture, CallKind, Code, Cx, Permission, Raw, Risk, Tool, ToolDefinition, ToolError, ToolOutput, limits,
};

use super::config::Rule;
use super::definition::{self, Known, Odd};
use super::message::{Ask, Lists};
use super::pool::Lease;
use super::rounds::{self, Ended};
use super::server::Server;
use super::{name, outcome, tool};
use crate::jsonrpc::scan::is_deeper_than;
use crate::wire_name;

/// What a list of these says of one of them, as far as we need it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEntry<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    title: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    description: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uri_template: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Option<Vec<Argument>>,
}

/// An argument of a prompt.
#[derive(Deserialize)]
struct Argument {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: Option<bool>,
}

/// Reads what is on a list of resources, templates or prompts.
pub(super) fn read(server: &str, rules: &[Rule], list: Lists, raw: &RawValue) -> Result<Known, Odd> {
    definition::bounded(raw)?;
    let entry: RawEntry<'_> = serde_json::from_str(raw.get()).map_err(|error| (None, error.to_string()))?;
    let (kind, group, own, key) = match list {
        Lists::Resources => (CallKind::Resource, "resources", entry.uri, "uri"),
        Lists::Templates => (CallKind::Template, "resources", entry.uri_template, "uriTemplate"),
        Lists::Prompts | Lists::Tools => (CallKind::Prompt, "prompts", entry.name.clone(), "name"),
    };
    let own = own.filter(|own| !own.is_empty()).ok_or_else(|| (None, format!("it has no `{key}`")))?.into_owned();
    let description = entry.description.or_else(|| entry.title.clone()).or(entry.name);
    let description = description.map_or_else(|| own.clone(), Cow::into_owned);
    let mut definition = ToolDefinition::new(name::entry(server, group, &own), description).of_kind(kind);
    definition.title = entry.title.map(Cow::into_owned);
    definition.input_schema = match kind {
        CallKind::Prompt => prompt_schema(entry.arguments.unwrap_or_default()),
        CallKind::Resource => uri_schema(&json!({ "const": own })),
        _ => uri_schema(&json!({ "type": "string" })),
    };
    // To read is to read; what is read is from outside.
    (definition.risk, definition.permission) = (Risk::Read, Permission::Read);
    definition.annotations.open_world = Some(true);
    definition.source = definition::source(server, raw);
    definition.listing = Some(Raw::from(raw));
    definition::overridden(&mut definition, rules, &format!("{group}/{own}"));
    Ok(Known { definition, remote: own, mirrored: Vec::new(), wants_task: false })
}

fn uri_schema(uri: &Value) -> Value {
    json!({ "type": "object", "properties": { "uri": uri }, "required": ["uri"] })
}

/// Arguments of a prompt are texts (MCP, Prompts: data types).
fn prompt_schema(arguments: Vec<Argument>) -> Value {
    let required = arguments.iter().filter(|argument| argument.required == Some(true));
    let required: Vec<_> = required.map(|argument| argument.name.clone()).collect();
    let property = |Argument { name, description, .. }| match description {
        Some(description) => (name, json!({ "type": "string", "description": description })),
        None => (name, json!({ "type": "string" })),
    };
    let properties: Map<String, Value> = arguments.into_iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A resource, a template or a prompt of a server.
#[derive(Debug)]
pub(super) struct UpstreamEntry {
    pub(super) known: Known,
    pub(super) server: Arc<Server>,
}

impl UpstreamEntry {
    async fn ask(&self, arguments: &Value, cx: &Cx) -> Result<ToolOutput, ToolError> {
        let (server, trace) = (self.server.name(), cx.trace.as_ref());
        let own = self.known.remote.as_str();
        let uri = || arguments.get("uri").and_then(Value::as_str).unwrap_or(own);
        let lease = self.server.pool().map(|pool| pool.lease(&cx.caller)).transpose()?;
        if cx.kind == CallKind::Subscription {
            lease.as_ref().map_or(&*self.server, Lease::server).follow(uri()).await?;
            return Ok(ToolOutput { structured: Some(json!({})), ..ToolOutput::default() });
        }
        let link = tool::linked(lease.as_ref().map_or(&*self.server, Lease::server), cx).await?;
        let completes;
        let ask = match (cx.kind, self.known.definition.kind) {
            (CallKind::Completion, kind) => {
                completes = completion(kind, own, arguments);
                Ask::Complete { params: &completes }
            }
            (_, CallKind::Prompt) => Ask::Prompt { name: own, arguments, trace },
            _ => Ask::Read { uri: uri(), trace },
        };
        match rounds::ask(&link, server, cx, ask).await {
            Ok(result) => handed_on(server, &result),
            Err(Ended::Refused(error)) => Err(error),
            Err(Ended::Fault(fault)) => Err(outcome::explain(server, &fault)),
        }
    }
}

/// What is asked, of which prompt or template.
fn completion(kind: CallKind, own: &str, arguments: &Value) -> Value {
    let of = match kind {
        CallKind::Prompt => json!({ "type": "ref/prompt", "name": own }),
        _ => json!({ "type": "ref/resource", "uri": own }),
    };
    let given =
        ["argument", "context"].into_iter().filter_map(|key| Some((key.to_owned(), arguments.get(key)?.clone())));
    Value::Object(std::iter::once(("ref".to_owned(), of)).chain(given).collect())
}

/// The whole result object, in which the server's resources have their names here.
fn handed_on(server: &str, result: &RawValue) -> Result<ToolOutput, ToolError> {
    let broken = |what: &str| ToolError::with_code(Code::UpstreamError, format!("`{server}`: {what}"));
    if is_deeper_than(result.get().as_bytes(), limits::JSON_DEPTH_MAX) {
        return Err(broken(&format!("its result is nested deeper than {} levels", limits::JSON_DEPTH_MAX)));
    }
    let raw = wire_name::renamed(server, result);
    let structured: Value =
        serde_json::from_str(raw.get()).map_err(|error| broken(&format!("its result can not be read: {error}")))?;
    if structured.get("resultType").is_some_and(|kind| kind != "complete") {
        return Err(broken("it asks for more input, which can not be given"));
    }
    Ok(ToolOutput { content: Vec::new(), structured: Some(structured), raw: Some(raw) })
}

impl Tool for UpstreamEntry {
    fn definition(&self) -> ToolDefinition {
        self.known.definition.clone()
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        Some(tool::preview(&self.known.remote, self.server.name(), arguments))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move { tool::within(self.server.name(), &cx, self.ask(&arguments, &cx)).await })
    }
}
