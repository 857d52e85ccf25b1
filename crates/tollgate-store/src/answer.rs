//! Answers to durable questions: taken once, counted once they are recorded. One that comes as a signed message is bound to
//! what was asked, and its message counts once. Whether the message is genuine is not said here.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Transaction, params};
use serde_json::Value;
use tollgate_types::{ApprovalId, Digest, WaitingKind, limits};

use crate::approval::{Approval, ApprovalStatus, by_id, expire};
use crate::{Store, StoreError};

/// What the human said.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Yes or no.
    pub approved: bool,
    /// Who said so.
    pub by: String,
    /// In their words.
    pub reason: Option<String>,
    /// What they typed, where the question wants it.
    pub typed: Option<String>,
}

/// The message that an answer came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its id; it counts once.
    pub id: String,
    /// The question that it answers, exactly.
    pub approval: ApprovalId,
    /// The arguments that its person was shown.
    pub digest: Digest,
    /// The result that it brings, where the question wants one.
    pub result: Option<Value>,
}

/// An answer that was taken. It counts once it is recorded.
#[derive(Debug, Clone)]
pub enum Taken {
    /// It decides the question: [`Store::answer_recorded`].
    Decides(Approval),
    /// It is one yes of those that are needed: [`Store::yes_recorded`].
    OneOf(Approval),
}

impl Store {
    /// Takes the answer to an open question; `id` may be an unambiguous prefix or suffix. It counts only once it is
    /// recorded: no record, no yes.
    ///
    /// # Errors
    /// When no open question answers to `id`, several do, what must be typed was not, this person said yes already, or the
    /// store fails.
    pub async fn answer(&self, id: &str, answer: Answer, now: Timestamp) -> Result<Taken, StoreError> {
        self.answer_with(id, answer, None, now).await
    }

    /// The same with the result that an open question wants.
    ///
    /// # Errors
    /// As [`Store::answer`]; [`StoreError::Conflict`] when the question wants no result.
    pub async fn answer_with_result(
        &self,
        id: &str,
        answer: Answer,
        result: Value,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        self.answer_with(id, answer, Some(result), now).await
    }

    async fn answer_with(
        &self,
        id: &str,
        answer: Answer,
        result: Option<Value>,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        let id = id.to_owned();
        self.write(move |transaction| {
            expire(transaction, now)?;
            let found = by_id(transaction, &id)?;
            wants(&found, &answer, result.is_some())?;
            let given = params![found.id.as_str(), result.map(|result| result.to_string())];
            let taken = take(transaction, found.clone(), &answer, now)?;
            transaction.execute("update approvals set result = ?2 where id = ?1", given)?;
            Ok(taken)
        })
        .await
    }

    /// The same for an answer that came in a message. Its yes is nobody's who asks.
    ///
    /// # Errors
    /// As [`Store::answer`]; [`StoreError::Replayed`] when the message came before, [`StoreError::Foreign`] when it is about
    /// something else, [`StoreError::OwnCall`] when it says yes to a call of its person's own, [`StoreError::Limit`] when too
    /// many came.
    pub async fn answer_by_message(
        &self,
        message: Message,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Taken, StoreError> {
        self.write(move |transaction| {
            expire(transaction, now)?;
            remember(transaction, &message, now)?;
            let found = by_id(transaction, message.approval.as_str())?;
            fits(&found, &message)?;
            if answer.approved && is_same_person(&found.subject, &answer.by) {
                return Err(StoreError::OwnCall { by: answer.by });
            }
            wants(&found, &answer, message.result.is_some())?;
            let given = params![found.id.as_str(), message.result.map(|result| result.to_string())];
            let taken = take(transaction, found.clone(), &answer, now)?;
            transaction.execute("update approvals set result = ?2 where id = ?1", given)?;
            // What is refused leaves nothing behind, the message's id neither.
            Ok(taken)
        })
        .await
    }

    /// Forgets a message whose answer could not be recorded, so that it may come again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_message(&self, id: String) -> Result<(), StoreError> {
        self.write(move |connection| {
            connection.execute("delete from messages where id = ?1", params![id])?;
            Ok(())
        })
        .await
    }

    /// Lets one yes of several count, now that the ledger holds it. Of two at the same moment, the later one decides.
    ///
    /// # Errors
    /// When the question is not open any more, or the store fails.
    pub async fn yes_recorded(&self, id: ApprovalId, by: String, now: Timestamp) -> Result<Approval, StoreError> {
        self.write(move |transaction| {
            expire(transaction, now)?;
            let found = by_id(transaction, id.as_str())?;
            if found.status != ApprovalStatus::Pending || said_yes(&found, &by) {
                return Err(StoreError::Conflict(format!("approval `{id}` was answered at the same moment")));
            }
            let mut yes_by = found.yes_by;
            yes_by.push(by.clone());
            let is_enough = u32::try_from(yes_by.len()).is_ok_and(|count| count >= found.approvers);
            let yes_by = serde_json::json!(yes_by).to_string();
            transaction.execute("update approvals set yes_by = ?2 where id = ?1", params![id.as_str(), yes_by])?;
            if is_enough {
                transaction.execute(
                    "update approvals set status = 'approved', decided_by = ?2, decided_at = ?3, is_recorded = 1 where id = ?1",
                    params![id.as_str(), by, now.as_microsecond()],
                )?;
            }
            by_id(transaction, id.as_str())
        })
        .await
    }

    /// Lets an answer count, now that the ledger holds it.
    ///
    /// # Errors
    /// When another answer took its place meanwhile, or the store fails.
    pub async fn answer_recorded(
        &self,
        id: ApprovalId,
        answer: Answer,
        now: Timestamp,
    ) -> Result<Approval, StoreError> {
        self.write(move |connection| {
            let counted = connection.execute(
                "update approvals set is_recorded = 1 where id = ?1 and status = ?2 and decided_by = ?3 \
                 and decision_reason is ?4 and is_recorded = 0",
                params![id.as_str(), status_of(&answer), answer.by, answer.reason],
            )?;
            if counted == 0 {
                return Err(StoreError::Conflict(format!("somebody else answered approval `{id}` at the same moment")));
            }
            expire(connection, now)?;
            by_id(connection, id.as_str())
        })
        .await
    }
}

/// Lets an answer decide an open question, or says that it is one yes of several.
fn take(transaction: &Transaction<'_>, found: Approval, answer: &Answer, now: Timestamp) -> Result<Taken, StoreError> {
    if found.status != ApprovalStatus::Pending {
        let message = format!("approval `{}` is {} already", found.id, found.status.name());
        return Err(StoreError::Conflict(message));
    }
    if answer.approved && !is_enough(&found, answer)? {
        return Ok(Taken::OneOf(found));
    }
    transaction.execute(
        "update approvals set status = ?2, decided_by = ?3, decided_at = ?4, decision_reason = ?5, \
         is_recorded = 0 where id = ?1",
        params![found.id.as_str(), status_of(answer), answer.by, now.as_microsecond(), answer.reason],
    )?;
    Ok(Taken::Decides(found))
}

/// A question for a result is answered with one, or with a no; any other without.
fn wants(found: &Approval, answer: &Answer, has_result: bool) -> Result<(), StoreError> {
    let wanted = answer.approved && found.kind == WaitingKind::Intervention;
    match (wanted, has_result) {
        (true, false) => Err(StoreError::Conflict(format!("approval `{}` wants a result, or a no", found.id))),
        (false, true) => Err(StoreError::Conflict(format!("approval `{}` wants a yes or no, and no result", found.id))),
        (true, true) | (false, false) => Ok(()),
    }
}

/// Whether a yes is the last that is needed.
fn is_enough(found: &Approval, answer: &Answer) -> Result<bool, StoreError> {
    if let Some(expected) = &found.typed
        && answer.typed.as_deref().map(str::trim) != Some(expected.trim())
    {
        return Err(StoreError::NotTyped { expected: expected.clone() });
    }
    if said_yes(found, &answer.by) {
        let message = format!("`{}` said yes already: {} persons must", answer.by, found.approvers);
        return Err(StoreError::Conflict(message));
    }
    Ok(u32::try_from(found.yes_by.len() + 1).is_ok_and(|count| count >= found.approvers))
}

fn said_yes(found: &Approval, by: &str) -> bool {
    found.yes_by.iter().any(|before| is_same_person(before, by))
}

/// Names come from several systems; letter case and blanks make no second person.
fn is_same_person(one: &str, other: &str) -> bool {
    let folded = |name: &str| name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    folded(one) == folded(other)
}

/// The message is about this question, and about what was asked by it.
fn fits(found: &Approval, message: &Message) -> Result<(), StoreError> {
    if found.id != message.approval {
        return Err(StoreError::NotFound(format!("no approval has the id `{}`", message.approval)));
    }
    if found.digest != message.digest {
        return Err(StoreError::Foreign(format!("the answer is to another request than approval `{}`", found.id)));
    }
    Ok(())
}

/// Keeps the id of a message that came now, and forgets those that are so old that nobody would believe them.
fn remember(connection: &Connection, message: &Message, now: Timestamp) -> Result<(), StoreError> {
    let kept = SignedDuration::from_millis_i128(i128::from(limits::ANSWER_ID_TTL_MS));
    connection.execute("delete from messages where came < ?1", params![(now - kept).as_microsecond()])?;
    let count: u32 = connection.query_row("select count(*) from messages", [], |row| row.get(0))?;
    if count >= limits::ANSWER_IDS_MAX {
        return Err(StoreError::Limit(format!("{count} signed answers came already, and no more are taken for now")));
    }
    let sql = "insert into messages (id, came) values (?1, ?2) on conflict (id) do nothing";
    match connection.execute(sql, params![message.id, now.as_microsecond()])? {
        0 => Err(StoreError::Replayed { id: message.id.clone() }),
        _ => Ok(()),
    }
}

fn status_of(answer: &Answer) -> &'static str {
    if answer.approved { "approved" } else { "rejected" }
}
