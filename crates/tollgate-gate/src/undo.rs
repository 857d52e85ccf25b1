//! Undo: what takes a call back is a call of its own. How that goes was fixed when the first call ran.

use tollgate_store::{StandIn, StoreError, UndoPlan};
use tollgate_types::limits::CALL_DEPTH_MAX;
use tollgate_types::{
    AttemptId, Call, Caller, CancellationToken, ErrorObject, Outcome, RESTORE_FILE, Risk, Text, Undo,
};

use crate::Gate;
use crate::gate::{Inner, Way};

impl Gate {
    /// Takes back what an attempt did: a new attempt through the whole gate, with the old one as its parent. What cannot be
    /// undone is refused, and recorded as everything is. Whoever calls this answers for it that `caller` may undo what
    /// somebody else did.
    pub async fn undo(
        &self,
        caller: &Caller,
        first: &tollgate_ledger::Attempt,
        cancellation: CancellationToken,
    ) -> Outcome {
        let (id, planned) = match doer(self.inner(), first).await {
            Ok(doer) => {
                let planned = plan(self.inner(), first, &doer).await;
                (doer.attempt, planned)
            }
            Err(error) => (AttemptId::new(first.attempt.as_str()), Err(error)),
        };
        let call = match planned {
            Ok(UndoPlan { tool, arguments: Ok(arguments), .. }) => Call::tool(tool, arguments),
            Ok(UndoPlan { arguments: Err(why), .. }) => refused(first, cannot(&id, &why)),
            Err(error) => refused(first, error),
        };
        self.enter(caller, call.with_parent(id.clone()), cancellation, Way { depth: 0, undoes: Some(id) }).await
    }
}

fn refused(first: &tollgate_ledger::Attempt, error: ErrorObject) -> Call {
    Call::raw(first.tool.as_str(), "").refused(error)
}

/// The attempt that did what was asked for: where a fallback answered it is that one, or the one that answered for it.
async fn doer(gate: &Inner, first: &tollgate_ledger::Attempt) -> Result<StandIn, ErrorObject> {
    let mut doer = StandIn { attempt: AttemptId::new(first.attempt.as_str()), tool: first.tool.clone() };
    for _ in 0..CALL_DEPTH_MAX {
        match gate.store.stand_in(doer.attempt.clone()).await.map_err(|error| unreadable(&doer.attempt, &error))? {
            Some(other) => doer = other,
            None => break,
        }
    }
    Ok(doer)
}

fn unreadable(id: &AttemptId, error: &StoreError) -> ErrorObject {
    tracing::error!("how attempt {id} can be undone cannot be read: {error}");
    Text::NoState.error(&[])
}

/// How the attempt can be undone, or why it cannot.
async fn plan(gate: &Inner, first: &tollgate_ledger::Attempt, doer: &StandIn) -> Result<UndoPlan, ErrorObject> {
    let id = &doer.attempt;
    let is_own = id.as_str() == first.attempt;
    let status = first.status.as_str();
    let ended = if first.code.is_empty() { status.to_owned() } else { format!("{status} ({})", first.code) };
    match status {
        "done" if is_own && first.risk == Risk::Read.as_str() => return Err(cannot(id, "it only read")),
        "done" => {}
        "refused" | "waiting" => return Err(cannot(id, &format!("it did not run: {ended}"))),
        "failed" => return Err(cannot(id, &format!("it did not end well: {ended}; see by hand what it did"))),
        _ => return Err(Text::NotSettled.error(&[("attempt", id)])),
    }
    let kept = gate.store.undo_plan(id.clone(), gate.clock.now()).await;
    match kept.map_err(|error| unreadable(id, &error))? {
        None => Err(nothing_kept(gate, doer)),
        Some(UndoPlan { undone_by: Some(by), .. }) => Err(undone(id, &by)),
        Some(plan) => Ok(plan),
    }
}

fn nothing_kept(gate: &Inner, doer: &StandIn) -> ErrorObject {
    let StandIn { attempt: id, tool } = doer;
    let declared = gate.catalog.get(tool).map(|entry| entry.definition.undo.clone());
    match declared {
        None | Some(Undo::None) => {
            let error = cannot(id, &format!("`{tool}` declares no undo"));
            error.with_hint("take it back by hand, and declare `undo` for the next time: docs/undo.md")
        }
        Some(Undo::BeforeImage | Undo::Tool(_)) => cannot(id, "what it takes is not kept, or not any more"),
    }
}

fn cannot(id: &AttemptId, why: &str) -> ErrorObject {
    Text::NoUndo.error(&[("attempt", id), ("why", &why)])
}

/// Another attempt has it.
pub(crate) fn undone(id: &AttemptId, by: &AttemptId) -> ErrorObject {
    Text::Undone.error(&[("attempt", id), ("by", by)])
}

/// Whether a tool runs for an undo alone.
pub(crate) fn is_for_undo(name: &str) -> bool {
    name == RESTORE_FILE
}
