//! Lists, and what is read, got and completed: the door's words in the protocol's. What a server said passes as it came; only
//! what the house has a word of its own for is the house's.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tollgate_types::{CallKind, CallResult, Caller, Code, Door, End, ErrorObject, Outcome, Raw, ToolDefinition};

use super::news::Follower;
use super::{LIST_TTL_MS, Revision, params, shown, tools};
use crate::jsonrpc::RpcError;
use crate::wire_name::{self, Members};

/// Entries on one page of a list: each page asks the door for all of them.
const PAGE_MAX: usize = 1_000;
/// Members of results and of `_meta` that each connection says anew.
const OWN_MEMBERS: [&str; 5] = ["resultType", "_meta", "ttlMs", "cacheScope", "io.modelcontextprotocol/serverInfo"];
const RESOURCE_NOT_FOUND: i64 = -32002;
const INVALID_PARAMS: i64 = -32602;
/// What resources of the house say of what is not there.
const NOT_FOUND: &str = "NOT_FOUND";

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page {
    kind: CallKind,
    items: Vec<Arc<RawValue>>,
    next_cursor: Option<String>,
    is_cacheable: bool,
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(member(self.kind), &self.items)?;
        if let Some(cursor) = &self.next_cursor {
            map.serialize_entry("nextCursor", cursor)?;
        }
        if self.is_cacheable {
            map.serialize_entry("ttlMs", &LIST_TTL_MS)?;
            map.serialize_entry("cacheScope", "private")?;
        }
        map.end()
    }
}

fn member(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Resource => "resources",
        CallKind::Template => "resourceTemplates",
        CallKind::Prompt => "prompts",
        _ => "tools",
    }
}

/// The page that begins after the entry named `after`. A cursor names a place, not a count: an entry that comes or goes
/// meanwhile moves no other across a page's edge.
pub(super) async fn list(
    door: &dyn Door,
    caller: &Caller,
    kind: CallKind,
    after: Option<&str>,
    revision: Revision,
    follower: Option<&Follower>,
) -> Page {
    let listed = door.list_kind(caller, kind).await;
    if let Some(follower) = follower {
        follower.listed(kind, &listed);
    }
    let mut rest = listed.iter().skip_while(|entry| after.is_some_and(|after| entry.name.as_str() <= after));
    let page: Vec<_> = rest.by_ref().take(PAGE_MAX).collect();
    let next_cursor = rest.next().and(page.last()).map(|last| params::cursor_after(&last.name));
    let items = page.into_iter().filter_map(|entry| shown::once(entry, shown).text).collect();
    Page { kind, items, next_cursor, is_cacheable: revision.is_stateless() }
}

/// Another for another list.
pub(super) fn mark(listed: &[Arc<ToolDefinition>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    listed.iter().for_each(|entry| shown::once(entry, shown).mark.hash(&mut hasher));
    hasher.finish()
}

/// An entry as lists show it.
fn shown(entry: &ToolDefinition) -> Option<Box<RawValue>> {
    let mut ours = match entry.kind {
        CallKind::Tool => tools::shown(entry),
        CallKind::Prompt => json!({ "name": wire_name::prompt_name(&entry.name)? }),
        CallKind::Template => json!({ "uriTemplate": wire_name::resource_uri(&entry.name)? }),
        _ => json!({ "uri": wire_name::resource_uri(&entry.name)? }),
    };
    let ours = ours.as_object_mut()?;
    if !entry.kind.is_tool() {
        described(entry, ours);
    }
    match &entry.listing {
        Some(listing) => merged(listing, std::mem::take(ours)),
        None => to_raw_value(ours).ok(),
    }
}

/// What the house says of an entry that is no tool: all of it where no server does.
fn described(entry: &ToolDefinition, ours: &mut Map<String, Value>) {
    let Some(listing) = &entry.listing else {
        let own = entry.name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&entry.name);
        ours.entry("name").or_insert_with(|| own.into());
        ours.extend(entry.title.clone().map(|title| ("title".to_owned(), title.into())));
        ours.insert("description".into(), entry.full_description().into());
        if entry.kind == CallKind::Prompt {
            ours.insert("arguments".into(), arguments(&entry.input_schema));
        }
        return;
    };
    let said: Value = serde_json::from_str(listing.get()).unwrap_or_default();
    let said = |key: &str| said.get(key).and_then(Value::as_str);
    let derived = said("description").or(said("title")).or(said("name"));
    if derived.is_some_and(|derived| derived != entry.description) {
        ours.insert("description".into(), entry.description.clone().into());
    }
}

/// A prompt's arguments, of the schema that they are checked by.
fn arguments(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let argument = |(name, property): (&String, &Value)| {
        let mut argument = json!({ "name": name, "required": is_required(name) });
        if let (Some(members), Some(description)) = (argument.as_object_mut(), property.get("description")) {
            members.insert("description".into(), description.clone());
        }
        argument
    };
    properties.map(argument).collect()
}

/// What a server says, with our words in the place of its own; where they are the same its own stay, to the last digit.
fn merged(listing: &Raw, mut ours: Map<String, Value>) -> Option<Box<RawValue>> {
    let Members(said) = serde_json::from_str(listing.get()).ok()?;
    let mut members: Vec<(Cow<'_, str>, Box<RawValue>)> = Vec::with_capacity(said.len());
    for (name, raw) in said {
        let value = match ours.shift_remove(&*name) {
            Some(Value::Object(hints)) if name == "annotations" => {
                let mut all: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
                all.extend(hints);
                to_raw_value(&all).ok()?
            }
            Some(value) if serde_json::from_str::<Value>(raw.get()).is_ok_and(|said| said != value) => {
                to_raw_value(&value).ok()?
            }
            // Of a value that does not come as it is no schema is shown.
            None if name == "outputSchema" => continue,
            _ => raw.to_owned(),
        };
        members.push((name, value));
    }
    let more = ours.iter().map(|(name, value)| Some((Cow::Borrowed(name.as_str()), to_raw_value(value).ok()?)));
    members.extend(more.collect::<Option<Vec<_>>>()?);
    let members = Members(members.iter().map(|(name, value)| (name.clone(), &**value)).collect());
    to_raw_value(&members).ok()
}

/// A server's result object as it goes on: what each connection says anew is left out, and its `_meta` stands apart.
pub(super) struct Kept<'a> {
    pub(super) result: Members<'a>,
    pub(super) meta: Members<'a>,
}

impl<'a> Kept<'a> {
    /// The result that a server gave a tool's call, where no stage changed it and it is whole.
    pub(super) fn of_tool(outcome: &'a Outcome, revision: Revision) -> Option<Self> {
        let mut kept = Self::read(outcome.result()?.raw.as_ref()?)?;
        let has_content = kept.result.0.iter().any(|(name, _)| name == "content");
        kept.result.0.retain(|(name, value)| name != "structuredContent" || revision.shows(value));
        has_content.then_some(kept)
    }

    fn read(raw: &'a Raw) -> Option<Self> {
        let Members(mut members) = serde_json::from_str(raw.get()).ok()?;
        let meta = members.iter().find(|(name, _)| name == "_meta");
        let mut meta: Members<'_> =
            meta.and_then(|(_, meta)| serde_json::from_str(meta.get()).ok()).unwrap_or_else(|| Members(Vec::new()));
        members.retain(|(name, _)| !OWN_MEMBERS.contains(&&**name));
        meta.0.retain(|(name, _)| !OWN_MEMBERS.contains(&&**name));
        Some(Self { result: Members(members), meta })
    }
}

impl Revision {
    /// Whether a value may stand as `structuredContent`.
    fn shows(self, value: &RawValue) -> bool {
        self.is_stateless() || self.has_structured_results() && value.get().starts_with('{')
    }
}

/// What was read, got or completed, as a result object; or why not.
pub(super) fn result_of(outcome: &Outcome, kind: CallKind, revision: Revision) -> Result<Raw, RpcError> {
    match &outcome.end {
        End::Done(CallResult { raw: Some(raw), .. }) => Ok(raw.clone()),
        End::Done(CallResult { structured, .. }) => {
            let value = structured.clone().filter(Value::is_object).unwrap_or_else(|| json!({}));
            to_raw_value(&value).map(Raw::from).map_err(|_| RpcError::internal("the result can not be written as JSON"))
        }
        End::Refused(error) | End::Failed(error) | End::Waiting(_, error) | End::Unknown(error) => {
            Err(failure(error, kind, revision, &outcome.tool))
        }
    }
}

/// A failure that is no model's to read (MCP, Resources and Prompts: error handling).
fn failure(error: &ErrorObject, kind: CallKind, revision: Revision, name: &str) -> RpcError {
    let upstream = error.tool_code.as_deref().and_then(|code| code.strip_prefix("RPC_")?.parse::<i64>().ok());
    let is_resource = matches!(kind, CallKind::Resource | CallKind::Subscription);
    let is_missing = error.error == Code::UnknownTool || upstream == Some(RESOURCE_NOT_FOUND);
    let is_gone = error.tool_code.as_deref() == Some(NOT_FOUND);
    if is_resource && (is_missing || is_gone || upstream == Some(INVALID_PARAMS)) {
        let uri = wire_name::resource_uri(name).unwrap_or_else(|| name.to_owned());
        return RpcError::resource_not_found(&uri, revision.is_stateless());
    }
    if is_missing {
        return RpcError::invalid_params(format_args!(
            "there is no `{}`",
            wire_name::prompt_name(name).unwrap_or_default()
        ));
    }
    match (error.error, upstream) {
        (Code::InvalidArguments | Code::InvalidJson, _) | (_, Some(INVALID_PARAMS)) => {
            RpcError::invalid_params(said(error)).with_data(error)
        }
        _ => RpcError::refused(said(error)).with_data(error),
    }
}

/// An error in one line, with what is wrong in which place.
fn said(error: &ErrorObject) -> String {
    let details = error.details.iter().map(|violation| format!("; `{}`: {}", violation.path, violation.message));
    format!("{}{}", error.message, details.collect::<String>())
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Which of a result's members the stateless era wants beside it (MCP 2026-07-28, Caching): what is read is read anew.
pub(super) fn caching(kind: CallKind, revision: Revision) -> Map<String, Value> {
    let wants = revision.is_stateless() && kind == CallKind::Resource;
    let members = [("ttlMs", json!(0)), ("cacheScope", json!("private"))];
    members.into_iter().filter(|_| wants).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The same for what a result of another kind than a tool's consists of.
pub(super) fn kept(raw: &Raw) -> Kept<'_> {
    Kept::read(raw).unwrap_or_else(|| Kept { result: Members(Vec::new()), meta: Members(Vec::new()) })
}
