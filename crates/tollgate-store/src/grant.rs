//! A yes for the rest of a session: one caller, one session, one definition, whatever the arguments; bounded in time and in
//! number. It comes from an answered question, whose id it has.

use jiff::Timestamp;
use rusqlite::{Row, params};
use serde::Serialize;
use tollgate_types::{ApprovalId, Pin, limits};

use crate::approval::{Approval, BACK_MICROS, Binding};
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
/// A grant whose end is further away than a grant is long comes from a time that the clock went back before: `?2` is the
/// furthest end there can be.
const STANDING: &str = "left > 0 and expires > ?1 and expires <= ?2";

pub(crate) const USES: &str =
    "update grants set left = left - 1 where id = ?3 and left > 0 and expires > ?1 and expires <= ?2";

/// The furthest end that a grant of now can have.
fn end_max(now: Timestamp) -> i64 {
    let ttl = i64::try_from(limits::GRANT_TTL_MS).unwrap_or(i64::MAX).saturating_mul(1_000);
    now.as_microsecond().saturating_add(ttl).saturating_add(BACK_MICROS)
}

pub(crate) fn of_a_session() -> String {
    format!(
        "select {COLUMNS} from grants where left > 0 and session = ?1 and pin = ?2 and subject = ?3 and role = ?4 \
         and tenant = ?5 and surface = ?6 order by expires desc"
    )
}

/// Ends for good what was seen to be over.
pub(crate) const ENDS: &str = "update grants set left = 0 where id = ?1";

impl Store {
    /// Turns a question that was answered with yes into a grant for its session.
    ///
    /// # Errors
    /// When it was not asked in a session, or the store fails.
    pub async fn grant(&self, approval: &Approval, by: String, expires: Timestamp) -> Result<(), StoreError> {
        let (approval, session) = (approval.clone(), approval.session_to_grant()?.to_owned());
        self.write(move |connection| {
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
            let caller = &binding.caller;
            let key = params![
                session,
                binding.pin.as_str(),
                caller.subject,
                caller.role,
                caller.tenant.as_deref().unwrap_or_default(),
                caller.surface.as_str(),
            ];
            let found: Vec<Grant> = {
                let mut statement = connection.prepare_cached(&of_a_session())?;
                statement.query_map(key, from_row)?.map(|row| row?).collect::<Result<_, StoreError>>()?
            };
            let (now, end_max) = (now.as_microsecond(), end_max(now));
            let (standing, over): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|grant| (now + 1..=end_max).contains(&grant.expires.as_microsecond()));
            for grant in over {
                connection.execute(ENDS, params![grant.id.as_str()])?;
            }
            Ok(standing.into_iter().next())
        })
        .await
    }

    /// Uses a grant for one call. False when it is used up, over or revoked.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn use_grant(&self, id: ApprovalId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |connection| {
            Ok(connection.execute(USES, params![now.as_microsecond(), end_max(now), id.as_str()])? == 1)
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
            statement.query_map(params![now.as_microsecond(), end_max(now)], from_row)?.map(|row| row?).collect()
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
        self.write(move |connection| {
            connection.execute(ENDS, params![revoked.as_str()])?;
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
