//! Everything a gate needs, named.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_guard::redact::Redactor;
use tollgate_ledger::Ledger;
use tollgate_policy::{Policy, PolicyError};
use tollgate_shape::PlanError;
use tollgate_store::{InstallKey, Store};
use tollgate_types::{ApprovalChannel, Clock, Language, RepairLevel, Resilience, Risk, Summarize, Tool, Workspace};

use crate::meta::ReadResult;
use crate::{Budget, Gate, Quotas, RuleError};

/// The parts of a gate. Every field must be said: a gate without a ledger, a store or a policy cannot be made.
pub struct GateBuilder {
    /// Who may do what.
    pub policy: Policy,
    /// How often callers may ask.
    pub quotas: Quotas,
    /// How much callers may spend.
    pub budgets: Vec<Budget>,
    /// What protects sources, and what is done about failures.
    pub resilience: Resilience,
    /// The record.
    pub ledger: Arc<Ledger>,
    /// The state.
    pub store: Store,
    /// The key under which arguments are digested.
    pub key: InstallKey,
    /// What hides secrets.
    pub redactor: Redactor,
    /// A way to ask a human at once; none leaves questions waiting.
    pub approvals: Option<Arc<dyn ApprovalChannel>>,
    /// The roles whose callers may approve their own calls, asked by their clients.
    pub clients_approve: Vec<String>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the environment tools may touch.
    pub workspace: Workspace,
    /// The environment variables that programs get.
    pub env: BTreeMap<String, String>,
    /// The name of the environment, such as `production`.
    pub environment: Option<String>,
    /// Whether results are wrapped as `{ok: true, data}`.
    pub envelope: bool,
    /// The models that say in short what long results say, where there are any.
    pub summaries: Option<Arc<dyn Summarize>>,
    /// How far arguments are mended, where the house says so.
    pub repair: Option<RepairLevel>,
    /// The isolation of what runs, as every record says it.
    pub sandbox: &'static str,
    /// The language that models are spoken to in.
    pub language: Language,
}

/// Why a tool is not fit to be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Its definition is not.
    #[error(transparent)]
    Definition(#[from] tollgate_catalog::RegisterError),
    /// Its rules about arguments cannot be read.
    #[error(transparent)]
    Rules(#[from] PolicyError),
    /// What it says of failures cannot hold.
    #[error(transparent)]
    Failures(#[from] RuleError),
    /// Its fallbacks come back to it.
    #[error("its fallbacks go in a circle: {}", .0.join(" → "))]
    Circle(Vec<String>),
    /// What it says of its results cannot be followed.
    #[error(transparent)]
    Output(#[from] PlanError),
    /// Its arguments would be mended further than may be where something changes.
    #[error(
        "`repair` is `lenient`, which is only for tools that read, and its risk is `{0}`: write `lossless` or `off`"
    )]
    TooLenient(Risk),
}

/// A tool that could not be registered.
#[derive(Debug, thiserror::Error)]
#[error("tool `{name}`: {source}")]
pub struct BuildError {
    /// The tool's name.
    pub name: String,
    /// What is wrong with its definition.
    pub source: RegisterError,
}

impl GateBuilder {
    /// Makes the gate with `tools` and the gate's own.
    ///
    /// # Errors
    /// When a definition is not fit to be registered, such as a second tool of one name.
    pub fn build(self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Gate, BuildError> {
        let own: Arc<dyn Tool> = Arc::new(ReadResult::new(self.store.clone()));
        let gate = Gate::from_builder(self);
        for tool in std::iter::once(own).chain(tools) {
            let name = tool.definition().name;
            gate.register(tool).map_err(|source| BuildError { name, source })?;
        }
        Ok(gate)
    }
}
