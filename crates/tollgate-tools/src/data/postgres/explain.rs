//! What PostgreSQL says of a failure, as a model should read it.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, ErrorPosition, SqlState};
use tollgate_types::{Code, ToolError};

use super::statement::only_reads;
use crate::text::head;
use crate::typed::Stop;

const SAID_CHARS_MAX: usize = 500;

/// Something that the SQL names and that is not there.
pub(super) enum Missing {
    Table(String),
    Column(String),
}

/// A failure of a model's statement. `place` is the SQL that a position in it belongs to.
pub(super) fn explain(error: &Error, place: Option<&str>, name: &str, stop: &Stop) -> (ToolError, Option<Missing>) {
    let Some(said) = error.as_db_error() else { return (broken(name, error, stop), None) };
    let message = head(said.message(), SAID_CHARS_MAX).into_owned();
    let code = said.code();
    let fault = match *code {
        SqlState::UNDEFINED_TABLE => {
            let missing = quoted(said.message()).map(|table| Missing::Table(table.to_owned()));
            return (ToolError::new(message).with_tool_code("NO_SUCH_TABLE"), missing);
        }
        SqlState::UNDEFINED_COLUMN => {
            let missing = column(said.message()).map(|column| Missing::Column(column.to_owned()));
            return (ToolError::new(message).with_tool_code("NO_SUCH_COLUMN"), missing);
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => only_reads(&message),
        SqlState::FEATURE_NOT_SUPPORTED if said.message().contains("data-modifying") => only_reads(&message),
        SqlState::INSUFFICIENT_PRIVILEGE => ToolError::new(message)
            .with_tool_code("NO_PERMISSION")
            .with_hint("the database does not let its reader see that; the operator may grant it"),
        SqlState::INDETERMINATE_DATATYPE => {
            ToolError::new(message).with_tool_code("SQL").with_hint("say the parameter's type, such as `$1::int`")
        }
        _ => ToolError::new(message).with_tool_code("SQL").with_hint(advice(said, place)),
    };
    (of_the_server(said, name, stop).unwrap_or(fault), None)
}

/// A failure of one of our own statements.
pub(super) fn broken(name: &str, error: &Error, stop: &Stop) -> ToolError {
    match error.as_db_error() {
        Some(said) => {
            of_the_server(said, name, stop).unwrap_or_else(|| unusable(name, &head(said.message(), SAID_CHARS_MAX)))
        }
        None => stop.reason().unwrap_or_else(|| unreachable(name, &cause(error))),
    }
}

/// No connection came about.
pub(super) fn no_connection(name: &str, error: &Error) -> ToolError {
    match error.as_db_error() {
        Some(said) if said.code() == &SqlState::TOO_MANY_CONNECTIONS => busy("it has no free connection"),
        Some(said) if said.code() == &SqlState::CANNOT_CONNECT_NOW => busy("it is starting"),
        Some(said) => unusable(name, &head(said.message(), SAID_CHARS_MAX)),
        None => unreachable(name, &cause(error)),
    }
}

/// What has nothing to do with the statement.
fn of_the_server(said: &DbError, name: &str, stop: &Stop) -> Option<ToolError> {
    let code = said.code();
    if code == &SqlState::QUERY_CANCELED || code == &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT {
        let why = stop.reason().unwrap_or_else(|| stop.late());
        return Some(why.with_hint("ask for less: add conditions, or aggregate over an indexed column"));
    }
    if code == &SqlState::LOCK_NOT_AVAILABLE || code == &SqlState::TOO_MANY_CONNECTIONS {
        return Some(busy("somebody is writing to it, or too many are reading"));
    }
    let is_going = code == &SqlState::ADMIN_SHUTDOWN || code == &SqlState::CRASH_SHUTDOWN;
    is_going.then(|| unreachable(name, "the server is going down"))
}

fn busy(why: &str) -> ToolError {
    ToolError::new(format!("the database is busy: {why}")).with_tool_code("BUSY").with_hint("ask again").retryable()
}

/// The server does not answer.
pub(super) fn unreachable(name: &str, why: &str) -> ToolError {
    ToolError::with_code(Code::UpstreamError, format!("the database `{name}` can not be reached: {why}"))
        .with_tool_code("UNREACHABLE")
        .with_hint("ask again later; should it last, the operator must look at the server")
}

/// The server answers, and does not let us in.
pub(super) fn unusable(name: &str, why: &str) -> ToolError {
    ToolError::new(format!("the database `{name}` can not be used: {why}"))
        .with_tool_code("UNUSABLE")
        .with_hint(format!("the operator must check `postgres` in `[databases.{name}]`"))
}

/// The innermost cause; the outer ones add nothing.
fn cause(error: &Error) -> String {
    let Some(mut cause) = error.source() else { return error.to_string() };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn advice(said: &DbError, place: Option<&str>) -> String {
    let near = match (said.position(), place) {
        (Some(ErrorPosition::Original(at)), Some(sql)) => {
            let rest: String = sql.chars().skip(usize::try_from(*at).unwrap_or(1).saturating_sub(1)).take(40).collect();
            if rest.is_empty() { String::new() } else { format!(" near `{rest}`") }
        }
        _ => String::new(),
    };
    let hint = said.hint().map(|hint| format!("; {}", head(hint, SAID_CHARS_MAX))).unwrap_or_default();
    format!("correct the SQL{near}; it is PostgreSQL's dialect{hint}")
}

/// What stands in quotes in a message, whatever its language's quotes are.
fn quoted(message: &str) -> Option<&str> {
    let is_quote = |c: char| matches!(c, '"' | '“' | '”' | '„' | '«' | '»' | '「' | '」');
    let (_, rest) = message.split_once(is_quote)?;
    rest.rsplit_once(is_quote).map(|(name, _)| name.trim())
}

/// `column "skuu" does not exist`, `column p.nam does not exist`
fn column(message: &str) -> Option<&str> {
    let name = quoted(message).or_else(|| message.strip_prefix("column ")?.split(' ').next())?;
    Some(name.rsplit('.').next().unwrap_or(name))
}
