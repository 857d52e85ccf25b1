//! The pipeline.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;
use tokio_util::task::TaskTracker;
use tollgate_catalog::Catalog;
use tollgate_guard::redact::Redactor;
use tollgate_ledger::Ledger;
use tollgate_policy::{Effect, Policy, PolicyError};
use tollgate_shape::Plan;
use tollgate_store::{InstallKey, Store};
use tollgate_types::{
    ApprovalChannel, AttemptId, Call, Caller, CancellationToken, Changes, Clock, Code, End, ErrorObject, Language,
    Observer, Outcome, Peer, Raw, RepairLevel, Risk, SourceKind, Stage, Summarize, Supply, Text, Tool, ToolDefinition,
    Workspace, limits::CALLS_UNDER_WAY_MAX,
};
use tollgate_wire::repair;

use crate::attempt::{Attempt, Received};
use crate::budget::Budget;
use crate::builder::RegisterError;
use crate::circles::Circles;
use crate::client::{Client, Patience};
use crate::current;
use crate::executors::{Executor, Executors};
use crate::memory::Memory;
use crate::quota::Quotas;
use crate::resilience::ladder::Ladder;
use crate::resilience::source::Sources;
use crate::resilience::{self, FailureReport, SourceReport};
use crate::stage::{Stop, admit, approve, budget, circles, find, intervene, judge, replay, run, shape, undo, validate};
use crate::standing::Standing;
use crate::watch::Observers;

/// When to come back, where too many calls are under way.
const BUSY_WAIT_MS: u64 = 1_000;

/// The gate. Cheap to clone; every clone is the same gate.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

/// The same gate for those that it holds itself: it ends without them.
#[derive(Clone)]
pub struct WeakGate(Weak<Inner>);

impl WeakGate {
    /// The gate, as long as it is there.
    pub fn upgrade(&self) -> Option<Gate> {
        self.0.upgrade().map(|inner| Gate { inner })
    }
}

/// What every stage can reach.
pub(crate) struct Inner {
    pub(crate) catalog: Catalog,
    pub(crate) executors: Executors,
    pub(crate) policy: Standing,
    pub(crate) memory: Memory,
    pub(crate) circles: Circles,
    pub(crate) quotas: Quotas,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) sources: Sources,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) store: Store,
    pub(crate) key: InstallKey,
    pub(crate) redactor: Redactor,
    pub(crate) approvals: Option<Arc<dyn ApprovalChannel>>,
    pub(crate) clients_approve: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) env: Arc<BTreeMap<String, String>>,
    pub(crate) environment: Option<String>,
    pub(crate) envelope: bool,
    pub(crate) summaries: Option<Arc<dyn Summarize>>,
    pub(crate) repair: Option<RepairLevel>,
    pub(crate) sandbox: &'static str,
    pub(crate) observers: Observers,
    pub(crate) language: Language,
    changes: Changes,
    supply: OnceLock<Weak<dyn Supply>>,
    tasks: TaskTracker,
    /// Fires when every call under way must end.
    ending: CancellationToken,
    /// Calls of tools that are kept from their callers.
    pub(crate) forbidden: AtomicU64,
}

impl Gate {
    pub(crate) fn from_builder(builder: crate::GateBuilder) -> Self {
        let inner = Inner {
            catalog: Catalog::new(),
            executors: Executors::default(),
            policy: Standing::new(builder.policy),
            memory: Memory::default(),
            circles: Circles::default(),
            quotas: builder.quotas,
            budgets: builder.budgets,
            sources: Sources::new(builder.resilience),
            ledger: builder.ledger,
            store: builder.store,
            key: builder.key,
            redactor: builder.redactor,
            approvals: builder.approvals,
            clients_approve: builder.clients_approve,
            clock: builder.clock,
            workspace: Arc::new(builder.workspace),
            env: Arc::new(builder.env),
            environment: builder.environment,
            envelope: builder.envelope,
            summaries: builder.summaries,
            repair: builder.repair,
            sandbox: builder.sandbox,
            observers: Observers::default(),
            language: builder.language,
            changes: Changes::default(),
            supply: OnceLock::new(),
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
            forbidden: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Adds a tool: its definition to the catalog, its executor to the private map.
    ///
    /// # Errors
    /// When the definition is not fit to be registered.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let definition = presented(&self.inner.redactor, tool.definition());
        if definition.is_too_lenient() {
            return Err(RegisterError::TooLenient(definition.risk));
        }
        resilience::ladder_rules(&definition.on_error)?;
        let (source, (by_source, by_house)) =
            (self.inner.sources.of(&definition), self.inner.sources.on_error(&definition));
        let ladder = Ladder::new(&definition, by_source, by_house);
        let plan = Plan::read(&definition.output)?;
        self.inner.policy.during(|policy| {
            if let Some(circle) = self.inner.executors.circle(&definition.name, &ladder) {
                return Err(RegisterError::Circle(circle));
            }
            let entry = self.inner.catalog.register(definition)?;
            if let Err(error) = policy.compile(&entry.definition) {
                self.inner.catalog.remove(&entry.definition.name);
                return Err(error.into());
            }
            self.inner.executors.insert(Executor::new(entry, tool, plan, source, ladder));
            Ok(())
        })?;
        self.inner.changes.lists_changed();
        Ok(())
    }

    /// Takes a tool out. False when there was none of this name. Calls under way end as they would.
    pub fn unregister(&self, name: &str) -> bool {
        self.inner.executors.remove(name);
        let was_there = self.inner.catalog.remove(name);
        if was_there {
            self.inner.changes.lists_changed();
        }
        was_there
    }

    /// Asks `supply` for tools that are not there yet, for as long as somebody else keeps it. Only the first one counts.
    pub fn supplied_by(&self, supply: Weak<dyn Supply>) {
        // A second one is a mistake of whoever wires the house, and changes nothing.
        let _ = self.inner.supply.set(supply);
    }

    /// Tells `observer` of every call that ends from now on. False when there are too many observers already.
    pub fn watched_by(&self, observer: Arc<dyn Observer>) -> bool {
        self.inner.observers.add(observer)
    }

    /// For what the gate itself holds.
    pub fn downgrade(&self) -> WeakGate {
        WeakGate(Arc::downgrade(&self.inner))
    }

    /// What changes here, to be told by those who know of it and followed by those who may.
    pub fn changes(&self) -> &Changes {
        &self.inner.changes
    }

    /// The directory of definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.inner.catalog
    }

    /// What happens when the tool of this name fails.
    pub fn failures(&self, name: &str) -> Option<FailureReport> {
        let executor = self.inner.executors.get(name)?;
        Some(FailureReport {
            is_repeatable: executor.entry.definition.may_happen_twice(),
            ladder: resilience::rungs(&executor.ladder),
            source: executor.source.reported(&*self.inner.clock),
        })
    }

    /// Every source that tools ask, and what happened there since the start.
    pub fn sources(&self) -> Vec<SourceReport> {
        self.inner.sources.report(self.inner.clock.monotonic())
    }

    /// How many calls were for tools that are kept from their callers, since the start. Only the operator may learn of it.
    pub fn forbidden_calls(&self) -> u64 {
        self.inner.forbidden.load(Ordering::Relaxed)
    }

    /// The caller's session is over, and its name never comes back: what was remembered for it is given up.
    pub fn forget_session(&self, caller: &Caller) {
        // Calls without a session share what is remembered of their subject.
        if caller.session.is_some() {
            self.inner.memory.forget(caller);
            self.inner.circles.forget(caller);
        }
    }

    /// Who may do what, now.
    pub fn policy(&self) -> Arc<Policy> {
        self.inner.policy.now()
    }

    /// Puts another policy in the place of the one of now, as a whole: every later decision is made by it, and its hash
    /// stands in their records.
    ///
    /// # Errors
    /// When it cannot read what a registered tool says of its own arguments. The policy of now then stays.
    pub fn replace_policy(&self, policy: Policy) -> Result<(), PolicyError> {
        let tools = || self.inner.catalog.all().iter().map(|entry| Arc::clone(&entry.definition)).collect();
        self.inner.policy.replace(policy, tools)?;
        self.inner.changes.lists_changed();
        Ok(())
    }

    /// [`Door::call`](tollgate_types::Door::call), which `cancellation` ends too; the outcome then says how far it came.
    pub fn call_until(
        &self,
        caller: &Caller,
        call: Call,
        cancellation: CancellationToken,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        self.enter(caller, call, cancellation, Way::default())
    }

    /// The same for a call that came another way.
    pub(crate) fn enter(
        &self,
        caller: &Caller,
        mut call: Call,
        cancellation: CancellationToken,
        way: Way,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        // Dropping this future cancels; the task goes on to the record.
        let guard = cancellation.clone().drop_guard();
        let (gate, caller) = (self.clone(), Arc::new(caller.clone()));
        let name = call.name.clone();
        let call_id = call.id.clone();
        // Each counts itself before it looks, so that of those who come at once never too many go on.
        let place = self.inner.tasks.token();
        if self.inner.tasks.len() > CALLS_UNDER_WAY_MAX {
            call.refusal.get_or_insert_with(busy);
        }
        // Boxed: a trip is large, and would be moved with every step on its way to the runtime.
        let task = self.inner.tasks.spawn(Box::pin(async move {
            let ending = &gate.inner.ending;
            let mut passing = pin!(gate.pass(caller, call, cancellation.clone(), way));
            tokio::select! {
                biased;
                outcome = &mut passing => return outcome,
                () = ending.cancelled() => cancellation.cancel(),
            }
            passing.await
        }));
        drop(place);
        async move {
            let outcome = task.await.unwrap_or_else(|_| Attempt::unheard(call_id, name));
            guard.disarm();
            outcome
        }
    }

    /// Waits until every call under way is closed. Calls that come later are still served.
    pub async fn drain(&self) {
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.tasks.reopen();
    }

    /// The same for the end of the house: what is still under way after `patience` is cancelled, and so is whatever comes
    /// then. Returns how many calls that were.
    pub async fn drain_within(&self, patience: Duration) -> usize {
        if tokio::time::timeout(patience, self.drain()).await.is_ok() {
            return 0;
        }
        let left = self.inner.tasks.len();
        self.inner.ending.cancel();
        self.drain().await;
        left
    }
}

/// A definition as callers may see it. What is built in is known to hold no secret.
fn presented(redactor: &Redactor, mut definition: ToolDefinition) -> ToolDefinition {
    if definition.source.kind == SourceKind::Builtin {
        return definition;
    }
    let texts = [&mut definition.title, &mut definition.when, &mut definition.when_not];
    for text in texts.into_iter().flatten().chain([&mut definition.description]) {
        if let Cow::Owned(clean) = redactor.result(text) {
            *text = clean;
        }
    }
    let schemas = std::iter::once(&mut definition.input_schema).chain(&mut definition.output_schema);
    schemas.chain(&mut definition.examples).for_each(|value| redactor.result_value(value));
    definition.listing = definition.listing.and_then(|raw| presented_raw(redactor, raw));
    definition
}

/// What a server said, where it holds no secret; else the definition says all that is said.
fn presented_raw(redactor: &Redactor, raw: Raw) -> Option<Raw> {
    let value: Value = serde_json::from_str(raw.get()).ok()?;
    let mut clean = value.clone();
    redactor.result_value(&mut clean);
    (clean == value).then_some(raw)
}

impl Inner {
    pub(crate) fn supply(&self) -> Option<Arc<dyn Supply>> {
        self.supply.get().and_then(Weak::upgrade)
    }

    /// What a caller is spoken to in.
    pub(crate) fn language_for(&self, caller: &Caller) -> Language {
        self.policy.now().language(&caller.role).unwrap_or(self.language)
    }
}

impl Gate {
    /// Takes one call from request to recorded outcome. Every exit passes `close`.
    async fn pass(&self, caller: Arc<Caller>, call: Call, cancellation: CancellationToken, way: Way) -> Outcome {
        let gate = &*self.inner;
        let began = gate.clock.monotonic();
        // As they stand: what may be mended in them is for `validate`, which knows the tool.
        let exact = repair::arguments(&call.arguments, RepairLevel::Off);
        let received = match &exact {
            Ok(exact) => Received::Value(&exact.value),
            Err(_) => Received::Text(&call.arguments),
        };
        let attempt = match Attempt::open(gate, caller, &call, began, received).await {
            Ok(attempt) => attempt,
            Err(error) => return Attempt::unopened(&call, &error),
        };
        attempt.repaired(call.repairs.iter().cloned());
        let (Way { depth, undoes }, patience) = (&way, &Arc::new(Patience::default()));
        let id = attempt.id.clone();
        current::within(&id, async {
            let undoes = undoes.as_ref();
            let (call, cancellation, depth) = (&call, &cancellation, *depth);
            let trip = Trip { gate: self, attempt: &attempt, call, patience, cancellation, depth, undoes };
            let end = match AssertUnwindSafe(stages(trip, exact)).catch_unwind().await {
                Ok(Ok(result)) => End::Done(result),
                Ok(Err(stop)) => stop.into_end(),
                Err(_panic) => panicked(&attempt),
            };
            attempt.close(gate, end).await
        })
        .await
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }
}

/// How a call came in.
#[derive(Default)]
pub(crate) struct Way {
    /// How many calls of tools are above it.
    pub(crate) depth: u32,
    /// The attempt that it takes back. No door says so: only [`Gate::undo`].
    pub(crate) undoes: Option<AttemptId>,
}

/// What every stage knows of its call.
#[derive(Clone, Copy)]
pub(crate) struct Trip<'a> {
    pub(crate) gate: &'a Gate,
    pub(crate) attempt: &'a Attempt,
    pub(crate) call: &'a Call,
    /// Whether somebody waits for the asker's client.
    pub(crate) patience: &'a Arc<Patience>,
    pub(crate) cancellation: &'a CancellationToken,
    /// How many calls of tools are above this one.
    pub(crate) depth: u32,
    /// The attempt that this one takes back.
    pub(crate) undoes: Option<&'a AttemptId>,
}

impl Trip<'_> {
    /// The asker's client, as what runs for the call may ask it.
    pub(crate) fn peer(self) -> Option<Arc<dyn Peer>> {
        self.call.peer.as_ref().map(|peer| Client::of(peer, self))
    }

    fn enters(self, stage: Stage) {
        self.attempt.enters(self.gate.inner(), stage);
    }
}

/// The stages, in order. Each takes what only the one before can make.
async fn stages(
    trip: Trip<'_>,
    exact: Result<repair::Parsed, repair::JsonFault>,
) -> Result<tollgate_types::CallResult, Stop> {
    if let Some(refusal) = &trip.call.refusal {
        if refusal.error == Code::UnknownTool && trip.gate.inner.catalog.has(&trip.call.name) {
            admit::alert(trip);
        }
        return Err(Stop::Error(refusal.clone())); // the surface's own no: only recorded
    }
    trip.enters(Stage::Find);
    let found = find::find(trip).await?; // a name means one tool or none
    trip.enters(Stage::Admit);
    let admitted = admit::admit(trip, found)?; // what may not be listed does not exist for this caller
    admit::take_turn(trip, &admitted).await?; // how often, before anything costs more than a count
    trip.enters(Stage::Validate);
    let valid = validate::validate(trip, admitted, exact)?; // policy, approval and tool see one value
    trip.enters(Stage::Judge);
    let judged = match judge::judge(trip, valid) {
        Err(Stop::Denied(denied)) => return intervene::escalate(trip, *denied).await,
        judged => judged?, // by the policy of now
    };
    if let Some(given) = intervene::recall(trip, &judged).await? {
        return Ok(given); // what a human found out for this call is not asked of the tool again
    }
    trip.enters(Stage::Approve);
    circles::look(trip, &judged)?; // nobody is asked for what brought the same so often
    replay::recall(trip, &judged).await?; // what was answered under this key needs no second yes
    budget::look(trip, &judged).await?; // no human is asked about what cannot be paid
    let cleared = approve::approve(trip, judged).await?; // a human, where the policy asks for one
    trip.enters(Stage::Run);
    let ran = run::run(trip, cleared).await?; // recorded as started before it starts
    undo::note(trip, &ran).await; // while the whole of its result is at hand
    trip.enters(Stage::Shape);
    shape::shape(trip, ran).await // what the model sees; the whole is kept
}

fn busy() -> ErrorObject {
    let mut error = Text::Busy.error(&[("count", &CALLS_UNDER_WAY_MAX), ("ms", &BUSY_WAIT_MS)]);
    error.retry_after_ms = Some(BUSY_WAIT_MS);
    error
}

fn panicked(attempt: &Attempt) -> End {
    let is_read = attempt.definition().is_none_or(|definition| definition.risk == Risk::Read);
    if !attempt.has_started() || is_read {
        let text = if attempt.has_started() { Text::ToolPanicked } else { Text::GatePanicked };
        return End::Failed(text.error(&[]));
    }
    let mut error = Text::ToolPanickedHalfway.error(&[]);
    error.retryable = false;
    End::Failed(error)
}

/// Effects in the order of strictness, for the ledger.
pub(crate) fn is_allowed(effect: Effect) -> bool {
    effect != Effect::Deny
}
