//! Rows out of an SQLite file.

use std::path::Path;

use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use rusqlite::{Row, ToSql};
use serde_json::Value;
use tollgate_types::{Code, ToolError, limits};

use super::Connected;
use crate::data::cell::{HELD_CHARS_MAX, blob, shown};
use crate::data::query_database::{Output, Query};
use crate::typed::Stop;

/// The rows of one statement that only reads.
pub(crate) fn select(name: &str, path: &Path, query: &Query<'_>, stop: &Stop) -> Result<Output, ToolError> {
    let database = Connected::open(name, path, stop)?;
    let mut statement = match database.prepare(query.sql) {
        Err(error) if query.sql.trim().is_empty() => return Err(ToolError { code: Code::InvalidArguments, ..error }),
        statement => statement?,
    };
    query.check_count(statement.parameter_count(), "`?`")?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let failed = |error: &rusqlite::Error| database.explain(error, query.sql);
    let params = rusqlite::params_from_iter(query.params.iter().map(Parameter));
    let mut found = statement.query(params).map_err(|error| failed(&error))?;
    let mut rows = Vec::new();
    let mut size = 0;
    let mut more = false;
    while let Some(row) = found.next().map_err(|error| failed(&error))? {
        if rows.len() >= query.limit || size > limits::DATABASE_ANSWER_BYTES_MAX {
            more = true;
            break;
        }
        let cells = cells(row, columns.len(), &mut size).map_err(|error| failed(&error))?;
        rows.push(cells);
    }
    Ok(Output::new(columns, rows, more))
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
                    let held = text.char_indices().nth(HELD_CHARS_MAX).and_then(|(end, _)| text.get(..end));
                    let text = shown(held.unwrap_or(&text), text.chars().count());
                    *size += text.len();
                    text.into()
                }
                ValueRef::Blob(bytes) => blob(bytes.len() as u64),
            })
        })
        .collect()
}
