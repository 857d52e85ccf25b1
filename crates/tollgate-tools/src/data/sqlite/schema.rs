//! What an SQLite file says of its tables.

use std::path::Path;

use rusqlite::{Params, Row};
use tollgate_types::{ToolError, limits};

use super::Connected;
use crate::data::describe_table::{Column, ForeignKey, Index, Output, no_such_table};
use crate::data::list_tables::{Listing, Table};
use crate::typed::Stop;

/// Rows of one table that are counted when nothing else tells their number.
const ROWS_COUNTED_MAX: u64 = 10_000;
/// Rows of all tables together that are counted.
const ROWS_COUNTED_TOTAL_MAX: u64 = 200_000;

/// The tables whose name has a part like `matching`.
pub(crate) fn list(name: &str, path: &Path, matching: &str, stop: &Stop) -> Result<Listing, ToolError> {
    let database = Connected::open(name, path, stop)?;
    let wanted = matching.to_lowercase();
    let mut found = tables(&database)?;
    found.retain(|(table, _)| table.to_lowercase().contains(&wanted));
    let more = found.len() > limits::TABLES_LISTED_MAX;
    found.truncate(limits::TABLES_LISTED_MAX);
    let mut counted = 0;
    let mut listed = Vec::new();
    for (table, kind) in found {
        stop.check()?;
        let rows_estimate = match kind.as_str() {
            "table" => rows_estimate(&database, &table, &mut counted)?,
            _ => None,
        };
        listed.push(Table { schema: None, name: table, kind, rows_estimate, comment: None });
    }
    Ok(Listing { tables: listed, more })
}

/// One table or view.
pub(crate) fn describe(name: &str, path: &Path, wanted: &str, stop: &Stop) -> Result<Output, ToolError> {
    let database = Connected::open(name, path, stop)?;
    let tables = tables(&database)?;
    // SQLite itself does not tell upper from lower case here.
    let same = |table: &str| table == wanted || table.eq_ignore_ascii_case(wanted);
    let Some((table, kind)) = tables.iter().find(|(table, _)| same(table)) else {
        let names: Vec<String> = tables.into_iter().map(|(table, _)| table).collect();
        return Err(no_such_table(wanted, &names));
    };
    described(&database, table, kind)
}

/// All of them, as far as so many are described, and whether there are more.
pub(crate) fn describe_all(name: &str, path: &Path, stop: &Stop) -> Result<(Vec<Output>, bool), ToolError> {
    let database = Connected::open(name, path, stop)?;
    let tables = tables(&database)?;
    let shown = tables.iter().take(limits::TABLES_DESCRIBED_MAX);
    let described = shown.map(|(table, kind)| {
        stop.check()?;
        described(&database, table, kind)
    });
    Ok((described.collect::<Result<_, _>>()?, tables.len() > limits::TABLES_DESCRIBED_MAX))
}

fn described(database: &Connected, table: &str, kind: &str) -> Result<Output, ToolError> {
    let mut keys: Vec<(i64, String)> = Vec::new();
    let columns = rows(
        database,
        "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo(?1) WHERE hidden <> 1",
        [table],
        |row| {
            let (name, place): (String, i64) = (row.get(0)?, row.get(4)?);
            if place > 0 {
                keys.push((place, name.clone()));
            }
            let kind: String = row.get::<_, Option<String>>(1)?.filter(|kind| !kind.is_empty()).unwrap_or("any".into());
            Ok(Column { name, kind, nullable: !row.get::<_, bool>(2)?, default: row.get(3)?, comment: None })
        },
    )?;
    keys.sort();
    Ok(Output {
        schema: None,
        name: table.to_owned(),
        kind: kind.to_owned(),
        comment: None,
        columns,
        primary_key: keys.into_iter().map(|(_, name)| name).collect(),
        foreign_keys: foreign_keys(database, table)?,
        indexes: indexes(database, table)?,
    })
}

/// Names and kinds, by name, without what SQLite keeps for itself.
fn tables(database: &Connected) -> Result<Vec<(String, String)>, ToolError> {
    let sql = "SELECT name, CASE type WHEN 'virtual' THEN 'virtual table' ELSE type END FROM pragma_table_list \
               WHERE schema = 'main' AND type IN ('table', 'view', 'virtual') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
               ORDER BY name";
    rows(database, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// What `ANALYZE` noted; else the rows are counted, as far as that is quick.
fn rows_estimate(database: &Connected, table: &str, counted: &mut u64) -> Result<Option<u64>, ToolError> {
    let noted = "SELECT CAST(stat AS INTEGER) FROM sqlite_stat1 WHERE tbl = ?1 AND CAST(stat AS INTEGER) > 0 LIMIT 1";
    // Without `ANALYZE` there is no such table.
    if let Ok(noted) = rows(database, noted, [table], |row| row.get::<_, i64>(0))
        && let Some(rows) = noted.first()
    {
        return Ok(u64::try_from(*rows).ok());
    }
    if *counted > ROWS_COUNTED_TOTAL_MAX {
        return Ok(None);
    }
    let quoted = table.replace('"', "\"\"");
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM main.\"{quoted}\" LIMIT {})", ROWS_COUNTED_MAX + 1);
    let found = rows(database, &sql, [], |row| row.get::<_, i64>(0))?;
    let rows = found.first().and_then(|rows| u64::try_from(*rows).ok()).unwrap_or(0);
    *counted += rows;
    Ok((rows <= ROWS_COUNTED_MAX).then_some(rows))
}

fn foreign_keys(database: &Connected, table: &str) -> Result<Vec<ForeignKey>, ToolError> {
    let sql = "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id, seq";
    let parts = rows(database, sql, [table], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get::<_, Option<String>>(3)?))
    })?;
    let mut keys: Vec<(i64, ForeignKey)> = Vec::new();
    for (id, references, from, to) in parts {
        match keys.last_mut() {
            Some((last, key)) if *last == id => {
                key.columns.push(from);
                key.referenced_columns.extend(to);
            }
            _ => keys.push((
                id,
                ForeignKey { columns: vec![from], references, referenced_columns: to.into_iter().collect() },
            )),
        }
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

fn indexes(database: &Connected, table: &str) -> Result<Vec<Index>, ToolError> {
    let sql = "SELECT name, \"unique\" FROM pragma_index_list(?1) WHERE origin <> 'pk' ORDER BY name";
    let found = rows(database, sql, [table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    let with_columns = found.into_iter().map(|(name, unique)| {
        let sql = "SELECT coalesce(name, '(an expression)') FROM pragma_index_info(?1) ORDER BY seqno";
        let columns = rows(database, sql, [&name], |row| row.get(0))?;
        Ok(Index { name, columns, unique })
    });
    with_columns.collect()
}

/// Every row of one of our own statements.
fn rows<T>(
    database: &Connected,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, ToolError> {
    let mut statement = database.prepare(sql)?;
    let found = statement.query_map(params, read).and_then(Iterator::collect);
    found.map_err(|error| database.explain(&error, sql))
}
