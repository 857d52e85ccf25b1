//! PostgreSQL, opened so that nothing but reading is possible: the server holds each transaction to `READ ONLY`, a
//! superuser's rights are laid down first, and a statement is looked at before it is sent. Each call has a connection of
//! its own, which keeps nothing for the next one. Time and cancellation reach the server.

mod address;
mod explain;
mod schema;
mod select;
mod statement;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio_postgres::tls::NoTls;
use tokio_postgres::{CancelToken, Client, Transaction};
use tollgate_types::{ToolError, limits};

use crate::typed::{Stop, block_on};
use explain::{broken, unreachable, unusable};

pub use address::{Postgres, PostgresError};
pub(super) use schema::{describe, describe_all, list};
pub(super) use select::select;

/// For telling the server that a statement is no longer wanted, and for taking leave of it.
const PARTING: Duration = Duration::from_secs(2);
/// The role that a superuser's session works in: it reads all tables, and no file, program or setting.
const READER: &str = "pg_read_all_data";

/// A connection, for one call.
struct Session {
    client: Client,
    name: String,
    stop: Stop,
    is_superuser: bool,
}

type Wire = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

impl Session {
    /// A transaction in which the server itself refuses what does not only read. Dropping it rolls it back.
    async fn read_only(&mut self) -> Result<Transaction<'_>, ToolError> {
        let (left, is_superuser) = (self.stop.left(), self.is_superuser);
        let (name, stop) = (self.name.clone(), self.stop.clone());
        let failed = |error: tokio_postgres::Error| broken(&name, &error, &stop);
        let transaction = self.client.build_transaction().read_only(true).start().await.map_err(failed)?;
        let left_ms = left.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
        let lock_ms = left_ms.min(limits::DATABASE_LOCK_TIMEOUT_MS.into());
        // How a text ends must be what `statement` takes it to be.
        let settings = format!(
            "SET LOCAL statement_timeout = {left_ms}; SET LOCAL lock_timeout = {lock_ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {left_ms}; SET LOCAL standard_conforming_strings = on"
        );
        transaction.batch_execute(&settings).await.map_err(failed)?;
        if is_superuser && transaction.batch_execute(&format!("SET LOCAL ROLE {READER}")).await.is_err() {
            return Err(unusable(&name, "its user is a superuser, whose reading can do anything")
                .with_hint(format!("the operator must name a user in `[databases.{name}]` that may only read")));
        }
        Ok(transaction)
    }
}

/// Does `work` on a connection of its own.
fn attend<T>(
    name: &str,
    postgres: &Postgres,
    stop: &Stop,
    work: impl AsyncFnOnce(&mut Session) -> Result<T, ToolError>,
) -> Result<T, ToolError> {
    block_on(async {
        let (client, mut wire, is_superuser) = tokio::select! {
            connected = connect(name, postgres) => connected?,
            why = stop.ended() => return Err(why),
        };
        let token = client.cancel_token();
        let mut session = Session { client, name: name.to_owned(), stop: stop.clone(), is_superuser };
        let done = tokio::select! {
            biased;
            done = work(&mut session) => done,
            ended = &mut wire => Err(match ended {
                Err(error) => broken(name, &error, stop),
                Ok(()) => unreachable(name, "the server ended the connection"),
            }),
            why = stop.ended() => {
                // The server goes on with a statement whose asker is gone, unless it is told.
                let _ = tokio::time::timeout(PARTING, cancel(&token, postgres)).await;
                return Err(why);
            }
        };
        drop(session);
        let _ = tokio::time::timeout(PARTING, wire).await;
        done
    })
}

async fn connect(name: &str, postgres: &Postgres) -> Result<(Client, Wire, bool), ToolError> {
    let failed = |error: &tokio_postgres::Error| explain::no_connection(name, error);
    let is_superuser = |said: Option<&str>| said != Some("off");
    if let Some(connector) = tls::connector(postgres).map_err(|why| unusable(name, &why))? {
        let (client, wire) = postgres.config().connect(connector).await.map_err(|error| failed(&error))?;
        let is_superuser = is_superuser(wire.parameter("is_superuser"));
        return Ok((client, Box::pin(wire), is_superuser));
    }
    let (client, wire) = postgres.config().connect(NoTls).await.map_err(|error| failed(&error))?;
    let is_superuser = is_superuser(wire.parameter("is_superuser"));
    Ok((client, Box::pin(wire), is_superuser))
}

async fn cancel(token: &CancelToken, postgres: &Postgres) {
    // Whether it worked does not matter: the server has its own limit on the statement.
    let _ = match tls::connector(postgres) {
        Ok(Some(connector)) => token.cancel_query(connector).await,
        Ok(None) | Err(_) => token.cancel_query(NoTls).await,
    };
}
