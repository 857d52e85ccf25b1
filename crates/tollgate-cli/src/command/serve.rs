//! `tollgate serve --stdio`: the tools for one MCP client.

use std::io::IsTerminal;
use std::sync::Arc;

use tollgate::mcp::{ServerInfo, serve_stdio};
use tollgate::{Surface, uuid_v7};

use super::{caller, configuration, open};
use crate::args::{Global, ServeArgs};
use crate::failure::Failure;
use crate::output;
use crate::signal::stopped;

/// The role of a client that nobody gave one.
const ROLE: &str = "reader";

pub(crate) async fn run(global: &Global, args: ServeArgs) -> Result<u8, Failure> {
    let house = open(global, configuration(global)?).await?;
    let role = global.role.as_deref().unwrap_or(ROLE);
    let session = uuid_v7(house.clock().now());
    let caller = caller(&house, role, Surface::McpStdio)?.with_session(session);
    let door = if args.tools.is_empty() {
        house.door()
    } else {
        Arc::new(tollgate::Subset::new(house.door(), &args.tools).map_err(Failure::usage)?)
    };
    greet(global, &house, role, door.list(&caller).await.len());
    let info = ServerInfo {
        name: "tollgate".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        instructions: Some(
            "Every call passes Tollgate's gate and is recorded. A call that needs a human's yes answers \
             `approval_required`: tell the user, and ask again with the same arguments once it is approved."
                .into(),
        ),
    };
    let served = tokio::select! {
        served = serve_stdio(door, caller, info, tokio::io::stdin(), tokio::io::stdout()) => served,
        () = stopped() => Ok(()),
    };
    house.gate().drain().await;
    served.map(|()| 0).map_err(|error| Failure::internal(error.to_string()))
}

fn greet(global: &Global, house: &tollgate::Tollgate, role: &str, tools: usize) {
    if global.quiet {
        return;
    }
    output::err(&format!(
        "tollgate: MCP on standard input and output · role {role} · {tools} tools · ledger {} · sandbox {} (programs run \
         without isolation)\n",
        house.data_dir().join("audit").display(),
        tollgate::sandbox_level(),
    ));
    if std::io::stdin().is_terminal() {
        output::err(
            "this speaks JSON-RPC to an MCP client; to use the tools yourself: `tollgate call`, `tollgate run`\n",
        );
    }
}
