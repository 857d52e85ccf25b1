//! `tollgate serve`: the tools over HTTP, or for one MCP client on standard input and output.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tollgate::config::Loaded;
use tollgate::mcp::{ServerInfo, Session as McpSession, serve_stdio};
use tollgate::{CancellationToken, Door, Selection, Surface, Tollgate, View, uuid_v7};
use tollgate_server::keys::{self, FirstKeys};
use tollgate_server::{Bound, ServeError, ServeOptions};

use super::reload::follow;
use super::retain::retain;
use super::{caller, configuration, open_to_serve};
use crate::args::{Global, ServeArgs};
use crate::failure::Failure;
use crate::output;
use crate::signal::stopped;

/// The role of a client that nobody gave one.
const ROLE: &str = "reader";

pub(crate) async fn run(global: &Global, args: ServeArgs) -> Result<u8, Failure> {
    if args.stdio { stdio(global, &args).await } else { http(global, &args).await }
}

fn info() -> ServerInfo {
    ServerInfo {
        name: "tollgate".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        instructions: Some(
            "Every call passes Tollgate's gate and is recorded. A call that needs a human's yes answers \
             `approval_required`: tell the user, and ask again with the same arguments once it is approved."
                .into(),
        ),
    }
}

/// The house's door, or one to the set that `--set` names, or to the tools that `--tools` names.
fn door(house: &Tollgate, args: &ServeArgs) -> Result<Arc<dyn Door>, Failure> {
    let door = match &args.set {
        Some(set) => house.view(set, house.door()).map(|view| Arc::new(view) as _).ok_or_else(|| no_set(house, set))?,
        None => house.door(),
    };
    if args.tools.is_empty() {
        return Ok(door);
    }
    let some = Selection::of_tools(&args.tools).map_err(Failure::usage)?;
    Ok(Arc::new(View::new(door, some).in_language(house.language())))
}

fn no_set(house: &Tollgate, set: &str) -> Failure {
    let names: Vec<&str> = house.sets().collect();
    let hint = if names.is_empty() {
        "add [sets.NAME]: docs/sets.md".into()
    } else {
        format!("there is {}", names.join(", "))
    };
    Failure::usage(format!("no set is named `{set}`")).hint(&hint)
}

async fn stdio(global: &Global, args: &ServeArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let servers = loaded.config.mcp.len();
    let house = open_to_serve(global, loaded).await?;
    let role = global.role.as_deref().unwrap_or(ROLE);
    let session = uuid_v7(house.clock().now());
    let caller = caller(&house, role, Surface::McpStdio)?.with_session(session);
    let door = door(&house, args)?;
    house.tell_approvals();
    let offer = match servers {
        0 => format!("{} tools", door.list(&caller).await.len()),
        // Their tools are counted when the client asks: it must not wait for them to be greeted.
        servers => format!("the tools of {servers} MCP servers among others"),
    };
    greet(global, &house, &format!("MCP on standard input and output · role {role} · {offer}"));
    if !global.quiet && std::io::stdin().is_terminal() {
        output::err(
            "this speaks JSON-RPC to an MCP client; to use the tools yourself: `tollgate call`, `tollgate run`\n",
        );
    }
    let session = McpSession::new(info()).with_tasks(house.tasks());
    let stop = CancellationToken::new();
    let input = Until { input: tokio::io::stdin(), stop: Some(Box::pin(stop.clone().cancelled_owned())) };
    let patience = async {
        stopped().await;
        // What is under way is answered, as if the client had closed its end.
        stop.cancel();
        tokio::time::sleep(house.patience()).await;
    };
    let served = tokio::select! {
        served = serve_stdio(door, caller, session, input, tokio::io::stdout()) => served,
        () = patience => Ok(()),
        () = beside(global, &house) => Ok(()),
    };
    house.stop().await;
    served.map(|()| 0).map_err(|error| Failure::internal(error.to_string()))
}

/// An input that ends when it is told to.
struct Until<R> {
    input: R,
    /// Gone once it has come.
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Until<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(cx).is_ready()) {
            self.stop = None;
        }
        match self.stop {
            Some(_) => Pin::new(&mut self.input).poll_read(cx, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

/// What goes on as long as somebody is served, and never ends.
async fn beside(global: &Global, house: &Tollgate) {
    tokio::join!(follow(global, house), retain(house));
}

/// What every start says.
fn greet(global: &Global, house: &Tollgate, surface: &str) {
    if !global.quiet {
        output::err(&format!(
            "tollgate: {surface} · ledger {} · sandbox {} (programs run without isolation)\n",
            house.data_dir().join("audit").display(),
            tollgate::sandbox_level(),
        ));
    }
}

async fn http(global: &Global, args: &ServeArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let address = address(args, &loaded)?;
    // Listens before anything slow is done: who comes now waits to be served.
    let bound = Bound::bind(address, &loaded.data_dir()).await?;
    let house = open_to_serve(global, loaded).await?;
    if let Some(role) = &global.role {
        caller(&house, role, Surface::Rest)?;
    }
    let first = keys::first(house.data_dir(), global.role.as_deref(), &*house.clock()).await?;
    if first.is_none() && global.role.is_some() {
        let failure = Failure::usage("over HTTP each key has its own role, and keys were made before");
        return Err(failure.hint("make another: `tollgate keys create NAME --role ROLE`"));
    }
    let role = global.role.as_deref().unwrap_or(keys::ROLE);
    greet(global, &house, &format!("http://{} · keys have their roles, the first client's is {role}", bound.address()));
    introduce(global, &bound, &house, first.as_ref());
    house.tell_approvals();
    let stop = CancellationToken::new();
    let mut options = ServeOptions::new(info(), stop.clone());
    options.door = Some(door(&house, args)?);
    options.drain = house.patience();
    options.state_keys = Some(house.state_keys().await?);
    let stopped = stopped();
    let mut serving = std::pin::pin!(bound.serve(&house, options));
    tokio::select! {
        () = &mut serving => {}
        () = stopped => {
            stop.cancel();
            serving.await;
        }
        () = beside(global, &house) => {}
    }
    house.stop().await;
    Ok(0)
}

fn address(args: &ServeArgs, loaded: &Loaded) -> Result<SocketAddr, Failure> {
    let given = args.bind.as_deref().unwrap_or(&loaded.config.server.bind);
    given.parse().map_err(|_| {
        Failure::usage(format!("`{given}` is not an address and a port")).hint("such as 127.0.0.1:7373 or [::1]:7373")
    })
}

/// The ways in, a client's configuration to copy, and the keys of a first start.
fn introduce(global: &Global, bound: &Bound, house: &Tollgate, first: Option<&FirstKeys>) {
    if global.quiet {
        return;
    }
    let url = format!("http://{}", bound.address());
    let sets: String = house.sets().map(|set| format!(" · /mcp/{set}")).collect();
    output::err(&format!(
        "  MCP      {url}/mcp{sets}\n  REST     {url}/api/v1/calls · tools · approvals · audit · events\n  \
         health   {url}/healthz · /readyz · /metrics · /openapi.json\n"
    ));
    let key = match first {
        Some(first) => {
            output::err(&format!(
                "keys, shown this once and kept for their owner in {}:\n  client    {}\n  operator  {}\n",
                house.data_dir().join("keys").display(),
                first.client.secret.expose(),
                first.operator.secret.expose(),
            ));
            "the client key above"
        }
        None => "a client key",
    };
    output::err(&format!(
        "an MCP client, with {key}:\n  {{\"mcpServers\": {{\"tollgate\": {{\"url\": \"{url}/mcp\", \"headers\": \
         {{\"Authorization\": \"Bearer KEY\"}}}}}}}}\n"
    ));
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let message = error.to_string();
        match error {
            ServeError::Bind { .. } => {
                Self::usage(message).hint("another address: --bind 127.0.0.1:0 takes a free port")
            }
            ServeError::Exposed(_) => Self::usage(message).hint("tollgate keys create NAME"),
            ServeError::Keys(error) => error.into(),
        }
    }
}
