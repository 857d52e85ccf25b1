//! `query_database`: one read-only statement on a database that the operator named.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::{
    Category, Cx, Output as Shape, OutputFormat, Permission, Risk, ToolDefinition, ToolError, input_schema,
};

use super::cell::table;
use super::databases::{Database, Databases};
use super::{postgres, sqlite};
use crate::text::{count, visible};
use crate::typed::{READS, Run, Typed, codes, words};

const LIMIT_ROWS: usize = 100;
const PARAMS_MAX: usize = 100;

/// The arguments of `query_database`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The name of the database.
    #[schemars(length(min = 1, max = 200))]
    database: String,
    /// One SELECT in the database's own dialect, at most 100,000 bytes. A parameter is `?` in SQLite, and `$1`, `$2` in
    /// PostgreSQL.
    #[schemars(length(min = 1, max = 100_000))]
    sql: String,
    /// The values for the parameters, in order, at most 100.
    #[serde(default)]
    #[schemars(schema_with = "params_schema")]
    params: Vec<Value>,
    /// How many rows to return, at most 1,000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

fn default_limit() -> usize {
    LIMIT_ROWS
}

fn params_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": { "type": ["string", "number", "boolean", "null"] },
        "maxItems": PARAMS_MAX,
    })
}

/// What an engine is asked for.
pub(super) struct Query<'a> {
    pub(super) sql: &'a str,
    /// Texts, numbers, booleans and nulls.
    pub(super) params: &'a [Value],
    /// How many rows to return.
    pub(super) limit: usize,
}

impl Query<'_> {
    /// There must be as many values as places.
    pub(super) fn check_count(&self, wanted: usize, place: &str) -> Result<(), ToolError> {
        let (given, wanted) = (self.params.len() as u64, wanted as u64);
        if given == wanted {
            return Ok(());
        }
        Err(ToolError::new(format!("the SQL has {} and params {given}", count(wanted, "parameter")))
            .with_tool_code("PARAMETERS")
            .with_hint(format!("give one value in params for each {place}, in order")))
    }
}

/// The rows.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The names of the columns, in order.
    pub(super) columns: Vec<String>,
    /// The rows, each with one value a column: a number, a text (cut after about 2,000 characters), true, false, null,
    /// or `{"blob_bytes": n}`. What JSON has no exact number for is a text.
    pub(super) rows: Vec<Vec<Value>>,
    /// How many rows are returned.
    row_count: usize,
    /// Whether there are more rows than returned.
    more: bool,
}

impl Output {
    pub(super) fn new(columns: Vec<String>, rows: Vec<Vec<Value>>, more: bool) -> Self {
        Self { columns, row_count: rows.len(), rows, more }
    }
}

pub(crate) struct QueryDatabase {
    databases: Databases,
}

impl QueryDatabase {
    pub(crate) fn new(databases: Databases) -> Self {
        Self { databases }
    }
}

impl Typed for QueryDatabase {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Query a database".into()),
            when: Some("Use it for stored records: to look up, filter, count and sum.".into()),
            when_not: Some(
                "It can not change data. To see what there is use list_tables and describe_table; for arithmetic \
                 without records calculate; for text in files search_files."
                    .into(),
            ),
            category: Category::Data,
            tags: words(&["sql", "sqlite", "postgresql", "select", "table", "数据库", "查询", "表"]),
            aliases: words(&["sql_query", "select_rows"]),
            examples: self.databases.first().map_or_else(Vec::new, |(name, database)| {
                let sql = match database {
                    Database::Sqlite(_) => "SELECT upper(?) AS shout",
                    Database::Postgres(_) => "SELECT upper($1) AS shout",
                };
                vec![json!({"database": name, "sql": sql, "params": ["hello"]})]
            }),
            input_schema: self.databases.choice(input_schema::<Args>()),
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            output: Shape { format: OutputFormat::Markdown, ..Shape::default() },
            errors: codes(&[
                ("ONLY_READS", "the statement is not known to only read"),
                ("SEVERAL_STATEMENTS", "there is more than one statement"),
                ("NO_SUCH_TABLE", "there is no such table; the hint names the nearest"),
                ("NO_SUCH_COLUMN", "there is no such column; the hint names the nearest"),
                ("NO_PERMISSION", "the database does not let its reader see that"),
                ("PARAMETERS", "the number of params and of places differ"),
                ("SQL", "the SQL can not be run; the hint shows the place"),
                ("TOO_LARGE", "a value or the statement is too large"),
                ("BUSY", "somebody is writing to the database, or too many are reading"),
                ("NO_DATABASE", "the file of the database is not there"),
                ("UNREACHABLE", "the server of the database does not answer"),
                ("UNUSABLE", "the database can not be read; the operator must look"),
            ]),
            ..ToolDefinition::new(
                "query_database",
                format!(
                    "Runs one read-only SQL SELECT on a configured database and returns the rows as a table: 100 unless \
                     limit says otherwise, a text cut after about 2,000 characters, bytes as their number. {}",
                    self.databases.sentence()
                ),
            )
        }
    }

    fn check(&self, args: &Args, _: &Cx) -> Result<(), ToolError> {
        self.databases.get(&args.database)?;
        args.params.iter().enumerate().try_for_each(|(index, value)| check_parameter(index, value))
    }

    fn preview(&self, args: &Args, _: &Cx) -> Option<String> {
        let params = if args.params.is_empty() {
            String::new()
        } else {
            format!("\nparams: {}", visible(&Value::from(args.params.clone()).to_string()))
        };
        Some(format!("{}> {}{params}", visible(&args.database), visible(&args.sql)))
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let database = self.databases.get(&args.database)?;
        args.params.iter().enumerate().try_for_each(|(index, value)| check_parameter(index, value))?;
        let query = Query { sql: &args.sql, params: &args.params, limit: args.limit };
        let output = match database {
            Database::Sqlite(path) => sqlite::select(&args.database, path, &query, &run.stop)?,
            Database::Postgres(postgres) => postgres::select(&args.database, postgres, &query, run)?,
        };
        Ok((shown(&output), output))
    }
}

fn check_parameter(index: usize, value: &Value) -> Result<(), ToolError> {
    let wrong = match value {
        Value::Array(_) | Value::Object(_) => "must be a text, a number, true, false or null",
        Value::Number(number) if number.is_u64() && !number.is_i64() => "too large for a 64-bit integer",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(()),
    };
    Err(ToolError::invalid(format!("/params/{index}"), wrong))
}

fn shown(output: &Output) -> String {
    let mut text = table(&output.columns, output.rows.iter().map(Vec::as_slice));
    let rows = count(output.row_count as u64, "row");
    if output.more {
        let _ = write!(text, "\n{rows} shown; there are more: add conditions, aggregate, or raise limit");
    } else {
        let _ = write!(text, "\n{rows}");
    }
    text
}
