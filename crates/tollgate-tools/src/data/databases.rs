//! The databases that the operator named: found by their names, and described to a model as the choice there is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use tollgate_types::ToolError;

use super::postgres::Postgres;
use crate::text::{nearest, ticked};

const NO_DATABASE_HINT: &str = "the operator can add one to tollgate.toml:\n[databases.shop]\nsqlite = \"shop.db\"\nor \
                                postgres = { env = \"SHOP_DATABASE_URL\" }\nthen it is called `shop`";

/// A database that may be read.
#[derive(Debug, Clone)]
pub enum Database {
    /// An SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server.
    Postgres(Box<Postgres>),
}

/// All of them, by the names that a model uses.
#[derive(Debug, Clone)]
pub(crate) struct Databases(BTreeMap<String, Database>);

impl Databases {
    pub(crate) fn new(databases: BTreeMap<String, Database>) -> Self {
        Self(databases)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Database, ToolError> {
        self.0.get(name).ok_or_else(|| {
            let error = ToolError::invalid("/database", format!("there is no database `{name}`"));
            if self.0.is_empty() {
                return error.with_hint(NO_DATABASE_HINT);
            }
            let near = nearest(name, self.0.keys().cloned());
            let mean = if near.is_empty() { String::new() } else { format!("did you mean {}? ", ticked(near)) };
            error.with_hint(format!("{mean}the databases are {}", ticked(self.0.keys())))
        })
    }

    /// The first name, for an example.
    pub(crate) fn first(&self) -> Option<(&str, &Database)> {
        self.0.iter().next().map(|(name, database)| (name.as_str(), database))
    }

    /// A sentence for a description.
    pub(crate) fn sentence(&self) -> String {
        if self.0.is_empty() {
            return "No database is configured yet.".to_owned();
        }
        let shown = self.0.iter().map(|(name, database)| {
            let kind = match database {
                Database::Sqlite(_) => "SQLite",
                Database::Postgres(_) => "PostgreSQL",
            };
            format!("`{name}` ({kind})")
        });
        format!("Databases: {}.", shown.collect::<Vec<_>>().join(", "))
    }

    /// The schema of arguments with a `database`, of which there is only this choice.
    pub(crate) fn choice(&self, mut input_schema: Value) -> Value {
        if !self.0.is_empty()
            && let Some(database) = input_schema.pointer_mut("/properties/database").and_then(Value::as_object_mut)
        {
            // The choice itself says more than a length.
            database.retain(|key, _| !key.ends_with("Length"));
            database.insert("enum".into(), self.0.keys().map(String::as_str).collect());
        }
        input_schema
    }
}
