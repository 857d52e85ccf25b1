//! Find: a name of a kind means one entry or none.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_catalog::Entry;
use tollgate_types::{CallKind, ToolDefinition};

use super::{Stop, admit, cancelled};
use crate::executors::Executor;
use crate::gate::{Inner, Trip};
use crate::undo::is_for_undo;

/// What exists.
pub(crate) struct Found {
    executor: Arc<Executor>,
    /// What is asked for: never another than the executor was registered with, but that a resource of a template stands
    /// under its own name, and a completion takes other arguments than its prompt.
    entry: Arc<Entry>,
}

impl Found {
    fn whole(executor: Arc<Executor>) -> Self {
        Self { entry: Arc::clone(&executor.entry), executor }
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(super) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }

    /// The definitions that must all be permitted: a resource of a template by its own name and by the template's.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        let template = Some(&self.executor.entry.definition).filter(|known| known.name != self.entry.definition.name);
        std::iter::once(&self.entry.definition).chain(template)
    }
}

/// What has this name now. Some of it is there for undoing alone.
pub(crate) fn look(gate: &Inner, kind: CallKind, name: &str, is_undo: bool) -> Option<Found> {
    let exact = gate.executors.get(name);
    let of_kind = |kind| exact.as_ref().filter(|executor| executor.entry.definition.kind == kind).cloned();
    match kind {
        CallKind::Resource | CallKind::Subscription => {
            of_kind(CallKind::Resource).map(Found::whole).or_else(|| of_template(gate, name))
        }
        CallKind::Completion => of_kind(CallKind::Prompt).or_else(|| of_kind(CallKind::Template)).and_then(completing),
        _ => {
            let executor = of_kind(kind)?;
            (is_undo || !is_for_undo(name)).then(|| Found::whole(executor))
        }
    }
}

/// A resource that no list names, of a template that one does.
fn of_template(gate: &Inner, name: &str) -> Option<Found> {
    let template = gate.catalog.template_of(name)?;
    let executor = gate.executors.get(&template.definition.name)?;
    let (_, uri) = name.split_once('/')?;
    let schema = json!({ "type": "object", "properties": { "uri": { "const": uri } }, "required": ["uri"] });
    let entry = executor.entry.taking(name.to_owned(), CallKind::Resource, schema).ok()?;
    Some(Found { executor, entry: Arc::new(entry) })
}

fn completing(executor: Arc<Executor>) -> Option<Found> {
    let definition = &executor.entry.definition;
    let entry = executor.entry.taking(definition.name.clone(), definition.kind, completion_schema()).ok()?;
    Some(Found { executor, entry: Arc::new(entry) })
}

/// What completes an argument (MCP, Completion: requesting completions).
fn completion_schema() -> Value {
    let text = json!({ "type": "string" });
    let argument =
        json!({ "type": "object", "properties": { "name": text, "value": text }, "required": ["name", "value"] });
    json!({
        "type": "object",
        "properties": { "argument": argument, "context": { "type": "object" } },
        "required": ["argument"],
    })
}

/// Waits for what may still come: a server that has to start first. The call is in the ledger by now.
async fn supplied(trip: Trip<'_>) -> Result<(), Stop> {
    let Some(supply) = trip.gate.inner().supply() else { return Ok(()) };
    tokio::select! {
        () = supply.bring(&trip.call.name) => Ok(()),
        () = trip.cancellation.cancelled() => Err(cancelled("the asker stopped waiting for the tool's server")),
    }
}

pub(crate) async fn find(trip: Trip<'_>) -> Result<Found, Stop> {
    let looked = || look(trip.gate.inner(), trip.call.kind, &trip.call.name, trip.undoes.is_some());
    let found = match looked() {
        Some(found) => found,
        None => {
            supplied(trip).await?;
            looked().ok_or_else(|| admit::unknown(trip))?
        }
    };
    trip.attempt.found(found.entry());
    Ok(found)
}
