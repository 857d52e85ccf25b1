//! `sqlite://NAME/schema` and `postgres://NAME/schema`: what the tables of a configured database are made of, as resources,
//! and each table alone as `…://NAME/TABLE/schema`. NAME is the one in the configuration: where a database is and who reads
//! it stands in no URI.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_types::{
    BoxFuture, CallKind, CancellationToken, Clock, Code, Cx, Tool, ToolDefinition, ToolError, ToolOutput,
};

use super::databases::Database;
use super::describe_table::Output;
use super::{postgres, sqlite};
use crate::follow::{Followed, Look};
use crate::resource::{begun, completion, contents, decoded, encoded, entry, missing, uri};
use crate::typed::{Stop, on_thread, stoppable};

const JSON: &str = "application/json";
/// A schema that is followed costs a connection for each look: one for so many at a file.
const LOOKS_EVERY: u32 = 5;
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// The schemas of these databases, by name: each whole, and as a template of its tables; those that somebody is to be told of
/// go to `followed`.
pub fn schema_resources(
    databases: &BTreeMap<String, Database>,
    clock: &Arc<dyn Clock>,
    followed: &Arc<Followed>,
) -> Vec<Arc<dyn Tool>> {
    let kinds = [CallKind::Resource, CallKind::Template];
    let both = databases.iter().flat_map(|(name, database)| kinds.map(|kind| (kind, name, database)));
    let schemas = both.map(|(kind, name, database)| Schema::new(kind, name, database, clock, followed));
    schemas.map(|schema| Arc::new(schema) as Arc<dyn Tool>).collect()
}

struct Schema {
    definition: ToolDefinition,
    of: Arc<Of>,
    clock: Arc<dyn Clock>,
    followed: Arc<Followed>,
}

/// The database, and how its URIs begin.
struct Of {
    name: String,
    database: Database,
    begins: String,
}

impl Schema {
    fn new(kind: CallKind, name: &str, database: &Database, clock: &Arc<dyn Clock>, followed: &Arc<Followed>) -> Self {
        let (scheme, engine) = match database {
            Database::Sqlite(_) => ("sqlite", "SQLite"),
            Database::Postgres(_) => ("postgres", "PostgreSQL"),
        };
        let begins = format!("{scheme}://{}/", encoded(name).replace('/', "%2F"));
        let (uri, what) = match kind {
            CallKind::Template => (format!("{begins}{{table}}/schema"), "One table or view"),
            _ => (format!("{begins}schema"), "The tables and views"),
        };
        let what = format!("{what} of the {engine} database `{name}`: columns, keys and indexes.");
        let listing = json!({ "name": format!("{name} schema"), "description": what, "mimeType": JSON });
        let of = Arc::new(Of { name: name.to_owned(), database: database.clone(), begins });
        let (clock, followed) = (Arc::clone(clock), Arc::clone(followed));
        Self { definition: entry(kind, &uri, &what, listing), of, clock, followed }
    }

    /// A hash of the schema: one that can not be read now is as if it were not there.
    fn look(&self, uri: &str) -> Look {
        let (of, clock, uri) = (Arc::clone(&self.of), Arc::clone(&self.clock), uri.to_owned());
        Arc::new(move || {
            let stop = Stop::of(CancellationToken::new(), Arc::clone(&clock), LOOK_TIMEOUT);
            let (of, uri) = (Arc::clone(&of), uri.clone());
            Box::pin(async move {
                let asked = stop.clone();
                let said = stoppable(&stop, move || of.text(&uri, &asked)).await.ok()?;
                let mut hasher = DefaultHasher::new();
                said.hash(&mut hasher);
                Some(hasher.finish().to_string())
            })
        })
    }
}

impl Of {
    /// What is at a URI of this database, as JSON.
    fn text(&self, uri: &str, stop: &Stop) -> Result<String, ToolError> {
        let said = match uri.strip_prefix(&self.begins).and_then(|rest| rest.strip_suffix("/schema")) {
            Some(table) => {
                let table = decoded(table).ok_or_else(|| missing(uri))?;
                let output = self.table(&table, stop).map_err(|error| gone(uri, error))?;
                // Another spelling of it is another name, which nobody granted.
                if whole_name(&output) == table { serde_json::to_value(output) } else { return Err(missing(uri)) }
            }
            None => {
                let (tables, more) = match &self.database {
                    Database::Sqlite(path) => sqlite::describe_all(&self.name, path, stop)?,
                    Database::Postgres(postgres) => postgres::describe_all(&self.name, postgres, stop)?,
                };
                serde_json::to_value(json!({ "database": self.name, "tables": tables, "more": more }))
            }
        };
        let broken = |error| ToolError::with_code(Code::Internal, format!("no JSON for the schema: {error}"));
        said.and_then(|said| serde_json::to_string_pretty(&said)).map_err(broken)
    }

    fn table(&self, table: &str, stop: &Stop) -> Result<Output, ToolError> {
        match &self.database {
            Database::Sqlite(path) => sqlite::describe(&self.name, path, table, stop),
            Database::Postgres(postgres) => postgres::describe(&self.name, postgres, table, stop),
        }
    }

    fn complete(&self, asked: &Value, stop: &Stop) -> Result<Value, ToolError> {
        let Some(begun) = begun(asked, "table") else { return Ok(completion(&[])) };
        let listing = match &self.database {
            Database::Sqlite(path) => sqlite::list(&self.name, path, begun, stop)?,
            Database::Postgres(postgres) => postgres::list(&self.name, postgres, begun, stop)?,
        };
        let names = listing.tables.into_iter().map(|table| match table.schema {
            Some(schema) => format!("{schema}.{}", table.name),
            None => table.name,
        });
        Ok(completion(&names.filter(|name| name.starts_with(begun)).collect::<Vec<_>>()))
    }
}

/// The name by which a table has its URI.
fn whole_name(table: &Output) -> String {
    table.schema.as_ref().map_or_else(|| table.name.clone(), |schema| format!("{schema}.{}", table.name))
}

fn gone(uri: &str, error: ToolError) -> ToolError {
    if error.tool_code.as_deref() == Some("NO_SUCH_TABLE") { missing(uri) } else { error }
}

impl Tool for Schema {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        Some(crate::text::visible(uri(arguments)).into_owned())
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let of = Arc::clone(&self.of);
        Box::pin(async move {
            let (kind, followed) = (cx.kind, uri(&arguments).to_owned());
            let work = on_thread(cx, move |run| match run.cx.kind {
                CallKind::Completion => of.complete(&arguments, &run.stop),
                _ => {
                    let uri = uri(&arguments);
                    of.text(uri, &run.stop).map(|text| contents(uri, JSON, "text", text))
                }
            });
            let mut said = work.await?;
            if kind == CallKind::Subscription {
                // Who wants to be told of it must have it.
                self.followed.follow(&followed, LOOKS_EVERY, self.look(&followed)).await?;
                said = json!({});
            }
            Ok(ToolOutput { structured: Some(said), ..ToolOutput::default() })
        })
    }
}
