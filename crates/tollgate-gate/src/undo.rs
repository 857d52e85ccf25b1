//! Undo: what takes a call back is a call of its own. How that goes was fixed when the first call ran.

use tollgate_store::UndoPlan;
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
        let id = AttemptId::new(first.attempt.as_str());
        let call = match plan(self.inner(), first, &id).await {
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

/// How the attempt can be undone, or why it cannot.
async fn plan(gate: &Inner, first: &tollgate_ledger::Attempt, id: &AttemptId) -> Result<UndoPlan, ErrorObject> {
    let status = first.status.as_str();
    let ended = if first.code.is_empty() { status.to_owned() } else { format!("{status} ({})", first.code) };
    match status {
        "done" if first.risk == Risk::Read.as_str() => return Err(cannot(id, "it only read")),
        "done" => {}
        "refused" | "waiting" => return Err(cannot(id, &format!("it did not run: {ended}"))),
        "failed" => return Err(cannot(id, &format!("it did not end well: {ended}; see by hand what it did"))),
        _ => return Err(Text::NotSettled.error(&[("attempt", id)])),
    }
    let kept = gate.store.undo_plan(id.clone(), gate.clock.now()).await;
    let kept = kept.map_err(|error| {
        tracing::error!("how attempt {id} can be undone cannot be read: {error}");
        Text::NoState.error(&[])
    })?;
    match kept {
        None => Err(nothing_kept(gate, first, id)),
        Some(UndoPlan { undone_by: Some(by), .. }) => Err(undone(id, &by)),
        Some(plan) => Ok(plan),
    }
}

fn nothing_kept(gate: &Inner, first: &tollgate_ledger::Attempt, id: &AttemptId) -> ErrorObject {
    let declared = gate.catalog.get(&first.tool).map(|entry| entry.definition.undo.clone());
    match declared {
        None | Some(Undo::None) => {
            let error = cannot(id, &format!("`{}` declares no undo", first.tool));
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
