//! What is known of one trip, and its records. It outlives every stage, so that a refused, cancelled or panicking call
//! is closed with all that was learned of it.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tollgate_catalog::Entry as CatalogEntry;
use tollgate_ledger::{Abridged, DecisionRef, Durability, Entry, Event, LedgerError, ToolRef, abridge};
use tollgate_policy::Decision;
use tollgate_store::Approval;
use tollgate_types::{
    ApprovalId, AttemptId, Call, CallId, CallKind, Caller, Code, Digest, End, ErrorObject, Outcome, Repair, Risk,
    Stage, Text, ToolDefinition, ToolOutput, TraceContext, Units, uuid_v7,
};

use crate::gate::Inner;
use crate::recorded::{give_back, give_up_undo, outcome_ref, recorded_result, unrecorded};
use crate::stage::store_unavailable;
use crate::stored::{self, Whose};
use crate::watch::{Ended, Watch};

/// One trip through the gate.
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) asked: Timestamp,
    pub(crate) caller: Arc<Caller>,
    pub(crate) call_id: CallId,
    /// The same as records say it: whoever asks may write anything there.
    recorded_id: CallId,
    name: String,
    kind: CallKind,
    parent: Option<AttemptId>,
    began: Duration,
    watch: Option<Box<Watch>>,
    known: Mutex<Known>,
}

/// What the stages have learned so far.
#[derive(Default)]
struct Known {
    tool: Option<Arc<CatalogEntry>>,
    repairs: Vec<Repair>,
    /// The hash of the policy that decided.
    policy: Option<String>,
    approval: Option<ApprovalId>,
    has_keys: bool,
    nothing_happened: bool,
    is_charged: bool,
    came_to: Option<Units>,
    has_decided: bool,
    /// What the call is called where it may go in circles.
    circle: Option<u64>,
    has_started: bool,
    retries: u32,
    queued: Duration,
    /// The attempt that was made instead.
    fallback: Option<AttemptId>,
    /// It may have changed something.
    fallback_acted: bool,
    replayed: Option<AttemptId>,
    /// How it failed, where a human is asked for the result.
    gave_up: Option<ErrorObject>,
    /// Who gave the result.
    given_by: Option<String>,
    /// The attempt that this one takes back, once it has taken that upon itself.
    undoes: Option<AttemptId>,
    recorded_code: Option<Code>,
    recorded_result: Option<Abridged>,
    /// What the ledger says beside the result.
    remark: Option<String>,
    /// Records that wait for the next write, to save a turn at the ledger.
    pending: Vec<Entry>,
}

impl Known {
    /// Whether the call can be made again as if it had not been made.
    fn came_to_nothing(&self, end: &End) -> bool {
        let definition = self.tool.as_ref().map(|tool| &tool.definition);
        !self.fallback_acted
            && (!self.has_started
                || self.nothing_happened
                || definition.is_some_and(|definition| stored::may_be_made_anew(definition, end)))
    }

    /// What people are told of the end.
    fn note(&self) -> Option<String> {
        let replayed = self.replayed.as_ref().map(|first| format!("the stored answer of attempt {first}"));
        let given = || self.given_by.as_ref().map(|by| format!("the result was given by {by}"));
        let fallback = || self.fallback.as_ref().map(|other| format!("attempt {other} was made instead"));
        replayed
            .or_else(given)
            .or_else(fallback)
            .or_else(|| self.undoes.as_ref().map(|first| format!("the undo of attempt {first}")))
            .or_else(|| self.remark.clone())
    }
}

impl Attempt {
    /// Writes `received`, before anything can fail.
    pub(crate) async fn open(
        gate: &Inner,
        caller: Arc<Caller>,
        call: &Call,
        began: Duration,
        arguments: Received<'_>,
    ) -> Result<Self, LedgerError> {
        let asked = gate.clock.now();
        let id = AttemptId::new(uuid_v7(asked));
        let call_id = if call.id.as_str().is_empty() { CallId::new(id.as_str()) } else { call.id.clone() };
        let recorded_id = match gate.redactor.text(call_id.as_str()) {
            Cow::Borrowed(_) => call_id.clone(),
            Cow::Owned(clean) => CallId::new(clean),
        };
        let attempt = Self {
            watch: Watch::begin(gate, &id, call, began),
            id,
            asked,
            caller,
            call_id,
            recorded_id,
            name: call.name.clone(),
            kind: call.kind,
            parent: call.parent.clone(),
            began,
            known: Mutex::default(),
        };
        let mut entry = attempt.entry(gate, Event::Received);
        entry.key = call.idempotency_key.as_deref().map(|key| gate.redactor.text(key).into_owned());
        entry.arguments = Some(match arguments {
            Received::Value(value) => {
                let mut value = value.clone();
                gate.redactor.value(&mut value);
                abridge(&value)
            }
            Received::Text(text) => abridge(&Value::from(gate.redactor.text(text))),
        });
        if let Some(watch) = &attempt.watch {
            watch.asked(entry.arguments.as_ref());
        }
        gate.ledger.append(vec![entry], Durability::Batched).await?;
        Ok(attempt)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record of this attempt with everything that each of its records says.
    fn entry(&self, gate: &Inner, event: Event) -> Entry {
        let known = self.known();
        let mut entry = Entry::new(event, &self.id, &self.recorded_id);
        entry.parent = self.parent.clone();
        entry.caller = Some(Arc::clone(&self.caller));
        entry.kind = Some(self.kind);
        entry.sandbox = Some(gate.sandbox);
        entry.policy = Some(known.policy.clone().unwrap_or_else(|| gate.policy.now().hash().to_owned()));
        entry.approval = known.approval.clone();
        match &known.tool {
            None => {
                // Whatever the asker wrote there.
                let name = gate.redactor.text(&self.name).into_owned();
                entry.tool = Some(ToolRef { name, pin: None, source: None });
            }
            Some(tool) => {
                let definition = &tool.definition;
                entry.tool = Some(ToolRef {
                    name: definition.name.clone(),
                    pin: Some(tool.pin.clone()),
                    source: Some(definition.source.kind.as_str()),
                });
                entry.risk = Some(definition.risk);
                entry.permission = Some(definition.permission);
            }
        }
        entry
    }

    /// A stage begins, and with it the one before is over.
    pub(crate) fn enters(&self, gate: &Inner, stage: Stage) {
        if let Some(watch) = &self.watch {
            watch.enters(stage, gate.clock.monotonic());
        }
    }

    /// The place in a trace that is told to whom the tool asks, where somebody makes traces.
    pub(crate) fn onward(&self) -> Option<TraceContext> {
        self.watch.as_ref()?.onward()
    }

    /// The tool that was found.
    pub(crate) fn found(&self, tool: &Arc<CatalogEntry>) {
        self.known().tool = Some(Arc::clone(tool));
    }

    /// What the ledger says instead of the code that the caller is told.
    pub(crate) fn record_as(&self, code: Code) {
        self.known().recorded_code = Some(code);
    }

    /// What the ledger shows as the result instead of what the caller is told.
    pub(crate) fn record_result(&self, gate: &Inner, output: &ToolOutput) {
        let mut value = output.structured.clone().or_else(|| serde_json::to_value(&output.content).ok());
        if let Some(value) = &mut value {
            gate.redactor.value(value);
        }
        self.known().recorded_result = value.as_ref().map(abridge);
    }

    /// What the ledger says beside the result.
    pub(crate) fn noted(&self, note: String) {
        self.known().remark = Some(note);
    }

    /// What was mended in the arguments.
    pub(crate) fn repaired(&self, repairs: impl IntoIterator<Item = Repair>) {
        self.known().repairs.extend(repairs);
    }

    /// The decision; its record goes out with the next one.
    pub(crate) fn decided(&self, gate: &Inner, policy_hash: &str, decision: &Decision, digest: Option<&Digest>) {
        let mut entry = self.entry(gate, Event::Decided);
        entry.policy = Some(policy_hash.to_owned());
        entry.decision = Some(DecisionRef {
            effect: decision.effect.as_str(),
            rule: decision.rule.clone(),
            // It may quote what the asker wrote.
            reason: gate.redactor.text(&decision.reason).into_owned(),
        });
        entry.args_hmac = digest.cloned();
        if let Some(watch) = &self.watch {
            watch.decided(decision);
        }
        let mut known = self.known();
        entry.repairs.clone_from(&known.repairs);
        known.has_decided = true;
        known.policy = Some(policy_hash.to_owned());
        known.pending.push(entry);
    }

    /// The approval that this attempt waits for or runs under.
    pub(crate) fn under(&self, approval: &ApprovalId) {
        self.known().approval = Some(approval.clone());
    }

    /// This attempt holds its idempotency keys.
    pub(crate) fn holds_keys(&self) {
        self.known().has_keys = true;
    }

    /// What was started says that it changed nothing.
    pub(crate) fn nothing_happened(&self) {
        self.known().nothing_happened = true;
    }

    /// Budgets may hold something for this attempt.
    pub(crate) fn spends(&self) {
        self.known().is_charged = true;
    }

    /// What it did cost, where that is known.
    pub(crate) fn came_to(&self, units: Option<Units>) {
        self.known().came_to = units;
    }

    /// The answer is the stored one of an earlier attempt.
    pub(crate) fn replays(&self, first: AttemptId) {
        self.known().replayed = Some(first);
    }

    /// The call counts among those that may not end in the same way for ever.
    pub(crate) fn repeats(&self, call: u64) {
        self.known().circle = Some(call);
    }

    /// This attempt takes back that one.
    pub(crate) fn undoes(&self, first: &AttemptId) {
        self.known().undoes = Some(first.clone());
    }

    /// It failed so, and a human is asked for the result.
    pub(crate) fn gave_up(&self, failure: ErrorObject) {
        self.known().gave_up = Some(failure);
    }

    /// A human gave the result.
    pub(crate) fn given_by(&self, by: &str) {
        self.known().given_by = Some(by.to_owned());
    }

    /// How often it was made again, and the attempt that was made instead.
    pub(crate) fn tried(&self) -> (u32, Option<AttemptId>) {
        let known = self.known();
        (known.retries, known.fallback.clone())
    }

    /// One more try.
    pub(crate) fn retried(&self) {
        self.known().retries += 1;
    }

    /// How long it waited for its turn.
    pub(crate) fn queued(&self, wait: Duration) {
        self.known().queued = wait;
    }

    /// Another tool was called instead, by this attempt, and may have changed something.
    pub(crate) fn fell_back(&self, other: Option<AttemptId>, has_acted: bool) {
        let mut known = self.known();
        known.fallback = other;
        known.fallback_acted = has_acted;
    }

    /// A human's word on an approval of any attempt; its record goes out with the next write.
    pub(crate) fn answered(&self, gate: &Inner, event: Event, approval: &Approval, reason: Option<String>) {
        let mut entry = self.entry(gate, event);
        entry.attempt = approval.attempt.clone();
        entry.call_id = approval.call_id.clone();
        entry.approval = Some(approval.id.clone());
        entry.note = reason;
        self.known().pending.push(entry);
    }

    /// Writes what is pending, on the disk when this returns.
    pub(crate) async fn flush(&self, gate: &Inner) -> Result<(), LedgerError> {
        let pending = self.known().pending.clone();
        if pending.is_empty() {
            return Ok(());
        }
        gate.ledger.append(pending, Durability::Strict).await?;
        self.known().pending.clear();
        Ok(())
    }

    /// Writes `started`, as durably as the tool's risk and the operator ask for; at once where it is paid for, or a power cut would give back
    /// what was spent.
    pub(crate) async fn started(&self, gate: &Inner, risk: Risk) -> Result<(), LedgerError> {
        let entry = self.entry(gate, Event::Started);
        let mut entries = self.known().pending.clone();
        entries.push(entry);
        let durability = if self.known().is_charged { Durability::Strict } else { durability(gate, risk) };
        gate.ledger.append(entries, durability).await?;
        let mut known = self.known();
        known.pending.clear();
        known.has_started = true;
        Ok(())
    }

    /// Writes the end and lets the outcome go. Every exit passes here.
    pub(crate) async fn close(self, gate: &Inner, end: End) -> Outcome {
        self.enters(gate, Stage::Close);
        let duration_ms = millis(gate.clock.monotonic().saturating_sub(self.began));
        let event = if matches!(end, End::Waiting(..)) { Event::Waiting } else { Event::Finished };
        let mut entry = self.entry(gate, event);
        let mut known = std::mem::take(&mut *self.known());
        let risk = known.tool.as_ref().map_or(Risk::Read, |tool| tool.definition.risk);
        let mut end = self.settled(gate, &known, end).await;
        entry.duration_ms = Some(duration_ms);
        if event == Event::Finished {
            entry.outcome = Some(outcome_ref(&end, known.recorded_code));
            entry.result = known.recorded_result.take().or_else(|| recorded_result(gate, &end));
            entry.note = known.note();
            entry.queued_ms = Some(millis(known.queued)).filter(|ms| *ms > 0);
            entry.retries = (known.retries > 0).then_some(known.retries);
            if !known.has_decided {
                entry.repairs.clone_from(&known.repairs);
            }
        }
        if let Some(watch) = &self.watch {
            watch.answered(entry.result.as_ref());
        }
        let durability = match event {
            Event::Waiting => Durability::Strict,
            _ if known.has_started => durability(gate, risk),
            _ => Durability::Batched,
        };
        known.pending.push(entry);
        if let Err(error) = gate.ledger.append(known.pending, durability).await {
            end = unrecorded(&error, known.has_started || known.fallback_acted, risk);
            end.put_in(gate.language_for(&self.caller));
        } else if known.is_charged && known.has_started {
            // What stays noted as held is spent, and nobody's to give back.
            let _ = gate.store.keep_spent(self.id.clone(), known.came_to).await;
        }
        if let Some(call) = known.circle {
            gate.circles.ended(&self.caller, call, risk, &end, gate.clock.monotonic());
        }
        let definition = known.tool.map(|tool| Arc::clone(&tool.definition));
        let outcome = Outcome {
            call_id: self.call_id,
            attempt: Some(self.id),
            tool: definition.as_ref().map_or(self.name, |definition| definition.name.clone()),
            duration_ms,
            end,
            repairs: known.repairs,
            replayed: known.replayed.is_some(),
        };
        let code = known.recorded_code.or_else(|| outcome.code());
        let (caller, approval, retries) = (&self.caller, known.approval, known.retries);
        let (call_id, parent, kind) = (self.recorded_id, self.parent, self.kind);
        Ended { outcome: &outcome, call_id, parent, caller, kind, definition, approval, code, retries }
            .tell(gate, self.watch);
        outcome
    }

    /// Leaves the store as this end wants it: what is kept for those who ask again, and what is given back.
    async fn settled(&self, gate: &Inner, known: &Known, mut end: End) -> End {
        end.put_in(gate.language_for(&self.caller));
        let mut end = self.keep_for_replay(gate, known, end).await;
        if known.is_charged && !known.has_started {
            end = give_back(gate, &self.id, end).await;
        }
        if known.undoes.is_some() && known.came_to_nothing(&end) {
            give_up_undo(gate, &self.id).await;
        }
        end
    }

    /// Stores the end under the attempt's keys. What cannot be stored is not released: asking again would do it twice.
    async fn keep_for_replay(&self, gate: &Inner, known: &Known, end: End) -> End {
        if !known.has_keys {
            return end;
        }
        let definition = known.tool.as_ref().map(|tool| &tool.definition);
        // A question to a human is no answer: what stands under the key until there is one is how the call failed.
        let failure = known.gave_up.clone().map(End::from_error);
        let standing = failure.as_ref().unwrap_or(&end);
        let kept = if known.came_to_nothing(standing) {
            // Left under the key, this could only ever refuse; the next call says how things are then.
            gate.store.release(vec![self.id.clone()]).await
        } else {
            let tool = definition.map_or(self.name.as_str(), |definition| &definition.name);
            stored::keep(gate, Whose { caller: &self.caller, tool, attempt: &self.id }, standing).await
        };
        match kept {
            Ok(()) => end,
            Err(error) if known.has_started => {
                tracing::error!("the result of attempt {} could not be stored: {error}", self.id);
                End::Unknown(Text::ResultUnstored.error(&[]))
            }
            Err(error) => store_unavailable(&error).into_end(),
        }
    }

    /// The outcome of a call whose `received` could not be written.
    pub(crate) fn unopened(call: &Call, error: &LedgerError) -> Outcome {
        Outcome {
            call_id: call.id.clone(),
            attempt: None,
            tool: call.name.clone(),
            duration_ms: 0,
            end: unrecorded(error, false, Risk::Read),
            repairs: Vec::new(),
            replayed: false,
        }
    }

    /// The outcome of a call whose task was ended from outside, as when the whole program stops.
    pub(crate) fn unheard(call_id: CallId, tool: String) -> Outcome {
        let error = Text::Stopped.error(&[]);
        Outcome {
            call_id,
            attempt: None,
            tool,
            duration_ms: 0,
            end: End::Unknown(error),
            repairs: Vec::new(),
            replayed: false,
        }
    }

    /// Whether the tool was started.
    pub(crate) fn has_started(&self) -> bool {
        self.known().has_started
    }

    /// The definition that was found.
    pub(crate) fn definition(&self) -> Option<Arc<ToolDefinition>> {
        self.known().tool.as_ref().map(|tool| Arc::clone(&tool.definition))
    }
}

/// The arguments as `received` shows them.
pub(crate) enum Received<'a> {
    /// They parsed as they stand.
    Value(&'a Value),
    /// They did not.
    Text(&'a str),
}

/// What may change something is on the disk before it goes on; what only reads, as the operator said.
fn durability(gate: &Inner, risk: Risk) -> Durability {
    if risk == Risk::Read { gate.ledger.reads() } else { Durability::Strict }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
