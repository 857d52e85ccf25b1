//! Wires the parts: configuration, ledger, store, policy, tools, gate.

mod folders;
mod following;
mod idle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tollgate_agent::Sessions;
use tollgate_gate::{BuildError, Gate, GateBuilder, Operator, Quotas, SystemClock, take_over};
use tollgate_guard::client::{Client, Origin};
use tollgate_guard::redact::Redactor;
use tollgate_ledger::{Checkpointing, Ledger, OnDamage, Options, Recovery};
use tollgate_mcp::Tasks;
use tollgate_mcp::upstream::UpstreamConfig;
use tollgate_policy::{Policy, Role};
use tollgate_store::{InstallKey, Store};
use tollgate_tools::{Followed, HeaderValue, HttpSpec, HttpTool, ProgramTool, program_files};
use tollgate_types::{ApprovalChannel, Clock, Secret, SourceKind, Tool, Workspace};

use crate::anchor::Anchors;
use crate::config::{Http, Loaded, Runs, TextOrSecret, ToolConfig};
use crate::data;
use crate::logins::Logins;
use crate::model::Summaries;
use crate::overlay::Overlays;
use crate::own;
use crate::servers::{self, Servers};
use crate::view::Selection;
use crate::{Error, Tollgate, credentials, sandbox_level, tasks, telemetry, watch, webhook};

use folders::folders;
use following::following;

/// Makes a [`Tollgate`]. Without a word it has the built-in tools, the role `developer` and its data in `.tollgate`.
pub struct Builder {
    loaded: Arc<Loaded>,
    data_dir: Option<PathBuf>,
    workspace: Option<PathBuf>,
    logins: Option<PathBuf>,
    roles: Vec<Role>,
    tools: Vec<Arc<dyn Tool>>,
    approvals: Option<Arc<dyn ApprovalChannel>>,
    clock: Arc<dyn Clock>,
    has_builtins: bool,
    on_damage: OnDamage,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            loaded: Arc::new(Loaded::defaults(".")),
            data_dir: None,
            workspace: None,
            logins: None,
            roles: Vec::new(),
            tools: Vec::new(),
            approvals: None,
            clock: Arc::new(SystemClock::new()),
            has_builtins: true,
            on_damage: OnDamage::Refuse,
        }
    }

    /// Takes everything that a configuration says.
    #[must_use]
    pub fn config(mut self, loaded: Loaded) -> Self {
        self.loaded = Arc::new(loaded);
        self
    }

    /// Where the ledger, the state, kept results and keys live.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Where logins to MCP servers are kept; unsaid: in the data folder.
    #[must_use]
    pub fn logins(mut self, folder: impl Into<PathBuf>) -> Self {
        self.logins = Some(folder.into());
        self
    }

    /// What the environment tools may touch.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// Adds a role, or replaces a built-in one.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.roles.push(role);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Leaves the built-in tools out.
    #[must_use]
    pub fn without_builtin_tools(mut self) -> Self {
        self.has_builtins = false;
        self
    }

    /// Opens a ledger that is not as it was proved to be, and goes on where its newest checkpoint holds.
    #[must_use]
    pub fn accept_damage(mut self) -> Self {
        self.on_damage = OnDamage::Accept;
        self
    }

    /// Asks a human at once, where a human must be asked; without a channel the call waits.
    #[must_use]
    pub fn approvals(mut self, channel: impl ApprovalChannel + 'static) -> Self {
        self.approvals = Some(Arc::new(channel));
        self
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the data folder, takes over what dead processes left, and makes the gate.
    ///
    /// # Errors
    /// When the configuration, a tool, a role, the workspace or the data folder cannot be used.
    pub async fn build(self) -> Result<Tollgate, Error> {
        let (workspace, data_dir) = folders(&self.loaded, self.workspace, self.data_dir)?;
        let (ledger, store) = opened(&data_dir, &self.clock, &self.loaded, self.on_damage)?;
        let (key, redactor) = hiding(&self.loaded, &data_dir)?;
        let (operator, sessions, tasks) = desks(&self.loaded, &ledger, &store, &self.clock, &redactor)?;
        let (mut warnings, desk) = (Vec::new(), self.has_builtins.then(|| own::Desk::new(&operator, &data_dir)));
        let anchors =
            Anchors::start(&self.loaded, &ledger.checkpoints(), &self.clock, &redactor, &mut warnings).await?;
        let Offer { tools, overlays, read_only, sets, followed } =
            offer(&self.loaded, self.tools, desk.as_ref(), &self.clock, &redactor, &mut warnings).await?;
        let policy = read_policy(&self.loaded, &self.roles, Reading::First).await?;
        let webhook = webhook::configured(&self.loaded, &store, &self.clock, &redactor, &mut warnings).await?;
        let gate = GateBuilder {
            quotas: Quotas::in_process(self.loaded.limits(&policy)?, Arc::clone(&self.clock)),
            budgets: self.loaded.budgets(&policy)?,
            resilience: self.loaded.config.resilience.get_ref().clone(),
            policy,
            ledger: Arc::clone(&ledger),
            store,
            key,
            redactor: redactor.clone(),
            approvals: self.approvals.or_else(|| webhook.clone().map(|webhook| webhook as _)),
            clients_approve: self.loaded.config.approvals.clients.clone(),
            clock: Arc::clone(&self.clock),
            workspace: Workspace { root: workspace, protected: protected(&self.loaded, &data_dir), read_only },
            env: environment(&self.loaded, &redactor, &mut warnings).await,
            environment: self.loaded.config.environment.clone(),
            envelope: self.loaded.config.envelope,
            summaries: Some(Arc::new(Summaries { loaded: Arc::clone(&self.loaded), redactor: redactor.clone() })),
            sandbox: sandbox_level(),
            repair: self.loaded.config.repair,
            language: self.loaded.config.language,
        }
        .build(tools)
        .map_err(|error| unfit(&self.loaded, error))?;
        desk.iter().for_each(|desk| desk.know(&gate));
        warnings.extend(idle::told(&gate));
        let peers = peers(&self.loaded, &data_dir, self.logins, &self.clock, &redactor, &mut warnings).await?;
        let servers = served(&self.loaded, peers, &gate, overlays, &self.clock)?;
        Ok(Tollgate {
            webhook: webhook::watching(webhook, &gate),
            telemetry: telemetry::watch(&gate, &self.loaded, &redactor, &mut warnings).await?,
            following: Mutex::new(following(followed, &gate)),
            gate,
            servers,
            operator,
            sessions,
            ledger,
            anchors,
            redactor,
            clock: self.clock,
            loaded: self.loaded,
            roles: self.roles,
            data_dir,
            sets,
            warnings,
            reloads: Arc::default(),
            tasks,
        })
    }
}

/// How the MCP servers are reached, where what they print is kept, and the logins there.
async fn peers(
    loaded: &Loaded,
    data_dir: &Path,
    logins: Option<PathBuf>,
    clock: &Arc<dyn Clock>,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<(Vec<UpstreamConfig>, Logins), Error> {
    let folder = logins.unwrap_or_else(|| data_dir.join("logins"));
    let mut logins = Logins::new(folder, Arc::clone(clock), redactor.clone());
    let configs = servers::configured(loaded, redactor, &mut logins, warnings).await?;
    Ok((watch::logged(configs, data_dir, redactor, clock), logins))
}

/// The MCP servers, where there are some.
fn served(
    loaded: &Loaded,
    (configs, logins): (Vec<UpstreamConfig>, Logins),
    gate: &Gate,
    overlays: Overlays,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<Servers>>, Error> {
    let start = || Servers::start(configs, logins, gate.clone(), overlays, Arc::clone(clock));
    let servers = (!loaded.config.mcp.is_empty()).then(start).transpose();
    servers.map_err(|error| loaded.server_fault(&error).into())
}

/// What the house has to offer, its servers' tools aside.
struct Offer {
    tools: Vec<Arc<dyn Tool>>,
    overlays: Overlays,
    /// Files that its tools are made of.
    read_only: Vec<PathBuf>,
    sets: Arc<BTreeMap<String, Selection>>,
    /// Its own resources that clients follow.
    followed: Arc<Followed>,
}

async fn offer(
    loaded: &Arc<Loaded>,
    mut tools: Vec<Arc<dyn Tool>>,
    desk: Option<&own::Desk>,
    clock: &Arc<dyn Clock>,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<Offer, Error> {
    let (sets, followed) = (Arc::new(loaded.sets()?), Arc::<Followed>::default());
    if let Some(desk) = desk {
        tools.extend(desk.tools(&sets));
        let options = data::options(loaded, redactor, warnings).await?;
        if loaded.config.resources.get_ref().schemas {
            tools.extend(tollgate_tools::schema_resources(&options.databases, clock, &followed));
        }
        tools.extend(tollgate_tools::base(options));
        let files = |globs| tollgate_tools::file_resources(globs, Arc::clone(clock), Arc::clone(&followed));
        tools.extend(loaded.file_globs()?.map(files));
        tools.push(tollgate_tools::restore_file());
    }
    tools.extend(loaded.prompts()?.into_iter().map(|prompt| Arc::new(prompt) as Arc<dyn Tool>));
    let read_only = own_tools(&mut tools, loaded, redactor, warnings).await?;
    let overlays = Overlays::read(loaded)?;
    let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
    warnings.extend(overlays.idle(&names).into_iter().chain(loaded.idle_budgets(&names)));
    warnings.extend(loaded.idle_bindings(&names));
    let tools = tools.into_iter().map(|tool| overlays.apply(tool)).collect::<Result<Vec<_>, _>>()?;
    let definitions: Vec<_> = tools.iter().map(|tool| tool.definition()).collect();
    warnings.extend(loaded.idle_sources(&definitions));
    Ok(Offer { tools, overlays, read_only, sets, followed })
}

/// How the ledger is opened.
fn options(loaded: &Loaded, sandbox: &'static str, on_damage: OnDamage) -> Result<Options, Error> {
    let idle_ms = u64::try_from(loaded.checkpoint_idle()?.as_millis()).unwrap_or(u64::MAX);
    let checkpointing = Checkpointing { idle_ms, ..Checkpointing::default() };
    let reads = loaded.config.audit.reads.into();
    let (segment_age_max, segment_bytes_max) = loaded.rotation()?;
    loaded.retention()?;
    let sandbox = Some(sandbox);
    Ok(Options { segment_age_max, segment_bytes_max, sandbox, checkpointing, on_damage, reads, ..Options::default() })
}

/// The record and the state, after what dead processes left was taken over.
fn opened(
    data_dir: &Path,
    clock: &Arc<dyn Clock>,
    loaded: &Loaded,
    on_damage: OnDamage,
) -> Result<(Arc<Ledger>, Store), Error> {
    let options = options(loaded, sandbox_level(), on_damage)?;
    let store = Store::new(data_dir).keeping(loaded.keeping()?);
    let hand_on = |recovery: &Recovery| take_over(&store, recovery);
    let ledger = Ledger::open_telling(data_dir, Arc::clone(clock), options, hand_on)?.0;
    Ok((Arc::new(ledger), store))
}

/// The key of this installation, and what hides secrets under it.
fn hiding(loaded: &Loaded, data_dir: &Path) -> Result<(InstallKey, Redactor), Error> {
    let key = InstallKey::load(data_dir)?;
    let redactor = loaded.redactor(key.as_bytes())?;
    Ok((key, redactor))
}

/// What stands beside the gate: the operator's desk, the sessions, and the tasks.
fn desks(
    loaded: &Loaded,
    ledger: &Arc<Ledger>,
    store: &Store,
    clock: &Arc<dyn Clock>,
    redactor: &Redactor,
) -> Result<(Operator, Sessions, Arc<Tasks>), Error> {
    let operator = Operator::new(Arc::clone(ledger), store.clone(), Arc::clone(clock));
    let tasks = tasks::kept(loaded.task_rules()?, store, ledger, clock);
    Ok((operator, Sessions::new(store.clone(), Arc::clone(clock), redactor.clone()), tasks))
}

/// What no tool may touch.
fn protected(loaded: &Loaded, data_dir: &Path) -> Vec<PathBuf> {
    let own = [Some(data_dir.to_owned()), loaded.file.clone(), loaded.rule_file()];
    let mut protected: Vec<PathBuf> = own.into_iter().flatten().collect();
    protected.extend(loaded.secret_files());
    let anchor = loaded.config.audit.anchor.iter().filter_map(|anchor| anchor.get_ref().file.as_ref());
    protected.extend(anchor.map(|file| loaded.path(file)));
    protected
}

/// Whether a configuration is read for the first time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    First,
    /// From its file, as that is now.
    Again,
}

/// What the configuration says of who may do what, with the roles of the embedding program. Thousands of rules take a
/// second to read, and leave the memory of their thread in pieces: not on a thread that serves.
pub(crate) async fn read_policy(loaded: &Arc<Loaded>, roles: &[Role], reading: Reading) -> Result<Policy, Error> {
    let (loaded, roles) = (Arc::clone(loaded), roles.to_vec());
    let read = tokio::task::spawn_blocking(move || {
        let fresh = match &loaded.file {
            Some(file) if reading == Reading::Again => &Loaded::read(file, &loaded.folder)?,
            _ => &*loaded,
        };
        let policy = fresh.policy(roles)?;
        check_role(fresh, &policy)?;
        Ok(policy)
    });
    read.await.map_err(|error| Error::Unread(error.to_string()))?
}

/// The role of the local command line is one that exists.
fn check_role(loaded: &Loaded, policy: &Policy) -> Result<(), Error> {
    let role = &loaded.config.role;
    if policy.has_role(role.get_ref()) {
        return Ok(());
    }
    let message = format!("no role is named `{}`", role.get_ref());
    let hint = format!("there is {}; [roles.…] adds others", policy.role_names().join(", "));
    Err(loaded.fault(role, "role".into(), message, &hint).into())
}

async fn environment(loaded: &Loaded, redactor: &Redactor, warnings: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut env = tollgate_sandbox::base_env();
    for (name, value) in &loaded.config.env {
        match resolve(name, value, &loaded.folder, redactor).await {
            Ok(Resolved::Text(text)) => drop(env.insert(name.clone(), text)),
            Ok(Resolved::Secret(secret)) => drop(env.insert(name.clone(), secret.expose().to_owned())),
            Err(why) => warnings.push(format!("env.{name} is not set for programs: {why}")),
        }
    }
    env
}

pub(crate) enum Resolved {
    Text(String),
    Secret(Secret),
}

pub(crate) async fn resolve(
    name: &str,
    value: &TextOrSecret,
    folder: &Path,
    redactor: &Redactor,
) -> Result<Resolved, String> {
    match value {
        // A plain text under the name of a secret is one.
        TextOrSecret::Text(text) if redactor.is_secret_name(name) => {
            let secret = Secret::new(text.clone());
            redactor.add_secret(&secret);
            Ok(Resolved::Secret(secret))
        }
        TextOrSecret::Text(text) => Ok(Resolved::Text(text.clone())),
        TextOrSecret::Secret(source) => {
            let secret = source.resolve(folder).await?;
            redactor.add_secret(&secret);
            Ok(Resolved::Secret(secret))
        }
    }
}

/// Adds the `[[tool]]`s, and says of which files they and the servers' programs consist: what runs without asking must not
/// be rewritten by what writes without asking.
async fn own_tools(
    tools: &mut Vec<Arc<dyn Tool>>,
    loaded: &Loaded,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<Vec<PathBuf>, Error> {
    let mut read_only = servers::program_files(loaded);
    for tool in loaded.tools()? {
        if let Runs::Command(command) = &tool.runs {
            read_only.extend(program_files(command, &loaded.folder));
        }
        tools.extend(configured(loaded, tool, redactor, warnings).await?);
    }
    Ok(read_only)
}

/// What is wrong with a tool, in the file when it is from there.
fn unfit(loaded: &Loaded, error: BuildError) -> Error {
    match loaded.tool_fault(&error.name, error.source.to_string()) {
        Some(fault) => fault.into(),
        None => Error::from(error),
    }
}

/// One `[[tool]]`. One that cannot get its secret costs only itself, and says so.
async fn configured(
    loaded: &Loaded,
    tool: ToolConfig,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<dyn Tool>>, Error> {
    let ToolConfig { mut definition, runs } = tool;
    let name = definition.name.clone();
    let bad = |why: String| Error::BadTool { name: name.clone(), why };
    match runs {
        Runs::Command(command) => {
            definition.source.kind = SourceKind::Program;
            let folder = std::path::absolute(&loaded.folder).map_err(|error| bad(error.to_string()))?;
            let tool = ProgramTool::new(definition, command, folder).map_err(|error| bad(error.to_string()))?;
            Ok(Some(Arc::new(tool)))
        }
        Runs::Http(http) => {
            definition.source.kind = SourceKind::Http;
            let origin = Origin::of(&http.url).map_err(|error| bad(error.to_string()))?;
            let spec = match spec(&name, http, loaded, redactor).await {
                Ok(spec) => spec,
                Err(why) => {
                    warnings.push(format!("tool `{name}` is not available: {why}"));
                    return Ok(None);
                }
            };
            let tool =
                HttpTool::new(definition, spec, Client::new([origin])).map_err(|error| bad(error.to_string()))?;
            Ok(Some(Arc::new(tool)))
        }
    }
}

async fn spec(tool: &str, http: Http, loaded: &Loaded, redactor: &Redactor) -> Result<HttpSpec, String> {
    let (mut headers, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in http.headers {
        match resolve(&name, &value, &loaded.folder, redactor).await? {
            Resolved::Text(text) => drop(headers.insert(name, HeaderValue::Plain(text))),
            Resolved::Secret(secret) => {
                headers.insert(name.clone(), HeaderValue::Secret(secret));
                secrets.insert(name, value);
            }
        }
    }
    let source = credentials::source(format!("tool `{tool}`"), secrets, loaded, redactor);
    Ok(HttpSpec { method: http.method, url: http.url, headers, source })
}
