//! A real house for a reference house: its configuration in a file, its ledger and store in a folder, a clock that tests
//! move, and tools that count their runs.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::ledger::Record;
use tollgate::policy::{Policy, Role};
use tollgate::{BoxFuture, Call, Caller, Clock, Cx, Outcome, Tollgate, Tool, ToolDefinition, ToolError, ToolOutput};
use tollgate_testkit::reference::{self, Arguments, Ask, Asked, House};
use tollgate_testkit::{Folder, TestClock};

pub(crate) struct World {
    pub(crate) house: Tollgate,
    pub(crate) clock: Arc<TestClock>,
    runs: Arc<AtomicUsize>,
    folder: Folder,
}

/// A tool that counts.
struct Counting {
    definition: ToolDefinition,
    runs: Arc<AtomicUsize>,
}

impl Tool for Counting {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call(&self, _: Value, _: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(ToolOutput::text("done"))))
    }
}

impl World {
    /// Opens `plan`. What the gate adds by itself is added to it.
    pub(crate) async fn new(plan: &mut House) -> Self {
        let (folder, clock, runs) = (Folder::new().unwrap(), Arc::new(TestClock::default()), Arc::default());
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let house = open(folder.path(), plan, &clock, &runs).await;
        let own = house.gate().catalog().get("read_result").unwrap();
        plan.tools.insert(0, (*own.definition).clone());
        Self { house, clock, runs, folder }
    }

    /// The process ends, and another opens the same folder.
    pub(crate) async fn restart(self, plan: &House) -> Self {
        let Self { house, clock, runs, folder } = self;
        house.stop().await;
        drop(house);
        let house = open(folder.path(), plan, &clock, &runs).await;
        Self { house, clock, runs, folder }
    }

    /// Writes the configuration anew and has the policy read again.
    pub(crate) async fn reload(&self, plan: &House, rules: &str) {
        configure(self.folder.path(), plan, rules);
        self.house.reload_policy().await.unwrap();
    }

    pub(crate) async fn call(&self, asked: &Asked) -> Outcome {
        self.house.call(&asked.caller, call(asked)).await
    }

    pub(crate) async fn names(&self, caller: &Caller) -> Vec<String> {
        self.house.list(caller).await.iter().map(|tool| tool.name.clone()).collect()
    }

    /// How often any tool ran.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn records(&self, outcome: &Outcome) -> Vec<Record> {
        tollgate::ledger::attempt_records(self.house.data_dir(), outcome.attempt.as_ref().unwrap().as_str()).unwrap()
    }

    /// Another tool that counts.
    pub(crate) fn add(&self, definition: ToolDefinition) -> bool {
        self.house.gate().register(Arc::new(Counting { definition, runs: Arc::clone(&self.runs) })).is_ok()
    }
}

async fn open(folder: &Path, plan: &House, clock: &Arc<TestClock>, runs: &Arc<AtomicUsize>) -> Tollgate {
    configure(folder, plan, "");
    let loaded = Loaded::read(&folder.join("tollgate.toml"), folder).unwrap();
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    let house = Tollgate::builder()
        .config(loaded)
        .workspace(folder.join("work"))
        .data_dir(folder.join("data"))
        .without_builtin_tools()
        .clock(clock)
        .build()
        .await
        .unwrap();
    let fit: Vec<*const ToolDefinition> = reference::registered(plan).into_iter().map(std::ptr::from_ref).collect();
    for tool in plan.tools.iter().filter(|tool| tool.name != "read_result") {
        let counting = Counting { definition: tool.clone(), runs: Arc::clone(runs) };
        let registered = house.gate().register(Arc::new(counting));
        assert_eq!(registered.is_ok(), fit.contains(&std::ptr::from_ref(tool)), "{}: {registered:?}", tool.name);
    }
    house
}

fn configure(folder: &Path, plan: &House, rules: &str) {
    std::fs::write(folder.join("rules.cedar"), rules).unwrap();
    let mut text = String::new();
    if let Some(environment) = &plan.environment {
        writeln!(text, "environment = {environment:?}").unwrap();
    }
    for role in &plan.roles {
        let body = serde_json::to_value(product_role(role)).unwrap();
        writeln!(text, "[roles.{}]", role.name).unwrap();
        for (key, value) in body.as_object().unwrap() {
            // A list or a text is written in TOML as it is in JSON.
            writeln!(text, "{key} = {value}").unwrap();
        }
    }
    if let Some(limit) = plan.limit {
        writeln!(text, "[[limit]]\ncalls = {}\nevery = \"{}s\"", limit.calls, limit.every.as_secs()).unwrap();
    }
    if !rules.is_empty() {
        text.push_str("[policy]\nfile = \"rules.cedar\"\n");
    }
    std::fs::write(folder.join("tollgate.toml"), text).unwrap();
}

/// The role in the product's words.
pub(crate) fn product_role(role: &reference::Role) -> Role {
    let mut made = Role::new(role.name.as_str());
    (made.tools, made.exclude, made.inherits) = (role.tools.clone(), role.exclude.clone(), role.inherits.clone());
    (made.permission, made.risk) = (role.permission, role.risk);
    made.ask = role.ask.map(|ask| match ask {
        Ask::Never => tollgate::Ask::Never,
        Ask::Default => tollgate::Ask::Default,
        Ask::Write => tollgate::Ask::Write,
        Ask::Always => tollgate::Ask::Always,
    });
    made
}

pub(crate) fn product_policy(plan: &House) -> Policy {
    Policy::new(plan.roles.iter().map(product_role)).unwrap()
}

/// The arguments as a model writes them: the same in several spellings.
pub(crate) fn call(asked: &Asked) -> Call {
    let name = asked.name.as_str();
    match &asked.arguments {
        Arguments::Fit { n, note } if note.is_empty() => Call::raw(name, format!("{{ \"n\" : {n}}}")),
        Arguments::Fit { n, note } => Call::tool(name, json!({ "note": note, "n": n })),
        Arguments::Missing => Call::raw(name, ""),
        Arguments::Wrong => Call::tool(name, json!({ "n": "many" })),
        Arguments::NoJson => Call::raw(name, "n is one, or {two"),
    }
}
