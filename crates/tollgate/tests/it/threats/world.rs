//! A house to attack: tools that note what reached them, roles that ask or do not, and rules.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tollgate::config::Loaded;
use tollgate::{
    BoxFuture, Call, Caller, Clock, Cx, Outcome, Permission, Risk, Surface, Tollgate, Tool, ToolDefinition, ToolError,
    ToolOutput,
};
use tollgate_testkit::{Folder, TestClock};

/// `free` never asks, `asking` does, `reader` is what a client without a role has.
pub(crate) const CONFIG: &str = r#"
[roles.free]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"

[roles.asking]
inherits = "free"
ask = "default"

[policy]
file = "rules.cedar"

[[policy.argument]]
name = "amount"
tools = ["pay"]
pointer = "/amount"
type = "long"
"#;

pub(crate) struct World {
    pub(crate) house: Tollgate,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) folder: Folder,
    reached: Arc<Mutex<Vec<Value>>>,
}

/// What a tool does once it noted what reached it.
#[derive(Clone)]
enum Does {
    Echo,
    Say(String),
    Stall,
}

struct Noting {
    definition: ToolDefinition,
    does: Does,
    reached: Arc<Mutex<Vec<Value>>>,
}

impl Tool for Noting {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.reached.lock().unwrap().push(arguments.clone());
        Box::pin(async move {
            match &self.does {
                Does::Echo => Ok(ToolOutput::structured(arguments)),
                Does::Say(text) => Ok(ToolOutput::text(text.as_str())),
                Does::Stall => {
                    cx.cancellation.cancelled().await;
                    Err(ToolError::new("broken off"))
                }
            }
        })
    }
}

pub(crate) fn tool(name: &str, risk: Risk) -> ToolDefinition {
    let mut tool = ToolDefinition::new(name, "Does what its name says.");
    (tool.risk, tool.permission) = (risk, Permission::Read);
    tool
}

pub(crate) fn caller(role: &str) -> Caller {
    Caller::new("ada", role, Surface::Library)
}

impl World {
    pub(crate) async fn new(more: &str, rules: &str) -> Self {
        let folder = Folder::new().unwrap().file("tollgate.toml", format!("{CONFIG}\n{more}")).unwrap();
        let folder = folder.file("rules.cedar", rules).unwrap().file("work/a.txt", "a").unwrap();
        let loaded = Loaded::read(&folder.path().join("tollgate.toml"), folder.path()).unwrap();
        let clock = Arc::new(TestClock::default());
        let shared: Arc<dyn Clock> = Arc::<TestClock>::clone(&clock);
        let builder = Tollgate::builder().config(loaded).workspace(folder.path().join("work")).clock(shared);
        let house = builder.data_dir(folder.path().join("data")).without_builtin_tools().build().await.unwrap();
        Self { house, clock, folder, reached: Arc::default() }
    }

    /// A tool that gives its arguments back; false where it is not fit to be registered.
    pub(crate) fn echo(&self, definition: ToolDefinition) -> bool {
        self.register(definition, Does::Echo)
    }

    /// A tool that says this.
    pub(crate) fn saying(&self, definition: ToolDefinition, text: &str) {
        assert!(self.register(definition, Does::Say(text.to_owned())));
    }

    /// A tool that does its work and then never answers.
    pub(crate) fn stalling(&self, definition: ToolDefinition) {
        assert!(self.register(definition, Does::Stall));
    }

    fn register(&self, definition: ToolDefinition, does: Does) -> bool {
        let tool = Noting { definition, does, reached: Arc::clone(&self.reached) };
        self.house.gate().register(Arc::new(tool)).is_ok()
    }

    /// What reached any tool.
    pub(crate) fn reached(&self) -> Vec<Value> {
        self.reached.lock().unwrap().clone()
    }

    pub(crate) async fn raw(&self, caller: &Caller, name: &str, arguments: &str) -> Outcome {
        self.house.call(caller, Call::raw(name, arguments)).await
    }

    /// The last record of a call.
    pub(crate) fn end(&self, outcome: &Outcome) -> Value {
        self.records(outcome).pop().unwrap()
    }

    pub(crate) fn records(&self, outcome: &Outcome) -> Vec<Value> {
        let attempt = outcome.attempt.as_ref().unwrap().as_str();
        let records = tollgate::ledger::attempt_records(self.house.data_dir(), attempt).unwrap();
        records.into_iter().map(tollgate::ledger::Record::into_value).collect()
    }

    pub(crate) async fn names(&self, caller: &Caller) -> BTreeSet<String> {
        self.house.list(caller).await.iter().map(|tool| tool.name.clone()).collect()
    }
}

/// Runs an attack to its end.
pub(crate) fn run<T>(attack: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(attack)
}

/// What an entry's input says.
pub(crate) fn input(entry: &Value) -> &str {
    entry["input"].as_str().unwrap()
}

/// The JSON objects that stand in a text, as they are written.
pub(crate) fn objects(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => {
                begin = if depth == 0 { at } else { begin };
                depth += 1;
            }
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    found.extend(text.get(begin..=at));
                }
            }
            _ => {}
        }
    }
    found
}

/// What stands between single quotes, its escapes read.
pub(crate) fn quoted(text: &str) -> Vec<String> {
    let parts = text.split('\'').skip(1).step_by(2);
    parts.map(|part| serde_json::from_str(&format!("\"{part}\"")).unwrap()).collect()
}
