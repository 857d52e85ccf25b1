//! A SQLite file opened so that nothing but reading is possible: read-only file, `query_only`, and an authorizer that
//! lets through only what reads. Time and cancellation end a statement under way.

mod schema;
mod select;

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, Statement};
use tollgate_types::ToolError;

use crate::text::{nearest, ticked};
use crate::typed::Stop;

pub(super) use schema::{describe, describe_all, list};
pub(super) use select::select;

const SQL_BYTES_MAX: i32 = 100_000;
/// One value or row inside SQLite.
const VALUE_BYTES_MAX: i32 = 16 * 1024 * 1024;
/// Virtual machine steps between two looks at the clock.
const STEPS_PER_LOOK: i32 = 2_000;
const NAMES_MAX: usize = 5_000;
const TABLES_SHOWN_MAX: usize = 20;
/// Pragmas that describe the schema. `data_version` is what full-text search asks.
const PRAGMAS: [&str; 8] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "data_version",
];
/// Functions that read or change something outside of the database.
const FUNCTIONS_DENIED: [&str; 5] = ["load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"];

/// An open database.
pub(super) struct Connected {
    connection: Connection,
    /// What the authorizer refused last.
    refused: Arc<Mutex<Option<String>>>,
    stop: Stop,
}

impl Connected {
    /// Opens `path` for reading.
    pub(super) fn open(name: &str, path: &Path, stop: &Stop) -> Result<Self, ToolError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let unusable = |error: Error| {
            let code = if path.is_file() { "UNUSABLE" } else { "NO_DATABASE" };
            let reason = if path.is_file() { error.to_string() } else { "there is no such file".to_owned() };
            ToolError::new(format!("the database `{name}` can not be opened: {reason}"))
                .with_tool_code(code)
                .with_hint(format!("the operator must check `sqlite` in `[databases.{name}]`"))
        };
        let mut connection = Connection::open_with_flags(path, flags).map_err(unusable)?;
        let refused = Arc::new(Mutex::new(None));
        restrict(&mut connection, &refused, stop).map_err(unusable)?;
        Ok(Self { connection, refused, stop: stop.clone() })
    }

    /// Prepares the one statement of `sql`.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement<'_>, ToolError> {
        let statement = self.connection.prepare(sql).map_err(|error| self.explain(&error, sql))?;
        if statement.readonly() { Ok(statement) } else { Err(only_reads("a statement that writes")) }
    }

    /// What went wrong, as the model should read it.
    pub(super) fn explain(&self, error: &Error, sql: &str) -> ToolError {
        if let Some(reason) = self.stop.reason() {
            return reason.with_hint("ask for less: add conditions, or aggregate over an indexed column");
        }
        if let Some(refused) = self.refused.lock().ok().and_then(|mut refused| refused.take()) {
            return only_reads(&refused);
        }
        match error {
            Error::MultipleStatement => ToolError::new("more than one statement")
                .with_tool_code("SEVERAL_STATEMENTS")
                .with_hint("send one SELECT a call, without anything after it"),
            Error::SqlInputError { msg, offset, .. } => self.explain_message(msg, Some(*offset), sql),
            Error::SqliteFailure(failure, message) => {
                let message = message.as_deref().unwrap_or("the database can not be read");
                match failure.code {
                    ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => ToolError::new("the database is busy")
                        .with_tool_code("BUSY")
                        .with_hint("somebody is writing to it; ask again")
                        .retryable(),
                    ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::CannotOpen => {
                        ToolError::new(message).with_tool_code("UNUSABLE").with_hint("the operator must check the file")
                    }
                    ErrorCode::TooBig => ToolError::new("a value is over 16 MiB, or the statement over 100,000 bytes")
                        .with_tool_code("TOO_LARGE")
                        .with_hint("ask for a part of it, with `substr` or `length`"),
                    _ => self.explain_message(message, None, sql),
                }
            }
            other => ToolError::new(other.to_string()).with_tool_code("SQL"),
        }
    }

    fn explain_message(&self, message: &str, offset: Option<i32>, sql: &str) -> ToolError {
        let error = ToolError::new(message);
        if let Some(table) = message.strip_prefix("no such table: ") {
            let tables = self.tables();
            let near = nearest(table, tables.iter().cloned());
            let hint = match (near.is_empty(), tables.is_empty()) {
                (false, _) => format!("did you mean {}?", ticked(near)),
                (true, true) => "the database has no tables".to_owned(),
                (true, false) => format!("the tables are {}", ticked(tables.iter().take(TABLES_SHOWN_MAX))),
            };
            return error.with_tool_code("NO_SUCH_TABLE").with_hint(hint);
        }
        if let Some(column) = message.strip_prefix("no such column: ") {
            let name = column.rsplit('.').next().unwrap_or(column);
            let columns = self.columns(sql);
            let near = nearest(name, columns.iter().cloned());
            let hint = match (near.is_empty(), columns.is_empty()) {
                (false, _) => format!("did you mean {}? texts stand in single quotes", ticked(near)),
                (true, false) => format!("the columns are {}", ticked(columns.iter().take(TABLES_SHOWN_MAX))),
                (true, true) => "describe_table shows a table's columns".to_owned(),
            };
            return error.with_tool_code("NO_SUCH_COLUMN").with_hint(hint);
        }
        let at = offset.and_then(|at| sql.get(usize::try_from(at).ok()?..)).filter(|rest| !rest.is_empty());
        let near = at.map(|rest| format!(" near `{}`", rest.chars().take(40).collect::<String>())).unwrap_or_default();
        error.with_tool_code("SQL").with_hint(format!("correct the SQL{near}; it is SQLite's dialect"))
    }

    fn tables(&self) -> Vec<String> {
        self.names("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
    }

    /// The columns of the tables that `sql` names.
    fn columns(&self, sql: &str) -> Vec<String> {
        let sql = sql.to_lowercase();
        let tables = self.tables().into_iter().filter(|table| sql.contains(&table.to_lowercase()));
        let mut columns: Vec<String> = tables
            .flat_map(|table| {
                self.names(&format!("SELECT name FROM pragma_table_info('{}')", table.replace('\'', "''")))
            })
            .collect();
        columns.sort();
        columns.dedup();
        columns
    }

    fn names(&self, sql: &str) -> Vec<String> {
        let Ok(mut statement) = self.connection.prepare(sql) else { return Vec::new() };
        let Ok(rows) = statement.query_map([], |row| row.get::<_, String>(0)) else { return Vec::new() };
        rows.flatten().take(NAMES_MAX).collect()
    }
}

fn restrict(connection: &mut Connection, refused: &Arc<Mutex<Option<String>>>, stop: &Stop) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A misspelt column in double quotes is an error, not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    connection.pragma_update(None, "query_only", true)?;
    let stop = stop.clone();
    connection.progress_handler(STEPS_PER_LOOK, Some(move || stop.reason().is_some()))?;
    let refused = Arc::clone(refused);
    connection.authorizer(Some(move |context: AuthContext<'_>| match verdict(&context.action) {
        Ok(()) => Authorization::Allow,
        Err(what) => {
            if let Ok(mut refused) = refused.lock() {
                *refused = Some(what);
            }
            Authorization::Deny
        }
    }))
}

/// What is not known to read is refused, by the name that the answer uses.
fn verdict(action: &AuthAction<'_>) -> Result<(), String> {
    let name = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => return Ok(()),
        AuthAction::Pragma { pragma_name, .. } => {
            if PRAGMAS.iter().any(|allowed| pragma_name.eq_ignore_ascii_case(allowed)) {
                return Ok(());
            }
            return Err(format!("`PRAGMA {pragma_name}`"));
        }
        AuthAction::Function { function_name } => {
            if !FUNCTIONS_DENIED.iter().any(|denied| function_name.eq_ignore_ascii_case(denied)) {
                return Ok(());
            }
            return Err(format!("the function `{function_name}`"));
        }
        AuthAction::Insert { .. } => "INSERT or a statement that makes something",
        AuthAction::Update { .. } => "UPDATE",
        AuthAction::Delete { .. } => "DELETE",
        AuthAction::Attach { .. } => "ATTACH",
        AuthAction::Detach { .. } => "DETACH",
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => "a transaction",
        _ => "a statement that changes something",
    };
    Err(name.to_owned())
}

fn only_reads(what: &str) -> ToolError {
    ToolError::new(format!("this tool only reads: {what} is not allowed"))
        .with_tool_code("ONLY_READS")
        .with_hint("send one SELECT (or `PRAGMA table_info(name)`); nothing can be changed through this tool")
}
