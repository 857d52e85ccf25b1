//! `POST /api/v1/attempts/{id}/undo`: a key's holder takes back what it did itself.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use tollgate::ledger::{Attempt, Index, LedgerError};
use tollgate::{CancellationToken, Outcome, Surface};

use super::audit::{aside, problem};
use crate::app::App;
use crate::entrance::Holder;
use crate::problem::Problem;

/// Answered with the outcome object of the call that takes it back, as a call is. What somebody else did is not there.
pub(crate) async fn undo(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Result<Json<Outcome>, Problem> {
    let _place = app.place()?;
    let data_dir = app.data_dir.clone();
    let first = match aside(move || find(&data_dir, &id)).await {
        Ok(Some(first)) if is_own(&holder, &first) && app.names_for(&holder).await.contains(&first.tool) => first,
        Ok(_) | Err(Some(LedgerError::UnknownAttempt { .. } | LedgerError::Missing { .. })) => {
            return Err(Problem::not_found("no attempt of yours has this id"));
        }
        Err(error) => return Err(problem(error)),
    };
    let caller = holder.caller(Surface::Rest);
    let undo = app.gate.undo(&caller, &first, CancellationToken::new());
    let outcome = tokio::select! {
        outcome = app.tasks.track_future(undo) => outcome,
        () = app.cut.cancelled() => return Err(Problem::unavailable(super::WENT_DOWN)),
    };
    Ok(Json(outcome))
}

/// The attempt of exactly this id.
fn find(data_dir: &FilePath, id: &str) -> Result<Option<Attempt>, LedgerError> {
    let found = Index::open(data_dir, &mut |_, _| {})?.attempt_by(id)?.attempt;
    Ok((found.attempt == id).then_some(found))
}

fn is_own(holder: &Holder, first: &Attempt) -> bool {
    let is_of_a_key = [Surface::McpHttp, Surface::Rest].iter().any(|surface| surface.as_str() == first.caller.surface);
    is_of_a_key && first.caller.subject == holder.name()
}
