//! A house with a server in front of it, and a client.

use std::net::SocketAddr;
use std::sync::{Arc, Once};
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tollgate::config::Loaded;
use tollgate::mcp::ServerInfo;
use tollgate::{
    CancellationToken, Cx, Door, Permission, ProgressUpdate, Risk, Tollgate, ToolDefinition, ToolError, ToolOutput,
    tool_fn,
};
use tollgate_server::keys::{self, FirstKeys};
use tollgate_server::{Bound, ServeOptions};
use tollgate_testkit::RecordingDoor;

pub(crate) struct World {
    pub(crate) house: Arc<Tollgate>,
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) keys: FirstKeys,
    client: Client,
    served: JoinHandle<()>,
    folder: tempfile::TempDir,
}

fn info() -> ServerInfo {
    ServerInfo { name: "tollgate".into(), version: "1.0.0".into(), instructions: None }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Said {
    text: String,
}

impl World {
    /// A house with its built-in tools, and one that asks for a human.
    pub(crate) async fn new() -> Self {
        Self::with("", |_| None, Duration::from_secs(5)).await
    }

    /// The same by a configuration.
    pub(crate) async fn configured(config: &str) -> Self {
        Self::with(config, |_| None, Duration::from_secs(5)).await
    }

    /// The same with files beside the configuration, for their owner alone.
    pub(crate) async fn beside(config: &str, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self::within(folder, config, |_| None, Duration::from_secs(5)).await
    }

    /// The server in front of a recording door.
    pub(crate) async fn before(door: &Arc<RecordingDoor>, drain: Duration) -> Self {
        let door: Arc<dyn Door> = Arc::<RecordingDoor>::clone(door);
        Self::with("", |_| Some(door), drain).await
    }

    async fn with(config: &str, door: impl FnOnce(&Tollgate) -> Option<Arc<dyn Door>>, drain: Duration) -> Self {
        Self::within(tempfile::tempdir().unwrap(), config, door, drain).await
    }

    async fn within(
        folder: tempfile::TempDir,
        config: &str,
        door: impl FnOnce(&Tollgate) -> Option<Arc<dyn Door>>,
        drain: Duration,
    ) -> Self {
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let file = folder.path().join("tollgate.toml");
        std::fs::write(&file, config).unwrap();
        let house = Tollgate::builder()
            .config(Loaded::read(&file, folder.path()).unwrap())
            .data_dir(folder.path().join("data"))
            .workspace(folder.path().join("work"))
            .tool(
                tool_fn("say", "Says it to the world.", |said: Said, _cx: Cx| async move { Ok(said.text) })
                    .risk(Risk::Dangerous),
            )
            .tool(
                tool_fn("wire", "Sends money.", |said: Said, _cx: Cx| async move { Ok(said.text) })
                    .risk(Risk::Dangerous),
            )
            .role(tollgate::Role::new("teller").allow("*").risk(Risk::Dangerous).permission(Permission::System))
            .build()
            .await
            .unwrap();
        Self::of(house, folder, door, drain).await
    }

    /// The server in front of a house that lives in `folder`.
    #[expect(clippy::disallowed_methods, reason = "the test waits for this task when the server goes down")]
    pub(crate) async fn of(
        house: Tollgate,
        folder: tempfile::TempDir,
        door: impl FnOnce(&Tollgate) -> Option<Arc<dyn Door>>,
        drain: Duration,
    ) -> Self {
        static TLS: Once = Once::new();
        TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let clock = house.clock();
        let bound = Bound::bind("127.0.0.1:0".parse().unwrap(), house.data_dir()).await.unwrap();
        let keys = keys::first(house.data_dir(), None, &*clock).await.unwrap().unwrap();
        let stop = CancellationToken::new();
        let mut options = ServeOptions::new(info(), stop.clone());
        options.door = door(&house);
        options.drain = drain;
        let house = Arc::new(house);
        let address = bound.address();
        let served = Arc::clone(&house);
        let served = tokio::spawn(async move { bound.serve(&served, options).await });
        let client = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
        Self { house, address, stop, keys, client, served, folder }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A request without a key.
    pub(crate) fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) fn client(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(self.keys.client.secret.expose())
    }

    pub(crate) fn operator(&self, method: Method, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(self.keys.operator.secret.expose())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        read(self.client(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Value {
        let body = json!({ "tool": tool, "arguments": arguments });
        let (status, outcome) =
            read(self.client(Method::POST, "/api/v1/calls").json(&body).send().await.unwrap()).await;
        assert_eq!(status, 200, "{outcome}");
        outcome
    }

    /// Ends the server, and waits for it.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.served.await.unwrap();
    }

    /// Waits for the server, which was told to stop.
    pub(crate) async fn ended(self) -> tempfile::TempDir {
        self.served.await.unwrap();
        self.folder
    }
}

pub(crate) async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The events of a stream that ended.
pub(crate) fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// A door with a tool that answers, one that fails, one that reports progress, and one that never comes back.
pub(crate) fn door() -> Arc<RecordingDoor> {
    let tool = |name: &str| ToolDefinition::new(name, "Does what its name says.");
    let door = RecordingDoor::new()
        .tool(tool("echo"), |arguments| Ok(ToolOutput::structured(arguments)))
        .tool(tool("fail"), |_| Err(ToolError::new("no")))
        .on(tool("step"), |call, _| {
            Box::pin(async move {
                for progress in [1.0, 2.0] {
                    call.progress.report(ProgressUpdate { progress, total: Some(2.0), message: None });
                    tokio::task::yield_now().await;
                }
                tollgate::End::Done(tollgate::CallResult::default())
            })
        })
        .on(tool("wait"), |_, _| Box::pin(std::future::pending()));
    Arc::new(door)
}
