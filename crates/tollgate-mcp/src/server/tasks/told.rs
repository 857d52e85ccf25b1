//! What is answered of tasks, and what of a call that is one.

use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_types::{CallKind, Caller, Outcome};

use super::{Task, Want};
use crate::jsonrpc::{self, Id, RpcError};
use crate::server::client::Client;
use crate::server::{Revision, ServerInfo, Stamped, told};

/// The revision that has tasks.
const REVISION: Revision = Revision::V2026_07_28;

/// Does what a client wants of a task, and says how it does, or that it is done; on one line.
pub(in crate::server) async fn answer(
    client: &Client,
    id: &Id,
    info: &ServerInfo,
    (task, want): (&str, Want),
    caller: &Caller,
) -> Result<Vec<u8>, RpcError> {
    let Some(tasks) = &client.tasks else { return Err(RpcError::internal("nobody keeps tasks")) };
    let told: Option<Task> = tasks.serve(task, want, caller).await?;
    Ok(jsonrpc::on_one_line(jsonrpc::answer(id, Stamped::new(REVISION, info, &told))))
}

/// The answer in the place of a result, while the call goes on (MCP tasks: task creation), on one line.
pub(in crate::server) fn begun(id: &Id, info: &ServerInfo, task: &Task) -> Vec<u8> {
    let mut stamped = Stamped::new(REVISION, info, task);
    if let Some(stamp) = &mut stamped.stamp {
        stamp.result_type = Some("task");
    }
    jsonrpc::on_one_line(jsonrpc::answer(id, stamped))
}

/// What the end of a call would have been answered, without the answer around it.
pub(super) fn result(info: &ServerInfo, kind: CallKind, outcome: &Outcome) -> Result<Box<RawValue>, RpcError> {
    #[derive(Deserialize)]
    struct Answered {
        result: Box<RawValue>,
    }
    let text = told(&Id::Text(String::new()), info, kind, REVISION, outcome)?;
    let answered: Result<Answered, _> = serde_json::from_slice(&text);
    answered.map(|answered| answered.result).map_err(|_| RpcError::internal("the result can not be written as JSON"))
}
