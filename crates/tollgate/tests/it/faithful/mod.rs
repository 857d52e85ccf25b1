//! The law of a gateway: what a server said is what the client gets, token for token, but for the names that resources have
//! here and what each connection says of itself. Both eras on either side, through the whole gate.

use std::cell::RefCell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinSet;
use tollgate::config::Loaded;
use tollgate::mcp::{ServeError, ServerInfo, serve_stdio};
use tollgate::{Caller, Door, Permission, Risk, Role, Surface, Tollgate};
use tollgate_testkit::faithful::{Said, anything_said, joined, members, tokens};
use tollgate_testkit::servers::MIRROR;

const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// A client of one era, in front of a house, in front of a server of one era.
struct Client {
    era: &'static str,
    folder: tempfile::TempDir,
    house: Tollgate,
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    _serving: JoinSet<Result<(), ServeError>>,
    asked: u32,
}

impl Client {
    async fn new(era: &'static str, upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("listing"), r#"{"xa":1}"#).unwrap();
        Self::at(folder, era, upstream).await
    }

    async fn at(folder: tempfile::TempDir, era: &'static str, upstream: &str) -> Self {
        Self::in_front_of(folder, era, upstream, |house| house.door()).await
    }

    /// In front of a set of the server alone.
    async fn bare(era: &'static str, upstream: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("listing"), r#"{"xa":1}"#).unwrap();
        Self::in_front_of(folder, era, upstream, |house| Arc::new(house.view("bare", house.door()).unwrap())).await
    }

    async fn in_front_of(
        folder: tempfile::TempDir,
        era: &'static str,
        upstream: &str,
        door: impl FnOnce(&Tollgate) -> Arc<dyn Door>,
    ) -> Self {
        let config = format!(
            "[mcp.my_x]\ncommand = \"/usr/bin/python3\"\nargs = [\"-S\", {MIRROR:?}, {upstream:?}]\n\
             [mcp.my_x.tools.tell]\nrisk = \"read\"\n[sets.bare]\nbare = \"my_x\"\n"
        );
        let path = folder.path().join("tollgate.toml");
        std::fs::write(&path, config).unwrap();
        let loaded = Loaded::read(&path, folder.path()).unwrap();
        let role = Role::new("all").allow("*").risk(Risk::Dangerous).permission(Permission::System);
        let house = Tollgate::builder().config(loaded).role(role).build().await.unwrap();
        let (to, input) = tokio::io::duplex(1 << 20);
        let (output, from) = tokio::io::duplex(1 << 20);
        let info = ServerInfo { name: "tollgate".into(), version: "1".into(), instructions: None };
        let mut serving = JoinSet::new();
        serving.spawn(serve_stdio(door(&house), Caller::new("law", "all", Surface::McpStdio), info, input, output));
        let mut client =
            Self { era, folder, house, to, from: BufReader::new(from).lines(), _serving: serving, asked: 0 };
        if era != "2026-07-28" {
            let hello =
                json!({ "protocolVersion": era, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
            client.ask("initialize", hello).await.unwrap();
        }
        client
    }

    /// The result as it came, or the error.
    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Box<RawValue>, Value> {
        self.asked += 1;
        if self.era == "2026-07-28" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era, "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let line = json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        self.to.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        let answer = self.from.next_line().await.unwrap().unwrap();
        let mut members: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_str(&answer).unwrap();
        match members.remove("result") {
            Some(result) => Ok(result),
            None => Err(serde_json::from_str(members["error"].get()).unwrap()),
        }
    }

    fn answers(&self, text: &str) {
        std::fs::write(self.folder.path().join("answer"), text).unwrap();
    }

    async fn stop(self) {
        drop((self.to, self.from));
        self.house.stop().await;
    }
}

fn law(client: &RefCell<Client>, runtime: &tokio::runtime::Runtime) {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) };
    let told = TestRunner::new(config).run(&anything_said(), |all| {
        for Said { method, params, answer, expected } in all {
            client.borrow().answers(&answer);
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
        runtime.block_on(client.into_inner().stop());
    }
}

#[tokio::test]
async fn what_a_server_lists_is_what_the_client_sees_under_the_names_of_here() {
    for (era, upstream) in ERAS.into_iter().flat_map(|era| ERAS.map(|upstream| (era, upstream))) {
        let folder = tempfile::tempdir().unwrap();
        let more = r#"{"vendor":{"n":123456789012345678901234567890,"f":1.50},"icons":[],"title":"读"}"#;
        std::fs::write(folder.path().join("listing"), more).unwrap();
        let mut client = Client::at(folder, era, upstream).await;
        for (method, list, own) in [
            ("resources/list", "resources", json!({ "uri": "my.x+demo://1" })),
            ("resources/templates/list", "resourceTemplates", json!({ "uriTemplate": "my.x+demo://{id}" })),
            ("prompts/list", "prompts", json!({ "name": "mcp__my_x__tell" })),
        ] {
            let listed = client.ask(method, json!({})).await.unwrap();
            let expected = format!("[{}]", joined(&own.to_string(), more));
            assert_eq!(members(listed.get())[list], tokens(&expected), "{era} {upstream}");
            assert_eq!(listed.get().contains("cacheScope"), era == "2026-07-28");
        }
        let listed = client.ask("tools/list", json!({})).await.unwrap();
        let tools: std::collections::BTreeMap<String, Vec<Box<RawValue>>> =
            serde_json::from_str(&format!(r#"{{"tools":{}}}"#, members(listed.get())["tools"].as_str().unwrap()))
                .unwrap();
        let tell =
            tools["tools"].iter().map(|tool| members(tool.get())).find(|tool| tool["name"] == "\"mcp__my_x__tell\"");
        let tell = tell.unwrap();
        assert_eq!(tell["vendor"], r#"{"n":123456789012345678901234567890,"f":1.50}"#);
        assert_eq!((&tell["icons"], &tell["title"]), (&json!("[]"), &json!("\"读\"")));
        client.stop().await;
    }
}

/// A set of one server shows its prompts and resources under the names that they have there, and takes them by these.
#[tokio::test]
async fn a_bare_set_has_the_servers_own_names() {
    for (era, upstream) in ERAS.into_iter().flat_map(|era| ERAS.map(|upstream| (era, upstream))) {
        let mut client = Client::bare(era, upstream).await;
        for (method, list, member, own) in [
            ("prompts/list", "prompts", "name", "tell"),
            ("resources/list", "resources", "uri", "demo://1"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate", "demo://{id}"),
        ] {
            let listed: Value = serde_json::from_str(client.ask(method, json!({})).await.unwrap().get()).unwrap();
            assert_eq!(listed[list][0][member], own, "{era} {upstream}");
        }
        client.answers(r#"{"messages":[],"contents":[]}"#);
        for (method, params) in [
            ("prompts/get", json!({ "name": "tell" })),
            ("resources/read", json!({ "uri": "demo://1" })),
            ("resources/read", json!({ "uri": "demo://2" })),
            // Results point to resources by whole names.
            ("resources/read", json!({ "uri": "my.x+demo://1" })),
        ] {
            assert!(client.ask(method, params.clone()).await.is_ok(), "{era} {upstream}: {params}");
        }
        assert!(client.ask("prompts/get", json!({ "name": "mcp__my_x__tell" })).await.is_err());
        client.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_as_each_era_says_it() {
    for (era, code) in [("2025-11-25", -32002), ("2026-07-28", -32602)] {
        let mut client = Client::new(era, era).await;
        for uri in ["my.x+other://1", "nobody+demo://1", "file:///etc/passwd", "demo://1", ""] {
            let error = client.ask("resources/read", json!({ "uri": uri })).await.unwrap_err();
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)), "{error}");
        }
        for name in ["mcp__my_x__nothing", "mcp__nobody__tell", "tell", "prompts/tell"] {
            let error = client.ask("prompts/get", json!({ "name": name })).await.unwrap_err();
            assert_eq!(error["code"], -32602, "{error}");
        }
        for params in
            [json!({}), json!({ "ref": {} }), json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": 7 })]
        {
            let error = client.ask("completion/complete", params).await.unwrap_err();
            assert_eq!(error["code"], -32602, "{error}");
        }
        client.stop().await;
    }
}
