//! A question as it stands in its row.

use jiff::Timestamp;
use rusqlite::Row;
use serde::de::DeserializeOwned;
use tollgate_types::{ApprovalId, AttemptId, CallId, Digest, Pin, WaitingKind};

use super::{Approval, ApprovalStatus};
use crate::StoreError;

/// For where SQLite wants its own kind of error outside.
pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Approval, StoreError>> {
    Ok(read(row))
}

fn read(row: &Row<'_>) -> Result<Approval, StoreError> {
    let text = |name: &str| row.get::<_, String>(name);
    let tenant = text("tenant")?;
    let decided_at: Option<i64> = row.get("decided_at")?;
    let is_intervention = text("kind")? == WaitingKind::Intervention.as_str();
    Ok(Approval {
        id: ApprovalId::new(text("id")?),
        kind: if is_intervention { WaitingKind::Intervention } else { WaitingKind::Approval },
        status: status(row)?,
        tool: text("tool")?,
        arguments: value(&text("arguments")?)?,
        preview: row.get("preview")?,
        risk: text("risk")?,
        permission: text("permission")?,
        reason: text("reason")?,
        subject: text("subject")?,
        role: text("role")?,
        tenant: (!tenant.is_empty()).then_some(tenant),
        surface: text("surface")?,
        session: row.get("session")?,
        attempt: AttemptId::new(text("attempt")?),
        call_id: CallId::new(text("call_id")?),
        pin: Pin::new(text("pin")?),
        digest: Digest::new(text("digest")?),
        created: moment(row.get("created")?)?,
        expires: moment(row.get("expires")?)?,
        decided_by: row.get("decided_by")?,
        decided_at: decided_at.map(moment).transpose()?,
        decision_reason: row.get("decision_reason")?,
        typed: row.get("typed")?,
        approvers: row.get("approvers")?,
        yes_by: value(&text("yes_by")?)?,
        tried: maybe_value(row, "tried")?,
        expects: maybe_value(row, "expects")?,
        result: maybe_value(row, "result")?,
    })
}

fn status(row: &Row<'_>) -> Result<ApprovalStatus, StoreError> {
    let status: String = row.get("status")?;
    let consumed: Option<i64> = row.get("consumed_at")?;
    let is_recorded: bool = row.get("is_recorded")?;
    Ok(match (status.as_str(), is_recorded, consumed) {
        ("pending", ..) | ("approved" | "rejected", false, _) => ApprovalStatus::Pending,
        ("approved", true, None) => ApprovalStatus::Approved,
        ("approved", true, Some(_)) => ApprovalStatus::Consumed,
        ("rejected", true, _) => ApprovalStatus::Rejected,
        _ => ApprovalStatus::Expired,
    })
}

fn value<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn maybe_value(row: &Row<'_>, name: &str) -> Result<Option<serde_json::Value>, StoreError> {
    let text: Option<String> = row.get(name)?;
    text.as_deref().map(value).transpose()
}

fn moment(micros: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|error| StoreError::Corrupt(error.to_string()))
}
