//! Durable questions to humans: asked, looked up, used up. A yes fits one caller, one definition pin and one argument
//! digest, once.

mod closing;
mod row;
mod shown;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::Serialize;
use serde_json::Value;
use tollgate_types::{ApprovalId, AttemptId, CallId, Caller, Digest, Permission, Pin, Risk, WaitingKind, limits};

use crate::{Store, StoreError};

pub(crate) use closing::{BACK_MICROS, expire};
pub(crate) use row::from_row;

/// What a yes is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Who asks. The session is not part of it: a yes may be used by the same caller's next process.
    pub caller: Caller,
    /// The definition, exactly.
    pub pin: Pin,
    /// The arguments, exactly.
    pub digest: Digest,
}

/// A question to be stored.
#[derive(Debug, Clone)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// What a yes would be bound to.
    pub binding: Binding,
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// The asker's id for the call.
    pub call_id: CallId,
    /// The tool's name.
    pub tool: String,
    /// What it does to the world.
    pub risk: Risk,
    /// What it needs.
    pub permission: Permission,
    /// The arguments, redacted.
    pub arguments: Value,
    /// What would run, redacted.
    pub preview: Option<String>,
    /// Why a human is asked.
    pub reason: String,
    /// When it closes by itself.
    pub expires: Timestamp,
    /// What must be typed with a yes.
    pub typed: Option<String>,
    /// How many persons must say yes; one at least.
    pub approvers: u32,
    /// What makes it a question for the result itself; none where a yes is asked for.
    pub intervention: Option<Intervention>,
}

/// Why a human is asked for the result of a call, and which one would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervention {
    /// What was tried and how it failed, redacted.
    pub tried: Value,
    /// The schema that the result must fit, where the tool has one.
    pub expects: Option<Value>,
}

impl NewApproval {
    fn kind(&self) -> WaitingKind {
        if self.intervention.is_some() { WaitingKind::Intervention } else { WaitingKind::Approval }
    }
}

/// How a question stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Nobody has answered.
    Pending,
    /// Yes, and not used yet.
    Approved,
    /// Yes, and used.
    Consumed,
    /// No.
    Rejected,
    /// Closed by itself.
    Expired,
}

impl ApprovalStatus {
    /// How it is told to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Consumed => "approved and used",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }
}

/// A question as it is listed and shown.
#[derive(Debug, Clone, Serialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// A yes or no, or the result itself.
    pub kind: WaitingKind,
    /// How it stands.
    pub status: ApprovalStatus,
    /// The tool's name.
    pub tool: String,
    /// The arguments, redacted.
    pub arguments: Value,
    /// What would run, redacted.
    pub preview: Option<String>,
    /// What it does to the world.
    pub risk: String,
    /// What it needs.
    pub permission: String,
    /// Why a human is asked.
    pub reason: String,
    /// Who asks.
    pub subject: String,
    /// The role of who asks.
    pub role: String,
    /// The tenant of who asks.
    pub tenant: Option<String>,
    /// The way in.
    pub surface: String,
    /// The conversation, where there is one.
    pub session: Option<String>,
    /// The attempt that asked.
    pub attempt: AttemptId,
    /// The asker's id for the call.
    pub call_id: CallId,
    /// The definition's pin.
    pub pin: Pin,
    /// The arguments' digest.
    pub digest: Digest,
    /// When it was asked.
    pub created: Timestamp,
    /// When it closes by itself.
    pub expires: Timestamp,
    /// Who answered.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<Timestamp>,
    /// In their words.
    pub decision_reason: Option<String>,
    /// What must be typed with a yes.
    pub typed: Option<String>,
    /// How many persons must say yes.
    pub approvers: u32,
    /// Who did, where that is not enough yet.
    pub yes_by: Vec<String>,
    /// What was tried and how it failed, where a result is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Value>,
    /// The schema that the result must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expects: Option<Value>,
    /// The result that a human gave. It is for the one who asked.
    #[serde(skip)]
    pub result: Option<Value>,
}

impl Approval {
    /// The session for whose rest a yes may be given.
    ///
    /// # Errors
    /// Where there is none, or the question wants more than a plain yes.
    pub fn session_to_grant(&self) -> Result<&str, StoreError> {
        let conflict = |why: &str| Err(StoreError::Conflict(format!("approval `{}` {why}", self.id)));
        if self.kind == WaitingKind::Intervention {
            return conflict("wants a result each time");
        }
        match &self.session {
            None => conflict("was not asked in a session: it can only be approved once"),
            Some(_) if self.typed.is_some() => conflict("wants a yes that is typed each time"),
            Some(_) if self.approvers > 1 => conflict("wants more than one person each time"),
            Some(session) => Ok(session),
        }
    }

    /// Whether somebody can still answer.
    pub fn is_open(&self) -> bool {
        self.status == ApprovalStatus::Pending
    }
}

/// What an attempt finds when it needs a yes.
#[derive(Debug, Clone)]
pub enum Claim {
    /// A yes that fits. It is used up only by [`Store::consume`].
    Approved(Approval),
    /// A no that fits; it is used up by this.
    Rejected(Approval),
    /// A question that closed unanswered; the next attempt asks anew.
    Expired(Approval),
    /// A question that is still open.
    Pending(Approval),
    /// Nothing was there; the new question is stored.
    Asked(Approval),
}

impl Store {
    /// Finds the answer that fits `new.binding`, or stores the question. A no is used up by being told.
    ///
    /// # Errors
    /// When the store fails, or too many questions are open.
    pub async fn claim(&self, new: NewApproval, now: Timestamp) -> Result<Claim, StoreError> {
        self.write(move |transaction| {
            expire(transaction, now)?;
            let claim = match newest(transaction, &new.binding, new.kind())? {
                Some(found) => used_up(transaction, found, now)?,
                None => Claim::Asked(ask(transaction, &new, now)?),
            };
            Ok(claim)
        })
        .await
    }

    /// The answer to a question for a result that fits `binding`, or that question; none where none was put. A no is used up
    /// by being told.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn intervention(&self, binding: Binding, now: Timestamp) -> Result<Option<Claim>, StoreError> {
        self.write(move |transaction| {
            expire(transaction, now)?;
            let found = newest(transaction, &binding, WaitingKind::Intervention)?;
            let claim = found.map(|found| used_up(transaction, found, now)).transpose()?;
            Ok(claim)
        })
        .await
    }

    /// Uses a yes up. False when another call was first, it grew too old, or the clock went back before its question.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn consume(&self, id: ApprovalId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |connection| {
            let now = now.as_microsecond();
            let used = connection.execute(CONSUMES, params![id.as_str(), now, now.saturating_add(BACK_MICROS)])?;
            Ok(used == 1)
        })
        .await
    }

    /// One question; `id` may be an unambiguous prefix or suffix.
    ///
    /// # Errors
    /// When none or several answer to `id`, or the store fails.
    pub async fn approval(&self, id: &str, now: Timestamp) -> Result<Approval, StoreError> {
        let id = id.to_owned();
        self.write(move |connection| {
            expire(connection, now)?;
            by_id(connection, &id)
        })
        .await
    }

    /// Whether a question still waits for its answer. It writes nothing.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_open(&self, id: ApprovalId, now: Timestamp) -> Result<bool, StoreError> {
        self.with(move |connection| {
            // An answer that is taken and not recorded does not count yet.
            let sql = "select exists (select 1 from approvals where id = ?1 and expires > ?2 and status <> 'expired'
                       and is_recorded = 0)";
            Ok(connection.query_row(sql, params![id.as_str(), now.as_microsecond()], |row| row.get(0))?)
        })
        .await
    }

    /// Questions, newest first: the open ones, or all; 1,000 at most.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn approvals(&self, open_only: bool, now: Timestamp) -> Result<Vec<Approval>, StoreError> {
        self.write(move |connection| {
            expire(connection, now)?;
            let status = if open_only { "where status = 'pending' or is_recorded = 0" } else { "" };
            let sql =
                format!("select {COLUMNS} from approvals {status} order by created desc, id desc limit {LISTED_MAX}");
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map([], from_row)?;
            rows.map(|row| row?).filter(|row| !open_only || row.as_ref().map_or(true, Approval::is_open)).collect()
        })
        .await
    }
}

/// Questions that one listing shows.
const LISTED_MAX: usize = limits::APPROVALS_OPEN_MAX;

const CONSUMES: &str = "update approvals set consumed_at = ?2 where id = ?1 and status = 'approved' and is_recorded = 1 \
                        and consumed_at is null and expires > ?2 and created <= ?3";

/// At most [`limits::APPROVALS_OPEN_MAX`] entries of an index, and only where a question is put.
const COUNTS_OPEN: &str = "select count(*) from approvals where status = 'pending'";

pub(crate) const COLUMNS: &str = "id, call_id, status, is_recorded, consumed_at, tool, arguments, preview, risk, permission, reason, subject, role, \
                       tenant, surface, session, attempt, pin, digest, created, expires, decided_by, decided_at, decision_reason, typed, approvers, yes_by, \
                       kind, tried, expects, result";

fn newest_of_a_binding() -> String {
    format!(
        "select {COLUMNS} from approvals where consumed_at is null and subject = ?1 and role = ?2 and tenant = ?3 \
         and surface = ?4 and pin = ?5 and digest = ?6 and kind = ?7 order by created desc, id desc limit 1"
    )
}

fn newest(transaction: &Transaction<'_>, binding: &Binding, kind: WaitingKind) -> Result<Option<Approval>, StoreError> {
    let caller = &binding.caller;
    let key = params![
        caller.subject,
        caller.role,
        caller.tenant.as_deref().unwrap_or_default(),
        caller.surface.as_str(),
        binding.pin.as_str(),
        binding.digest.as_str(),
        kind.as_str()
    ];
    transaction.query_row(&newest_of_a_binding(), key, from_row).optional()?.transpose()
}

fn used_up(transaction: &Transaction<'_>, found: Approval, now: Timestamp) -> Result<Claim, StoreError> {
    match found.status {
        ApprovalStatus::Pending => return Ok(Claim::Pending(found)),
        ApprovalStatus::Approved => return Ok(Claim::Approved(found)),
        ApprovalStatus::Rejected | ApprovalStatus::Expired | ApprovalStatus::Consumed => {}
    }
    transaction.execute(
        "update approvals set consumed_at = ?2 where id = ?1",
        params![found.id.as_str(), now.as_microsecond()],
    )?;
    Ok(if found.status == ApprovalStatus::Rejected { Claim::Rejected(found) } else { Claim::Expired(found) })
}

fn ask(transaction: &Transaction<'_>, new: &NewApproval, now: Timestamp) -> Result<Approval, StoreError> {
    let open: u32 = transaction.query_row(COUNTS_OPEN, [], |row| row.get(0))?;
    if usize::try_from(open).is_ok_and(|open| open >= limits::APPROVALS_OPEN_MAX) {
        return Err(StoreError::Limit(format!("{open} approvals are open already: answer some of them first")));
    }
    let (caller, wanted) = (&new.binding.caller, new.intervention.as_ref());
    transaction.execute(
        "insert into approvals (id, created, expires, subject, role, tenant, surface, session, tool, pin, digest, risk, \
         permission, arguments, preview, reason, attempt, call_id, typed, approvers, kind, tried, expects, status) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, \
         'pending')",
        params![
            new.id.as_str(),
            now.as_microsecond(),
            new.expires.as_microsecond(),
            caller.subject,
            caller.role,
            caller.tenant.as_deref().unwrap_or_default(),
            caller.surface.as_str(),
            caller.session,
            new.tool,
            new.binding.pin.as_str(),
            new.binding.digest.as_str(),
            new.risk.as_str(),
            new.permission.as_str(),
            new.arguments.to_string(),
            new.preview,
            new.reason,
            new.attempt.as_str(),
            new.call_id.as_str(),
            new.typed,
            new.approvers,
            new.kind().as_str(),
            wanted.map(|wanted| wanted.tried.to_string()),
            wanted.and_then(|wanted| wanted.expects.as_ref()).map(Value::to_string),
        ],
    )?;
    transaction.query_row(&of_an_id(), params![new.id.as_str()], from_row)?
}

fn of_an_id() -> String {
    format!("select {COLUMNS} from approvals where id = ?1")
}

/// One question by its id, or a part of it that no other has: for people.
pub(crate) fn by_id(connection: &Connection, id: &str) -> Result<Approval, StoreError> {
    const SHORTEST: usize = 4;
    if id.len() < SHORTEST || !id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
        return Err(StoreError::NotFound(format!("`{id}` is not an approval id or at least 4 characters of one")));
    }
    if let Some(exact) = connection.prepare_cached(&of_an_id())?.query_row(params![id], from_row).optional()? {
        return exact;
    }
    let sql = format!("select {COLUMNS} from approvals where id like ?1 || '%' or id like '%' || ?1 limit 2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query_map(params![id], from_row)?;
    let first = rows.next().transpose()?.transpose()?;
    let second = rows.next().transpose()?;
    match (first, second) {
        (None, _) => Err(StoreError::NotFound(format!("no approval has the id `{id}`"))),
        (Some(_), Some(_)) => Err(StoreError::NotFound(format!("several approvals answer to `{id}`: give more of it"))),
        (Some(found), None) => Ok(found),
    }
}
