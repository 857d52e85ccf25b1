//! A yes for the rest of a session: one caller, one session, one definition, whatever the arguments; bounded in time and in
//! number. It comes from an answered question, whose id it has.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use tollgate_types::{ApprovalId, Pin, limits};

use crate::approval::{Approval, Binding};
use crate::{Store, StoreError};

/// A yes for the rest of a session.
#[derive(Debug, Clone, Serialize)]
pub struct Grant {
    /// The question that it came from.
    pub id: ApprovalId,
    /// The tool's name.
    pub tool: String,
    /// The definition's pin.
    pub pin: Pin,
    /// Who may call.
    pub subject: String,
    /// The role of who may call.
    pub role: String,
    /// The way in.
    pub surface: String,
    /// The session.
    pub session: String,
    /// Who said so.
    pub by: String,
    /// Until when.
    pub expires: Timestamp,
    /// How many calls are left.
    pub left: u32,
}

const COLUMNS: &str = "id, tool, pin, subject, role, surface, session, granted_by, expires, left";
const STANDING: &str = "left > 0 and expires > ?1";

impl Store {
    /// Turns a question that was answered with yes into a grant for its session.
    ///
    /// # Errors
    /// When it was not asked in a session, or the store fails.
    pub async fn grant(&self, approval: &Approval, by: String, expires: Timestamp) -> Result<(), StoreError> {
        let (approval, session) = (approval.clone(), approval.session_to_grant()?.to_owned());
        self.with(move |connection| {
            connection.execute(
                "insert into grants (id, tool, pin, subject, role, tenant, surface, session, granted_by, expires, left) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) on conflict (id) do nothing",
                params![
                    approval.id.as_str(),
                    approval.tool,
                    approval.pin.as_str(),
                    approval.subject,
                    approval.role,
                    approval.tenant.as_deref().unwrap_or_default(),
                    approval.surface,
                    session,
                    by,
                    expires.as_microsecond(),
                    limits::GRANT_CALLS_MAX,
                ],
            )?;
            Ok(())
        })
        .await
    }

    /// The grant under which a call may run, where there is one. It is used by [`Store::use_grant`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grant_for(&self, binding: Binding, now: Timestamp) -> Result<Option<Grant>, StoreError> {
        let Some(session) = binding.caller.session.clone() else { return Ok(None) };
        self.with(move |connection| {
            let sql = format!(
                "select {COLUMNS} from grants where {STANDING} and subject = ?2 and role = ?3 and tenant = ?4 and \
                 surface = ?5 and session = ?6 and pin = ?7 order by expires desc limit 1"
            );
            let caller = &binding.caller;
            let key = params![
                now.as_microsecond(),
                caller.subject,
                caller.role,
                caller.tenant.as_deref().unwrap_or_default(),
                caller.surface.as_str(),
                session,
                binding.pin.as_str(),
            ];
            connection.prepare_cached(&sql)?.query_row(key, from_row).optional()?.transpose()
        })
        .await
    }

    /// Uses a grant for one call. False when it is used up, over or revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn use_grant(&self, id: ApprovalId, now: Timestamp) -> Result<bool, StoreError> {
        self.with(move |connection| {
            let sql = format!("update grants set left = left - 1 where id = ?2 and {STANDING}");
            Ok(connection.execute(&sql, params![now.as_microsecond(), id.as_str()])? == 1)
        })
        .await
    }

    /// The grants that stand, by tool.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grants(&self, now: Timestamp) -> Result<Vec<Grant>, StoreError> {
        self.with(move |connection| {
            let sql = format!("select {COLUMNS} from grants where {STANDING} order by tool, expires, id");
            let mut statement = connection.prepare(&sql)?;
            statement.query_map(params![now.as_microsecond()], from_row)?.map(|row| row?).collect()
        })
        .await
    }

    /// Takes a grant back; `id` may be an unambiguous beginning or end of its id.
    ///
    /// # Errors
    /// When no standing grant answers to `id`, several do, or the store fails.
    pub async fn revoke_grant(&self, id: &str, now: Timestamp) -> Result<Grant, StoreError> {
        let mut fitting =
            self.grants(now).await?.into_iter().filter(|grant| {
                !id.is_empty() && (grant.id.as_str().starts_with(id) || grant.id.as_str().ends_with(id))
            });
        let (Some(grant), None) = (fitting.next(), fitting.next()) else {
            return Err(StoreError::NotFound(format!(
                "no grant, or more than one, has the id `{id}`: `tollgate approvals grants` lists them"
            )));
        };
        let revoked = grant.id.clone();
        self.with(move |connection| {
            connection.execute("update grants set left = 0 where id = ?1", params![revoked.as_str()])?;
            Ok(())
        })
        .await?;
        Ok(grant)
    }
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Grant, StoreError>> {
    let text = |name: &str| row.get::<_, String>(name);
    let expires: i64 = row.get("expires")?;
    let Ok(expires) = Timestamp::from_microsecond(expires) else {
        return Ok(Err(StoreError::Corrupt(format!("a grant's end, {expires}"))));
    };
    Ok(Ok(Grant {
        id: ApprovalId::new(text("id")?),
        tool: text("tool")?,
        pin: Pin::new(text("pin")?),
        subject: text("subject")?,
        role: text("role")?,
        surface: text("surface")?,
        session: text("session")?,
        by: text("granted_by")?,
        expires,
        left: row.get("left")?,
    }))
}
