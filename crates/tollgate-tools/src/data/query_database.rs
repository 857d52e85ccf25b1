//! `query_database`: one read-only statement on a database that the operator named.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{Row, ToSql};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_types::{
    Category, Code, Cx, Output as Shape, OutputFormat, Permission, Risk, ToolDefinition, ToolError, input_schema,
};

use super::sqlite::Database;
use crate::text::{count, cut, nearest, ticked, visible};
use crate::typed::{READS, Run, Typed, codes, words};

const LIMIT_ROWS: usize = 100;
const CELL_CHARS_MAX: usize = 2_000;
/// What one answer may hold; it ends early there.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
const PARAMS_MAX: usize = 100;
const NO_DATABASE_HINT: &str =
    "the operator can add one to tollgate.toml:\n[databases.shop]\nsqlite = \"shop.db\"\nthen it is called `shop`";

/// The arguments of `query_database`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The name of the database.
    #[schemars(length(min = 1, max = 200))]
    database: String,
    /// One SELECT in SQLite's dialect, at most 100,000 bytes; `?` stands for a parameter. `SELECT name, sql FROM
    /// sqlite_schema` shows the tables, `PRAGMA table_info(name)` a table's columns.
    #[schemars(length(min = 1, max = 100_000))]
    sql: String,
    /// The values for the `?`, in order, at most 100.
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

/// The rows.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The names of the columns, in order.
    columns: Vec<String>,
    /// The rows, each with one value a column: a number, a text (cut after 2,000 characters), null, or
    /// `{"blob_bytes": n}`.
    rows: Vec<Vec<Value>>,
    /// How many rows are returned.
    row_count: usize,
    /// Whether there are more rows than returned.
    more: bool,
}

pub(crate) struct QueryDatabase {
    databases: BTreeMap<String, PathBuf>,
}

impl QueryDatabase {
    pub(crate) fn new(databases: BTreeMap<String, PathBuf>) -> Self {
        Self { databases }
    }

    fn path(&self, name: &str) -> Result<&Path, ToolError> {
        let Some(path) = self.databases.get(name) else {
            let error = ToolError::invalid("/database", format!("there is no database `{name}`"));
            return Err(if self.databases.is_empty() {
                error.with_hint(NO_DATABASE_HINT)
            } else {
                let near = nearest(name, self.databases.keys().cloned());
                let mean = if near.is_empty() { String::new() } else { format!("did you mean {}? ", ticked(near)) };
                error.with_hint(format!("{mean}the databases are {}", ticked(self.databases.keys())))
            });
        };
        Ok(path)
    }
}

impl Typed for QueryDatabase {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        let databases = if self.databases.is_empty() {
            "No database is configured yet.".to_owned()
        } else {
            format!("Databases: {}.", ticked(self.databases.keys()))
        };
        let mut input_schema = input_schema::<Args>();
        if !self.databases.is_empty()
            && let Some(database) = input_schema.pointer_mut("/properties/database").and_then(Value::as_object_mut)
        {
            // The choice itself says more than a length.
            database.retain(|key, _| !key.ends_with("Length"));
            database.insert("enum".into(), self.databases.keys().map(String::as_str).collect());
        }
        ToolDefinition {
            title: Some("Query a database".into()),
            when: Some("Use it for stored records: to look up, filter, count and sum.".into()),
            when_not: Some(
                "It can not change data. For arithmetic without records use calculate; for text in files use \
                 search_files."
                    .into(),
            ),
            category: Category::Data,
            tags: words(&["sql", "sqlite", "select", "table", "数据库", "查询", "表"]),
            aliases: words(&["sql_query", "select_rows"]),
            examples: self.databases.keys().next().map_or_else(Vec::new, |name| {
                vec![json!({"database": name, "sql": "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"})]
            }),
            input_schema,
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            output: Shape { format: OutputFormat::Markdown, ..Shape::default() },
            errors: codes(&[
                ("ONLY_READS", "the statement is not known to only read"),
                ("SEVERAL_STATEMENTS", "there is more than one statement"),
                ("NO_SUCH_TABLE", "there is no such table; the hint names the nearest"),
                ("NO_SUCH_COLUMN", "there is no such column; the hint names the nearest"),
                ("PARAMETERS", "the number of params and of `?` differ"),
                ("SQL", "the SQL can not be run; the hint shows the place"),
                ("TOO_LARGE", "a value or the statement is too large"),
                ("BUSY", "somebody is writing to the database"),
                ("NO_DATABASE", "the file of the database is not there"),
                ("UNUSABLE", "the file of the database can not be read"),
            ]),
            ..ToolDefinition::new(
                "query_database",
                format!(
                    "Runs one read-only SQL SELECT on a configured SQLite database and returns the rows as a table: \
                     100 unless limit says otherwise, a text cut after 2,000 characters, a BLOB as its size. \
                     {databases}"
                ),
            )
        }
    }

    fn check(&self, args: &Args, _: &Cx) -> Result<(), ToolError> {
        self.path(&args.database)?;
        args.params.iter().enumerate().try_for_each(|(index, value)| parameter(index, value).map(drop))
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
        let path = self.path(&args.database)?;
        let params = args
            .params
            .iter()
            .enumerate()
            .map(|(index, value)| parameter(index, value))
            .collect::<Result<Vec<_>, _>>()?;
        let database = Database::open(&args.database, path, &run.stop)?;
        let output = select(&database, &args.sql, &params, args.limit)?;
        Ok((table(&output), output))
    }
}

/// A parameter as SQLite takes it.
struct Parameter<'a>(&'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Value::Bool(flag) => ToSqlOutput::Owned(Sql::Integer(i64::from(*flag))),
            Value::Number(number) => ToSqlOutput::Owned(match number.as_i64() {
                Some(integer) => Sql::Integer(integer),
                None => Sql::Real(number.as_f64().unwrap_or(f64::NAN)),
            }),
            Value::String(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Value::Null | Value::Array(_) | Value::Object(_) => ToSqlOutput::Owned(Sql::Null),
        })
    }
}

fn parameter(index: usize, value: &Value) -> Result<Parameter<'_>, ToolError> {
    let wrong = match value {
        Value::Array(_) | Value::Object(_) => "must be a text, a number, true, false or null",
        Value::Number(number) if number.is_u64() && !number.is_i64() => "too large for a 64-bit integer",
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(Parameter(value)),
    };
    Err(ToolError::invalid(format!("/params/{index}"), wrong))
}

fn select(database: &Database, sql: &str, params: &[Parameter<'_>], limit: usize) -> Result<Output, ToolError> {
    let mut statement = match database.prepare(sql) {
        Err(error) if sql.trim().is_empty() => return Err(ToolError { code: Code::InvalidArguments, ..error }),
        statement => statement?,
    };
    let wanted = statement.parameter_count();
    if wanted != params.len() {
        let (given, wanted) = (params.len() as u64, wanted as u64);
        return Err(ToolError::new(format!("the SQL has {} and params {given}", count(wanted, "parameter")))
            .with_tool_code("PARAMETERS")
            .with_hint("give one value in params for each `?`, in order"));
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let failed = |error: &rusqlite::Error| database.explain(error, sql);
    let mut found = statement.query(rusqlite::params_from_iter(params)).map_err(|error| failed(&error))?;
    let mut rows = Vec::new();
    let mut size = 0;
    let mut more = false;
    while let Some(row) = found.next().map_err(|error| failed(&error))? {
        if rows.len() >= limit || size > ANSWER_BYTES_MAX {
            more = true;
            break;
        }
        let cells = cells(row, columns.len(), &mut size).map_err(|error| failed(&error))?;
        rows.push(cells);
    }
    Ok(Output { columns, row_count: rows.len(), rows, more })
}

fn cells(row: &Row<'_>, columns: usize, size: &mut usize) -> rusqlite::Result<Vec<Value>> {
    (0..columns)
        .map(|index| {
            *size += 8;
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(integer) => integer.into(),
                // JSON has no infinity; its name is better than null.
                ValueRef::Real(real) if real.is_infinite() => real.to_string().into(),
                ValueRef::Real(real) => real.into(),
                ValueRef::Text(text) => {
                    let text = String::from_utf8_lossy(text);
                    let text = cut(&text, CELL_CHARS_MAX).into_owned();
                    *size += text.len();
                    text.into()
                }
                ValueRef::Blob(blob) => json!({ "blob_bytes": blob.len() }),
            })
        })
        .collect()
}

/// A Markdown table: what models have read most of.
fn table(output: &Output) -> String {
    let mut text = String::new();
    let mut push_row = |cells: &mut dyn Iterator<Item = Cow<'_, str>>| {
        for cell in cells {
            let _ = write!(text, "| {cell} ");
        }
        text.push_str("|\n");
    };
    push_row(&mut output.columns.iter().map(|name| escape(name)));
    push_row(&mut output.columns.iter().map(|_| Cow::Borrowed("---")));
    for row in &output.rows {
        push_row(&mut row.iter().map(cell));
    }
    let rows = count(output.row_count as u64, "row");
    if output.more {
        let _ = write!(text, "\n{rows} shown; there are more: add conditions, aggregate, or raise limit");
    } else {
        let _ = write!(text, "\n{rows}");
    }
    text
}

fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => escape(text),
        Value::Object(blob) => {
            format!("({} bytes)", blob.get("blob_bytes").and_then(Value::as_u64).unwrap_or(0)).into()
        }
        other => other.to_string().into(),
    }
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['|', '\n', '\r']) {
        return text.into();
    }
    text.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>").into()
}
