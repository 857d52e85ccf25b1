//! The whole house behind one name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_agent::{ModelClient, Options, Sessions};
use tollgate_gate::{Erasing, Gate, Operator};
use tollgate_guard::redact::Redactor;
use tollgate_ledger::Ledger;
use tollgate_mcp::Tasks;
use tollgate_mcp::oauth::Oauth;
use tollgate_mcp::upstream::UpstreamStatus;
use tollgate_policy::Role;
use tollgate_telemetry::Telemetry;
use tollgate_types::{
    ApprovalId, AttemptId, BoxFuture, Call, CallKind, Caller, CancellationToken, Changes, Clock, Door, ErrorObject,
    Following, Language, ObservedCall, Outcome, ToolDefinition, ToolError,
};
use tollgate_webhook::Webhook;

use crate::anchor::{AnchorWatch, Anchors};
use crate::builder::{Reading, read_policy};
use crate::config::Loaded;
use crate::model;
use crate::servers::{CALL_WAIT, Servers};
use crate::view::Selection;
use crate::{Builder, Error, Reloads, ServerWatch, View};

/// A gate with its tools, its ledger and its operator's desk.
pub struct Tollgate {
    pub(crate) gate: Gate,
    pub(crate) servers: Option<Arc<Servers>>,
    /// Looks at the own resources that clients follow.
    pub(crate) following: Mutex<JoinSet<()>>,
    pub(crate) webhook: Option<Arc<Webhook>>,
    pub(crate) telemetry: Option<Arc<Telemetry>>,
    pub(crate) operator: Operator,
    pub(crate) sessions: Sessions,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) anchors: Option<Anchors>,
    pub(crate) redactor: Redactor,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) loaded: Arc<Loaded>,
    /// The roles that do not come from the configuration.
    pub(crate) roles: Vec<Role>,
    pub(crate) data_dir: PathBuf,
    pub(crate) sets: Arc<BTreeMap<String, Selection>>,
    pub(crate) warnings: Vec<String>,
    pub(crate) reloads: Arc<Reloads>,
    pub(crate) tasks: Arc<Tasks>,
}

impl Tollgate {
    /// Starts to make one.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Takes one call from request to recorded outcome.
    pub async fn call(&self, caller: &Caller, call: Call) -> Outcome {
        self.door().call(caller, call).await
    }

    /// The same, which `cancellation` ends too; the outcome then says how far it came.
    pub async fn call_until(&self, caller: &Caller, call: Call, cancellation: CancellationToken) -> Outcome {
        self.gate.call_until(caller, call, cancellation).await
    }

    /// Takes many calls from request to recorded outcome: [`Gate::call_many`].
    pub async fn call_many(&self, caller: &Caller, calls: Vec<Call>) -> Vec<Outcome> {
        self.gate.call_many(caller, calls).await
    }

    /// The tools that `caller` may use, by name.
    pub async fn list(&self, caller: &Caller) -> Vec<Arc<ToolDefinition>> {
        self.door().list(caller).await
    }

    /// Every MCP server that is configured, after each had the time to say what it has.
    pub async fn servers(&self) -> Vec<UpstreamStatus> {
        self.servers_within(CALL_WAIT).await
    }

    /// The same, for those who do not wait for long.
    pub async fn servers_within(&self, wait: Duration) -> Vec<UpstreamStatus> {
        match &self.servers {
            Some(servers) => self.server_watch().hidden(servers.statuses(wait).await),
            None => Vec::new(),
        }
    }

    /// How the MCP servers do, for those who watch them.
    pub fn server_watch(&self) -> ServerWatch {
        ServerWatch { servers: self.servers.clone(), redactor: self.redactor.clone() }
    }

    /// How long an MCP server takes to answer whether it is there, once it is up; none where no server has this name.
    pub async fn ping_server(&self, name: &str) -> Option<Result<Duration, ToolError>> {
        self.servers.as_ref()?.ping(name).await
    }

    /// The login to an MCP server; none where no server that could have one has this name.
    pub fn login(&self, name: &str) -> Option<Arc<Oauth>> {
        self.servers.as_ref()?.login(name)
    }

    /// The language that models are spoken to in.
    pub fn language(&self) -> Language {
        self.loaded.config.language
    }

    /// The webhook that open questions are sent to, where one is configured.
    pub fn webhook(&self) -> Option<&Arc<Webhook>> {
        self.webhook.as_ref()
    }

    /// What sends spans of calls, where somebody said where to.
    pub fn telemetry(&self) -> Option<&Arc<Telemetry>> {
        self.telemetry.as_ref()
    }

    /// Sends the questions that are open, and those that any process asks that shares the data folder, to the webhook that is
    /// configured, until [`Tollgate::stop`]. Those of this house's own calls are sent without this.
    pub fn tell_approvals(&self) {
        if let Some(webhook) = &self.webhook {
            webhook.start();
        }
    }

    /// Waits for the calls under way, for as long as `resilience.drain_ms` says, and cancels what is left then; lets what is being sent arrive, stops the MCP servers with all that they started, and
    /// has the last checkpoint kept elsewhere, where that is configured.
    pub async fn stop(&self) {
        let left = self.gate.drain_within(self.patience()).await;
        if left > 0 {
            tracing::warn!(left, "calls were still under way at the end, and were cancelled");
        }
        self.tasks.settle().await;
        self.following.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        if let Some(telemetry) = &self.telemetry {
            telemetry.stop().await;
        }
        if let Some(webhook) = &self.webhook {
            webhook.stop().await;
        }
        if let Some(servers) = &self.servers {
            servers.stop().await;
        }
        if let Some(anchors) = &self.anchors {
            if let Err(error) = self.ledger.checkpoint_now().await {
                tracing::error!("the last checkpoint of the ledger: {error}");
            }
            anchors.stop().await;
        }
    }

    /// How long calls under way may go on at the end: `resilience.drain_ms`.
    pub fn patience(&self) -> Duration {
        self.loaded.drain()
    }

    /// Erases what is older than the configuration says that it is kept, and finishes what a process died over.
    ///
    /// # Errors
    /// When the store or the ledger fails. It can be done again then.
    pub async fn retain(&self) -> Result<Erasing, Error> {
        let retention = self.loaded.retention()?;
        Ok(self.operator.retain(retention).await?)
    }

    /// The ledger, for those who watch it.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// How the places do that checkpoints are kept at.
    pub fn anchors(&self) -> AnchorWatch {
        self.anchors.as_ref().map(Anchors::watch).unwrap_or_default()
    }

    /// The gate: register and take out tools, read the catalog and the policy.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The way in, for surfaces.
    pub fn door(&self) -> Arc<dyn Door> {
        Arc::new(self.gate.clone())
    }

    /// The tasks that calls of MCP clients may go on as. All of the house's ways in share them.
    pub fn tasks(&self) -> Arc<Tasks> {
        Arc::clone(&self.tasks)
    }

    /// The names of the `[sets.NAME]`.
    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.sets.keys().map(String::as_str)
    }

    /// What the set of this name shows of `door`, if there is such a set.
    pub fn view(&self, set: &str, door: Arc<dyn Door>) -> Option<View> {
        let selection = self.sets.get(set)?.clone();
        Some(View::new(door, selection).in_language(self.language()))
    }

    /// Reads roles and rules again, and decides by them from now on; nothing else of the configuration is read again.
    /// Says whether anything changed.
    ///
    /// # Errors
    /// When a role or a rule is wrong. Everything then stays as it was.
    pub async fn reload_policy(&self) -> Result<bool, Error> {
        let reloaded = self.replace_policy().await;
        self.reloads.count(&reloaded);
        reloaded
    }

    /// How that went so far.
    pub fn reloads(&self) -> Arc<Reloads> {
        Arc::clone(&self.reloads)
    }

    async fn replace_policy(&self) -> Result<bool, Error> {
        let policy = read_policy(&self.loaded, &self.roles, Reading::Again).await?;
        let gate = self.gate.clone();
        let replaced = tokio::task::spawn_blocking(move || {
            if policy.hash() == gate.policy().hash() {
                return Ok(false);
            }
            gate.replace_policy(policy)?;
            Ok(true)
        });
        replaced.await.map_err(|error| Error::Unread(error.to_string()))?
    }

    /// The files that roles and rules come from.
    pub fn policy_files(&self) -> Vec<PathBuf> {
        [self.loaded.file.clone(), self.loaded.rule_file()].into_iter().flatten().collect()
    }

    /// The operator's desk.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }

    /// The conversations that outlive their processes.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What hides secrets.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The clock that everything here goes by.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// What the configuration asks for and could not be had.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How an agent works with this model, as `[run]` of the configuration and the model's own table say.
    ///
    /// # Errors
    /// When the configuration cannot be meant.
    pub fn run_options(&self, model: &str) -> Result<Options, Error> {
        self.loaded.run_options(model).map_err(|error| Error::Config(Box::new(error)))
    }

    /// The client of a configured model server. Its key is fetched now, and hidden from every record from now on.
    ///
    /// # Errors
    /// When no such model is configured, or its key is not to be had: a text with what to do.
    pub async fn model(&self, name: &str) -> Result<ModelClient, String> {
        model::client(&self.loaded, &self.redactor, name).await
    }
}

impl Door for Tollgate {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(self.list(caller))
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async move { self.door().list_kind(caller, kind).await })
    }

    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        self.gate.list_now(caller, kind)
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.gate.changes().clone())
    }

    fn following(&self, caller: &Caller, call: Call) -> Following {
        self.gate.following(caller, call)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        Box::pin(self.call(caller, call))
    }

    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        self.gate.special(caller, tool)
    }

    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        self.gate.answered(approval)
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.gate.permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.gate.observe(caller, call)
    }
}
