//! `describe_table`: the columns, keys and indexes of one table or view.

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
use crate::text::{nearest, ticked, visible};
use crate::typed::{READS, Run, Typed, codes, words};

const TABLES_SHOWN_MAX: usize = 20;

/// The arguments of `describe_table`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The name of the database.
    #[schemars(length(min = 1, max = 200))]
    database: String,
    /// The table as list_tables shows it, without quotes: `orders`, or `sales.orders` where there are schemas.
    #[schemars(length(min = 1, max = 200))]
    table: String,
}

/// The table.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The schema it stands in; only PostgreSQL has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) schema: Option<String>,
    /// Its name.
    pub(super) name: String,
    /// `table`, `view`, `materialized view`, `partitioned table`, `foreign table` or `virtual table`.
    pub(super) kind: String,
    /// What its maker says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) comment: Option<String>,
    /// The columns, in order.
    pub(super) columns: Vec<Column>,
    /// The columns of the primary key, in order.
    pub(super) primary_key: Vec<String>,
    /// What it points to.
    pub(super) foreign_keys: Vec<ForeignKey>,
    /// Its indexes, the primary key's aside.
    pub(super) indexes: Vec<Index>,
}

/// One column.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Column {
    /// Its name as it is, without quotes.
    pub(super) name: String,
    /// Its type as the database writes it.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Whether it may be null.
    pub(super) nullable: bool,
    /// What it is when nothing is given, as SQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) default: Option<String>,
    /// What its maker says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) comment: Option<String>,
}

/// Columns that point to another table's.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ForeignKey {
    /// The columns here.
    pub(super) columns: Vec<String>,
    /// The table there.
    pub(super) references: String,
    /// The columns there; empty: its primary key.
    pub(super) referenced_columns: Vec<String>,
}

/// One index.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Index {
    /// Its name.
    pub(super) name: String,
    /// Its columns or expressions, in order.
    pub(super) columns: Vec<String>,
    /// Whether no two rows may be the same in it.
    pub(super) unique: bool,
}

/// There is no such table; what there is instead.
pub(super) fn no_such_table(wanted: &str, tables: &[String]) -> ToolError {
    let near = nearest(wanted, tables.iter().cloned());
    let hint = match (near.is_empty(), tables.is_empty()) {
        (false, _) => format!("did you mean {}?", ticked(near)),
        (true, true) => "the database has no tables".to_owned(),
        (true, false) => {
            format!("the tables are {}; list_tables shows all", ticked(tables.iter().take(TABLES_SHOWN_MAX)))
        }
    };
    ToolError::new(format!("there is no table `{wanted}`")).with_tool_code("NO_SUCH_TABLE").with_hint(hint)
}

pub(crate) struct DescribeTable {
    databases: Databases,
}

impl DescribeTable {
    pub(crate) fn new(databases: Databases) -> Self {
        Self { databases }
    }
}

impl Typed for DescribeTable {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Describe a table".into()),
            when: Some("Use it before a query, to get names and types right.".into()),
            when_not: Some("To learn which tables there are use list_tables; for rows query_database.".into()),
            category: Category::Data,
            tags: words(&["database", "schema", "columns", "types", "keys", "indexes", "数据库", "表结构", "字段"]),
            aliases: words(&["table_info", "show_columns"]),
            examples: match self.databases.first() {
                Some((name, _)) => vec![json!({"database": name, "table": "orders"})],
                None => Vec::new(),
            },
            input_schema: self.databases.choice(input_schema::<Args>()),
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            output: Shape { format: OutputFormat::Markdown, ..Shape::default() },
            errors: codes(&[
                ("NO_SUCH_TABLE", "there is no such table; the hint names the nearest"),
                ("AMBIGUOUS", "several schemas have a table of that name; the hint names them"),
                ("BUSY", "somebody is writing to the database, or too many are reading"),
                ("NO_DATABASE", "the file of the database is not there"),
                ("UNREACHABLE", "the server of the database does not answer"),
                ("UNUSABLE", "the database can not be read; the operator must look"),
            ]),
            ..ToolDefinition::new(
                "describe_table",
                format!(
                    "Returns the columns of one table or view of a configured database, with type, null, default and \
                     comment, and its primary key, foreign keys and indexes. {}",
                    self.databases.sentence()
                ),
            )
        }
    }

    fn check(&self, args: &Args, _: &Cx) -> Result<(), ToolError> {
        self.databases.get(&args.database).map(drop)
    }

    fn preview(&self, args: &Args, _: &Cx) -> Option<String> {
        Some(format!("the columns of {} in {}", visible(&args.table), visible(&args.database)))
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let output = match self.databases.get(&args.database)? {
            Database::Sqlite(path) => sqlite::describe(&args.database, path, &args.table, &run.stop)?,
            Database::Postgres(postgres) => postgres::describe(&args.database, postgres, &args.table, &run.stop)?,
        };
        Ok((shown(&output), output))
    }
}

fn shown(output: &Output) -> String {
    let schema = output.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
    let mut text = format!("{} `{schema}{}`", output.kind, output.name);
    if let Some(comment) = &output.comment {
        let _ = write!(text, ": {comment}");
    }
    text.push_str("\n\n");
    let rows: Vec<Vec<Value>> = output.columns.iter().map(row).collect();
    text.push_str(&table(&["column", "type", "null", "default", "comment"], rows.iter().map(Vec::as_slice)));
    if !output.primary_key.is_empty() {
        let _ = write!(text, "\nprimary key: {}", ticked(&output.primary_key));
    }
    for key in &output.foreign_keys {
        let _ = write!(text, "\nforeign key: {} to `{}`", ticked(&key.columns), key.references);
        if !key.referenced_columns.is_empty() {
            let _ = write!(text, " ({})", ticked(&key.referenced_columns));
        }
    }
    for index in &output.indexes {
        let kind = if index.unique { "unique index" } else { "index" };
        let _ = write!(text, "\n{kind} `{}`: {}", index.name, ticked(&index.columns));
    }
    text
}

fn row(column: &Column) -> Vec<Value> {
    vec![
        column.name.as_str().into(),
        column.kind.as_str().into(),
        if column.nullable { "yes" } else { "no" }.into(),
        column.default.clone().unwrap_or_default().into(),
        column.comment.clone().unwrap_or_default().into(),
    ]
}
