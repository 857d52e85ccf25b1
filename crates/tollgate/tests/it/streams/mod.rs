//! What servers say unasked, through the whole house to its clients: shared, given up, taken up again, kept from who may not
//! know. Both eras on either side.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate::config::Loaded;
use tollgate::mcp::{ServerInfo, serve_stdio};
use tollgate::{Caller, Door, Surface, Tollgate};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/streams/server.py");
const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];
const ROLE: &str = "[roles.all]\ntools = [\"*\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"never\"\n";
/// Longer than any test may take: it turns a hang into a failure.
const NEVER: Duration = Duration::from_secs(60);

struct House {
    house: Tollgate,
    folder: tempfile::TempDir,
}

impl House {
    async fn new(era: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server =
            format!("[mcp.my_x]\ncommand = \"/usr/bin/python3\"\nargs = [\"-S\", {SERVER:?}, {era:?}]\n{more}\n");
        // What reads is tried again; to die once is enough.
        let overrides = "[mcp.my_x.tools.\"*\"]\nrisk = \"read\"\n[mcp.my_x.tools.die]\nrisk = \"dangerous\"\n";
        let path = folder.path().join("tollgate.toml");
        let sets = "[sets.bare]\ntools = [\"mcp__my_x__*\"]\nresources = [\"mcp__my_x__resources/demo://a\"]\nbare = \"my_x\"\n";
        fs::write(&path, format!("{server}{overrides}{ROLE}{sets}")).unwrap();
        let loaded = Loaded::read(&path, folder.path()).unwrap();
        let house = Tollgate::builder().config(loaded).data_dir(folder.path().join("data")).build().await.unwrap();
        Self { house, folder }
    }

    /// The messages that the server got, each behind its process.
    fn log(&self) -> Vec<(String, Value)> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(pid, line)| Some((pid.to_owned(), serde_json::from_str(line).ok()?))).collect()
    }

    fn processes(&self) -> usize {
        self.log().iter().map(|(pid, _)| pid.clone()).collect::<BTreeSet<_>>().len()
    }

    /// What the server is asked to tell of, by the messages of its last process.
    fn followed(&self) -> BTreeSet<String> {
        let log = self.log();
        let Some((last, _)) = log.last() else { return BTreeSet::new() };
        let mut followed = BTreeSet::new();
        for (_, message) in log.iter().filter(|(pid, _)| pid == last) {
            let uri = message["params"]["uri"].as_str().unwrap_or_default().to_owned();
            match message["method"].as_str() {
                Some("resources/subscribe") => followed.extend([uri]),
                Some("resources/unsubscribe") => followed.retain(|followed| *followed != uri),
                Some("subscriptions/listen") => {
                    let uris = message["params"]["notifications"]["resourceSubscriptions"].as_array();
                    followed = uris.into_iter().flatten().map(|uri| uri.as_str().unwrap().to_owned()).collect();
                }
                _ => {}
            }
        }
        followed
    }

    fn asked(&self, method: &str) -> usize {
        self.log().iter().filter(|(_, message)| message["method"] == method).count()
    }

    fn write_role(&self, exclude: &str) {
        let path = self.folder.path().join("tollgate.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("tools = [\"*\"]\n", &format!("tools = [\"*\"]\nexclude = [{exclude:?}]\n")))
            .unwrap();
    }
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let looked = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(NEVER, looked).await.is_ok(), "{what}");
}

/// A client over stdio.
struct Client {
    era: &'static str,
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    told: Vec<Value>,
    asked: u32,
    _serving: JoinSet<()>,
}

impl Client {
    async fn new(house: &House, subject: &str, era: &'static str) -> Self {
        Self::before(house.house.door(), subject, era).await
    }

    async fn before(door: Arc<dyn Door>, subject: &str, era: &'static str) -> Self {
        let (to, input) = tokio::io::duplex(1 << 20);
        let (output, from) = tokio::io::duplex(1 << 20);
        let info = ServerInfo { name: "tollgate".into(), version: "1".into(), instructions: None };
        let caller = Caller::new(subject, "all", Surface::McpStdio).with_session(format!("s-{subject}"));
        let mut serving = JoinSet::new();
        serving.spawn(async move { serve_stdio(door, caller, info, input, output).await.unwrap() });
        let mut client =
            Self { era, to, from: BufReader::new(from).lines(), told: Vec::new(), asked: 0, _serving: serving };
        if era != "2026-07-28" {
            let hello =
                json!({ "protocolVersion": era, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
            client.ask("initialize", hello).await;
            client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        // It knows what there is: what it hears from now on is news.
        for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            client.ask(list, json!({})).await;
        }
        client.told.clear();
        client
    }

    async fn say(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        let line = timeout(NEVER, self.from.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn send(&mut self, method: &str, mut params: Value) -> u32 {
        self.asked += 1;
        if self.era == "2026-07-28" {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.era, "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.asked;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The answer; what is told meanwhile is kept.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        loop {
            let message = self.hear().await;
            if message["id"] == id {
                return message;
            }
            self.told.push(message);
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": format!("mcp__my_x__{tool}"), "arguments": arguments })).await
    }

    /// Follows a resource in the way of its era; the id takes it back.
    async fn follow(&mut self, uri: &str) -> u32 {
        if self.era == "2026-07-28" {
            let wanted =
                json!({ "toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": [uri] });
            let id = self.send("subscriptions/listen", json!({ "notifications": wanted })).await;
            let told = self.hear().await;
            assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
            assert_eq!(told["params"]["notifications"], wanted);
            return id;
        }
        let answer = self.ask("resources/subscribe", json!({ "uri": uri })).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
        0
    }

    async fn unfollow(&mut self, uri: &str, id: u32) {
        if self.era == "2026-07-28" {
            self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }))
                .await;
        } else {
            self.ask("resources/unsubscribe", json!({ "uri": uri })).await;
        }
    }

    /// Waits for what is told of this kind; other lists may change meanwhile.
    async fn told(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.told.iter().position(|told| told["method"] == method) {
                return self.told.remove(at);
            }
            let message = self.hear().await;
            self.told.push(message);
        }
    }
}

const UPDATED: &str = "notifications/resources/updated";
const TOOLS: &str = "notifications/tools/list_changed";

#[tokio::test]
async fn clients_share_what_a_server_is_asked_for_until_the_last_has_gone() {
    for upstream in ERAS {
        let house = House::new(upstream, "").await;
        let mut one = Client::new(&house, "ann", "2025-06-18").await;
        let mut two = Client::new(&house, "bob", "2026-07-28").await;
        let uri = "my.x+demo://a";
        let first = one.follow(uri).await;
        until("the server is asked", || house.followed() == ["demo://a".to_owned()].into()).await;
        let second = two.follow(uri).await;
        two.call("touch", json!({ "uri": "demo://a" })).await;
        for client in [&mut one, &mut two] {
            assert_eq!(client.told(UPDATED).await["params"]["uri"], uri, "{upstream}");
        }
        let lists = if upstream == "2026-07-28" { 2 } else { 1 };
        let how = if upstream == "2026-07-28" { "subscriptions/listen" } else { "resources/subscribe" };
        assert_eq!(house.asked(how), lists, "{upstream}");

        one.unfollow(uri, first).await;
        two.call("touch", json!({ "uri": "demo://a" })).await;
        two.told(UPDATED).await;
        two.unfollow(uri, second).await;
        until("the server is asked for nothing more", || house.followed().is_empty()).await;

        // A list that changes reaches both who keep it.
        two.follow("my.x+demo://t/7").await;
        one.call("grow", json!({})).await;
        one.told(TOOLS).await;
        assert_eq!(two.told(TOOLS).await["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], two.asked);
        let listed = one.ask("tools/list", json!({})).await.to_string();
        assert!(listed.contains("more_3"), "{listed}");
        drop((one, two));
        until("nobody follows", || house.followed().is_empty()).await;
        assert_eq!(house.house.gate().changes().count(), (0, 0));
        house.house.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_dies_is_started_and_asked_again_and_may_have_changed_meanwhile() {
    for upstream in ERAS {
        let house = House::new(upstream, "").await;
        for era in ERAS {
            let mut client = Client::new(&house, "ann", era).await;
            client.follow("my.x+demo://a").await;
            let before = house.processes();
            client.call("die", json!({})).await;
            client.told(UPDATED).await;
            until("another process is asked", || house.processes() > before && house.followed().contains("demo://a"))
                .await;
            client.call("touch", json!({ "uri": "demo://a" })).await;
            client.told(UPDATED).await;
        }
        house.house.stop().await;
    }
}

#[tokio::test]
async fn what_policy_forbids_is_taken_back_and_said_nothing_of() {
    for upstream in ERAS {
        let house = House::new(upstream, "").await;
        let mut clients = Vec::new();
        for era in ERAS {
            let mut client = Client::new(&house, era, era).await;
            client.follow("my.x+demo://a").await;
            clients.push(client);
        }
        house.write_role("mcp__my_x__resources/demo://a");
        assert!(house.house.reload_policy().await.unwrap());
        until("it is taken back", || house.followed().is_empty()).await;
        for client in &mut clients {
            client.told("notifications/resources/list_changed").await;
            client.call("touch", json!({ "uri": "demo://a" })).await;
            // The next that is told is told of something else.
            client.call("grow", json!({})).await;
            client.told(TOOLS).await;
            assert!(client.told.iter().all(|told| told["method"] != UPDATED), "{:?}", client.told);
            let refused = client.ask("resources/read", json!({ "uri": "my.x+demo://a" })).await;
            assert!(refused["error"]["code"].is_i64(), "{refused}");
        }
        let kinds = recorded(house.house.data_dir());
        assert_eq!(kinds.iter().filter(|kind| *kind == "subscription").count(), 2, "{kinds:?}");
        house.house.stop().await;
    }
}

/// The kinds of all calls in the ledger.
fn recorded(data_dir: &Path) -> Vec<String> {
    let segments = fs::read_dir(data_dir.join("audit")).unwrap().map(|entry| entry.unwrap().path());
    let segments = segments.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let text: String = segments.map(|path| fs::read_to_string(path).unwrap()).collect();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let received = records.filter(|record| record["event"] == "received");
    received.map(|record| record["kind"].as_str().unwrap_or("tool").to_owned()).collect()
}

#[tokio::test]
async fn what_a_callers_own_connection_says_is_told_to_that_caller() {
    for upstream in ERAS {
        let house = House::new(upstream, "sessions = \"caller\"").await;
        let mut ann = Client::new(&house, "ann", "2025-11-25").await;
        let mut bob = Client::new(&house, "bob", "2025-11-25").await;
        for client in [&mut ann, &mut bob] {
            client.follow("my.x+demo://a").await;
        }
        ann.call("touch", json!({ "uri": "demo://a" })).await;
        ann.told(UPDATED).await;
        bob.call("touch", json!({ "uri": "demo://b" })).await;
        bob.call("touch", json!({ "uri": "demo://a" })).await;
        bob.told(UPDATED).await;
        for client in [ann, bob] {
            assert!(client.told.iter().all(|told| told["method"] != UPDATED), "{:?}", client.told);
        }
        house.house.stop().await;
    }
}

#[tokio::test]
async fn a_set_tells_of_its_part_by_the_names_that_it_has() {
    let house = House::new("2025-11-25", "").await;
    for era in ERAS {
        let set = || Arc::new(house.house.view("bare", house.house.door()).unwrap());
        let mut client = Client::before(set(), "ann", era).await;
        for uri in ["demo://a", "my.x+demo://a"] {
            let id = client.follow(uri).await;
            until("the server is asked", || house.followed().len() == 1).await;
            let mut other = Client::new(&house, "bob", era).await;
            other.call("touch", json!({ "uri": "demo://a" })).await;
            assert_eq!(client.told(UPDATED).await["params"]["uri"], uri, "{era}");
            client.unfollow(uri, id).await;
            until("it is taken back", || house.followed().is_empty()).await;
        }
    }
    let mut client =
        Client::before(Arc::new(house.house.view("bare", house.house.door()).unwrap()), "ann", ERAS[0]).await;
    let refused = client.ask("resources/subscribe", json!({ "uri": "demo://b" })).await;
    assert_eq!(refused["error"]["code"], -32002);
    assert_eq!(house.house.gate().changes().count(), (1, 0));
    house.house.stop().await;
}
