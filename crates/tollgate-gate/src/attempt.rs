//! What is known of one trip, and its records. It outlives every stage, so that a refused, cancelled or panicking call
//! is closed with all that was learned of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tollgate_catalog::Entry as CatalogEntry;
use tollgate_ledger::{Abridged, DecisionRef, Durability, Entry, Event, LedgerError, OutcomeRef, ToolRef, abridge};
use tollgate_policy::Decision;
use tollgate_store::{Approval, ReservationKey};
use tollgate_types::{
    ApprovalId, AttemptId, Call, CallId, CallKind, Caller, Code, Digest, End, ErrorObject, Outcome, Repair, Risk,
    ToolDefinition, uuid_v7,
};

use crate::gate::Inner;

/// One trip through the gate.
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) caller: Arc<Caller>,
    pub(crate) call_id: CallId,
    name: String,
    kind: CallKind,
    parent: Option<AttemptId>,
    began: Duration,
    known: Mutex<Known>,
}

/// What the stages have learned so far.
#[derive(Default)]
struct Known {
    tool: Option<Arc<CatalogEntry>>,
    repairs: Vec<Repair>,
    approval: Option<ApprovalId>,
    reservation: Option<ReservationKey>,
    has_started: bool,
    retries: u32,
    replayed: bool,
    recorded_code: Option<Code>,
    /// Records that wait for the next write, to save a turn at the ledger.
    pending: Vec<Entry>,
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
        let id = AttemptId::new(uuid_v7(gate.clock.now()));
        let call_id = if call.id.as_str().is_empty() { CallId::new(id.as_str()) } else { call.id.clone() };
        let attempt = Self {
            id,
            caller,
            call_id,
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
        gate.ledger.append(vec![entry], Durability::Batched).await?;
        Ok(attempt)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record of this attempt with everything that each of its records says.
    fn entry(&self, gate: &Inner, event: Event) -> Entry {
        let known = self.known();
        let mut entry = Entry::new(event, &self.id, &self.call_id);
        entry.parent = self.parent.clone();
        entry.caller = Some(Arc::clone(&self.caller));
        entry.kind = Some(self.kind);
        entry.sandbox = Some(gate.sandbox);
        entry.approval = known.approval.clone();
        match &known.tool {
            None => entry.tool = Some(ToolRef { name: self.name.clone(), pin: None, source: None }),
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

    /// The tool that was found.
    pub(crate) fn found(&self, tool: &Arc<CatalogEntry>) {
        self.known().tool = Some(Arc::clone(tool));
    }

    /// What the ledger says instead of the code that the caller is told.
    pub(crate) fn record_as(&self, code: Code) {
        self.known().recorded_code = Some(code);
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
            reason: decision.reason.clone(),
        });
        entry.args_hmac = digest.cloned();
        let mut known = self.known();
        entry.repairs.clone_from(&known.repairs);
        known.pending.push(entry);
    }

    /// The approval that this attempt waits for or runs under.
    pub(crate) fn under(&self, approval: &ApprovalId) {
        self.known().approval = Some(approval.clone());
    }

    /// The key that this attempt holds.
    pub(crate) fn holds(&self, reservation: ReservationKey) {
        self.known().reservation = Some(reservation);
    }

    /// The answer is the stored one of an earlier call.
    pub(crate) fn replays(&self) {
        self.known().replayed = true;
    }

    /// One more try.
    pub(crate) fn retried(&self) {
        self.known().retries += 1;
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
        let pending = std::mem::take(&mut self.known().pending);
        if pending.is_empty() {
            return Ok(());
        }
        gate.ledger.append(pending, Durability::Strict).await.map(|_| ())
    }

    /// Writes `started`, as durably as the tool's risk asks for.
    pub(crate) async fn started(&self, gate: &Inner, risk: Risk) -> Result<(), LedgerError> {
        let entry = self.entry(gate, Event::Started);
        let mut entries = std::mem::take(&mut self.known().pending);
        entries.push(entry);
        gate.ledger.append(entries, durability(risk)).await?;
        self.known().has_started = true;
        Ok(())
    }

    /// Writes the end and lets the outcome go. Every exit passes here.
    pub(crate) async fn close(self, gate: &Inner, end: End) -> Outcome {
        let duration_ms = millis(gate.clock.monotonic().saturating_sub(self.began));
        let event = if matches!(end, End::Waiting(..)) { Event::Waiting } else { Event::Finished };
        let mut entry = self.entry(gate, event);
        let (entries, known) = {
            let mut known = std::mem::take(&mut *self.known());
            let mut entries = std::mem::take(&mut known.pending);
            if event == Event::Finished {
                entry.outcome = Some(outcome_ref(&end, known.recorded_code));
                entry.result = recorded_result(gate, &end);
                entry.retries = (known.retries > 0).then_some(known.retries);
            }
            entry.duration_ms = Some(duration_ms);
            entries.push(entry);
            (entries, known)
        };
        let risk = known.tool.as_ref().map_or(Risk::Read, |tool| tool.definition.risk);
        let durability = match event {
            Event::Waiting => Durability::Strict,
            _ if known.has_started => durability(risk),
            _ => Durability::Batched,
        };
        let mut end = end;
        if let Some(error) = keep_for_replay(gate, known.reservation, known.has_started, &self.id, &end).await {
            end = error;
        }
        if let Err(error) = gate.ledger.append(entries, durability).await {
            end = unrecorded(&error, known.has_started && risk > Risk::Read);
        }
        let tool = known.tool.map_or(self.name, |tool| tool.definition.name.clone());
        Outcome {
            call_id: self.call_id,
            attempt: Some(self.id),
            tool,
            duration_ms,
            end,
            repairs: known.repairs,
            replayed: known.replayed,
        }
    }

    /// The outcome of a call whose `received` could not be written.
    pub(crate) fn unopened(call: &Call, error: &LedgerError) -> Outcome {
        Outcome {
            call_id: call.id.clone(),
            attempt: None,
            tool: call.name.clone(),
            duration_ms: 0,
            end: unrecorded(error, false),
            repairs: Vec::new(),
            replayed: false,
        }
    }

    /// The outcome of a call whose task was ended from outside, as when the whole program stops.
    pub(crate) fn unheard(call: &Call) -> Outcome {
        let error = ErrorObject::new(Code::OutcomeUnknown, "the gate was stopped while the call was under way")
            .with_hint("the ledger says how far it came: `tollgate audit tail`");
        Outcome {
            call_id: call.id.clone(),
            attempt: None,
            tool: call.name.clone(),
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

fn durability(risk: Risk) -> Durability {
    if risk == Risk::Read { Durability::Batched } else { Durability::Strict }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn outcome_ref(end: &End, recorded_code: Option<Code>) -> OutcomeRef {
    let error = end.error();
    OutcomeRef {
        status: end.status(),
        code: recorded_code.or_else(|| error.map(|error| error.error)),
        tool_code: error.and_then(|error| error.tool_code.clone()),
        retryable: error.map(|error| error.retryable),
    }
}

fn recorded_result(gate: &Inner, end: &End) -> Option<Abridged> {
    let mut value = match end {
        End::Done(result) => serde_json::to_value(&result.content).ok()?,
        End::Refused(error) | End::Failed(error) | End::Unknown(error) | End::Waiting(_, error) => {
            Value::from(error.message.as_str())
        }
    };
    gate.redactor.value(&mut value);
    Some(abridge(&value))
}

/// Stores the end under its idempotency key. What cannot be stored must not be released: asking again would do it twice.
async fn keep_for_replay(
    gate: &Inner,
    reservation: Option<ReservationKey>,
    has_started: bool,
    attempt: &AttemptId,
    end: &End,
) -> Option<End> {
    let key = reservation?;
    if !has_started {
        // Left under the key, this could only ever refuse; the next call says what the store says now.
        return gate.store.release(vec![attempt.clone()]).await.err().map(|error| {
            End::Failed(ErrorObject::new(Code::AuditUnavailable, format!("nothing was done, and {error}")))
        });
    }
    let stored = crate::stage::replay::encode(end);
    match gate.store.fulfil(key, stored).await {
        Ok(()) => None,
        Err(error) => Some(End::Unknown(
            ErrorObject::new(
                Code::OutcomeUnknown,
                format!("the call ran, but its result could not be stored: {error}"),
            )
            .with_hint("check whether it happened before asking again"),
        )),
    }
}

fn unrecorded(error: &LedgerError, may_have_happened: bool) -> End {
    if may_have_happened {
        let message = format!("the call ran, but its end could not be recorded: {error}");
        return End::Unknown(
            ErrorObject::new(Code::OutcomeUnknown, message)
                .with_hint("check whether it happened, then settle it with `tollgate audit settle`"),
        );
    }
    let message = format!("the record cannot be written, so nothing is done: {error}");
    End::Failed(ErrorObject::new(Code::AuditUnavailable, message).with_hint("run `tollgate audit verify`"))
}
