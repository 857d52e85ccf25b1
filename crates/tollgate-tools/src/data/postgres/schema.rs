//! What PostgreSQL says of its tables: those that the user of the connection may read.

use std::collections::BTreeSet;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};
use tollgate_types::{ToolError, limits};

use super::address::Postgres;
use super::attend;
use super::explain::broken;
use crate::data::describe_table::{Column, ForeignKey, Index, Output, no_such_table};
use crate::data::list_tables::{Listing, Table};
use crate::text::ticked;
use crate::typed::Stop;

const NAMES_MAX: i64 = 5_000;

/// The relations that can be read, as a table `r`: what is the system's own or not to be read is not there.
const READABLE: &str = "\
    (SELECT c.oid, n.nspname::text AS schema, c.relname::text AS name, \
        CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'f' THEN 'foreign table' \
            WHEN 'p' THEN 'partitioned table' ELSE 'table' END AS kind, \
        CASE WHEN c.relkind IN ('r', 'm', 'p', 'f') AND c.reltuples >= 0 THEN c.reltuples::bigint END AS rows_estimate, \
        pg_catalog.obj_description(c.oid, 'pg_class') AS comment, pg_catalog.pg_table_is_visible(c.oid) AS is_visible \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' \
        AND n.nspname NOT LIKE 'pg\\_%' AND NOT c.relispartition \
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
        AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))) r";

type Found<T> = Result<T, tokio_postgres::Error>;

/// The tables whose name has a part like `matching`.
pub(crate) fn list(name: &str, postgres: &Postgres, matching: &str, stop: &Stop) -> Result<Listing, ToolError> {
    attend(name, postgres, stop, async |session| {
        let transaction = session.read_only().await?;
        let found = listed(&transaction, matching).await;
        let mut tables = found.map_err(|error| broken(name, &error, stop))?;
        let more = tables.len() > limits::TABLES_LISTED_MAX;
        tables.truncate(limits::TABLES_LISTED_MAX);
        Ok(Listing { tables, more })
    })
}

/// One table or view.
pub(crate) fn describe(name: &str, postgres: &Postgres, wanted: &str, stop: &Stop) -> Result<Output, ToolError> {
    attend(name, postgres, stop, async |session| {
        let failed = |error| broken(name, &error, stop);
        let transaction = session.read_only().await?;
        let (oid, table) = match found(&transaction, wanted).await.map_err(failed)? {
            Wanted::One(oid, table) => (oid, table),
            Wanted::None => {
                let tables = table_names(&transaction).await.map_err(failed)?;
                return Err(no_such_table(wanted, &tables));
            }
            Wanted::Several(schemas) => {
                let names = schemas.iter().map(|schema| format!("{schema}.{wanted}"));
                return Err(ToolError::new(format!("several schemas have a table `{wanted}`"))
                    .with_tool_code("AMBIGUOUS")
                    .with_hint(format!("say which: {}", ticked(names))));
            }
        };
        described(&transaction, oid, table).await.map_err(failed)
    })
}

/// All of them, as far as so many are described, and whether there are more.
pub(crate) fn describe_all(name: &str, postgres: &Postgres, stop: &Stop) -> Result<(Vec<Output>, bool), ToolError> {
    attend(name, postgres, stop, async |session| {
        let transaction = session.read_only().await?;
        all_described(&transaction).await.map_err(|error| broken(name, &error, stop))
    })
}

async fn all_described(transaction: &Transaction<'_>) -> Found<(Vec<Output>, bool)> {
    let sql = format!(
        "SELECT oid, schema, name, kind, comment FROM {READABLE} ORDER BY schema <> 'public', schema, name LIMIT {}",
        limits::TABLES_DESCRIBED_MAX + 1
    );
    let mut tables = rows(transaction, &sql, &[], |row| {
        let (schema, name, kind, comment) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        Ok((row.try_get::<_, u32>(0)?, Table { schema, name, kind, rows_estimate: None, comment }))
    })
    .await?;
    let more = tables.len() > limits::TABLES_DESCRIBED_MAX;
    tables.truncate(limits::TABLES_DESCRIBED_MAX);
    let mut all = Vec::with_capacity(tables.len());
    for (oid, table) in tables {
        all.push(described(transaction, oid, table).await?);
    }
    Ok((all, more))
}

async fn listed(transaction: &Transaction<'_>, matching: &str) -> Found<Vec<Table>> {
    let sql = format!(
        "SELECT schema, name, kind, rows_estimate, comment FROM {READABLE} \
         WHERE $1 = '' OR pg_catalog.strpos(pg_catalog.lower(schema || '.' || name), pg_catalog.lower($1)) > 0 \
         ORDER BY schema <> 'public', schema, name LIMIT {}",
        limits::TABLES_LISTED_MAX + 1
    );
    rows(transaction, &sql, &[&matching], |row| {
        let estimate: Option<i64> = row.try_get(3)?;
        Ok(Table {
            schema: row.try_get(0)?,
            name: row.try_get(1)?,
            kind: row.try_get(2)?,
            rows_estimate: estimate.and_then(|rows| u64::try_from(rows).ok()),
            comment: row.try_get(4)?,
        })
    })
    .await
}

/// Which table a name means.
enum Wanted {
    One(u32, Table),
    None,
    Several(Vec<String>),
}

/// The name as it is, with or without its schema; failing that, in other letters.
async fn found(transaction: &Transaction<'_>, wanted: &str) -> Found<Wanted> {
    for same in ["$1 IN (name, schema || '.' || name)", "lower($1) IN (lower(name), lower(schema || '.' || name))"] {
        let sql = format!(
            "SELECT oid, schema, name, kind, rows_estimate, comment, is_visible FROM {READABLE} WHERE {same} \
             ORDER BY NOT is_visible, schema LIMIT 20"
        );
        let mut found = rows(transaction, &sql, &[&wanted], |row| {
            let table = Table {
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                kind: row.try_get(3)?,
                rows_estimate: None,
                comment: row.try_get(5)?,
            };
            Ok((row.try_get::<_, u32>(0)?, table, row.try_get::<_, bool>(6)?))
        })
        .await?;
        // What a query would take is meant.
        let is_clear = found.len() == 1 || found.first().is_some_and(|(.., is_visible)| *is_visible);
        if !found.is_empty() && is_clear {
            let (oid, table, _) = found.swap_remove(0);
            return Ok(Wanted::One(oid, table));
        }
        if !found.is_empty() {
            return Ok(Wanted::Several(found.into_iter().filter_map(|(_, table, _)| table.schema).collect()));
        }
    }
    Ok(Wanted::None)
}

async fn described(transaction: &Transaction<'_>, oid: u32, table: Table) -> Found<Output> {
    let columns = rows(
        transaction,
        "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, \
            CASE WHEN a.attidentity <> '' THEN 'generated as identity' \
                 WHEN a.attgenerated <> '' THEN 'generated: ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
                 ELSE pg_catalog.pg_get_expr(d.adbin, d.adrelid) END, \
            pg_catalog.col_description(a.attrelid, a.attnum) \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        &[&oid],
        |row| {
            Ok(Column {
                name: row.try_get(0)?,
                kind: row.try_get(1)?,
                nullable: row.try_get(2)?,
                default: row.try_get(3)?,
                comment: row.try_get(4)?,
            })
        },
    )
    .await?;
    let primary = constraint_columns(transaction, oid).await?;
    Ok(Output {
        schema: table.schema,
        name: table.name,
        kind: table.kind,
        comment: table.comment,
        columns,
        primary_key: primary,
        foreign_keys: foreign_keys(transaction, oid).await?,
        indexes: indexes(transaction, oid).await?,
    })
}

/// The names of numbered columns, in the numbers' order.
fn names(table: &str, numbers: &str) -> String {
    format!(
        "ARRAY(SELECT a.attname::text FROM pg_catalog.unnest({numbers}) WITH ORDINALITY AS u(number, place) \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = {table} AND a.attnum = u.number ORDER BY u.place)"
    )
}

async fn constraint_columns(transaction: &Transaction<'_>, oid: u32) -> Found<Vec<String>> {
    let columns = names("k.conrelid", "k.conkey");
    let sql = format!("SELECT {columns} FROM pg_catalog.pg_constraint k WHERE k.conrelid = $1 AND k.contype = 'p'");
    let found = rows(transaction, &sql, &[&oid], |row| row.try_get::<_, Vec<String>>(0)).await?;
    Ok(found.into_iter().next().unwrap_or_default())
}

async fn foreign_keys(transaction: &Transaction<'_>, oid: u32) -> Found<Vec<ForeignKey>> {
    let sql = format!(
        "SELECT {}, n.nspname::text || '.' || c.relname::text, {} FROM pg_catalog.pg_constraint k \
         JOIN pg_catalog.pg_class c ON c.oid = k.confrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE k.conrelid = $1 AND k.contype = 'f' ORDER BY k.conname",
        names("k.conrelid", "k.conkey"),
        names("k.confrelid", "k.confkey")
    );
    rows(transaction, &sql, &[&oid], |row| {
        Ok(ForeignKey { columns: row.try_get(0)?, references: row.try_get(1)?, referenced_columns: row.try_get(2)? })
    })
    .await
}

async fn indexes(transaction: &Transaction<'_>, oid: u32) -> Found<Vec<Index>> {
    let sql = "SELECT c.relname::text, i.indisunique, \
                  ARRAY(SELECT pg_catalog.pg_get_indexdef(i.indexrelid, place, true) \
                        FROM pg_catalog.generate_series(1, i.indnkeyatts::int) AS place ORDER BY place) \
               FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
               WHERE i.indrelid = $1 AND NOT i.indisprimary ORDER BY c.relname";
    rows(transaction, sql, &[&oid], |row| {
        Ok(Index { name: row.try_get(0)?, unique: row.try_get(1)?, columns: row.try_get(2)? })
    })
    .await
}

/// The tables as a model names them: without the schema where a query needs none.
pub(super) async fn table_names(transaction: &Transaction<'_>) -> Found<Vec<String>> {
    let sql = format!(
        "SELECT CASE WHEN is_visible THEN name ELSE schema || '.' || name END FROM {READABLE} \
         ORDER BY NOT is_visible, schema, name LIMIT {NAMES_MAX}"
    );
    rows(transaction, &sql, &[], |row| row.try_get(0)).await
}

/// The columns of the tables with these names.
pub(super) async fn columns_of(transaction: &Transaction<'_>, tables: &BTreeSet<String>) -> Found<Vec<String>> {
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let sql = format!(
        "SELECT DISTINCT a.attname::text FROM {READABLE} JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid \
         WHERE r.name = ANY ($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1 LIMIT {NAMES_MAX}"
    );
    rows(transaction, &sql, &[&tables], |row| row.try_get(0)).await
}

/// Every row of one of our own statements.
async fn rows<T>(
    transaction: &Transaction<'_>,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
    read: impl Fn(&Row) -> Found<T>,
) -> Found<Vec<T>> {
    transaction.query(sql, params).await?.iter().map(read).collect()
}
