//! Rows out of PostgreSQL. The server writes each value as text, so that none loses a digit, and cuts the long ones
//! before they travel.

use std::error::Error as StdError;
use std::fmt::Write as _;

use bytes::BytesMut;
use serde_json::{Number, Value};
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Row, Transaction};
use tollgate_types::{ToolError, limits};

use super::address::Postgres;
use super::explain::{Missing, explain};
use super::schema::{columns_of, table_names};
use super::statement::{Statement, only_reads};
use super::{Session, attend};
use crate::data::cell::{HELD_CHARS_MAX, blob, shown};
use crate::data::describe_table::no_such_table;
use crate::data::query_database::{Output, Query};
use crate::text::{nearest, ticked};
use crate::typed::Run;

const COLUMNS_MAX: usize = 500;
const NAMES_SHOWN_MAX: usize = 20;
/// Cells that are fetched at once, about.
const CELLS_AT_ONCE: usize = 1_000;
/// Functions that the server calls volatile, and that change nothing: clocks, chance, sizes, and waiting, which the
/// statement's time ends.
const HARMLESS: &[&str] = &[
    "clock_timestamp",
    "timeofday",
    "random",
    "random_normal",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_total_relation_size",
    "pg_database_size",
    "pg_is_in_recovery",
    "pg_sleep",
];

/// The rows of one statement that only reads.
pub(crate) fn select(name: &str, postgres: &Postgres, query: &Query<'_>, run: &Run) -> Result<Output, ToolError> {
    let statement = Statement::read(query.sql)?;
    attend(name, postgres, &run.stop, async |session| {
        let stop = run.stop.clone();
        let transaction = session.read_only().await?;
        let failed = match rows(&transaction, &statement, query).await {
            Ok(output) => return Ok(output),
            Err(Failed::Refused(error)) => return Err(error),
            Err(Failed::Server(error, place)) => explain(&error, place.then_some(statement.sql), name, &stop),
        };
        drop(transaction);
        match failed {
            (error, None) => Err(error),
            (error, Some(missing)) => Err(with_names(session, error, missing, &statement).await),
        }
    })
}

/// Why there are no rows.
enum Failed {
    Refused(ToolError),
    /// And whether a position in the error belongs to the model's SQL.
    Server(tokio_postgres::Error, bool),
}

impl From<ToolError> for Failed {
    fn from(error: ToolError) -> Self {
        Self::Refused(error)
    }
}

async fn rows(transaction: &Transaction<'_>, statement: &Statement<'_>, query: &Query<'_>) -> Result<Output, Failed> {
    let later = |error| Failed::Server(error, false);
    refuse_effects(transaction, statement).await?;
    // Alone first: so it is one whole statement, and can not end the one that is made around it.
    let alone = transaction.prepare(statement.sql).await.map_err(|error| Failed::Server(error, true))?;
    query.check_count(alone.params().len(), "`$1`, `$2`, …")?;
    if alone.columns().len() > COLUMNS_MAX {
        let error = ToolError::new(format!("the answer has {} columns", alone.columns().len()));
        let hint = format!("name the columns that you need, at most {COLUMNS_MAX}");
        return Err(error.with_tool_code("TOO_LARGE").with_hint(hint).into());
    }
    let columns: Vec<String> = alone.columns().iter().map(|column| column.name().to_owned()).collect();
    let (kinds, prepared) = if statement.is_select {
        let kinds: Vec<Kind> = alone.columns().iter().map(|column| Kind::of(column.type_())).collect();
        let wrapped = transaction.prepare(&wrapped(statement.sql, &kinds, query.limit)).await.map_err(later)?;
        (kinds, wrapped)
    } else {
        (columns.iter().map(|_| Kind::Plain).collect(), alone)
    };
    let params: Vec<Parameter<'_>> = query.params.iter().map(Parameter).collect();
    let portal = transaction.bind_raw(&prepared, params).await.map_err(later)?;
    let at_once = i32::try_from((CELLS_AT_ONCE / kinds.len().max(1)).clamp(1, 100)).unwrap_or(1);
    let (mut rows, mut size) = (Vec::new(), 0);
    loop {
        let found = transaction.query_portal(&portal, at_once).await.map_err(later)?;
        let is_end = found.len() < usize::try_from(at_once).unwrap_or(1);
        for row in found {
            if rows.len() >= query.limit || size > limits::DATABASE_ANSWER_BYTES_MAX {
                return Ok(Output::new(columns, rows, true));
            }
            rows.push(cells(&row, &kinds, &mut size).map_err(later)?);
        }
        if is_end {
            return Ok(Output::new(columns, rows, false));
        }
    }
}

/// PostgreSQL says of each function whether it may have an effect: then it is volatile. One that its maker did not mark
/// counts as such.
async fn refuse_effects(transaction: &Transaction<'_>, statement: &Statement<'_>) -> Result<(), Failed> {
    if statement.called.is_empty() {
        return Ok(());
    }
    let called: Vec<&str> = statement.called.iter().map(String::as_str).collect();
    let sql = "SELECT p.proname::pg_catalog.text FROM pg_catalog.pg_proc p WHERE p.proname::pg_catalog.text = ANY ($1) \
               AND p.provolatile = 'v' AND NOT (p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace \
               AND p.proname::pg_catalog.text = ANY ($2)) LIMIT 1";
    let found = transaction.query_opt(sql, &[&called, &HARMLESS]).await;
    match found.map_err(|error| Failed::Server(error, false))? {
        None => Ok(()),
        Some(row) => {
            let name: String = row.try_get(0).map_err(|error| Failed::Server(error, false))?;
            Err(only_reads(&format!("the function `{name}`, which the database calls VOLATILE,")).into())
        }
    }
}

/// How a column's values are asked for and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Float,
    /// Short in any case.
    Plain,
    /// Perhaps long.
    Long,
    Bytes,
    /// No value at all.
    Nothing,
}

impl Kind {
    fn of(kind: &Type) -> Self {
        match *kind {
            Type::BOOL => Self::Boolean,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => Self::Integer,
            Type::FLOAT4 | Type::FLOAT8 => Self::Float,
            Type::DATE | Type::TIME | Type::TIMETZ | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::UUID => Self::Plain,
            Type::BYTEA => Self::Bytes,
            Type::VOID => Self::Nothing,
            _ => Self::Long,
        }
    }
}

/// The statement as a table whose columns are written as text.
fn wrapped(sql: &str, kinds: &[Kind], limit: usize) -> String {
    let mut values = String::new();
    for (at, kind) in kinds.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let _ = match kind {
            Kind::Boolean | Kind::Integer | Kind::Float | Kind::Plain => {
                write!(values, "{comma}c{at}::pg_catalog.text")
            }
            Kind::Long => write!(
                values,
                "{comma}pg_catalog.left(c{at}::pg_catalog.text, {HELD_CHARS_MAX}), \
                 pg_catalog.length(c{at}::pg_catalog.text)::pg_catalog.text"
            ),
            Kind::Bytes => write!(values, "{comma}pg_catalog.octet_length(c{at})::pg_catalog.text"),
            Kind::Nothing => write!(values, "{comma}NULL::pg_catalog.text"),
        };
    }
    let names: Vec<String> = (0..kinds.len()).map(|at| format!("c{at}")).collect();
    let names = if names.is_empty() { String::new() } else { format!("({})", names.join(", ")) };
    let values = if values.is_empty() { "NULL".to_owned() } else { values };
    // A comment at the end must not swallow the parenthesis.
    format!("SELECT {values} FROM (\n{sql}\n) AS answer{names} LIMIT {}", limit.saturating_add(1))
}

fn cells(row: &Row, kinds: &[Kind], size: &mut usize) -> Result<Vec<Value>, tokio_postgres::Error> {
    let mut at = 0;
    let mut next = || {
        let text = row.try_get::<_, Option<Bytes<'_>>>(at);
        at += 1;
        text.map(|text| text.map(|bytes| String::from_utf8_lossy(bytes.0)))
    };
    let mut cells = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let text = next()?;
        let chars = if *kind == Kind::Long { next()? } else { None };
        *size += 8 + text.as_ref().map_or(0, |text| text.len());
        cells.push(match text {
            None => Value::Null,
            Some(text) => cell(*kind, &text, chars.as_deref()),
        });
    }
    Ok(cells)
}

fn cell(kind: Kind, text: &str, chars: Option<&str>) -> Value {
    let plain = || Value::from(text);
    match kind {
        Kind::Boolean => text.parse().map_or_else(|_| plain(), Value::Bool),
        Kind::Integer => text.parse::<i64>().map_or_else(|_| plain(), Value::from),
        // JSON has neither infinity nor NaN; their names are better than null.
        Kind::Float => text.parse().ok().and_then(Number::from_f64).map_or_else(plain, Value::Number),
        Kind::Bytes => text.parse().map_or_else(|_| plain(), blob),
        Kind::Nothing => Value::Null,
        Kind::Plain => shown(text, text.chars().count()).into(),
        Kind::Long => {
            let total = chars.and_then(|chars| chars.parse().ok()).unwrap_or_else(|| text.chars().count());
            shown(text, total).into()
        }
    }
}

/// Whatever the server sent.
struct Bytes<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Bytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A parameter as text, which the server reads as whatever type it takes there.
#[derive(Debug)]
struct Parameter<'a>(&'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::String(text) => out.extend_from_slice(text.as_bytes()),
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        self.to_sql(kind, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

/// The error with the names that are most like the missing one.
async fn with_names(session: &mut Session, error: ToolError, missing: Missing, statement: &Statement<'_>) -> ToolError {
    let Ok(transaction) = session.read_only().await else { return error };
    match missing {
        Missing::Table(table) => {
            let tables = table_names(&transaction).await.unwrap_or_default();
            let bare = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
            let hint = no_such_table(&table, &tables).hint;
            let mean = nearest(&bare(&table), tables.iter().map(|name| bare(name)));
            match (mean.is_empty(), hint) {
                (false, _) => error.with_hint(format!("did you mean {}?", ticked(mean))),
                (true, Some(hint)) => error.with_hint(hint),
                (true, None) => error,
            }
        }
        Missing::Column(column) => {
            let columns = columns_of(&transaction, &statement.names).await.unwrap_or_default();
            let near = nearest(&column, columns.iter().cloned());
            error.with_hint(match (near.is_empty(), columns.is_empty()) {
                (false, _) => format!("did you mean {}? texts stand in single quotes", ticked(near)),
                (true, false) => format!("the columns are {}", ticked(columns.iter().take(NAMES_SHOWN_MAX))),
                (true, true) => "describe_table shows a table's columns".to_owned(),
            })
        }
    }
}
