//! Sessions: a run that waits, ends or is killed goes on in another process, and nothing happens twice.

mod approval;
mod book;
mod fallback;
mod kill;
mod spending;

use serde_json::{Value, json};
use tollgate_testkit::model::{ModelServer, Step};

use crate::shop::{Done, Shop};

/// `note` appends a line; `hold` appends one, says so, and does not end by itself. Both ask under `developer`, and run
/// under `free`.
const TOOLS: &str = r#"
[roles.free]
tools = ["*"]
permission = "system"
risk = "dangerous"
ask = "never"

[[tool]]
name = "note"
description = "Appends a line."
command = ["sh", "-c", "cat >> ran; echo >> ran; echo noted"]

[[tool]]
name = "hold"
description = "Appends a line and stays."
command = ["sh", "-c", "cat >> held; echo >> held; echo started > started.fifo; cat end.fifo"]
"#;

/// A shop whose model follows a script.
pub(super) struct House {
    pub(super) shop: Shop,
    pub(super) server: ModelServer,
}

impl House {
    pub(super) async fn with(script: Vec<Step>) -> Self {
        let server = ModelServer::start(script).await;
        let shop = Shop::with(&config(&server.base_url()));
        Self { shop, server }
    }

    /// One command, which must end with this exit status.
    #[track_caller]
    pub(super) fn expect(&self, args: &[&str], code: i32) -> impl Future<Output = Done> {
        let caller = std::panic::Location::caller();
        let (mut command, shown) = (self.shop.command(args), args.join(" "));
        async move {
            let output = tokio::task::spawn_blocking(move || command.output().unwrap());
            let done = Done::from(output.await.unwrap());
            assert_eq!(done.code, code, "{caller}: {shown}: {} {}", done.stdout, done.stderr);
            done
        }
    }

    /// What the tools appended.
    pub(super) fn ran(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.shop.path().join("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the model was told of a call in the last request.
    pub(super) fn told(&self, call_id: &str) -> String {
        let requests = self.server.requests();
        let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
        let told: Vec<&Value> = messages.iter().filter(|message| message["tool_call_id"] == call_id).collect();
        assert_eq!(told.len(), 1, "exactly one result: {messages:?}");
        told[0]["content"].as_str().unwrap().to_owned()
    }

    /// How many calls of a tool came to the gate.
    pub(super) fn received(&self, tool: &str) -> usize {
        let lines = self.shop.ledger().into_iter().map(|line| serde_json::from_str::<Value>(&line).unwrap());
        lines.filter(|record| record["event"] == "received" && record["tool"]["name"] == tool).count()
    }

    /// The state, to move it to where a crash or a long time would have left it.
    pub(super) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.shop.path().join(".tollgate/store.db")).unwrap()
    }
}

pub(super) fn config(base_url: &str) -> String {
    format!("[models.default]\nbase_url = \"{base_url}\"\nmodel = \"scripted\"\n{TOOLS}")
}

pub(super) fn note(id: &str, text: &str) -> Step {
    Step::calls([(id, "note", json!({ "text": text }))])
}

pub(super) fn last_event(done: &Done) -> Value {
    serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap()
}

/// The line that `note` appends.
pub(super) fn line(text: &str) -> String {
    json!({ "text": text }).to_string()
}
