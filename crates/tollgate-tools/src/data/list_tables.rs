//! `list_tables`: the tables and views of a database.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::{
    Category, Cx, Output as Shape, OutputFormat, Permission, Risk, ToolDefinition, ToolError, input_schema, limits,
};

use super::cell::table;
use super::databases::{Database, Databases};
use super::{postgres, sqlite};
use crate::text::{count, head, visible};
use crate::typed::{READS, Run, Typed, codes, words};

const COMMENT_CHARS_MAX: usize = 300;

/// The arguments of `list_tables`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The name of the database.
    #[schemars(length(min = 1, max = 200))]
    database: String,
    /// Only tables whose name has this part; upper and lower case are the same.
    #[serde(default)]
    #[schemars(with = "String", length(max = 200))]
    matching: String,
}

/// The tables.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The tables and views, by name.
    tables: Vec<Table>,
    /// Whether there are more than 500.
    more: bool,
}

/// One table or view.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Table {
    /// The schema it stands in; only PostgreSQL has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) schema: Option<String>,
    /// Its name as it is, without quotes.
    pub(super) name: String,
    /// `table`, `view`, `materialized view`, `partitioned table`, `foreign table` or `virtual table`.
    pub(super) kind: String,
    /// About how many rows it has, where the database knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub(super) rows_estimate: Option<u64>,
    /// What its maker says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) comment: Option<String>,
}

/// What an engine found.
pub(super) struct Listing {
    pub(super) tables: Vec<Table>,
    pub(super) more: bool,
}

pub(crate) struct ListTables {
    databases: Databases,
}

impl ListTables {
    pub(crate) fn new(databases: Databases) -> Self {
        Self { databases }
    }
}

impl Typed for ListTables {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("List tables".into()),
            when: Some("Use it first, to learn what a database holds.".into()),
            when_not: Some("For a table's columns use describe_table; for its rows query_database.".into()),
            category: Category::Data,
            tags: words(&["database", "schema", "tables", "views", "sqlite", "postgresql", "数据库", "表", "列表"]),
            aliases: words(&["show_tables"]),
            examples: match self.databases.first() {
                Some((name, _)) => vec![json!({"database": name}), json!({"database": name, "matching": "order"})],
                None => Vec::new(),
            },
            input_schema: self.databases.choice(input_schema::<Args>()),
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            output: Shape { format: OutputFormat::Markdown, ..Shape::default() },
            errors: codes(&[
                ("BUSY", "somebody is writing to the database, or too many are reading"),
                ("NO_DATABASE", "the file of the database is not there"),
                ("UNREACHABLE", "the server of the database does not answer"),
                ("UNUSABLE", "the database can not be read; the operator must look"),
            ]),
            ..ToolDefinition::new(
                "list_tables",
                format!(
                    "Lists the tables and views of a configured database, with kind, comment and about how many rows \
                     each has; at most {}. {}",
                    limits::TABLES_LISTED_MAX,
                    self.databases.sentence()
                ),
            )
        }
    }

    fn check(&self, args: &Args, _: &Cx) -> Result<(), ToolError> {
        self.databases.get(&args.database).map(drop)
    }

    fn preview(&self, args: &Args, _: &Cx) -> Option<String> {
        Some(format!("the tables of {}", visible(&args.database)))
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let Listing { tables, more } = match self.databases.get(&args.database)? {
            Database::Sqlite(path) => sqlite::list(&args.database, path, &args.matching, &run.stop)?,
            Database::Postgres(postgres) => postgres::list(&args.database, postgres, &args.matching, &run.stop)?,
        };
        let output = Output { tables, more };
        Ok((shown(&output, &args), output))
    }
}

fn shown(output: &Output, args: &Args) -> String {
    if output.tables.is_empty() {
        let which = if args.matching.is_empty() { "" } else { " like that" };
        return format!("the database `{}` has no tables{which}", args.database);
    }
    let rows: Vec<Vec<Value>> = output.tables.iter().map(row).collect();
    let mut text = table(&["table", "kind", "rows, about", "comment"], rows.iter().map(Vec::as_slice));
    let tables = count(output.tables.len() as u64, "table");
    if output.more {
        let _ = write!(text, "\n{tables} shown; there are more: give a part of the name in matching");
    } else {
        let _ = write!(text, "\n{tables}");
    }
    text
}

fn row(table: &Table) -> Vec<Value> {
    let name = match &table.schema {
        Some(schema) => format!("{schema}.{}", table.name),
        None => table.name.clone(),
    };
    let comment = table.comment.as_deref().map(|comment| head(comment, COMMENT_CHARS_MAX).into_owned());
    vec![
        name.into(),
        table.kind.as_str().into(),
        table.rows_estimate.map_or_else(|| "?".into(), Value::from),
        comment.unwrap_or_default().into(),
    ]
}
