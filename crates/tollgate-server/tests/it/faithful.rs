//! The law of a gateway over HTTP on both sides, in both eras: what a server said is what the client gets, token for token.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reqwest::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_testkit::Mirror;
use tollgate_testkit::faithful::{Said, anything_said, members};

use crate::world::World;

const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// A client of one era, in front of a house, in front of a server of one era.
struct Client {
    era: &'static str,
    world: World,
    mirror: Mirror,
    session: Option<String>,
    asked: u32,
}

impl Client {
    async fn new(era: &'static str, upstream: &str) -> Self {
        let mirror = Mirror::start(upstream).await;
        let config = format!("[mcp.my_x]\nurl = {:?}\n[mcp.my_x.tools.\"*\"]\nrisk = \"read\"\n", mirror.url());
        let world = World::configured(&config).await;
        let mut client = Self { era, world, mirror, session: None, asked: 0 };
        if era != "2026-07-28" {
            let hello =
                json!({ "protocolVersion": era, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
            client.ask("initialize", hello).await.unwrap();
        }
        client
    }

    /// The result as it came, or the whole answer.
    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Box<RawValue>, String> {
        self.asked += 1;
        let named = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        if self.era == "2026-07-28" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era, "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let body = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        let mut request = self.world.client(Method::POST, "/mcp").json(&body);
        request =
            request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", self.era);
        if self.era == "2026-07-28" {
            request = request.header("mcp-method", method);
            if let Some(name) = &named {
                request = request.header("mcp-name", name);
            }
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let response = request.send().await.unwrap();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let text = response.text().await.unwrap();
        let event = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let mut told: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(event.unwrap_or(&text)).map_err(|error| format!("{error}: {text}"))?;
        told.remove("result").ok_or(text)
    }
}

fn law(client: &RefCell<Client>, runtime: &tokio::runtime::Runtime) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) };
    let told = TestRunner::new(config).run(&anything_said(), |all| {
        for Said { method, params, answer, expected } in all {
            client.borrow().mirror.answers(&answer);
            let got = runtime
                .block_on(client.borrow_mut().ask(method, params))
                .map_err(|error| TestCaseError::fail(format!("{method}: {error} instead of {answer}")))?;
            prop_assert_eq!(members(got.get()), members(&expected), "{}", method);
        }
        Ok(())
    });
    told.unwrap();
}

#[test]
fn what_a_server_said_is_what_the_client_gets() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (era, upstream) in ERAS.into_iter().flat_map(|era| ERAS.map(|upstream| (era, upstream))) {
        let client = RefCell::new(runtime.block_on(Client::new(era, upstream)));
        law(&client, &runtime);
        runtime.block_on(client.into_inner().world.end());
    }
}
