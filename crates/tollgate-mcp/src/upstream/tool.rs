//! A tool of a server as a tool of ours.

use std::sync::Arc;

use serde_json::Value;
use tokio::time::timeout;
use tollgate_types::{BoxFuture, Code, Cx, Tool, ToolDefinition, ToolError, ToolOutput};

use super::definition::Known;
use super::fault::Fault;
use super::link::Link;
use super::message::Ask;
use super::outcome;
use super::pool::Lease;
use super::rounds::{self, Ended};
use super::server::Server;
use super::tasks::{self, Open};
use crate::parameters;
use crate::server::Revision;

const PREVIEW_CHARS_MAX: usize = 4_000;

/// A tool of a server.
#[derive(Debug)]
pub(super) struct UpstreamTool {
    pub(super) known: Known,
    pub(super) server: Arc<Server>,
}

impl UpstreamTool {
    async fn ask(&self, arguments: &Value, cx: &Cx, open: &Open) -> Result<ToolOutput, ToolError> {
        let server = self.server.name();
        let lease = self.server.pool().map(|pool| pool.lease(&cx.caller)).transpose()?;
        let link = linked(lease.as_ref().map_or(&*self.server, Lease::server), cx).await?;
        let (key, trace) = (cx.handed_key.as_ref(), cx.trace.as_ref());
        let headers = parameters::headers(&self.known.mirrored, arguments);
        // The stateless era has another way to say so.
        let as_task = self.known.wants_task && !link.agreed().is_some_and(Revision::is_stateless);
        let ask = Ask::Call { name: &self.known.remote, arguments, headers: &headers, key, trace, as_task };
        let answered = match rounds::ask(&link, server, cx, ask).await {
            Ok(result) => tasks::settled(&link, server, cx, result, open, as_task).await,
            Err(ended) => Err(ended),
        };
        match answered {
            Ok(result) => outcome::read(server, &result, self.known.definition.output_schema.is_some()),
            Err(Ended::Refused(error)) => Err(error),
            Err(Ended::Fault(fault)) => {
                if matches!(&fault, Fault::Rpc(failure) if failure.code == outcome::HEADER_MISMATCH) {
                    // It wants other parameters as headers than it said (MCP 2026-07-28, Streamable HTTP: client behavior).
                    self.server.list_again();
                }
                Err(outcome::explain(server, &fault))
            }
        }
    }
}

impl Tool for UpstreamTool {
    fn definition(&self) -> ToolDefinition {
        self.known.definition.clone()
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        Some(preview(&self.known.remote, self.server.name(), arguments))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let open = Open::default();
            let answered = within(self.server.name(), &cx, self.ask(&arguments, &cx, &open)).await;
            open.cancel().await;
            answered
        })
    }
}

/// What a human who is asked sees.
pub(super) fn preview(remote: &str, server: &str, arguments: &Value) -> String {
    let arguments: String = arguments.to_string().chars().take(PREVIEW_CHARS_MAX).collect();
    format!("`{}` of the MCP server `{server}`\narguments: {arguments}", remote.escape_debug())
}

/// The connection, if it comes up within the call's time.
pub(super) async fn linked(server: &Server, cx: &Cx) -> Result<Arc<Link>, ToolError> {
    let late = || outcome::explain(server.name(), &Fault::TimedOut { ms: cx.deadline.as_millis() });
    timeout(cx.deadline, server.link()).await.unwrap_or_else(|_| Err(late()))
}

/// Asks until the call is cancelled. Whichever ends it, the question is dropped, and the server told so.
pub(super) async fn within<T>(
    server: &str,
    cx: &Cx,
    asking: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    tokio::select! {
        answered = asking => answered,
        () = cx.cancellation.cancelled() => {
            Err(ToolError::with_code(Code::Cancelled, format!("`{server}`: cancelled while it ran")))
        }
    }
}
