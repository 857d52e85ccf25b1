//! A gate with its folder, and the records it wrote.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_gate::{Budget, CallLimit, Gate, GateBuilder, Operator, Quotas, SystemClock, take_over};
use tollgate_guard::redact::Redactor;
use tollgate_ledger::{Ledger, Options, Recovery};
use tollgate_policy::{Policy, Role};
use tollgate_store::{InstallKey, Store};
use tollgate_types::{
    ApprovalChannel, BoxFuture, Call, Caller, Clock, Cx, Door, Language, Outcome, QuotaStore, RepairLevel, Resilience,
    Risk, Secret, Summarize, Surface, Tool, ToolDefinition, ToolError, ToolOutput, Workspace,
};

/// A gate on a folder of its own.
pub(crate) struct World {
    pub(crate) gate: Gate,
    pub(crate) operator: Operator,
    pub(crate) folder: TempDir,
}

/// What differs between worlds.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) roles: Vec<Role>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) clients_approve: Vec<String>,
    pub(crate) channel: Option<Arc<dyn ApprovalChannel>>,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) limits: Vec<CallLimit>,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) resilience: Resilience,
    /// The time; the real one unless it is said.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Where limits are counted; this process unless it is said.
    pub(crate) quota_store: Option<Arc<dyn QuotaStore>>,
    pub(crate) envelope: bool,
    pub(crate) summaries: Option<Arc<dyn Summarize>>,
    pub(crate) language: Language,
    pub(crate) repair: Option<RepairLevel>,
    /// How the ledger is kept.
    pub(crate) options: Options,
}

impl World {
    pub(crate) fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self::with(Setup { tools: tools.into_iter().collect(), ..Setup::default() })
    }

    pub(crate) fn with(setup: Setup) -> Self {
        Self::at(tempfile::tempdir().unwrap(), setup)
    }

    /// A gate on this folder, as after a restart.
    pub(crate) fn at(folder: TempDir, setup: Setup) -> Self {
        let (gate, operator) = open(folder.path(), setup);
        Self { gate, operator, folder }
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Outcome {
        self.gate.call(&developer(), Call::tool(name, arguments)).await
    }

    pub(crate) async fn raw(&self, name: &str, arguments: &str) -> Outcome {
        self.gate.call(&developer(), Call::raw(name, arguments)).await
    }

    /// Every record, read as JSON by nothing of ours.
    pub(crate) fn records(&self) -> Vec<Value> {
        records(self.folder.path())
    }

    /// The events of one attempt, in order.
    pub(crate) fn events(&self, outcome: &Outcome) -> Vec<String> {
        let attempt = outcome.attempt.as_ref().unwrap().as_str();
        self.records()
            .iter()
            .filter(|record| record["attempt"] == attempt)
            .map(|record| record["event"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The record of one event of one attempt.
    pub(crate) fn record(&self, outcome: &Outcome, event: &str) -> Value {
        let attempt = outcome.attempt.as_ref().unwrap().as_str();
        let found = self.records().into_iter().find(|record| record["attempt"] == attempt && record["event"] == event);
        found.unwrap_or_else(|| panic!("no `{event}` in {:?}", self.events(outcome)))
    }
}

/// A gate and a desk on this folder, as a process of its own opens them.
pub(crate) fn open(folder: &Path, setup: Setup) -> (Gate, Operator) {
    let (gate, operator, _) = open_with_ledger(folder, setup);
    (gate, operator)
}

/// The same, and the ledger under both.
pub(crate) fn open_with_ledger(folder: &Path, setup: Setup) -> (Gate, Operator, Arc<Ledger>) {
    let clock = setup.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
    let options = Options { lock_wait_ms: 100, ..setup.options };
    let store = Store::new(folder);
    let hand_on = |recovery: &Recovery| take_over(&store, recovery);
    let ledger = Arc::new(Ledger::open_telling(folder, Arc::clone(&clock), options, hand_on).unwrap().0);
    let key = InstallKey::load(folder).unwrap();
    let redactor = Redactor::new(key.as_bytes(), setup.secrets);
    let operator = Operator::new(Arc::clone(&ledger), store.clone(), Arc::clone(&clock));
    let quotas = match setup.quota_store {
        Some(store) => Quotas::new(setup.limits, store),
        None => Quotas::in_process(setup.limits, Arc::clone(&clock)),
    };
    let gate = GateBuilder {
        policy: Policy::new(setup.roles).unwrap(),
        quotas,
        budgets: setup.budgets,
        resilience: setup.resilience,
        ledger: Arc::clone(&ledger),
        store,
        key,
        redactor,
        approvals: setup.channel,
        clients_approve: setup.clients_approve,
        clock,
        workspace: Workspace { root: folder.to_owned(), protected: vec![], read_only: vec![] },
        env: [].into(),
        environment: None,
        envelope: setup.envelope,
        summaries: setup.summaries,
        sandbox: "none",
        repair: setup.repair,
        language: setup.language,
    }
    .build(setup.tools)
    .unwrap();
    (gate, operator, ledger)
}

pub(crate) fn records(data_dir: &Path) -> Vec<Value> {
    let mut files: Vec<_> = std::fs::read_dir(data_dir.join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A developer who is never asked.
pub(crate) fn free() -> Role {
    let role = Role::new("developer").allow("*").risk(Risk::Dangerous).permission(tollgate_types::Permission::System);
    role.ask(tollgate_policy::Ask::Never)
}

pub(crate) fn developer() -> Caller {
    Caller::new("bob", "developer", Surface::Library)
}

type Body = dyn Fn(Value, Cx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// A tool of a test.
pub(crate) struct TestTool {
    definition: ToolDefinition,
    body: Box<Body>,
}

impl Tool for TestTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        Some(format!("would run with {arguments}"))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        (self.body)(arguments, cx)
    }
}

/// A tool with an open object schema and a body.
pub(crate) fn tool<F, Fut>(name: &str, risk: Risk, body: F) -> TestTool
where
    F: Fn(Value, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let mut definition = ToolDefinition::new(name, "A tool of a test.");
    definition.risk = risk;
    definition.permission = tollgate_types::Permission::Read;
    TestTool { definition, body: Box::new(move |arguments, cx| Box::pin(body(arguments, cx))) }
}

impl TestTool {
    pub(crate) fn schema(mut self, schema: Value) -> Self {
        self.definition.input_schema = schema;
        self
    }

    pub(crate) fn define(mut self, change: impl FnOnce(&mut ToolDefinition)) -> Self {
        change(&mut self.definition);
        self
    }

    pub(crate) fn arc(self) -> Arc<dyn Tool> {
        Arc::new(self)
    }
}

/// A tool that gives its arguments back.
pub(crate) fn echo() -> TestTool {
    tool("echo", Risk::Read, |arguments, _| async move { Ok(ToolOutput::structured(arguments)) }).schema(json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        },
        "required": ["text"],
        "additionalProperties": false,
    }))
}
