//! Approve: a human's yes, where the policy asks for one. It fits one caller, pin and argument digest, once.

mod by_client;

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use tollgate_ledger::Event;
use tollgate_policy::Effect;
use tollgate_store::{Answer, Approval, Binding, Claim, Intervention, NewApproval, StoreError, Taken};
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalId, ApprovalQuestion, Text, ToolDefinition, Waiting, WaitingKind, limits,
    uuid_v7, visible,
};

use super::judge::{self, Judged};
use super::validate::Valid;
use super::{Stop, cancelled, ledger_unavailable, store_full, store_unavailable};
use crate::gate::{Inner, Trip};

/// Between two looks whether a human answered.
const LOOK: Duration = Duration::from_millis(limits::TASK_LOOK_MS);

/// A call that may run.
pub(crate) struct Cleared {
    judged: Judged,
    /// The yes that it runs under, where it needs one; used up when it starts.
    yes: Option<Yes>,
}

/// What a human said yes to.
pub(super) enum Yes {
    /// This call.
    Call(ApprovalId),
    /// All calls of this tool for the rest of the session.
    Session(ApprovalId),
}

impl std::ops::Deref for Cleared {
    type Target = Judged;

    fn deref(&self) -> &Judged {
        &self.judged
    }
}

impl Cleared {
    pub(super) fn yes(&self) -> Option<&Yes> {
        self.yes.as_ref()
    }
}

pub(crate) async fn approve(trip: Trip<'_>, judged: Judged) -> Result<Cleared, Stop> {
    if judged.decision().effect == Effect::Allow {
        return Ok(Cleared { judged, yes: None });
    }
    if let Some(grant) = granted(trip, &judged).await? {
        return Ok(Cleared { judged, yes: Some(Yes::Session(grant)) });
    }
    let question = question(trip, &judged);
    let open = match settled(trip, claim(trip, question.clone()).await?)? {
        Standing::Open(open) => *open,
        Standing::Yes(approval) => return Ok(Cleared { judged, yes: Some(Yes::Call(approval)) }),
    };
    let channel = trip.gate.inner().approvals.as_deref();
    let may_ask_client = by_client::may_ask(trip, open.approvers);
    if channel.is_none() && !may_ask_client {
        return Err(waiting(&open));
    }
    // The question is on the disk before a human sees it.
    trip.attempt.flush(trip.gate.inner()).await.map_err(|error| ledger_unavailable(&error))?;
    let shown = shown(trip, &judged, &open);
    let answer = tokio::select! {
        answer = asked(trip, may_ask_client, channel, &shown) => answer,
        () = trip.cancellation.cancelled() => return Err(cancelled("the asker stopped waiting for an approval")),
    };
    let answer = match answer {
        ApprovalAnswer::Approved { by, typed } => Answer { approved: true, by, reason: None, typed },
        ApprovalAnswer::Rejected { by, reason } => Answer { approved: false, by, reason, typed: None },
        ApprovalAnswer::Later => return Err(waiting(&open)),
    };
    decide(trip, &open, answer).await?;
    // Minutes may have passed.
    let judged = judge::again(trip, judged)?;
    let again = NewApproval { id: fresh_id(trip), ..question };
    match settled(trip, claim(trip, again).await?)? {
        Standing::Yes(approval) => Ok(Cleared { judged, yes: Some(Yes::Call(approval)) }),
        Standing::Open(open) => Err(waiting(&open)),
    }
}

/// Returns once a question is answered, or over. Other processes answer too: the store alone knows.
pub(crate) async fn answered(gate: &Inner, approval: &ApprovalId) {
    loop {
        match gate.store.is_open(approval.clone(), gate.clock.now()).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::error!(%error, "whether a human answered is not known for now"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What a human says: the caller's own by their client, where it may be asked, else whoever the channel finds.
async fn asked(
    trip: Trip<'_>,
    may_ask_client: bool,
    channel: Option<&dyn ApprovalChannel>,
    question: &ApprovalQuestion,
) -> ApprovalAnswer {
    if may_ask_client {
        match by_client::ask(trip, question).await {
            ApprovalAnswer::Later => {}
            answer => return answer,
        }
    }
    match channel {
        Some(channel) => channel.ask(question).await,
        None => ApprovalAnswer::Later,
    }
}

/// A yes for the rest of the session. It never stands for a tool that wants more than a plain yes.
async fn granted(trip: Trip<'_>, judged: &Judged) -> Result<Option<ApprovalId>, Stop> {
    let (gate, security) = (trip.gate.inner(), &judged.entry().definition.security);
    let is_plain = security.typed_confirmation.is_none() && security.approvers.is_none_or(|count| count.get() == 1);
    if !is_plain || trip.attempt.caller.session.is_none() {
        return Ok(None);
    }
    let found = gate.store.grant_for(binding(trip, judged), gate.clock.now()).await;
    let grant = found.map_err(|error| store_unavailable(&error))?;
    Ok(grant.map(|grant| {
        trip.attempt.under(&grant.id);
        grant.id
    }))
}

/// What an answer to this call is bound to.
pub(super) fn binding(trip: Trip<'_>, valid: &Valid) -> Binding {
    Binding { caller: (*trip.attempt.caller).clone(), pin: valid.entry().pin.clone(), digest: valid.digest().clone() }
}

async fn claim(trip: Trip<'_>, question: NewApproval) -> Result<Claim, Stop> {
    let gate = trip.gate.inner();
    gate.store.claim(question, gate.clock.now()).await.map_err(|error| match error {
        StoreError::Limit(message) => store_full(message),
        other => store_unavailable(&other),
    })
}

/// How a question stands that nobody said no to.
enum Standing {
    Yes(ApprovalId),
    Open(Box<Approval>),
}

/// A stop when the answer is no, or came too late.
fn settled(trip: Trip<'_>, claim: Claim) -> Result<Standing, Stop> {
    match claim {
        Claim::Approved(approval) => {
            trip.attempt.under(&approval.id);
            Ok(Standing::Yes(approval.id))
        }
        Claim::Pending(approval) | Claim::Asked(approval) => {
            trip.attempt.under(&approval.id);
            Ok(Standing::Open(Box::new(approval)))
        }
        Claim::Rejected(approval) => Err(rejected(trip, &approval)),
        Claim::Expired(approval) => {
            trip.attempt.answered(trip.gate.inner(), Event::Expired, &approval, None);
            let text = if approval.decided_by.is_some() { Text::Unused } else { Text::Unanswered };
            Err(Stop::Error(text.error(&[])))
        }
    }
}

/// A human said no.
pub(super) fn rejected(trip: Trip<'_>, approval: &Approval) -> Stop {
    trip.attempt.under(&approval.id);
    let by = approval.decided_by.as_deref().unwrap_or("the operator");
    Stop::Error(match &approval.decision_reason {
        Some(why) => Text::RejectedWhy.error(&[("by", &by), ("why", why)]),
        None => Text::Rejected.error(&[("by", &by)]),
    })
}

/// Stores and records an answer. When another answer was first, that one counts, and the next look finds it.
async fn decide(trip: Trip<'_>, open: &Approval, answer: Answer) -> Result<(), Stop> {
    let gate = trip.gate.inner();
    let event = if answer.approved { Event::Approved } else { Event::Rejected };
    let decides = match gate.store.answer(open.id.as_str(), answer.clone(), gate.clock.now()).await {
        Ok(Taken::Decides(_)) => true,
        Ok(Taken::OneOf(_)) => false,
        // Another answer was first, or what must be typed was not: the question stands as it does.
        Err(StoreError::Conflict(_) | StoreError::NotTyped { .. }) => return Ok(()),
        Err(error) => return Err(store_unavailable(&error)),
    };
    trip.attempt.answered(gate, event, open, Some(crate::operator::note(open, &answer)));
    trip.attempt.flush(gate).await.map_err(|error| ledger_unavailable(&error))?;
    let now = gate.clock.now();
    let recorded = match decides {
        true => gate.store.answer_recorded(open.id.clone(), answer, now).await,
        false => gate.store.yes_recorded(open.id.clone(), answer.by, now).await,
    };
    match recorded {
        Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
        Err(error) => Err(store_unavailable(&error)),
    }
}

fn fresh_id(trip: Trip<'_>) -> ApprovalId {
    ApprovalId::new(uuid_v7(trip.gate.inner().clock.now()))
}

fn question(trip: Trip<'_>, judged: &Judged) -> NewApproval {
    let definition = &judged.entry().definition;
    let question = question_for(trip, judged, judged.decision().reason.clone(), None);
    NewApproval {
        typed: to_type(definition, &question.arguments),
        approvers: definition.security.approvers.map_or(1, NonZeroU32::get),
        ..question
    }
}

/// A question about this call: for a yes, or for its result.
pub(super) fn question_for(
    trip: Trip<'_>,
    valid: &Valid,
    reason: String,
    intervention: Option<Intervention>,
) -> NewApproval {
    let gate = trip.gate.inner();
    let now = gate.clock.now();
    let definition = &valid.entry().definition;
    let mut arguments = valid.arguments().clone();
    gate.redactor.value(&mut arguments);
    let preview = valid.executor().tool.preview(valid.arguments(), valid.cx());
    NewApproval {
        id: fresh_id(trip),
        binding: binding(trip, valid),
        attempt: trip.attempt.id.clone(),
        call_id: trip.attempt.call_id.clone(),
        tool: definition.name.clone(),
        risk: definition.risk,
        permission: definition.permission,
        preview: preview.map(|preview| gate.redactor.text(&preview).into_owned()),
        reason,
        typed: None,
        approvers: 1,
        arguments,
        expires: now + SignedDuration::from_millis(i64::try_from(limits::APPROVAL_TTL_MS).unwrap_or(i64::MAX)),
        intervention,
    }
}

fn shown(trip: Trip<'_>, judged: &Judged, open: &Approval) -> ApprovalQuestion {
    let definition = &judged.entry().definition;
    ApprovalQuestion {
        id: open.id.clone(),
        caller: (*trip.attempt.caller).clone(),
        tool: definition.name.clone(),
        risk: definition.risk,
        permission: definition.permission,
        arguments: open.arguments.clone(),
        preview: open.preview.clone(),
        reason: open.reason.clone(),
        expires: open.expires,
        typed: open.typed.clone(),
    }
}

/// What the approver must type: a value of the arguments as they are shown, else the tool's name.
fn to_type(definition: &ToolDefinition, shown: &Value) -> Option<String> {
    let pointer = definition.security.typed_confirmation.as_deref()?;
    let value = match shown.pointer(pointer).filter(|_| !pointer.is_empty()) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
        _ => None,
    };
    // What nobody can type, or would have to guess, is no confirmation.
    let is_fit = |text: &String| {
        let count = text.trim().chars().count();
        (1..=limits::TYPED_CHARS_MAX).contains(&count) && !text.chars().any(visible::is_hidden)
    };
    Some(value.filter(is_fit).unwrap_or_else(|| definition.name.clone()))
}

fn waiting(open: &Approval) -> Stop {
    let waiting = Waiting { kind: WaitingKind::Approval, id: open.id.clone(), expires: open.expires.to_string() };
    let error = Text::ApprovalRequired.error(&[("reason", &open.reason), ("id", &open.id)]);
    Stop::Waiting(Box::new((waiting, error)))
}
