//! What an operator does: answer approvals and settle attempts whose outcome nobody knows. Never the asker's doing.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;
use tollgate_catalog::schema::Schema;
use tollgate_ledger::{Durability, Entry, Event, Ledger, LedgerError, OutcomeRef, ToolRef};
use tollgate_store::{Answer, Approval, Grant, Message, Store, StoreError, Taken, Unsettled};
use tollgate_types::{CallId, CallResult, Clock, Content, End, Status, limits};

use crate::stored;

/// The operator's desk on one data folder.
#[derive(Clone)]
pub struct Operator {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Why an operator's word could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record could not be written.
    #[error("the record cannot be written: {0}")]
    Ledger(#[from] LedgerError),
    /// The result is none that the tool could have given.
    #[error("the result does not fit: {0}")]
    Unfit(String),
    /// There is nothing to settle.
    #[error("no unsettled attempt has the id `{0}`")]
    NotUnsettled(String),
}

/// What an operator found out about an attempt that nobody saw end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It happened.
    Done,
    /// It did not happen; its idempotency key is free again, budgets have back what it cost, and what it should have undone
    /// can be undone again.
    Failed,
}

impl Operator {
    /// A desk on this ledger and store.
    pub fn new(ledger: Arc<Ledger>, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { ledger, store, clock }
    }

    /// Questions, newest first: the open ones, or all.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn approvals(&self, open_only: bool) -> Result<Vec<Approval>, OperatorError> {
        if !self.store.exists() {
            return Ok(Vec::new());
        }
        Ok(self.store.approvals(open_only, self.clock.now()).await?)
    }

    /// One question by its id, or an unambiguous part of it.
    ///
    /// # Errors
    /// When none answers to it, or the store fails.
    pub async fn approval(&self, id: &str) -> Result<Approval, OperatorError> {
        Ok(self.store.approval(id, self.clock.now()).await?)
    }

    /// Answers a question. The record is on the disk when this returns; nothing runs by it.
    ///
    /// # Errors
    /// When no open question answers to `id`, or the word could not be stored and recorded.
    pub async fn answer(&self, id: &str, answer: Answer) -> Result<Approval, OperatorError> {
        let taken = self.store.answer(id, answer.clone(), self.clock.now()).await?;
        self.record(taken, answer, None).await
    }

    /// Gives the result that a question wants; `answer` says who, and why.
    ///
    /// # Errors
    /// As [`Operator::answer`]; when the result is too long, or does not fit what the tool promises.
    pub async fn give_result(&self, id: &str, answer: Answer, result: Value) -> Result<Approval, OperatorError> {
        let open = self.approval(id).await?;
        fits(&open, &result)?;
        let taken = self.store.answer_with_result(open.id.as_str(), answer.clone(), result, self.clock.now()).await?;
        self.record(taken, answer, None).await
    }

    /// The same as a person said in a signed message, which somebody checked. It counts once, for the question and the
    /// arguments that it names, and never for a call of that person's own.
    ///
    /// # Errors
    /// As [`Operator::answer`]; when the message came before, or it or the result that it brings does not fit. Nothing was
    /// changed then.
    pub async fn answer_by_message(&self, message: Message, answer: Answer) -> Result<Approval, OperatorError> {
        if let Some(result) = &message.result {
            fits(&self.approval(message.approval.as_str()).await?, result)?;
        }
        let taken = self.store.answer_by_message(message.clone(), answer.clone(), self.clock.now()).await?;
        let recorded = self.record(taken, answer, Some(&message)).await;
        if matches!(recorded, Err(OperatorError::Ledger(_))) {
            // It did not count, and may come again.
            self.store.forget_message(message.id).await?;
        }
        recorded
    }

    /// The store decided who was first; what it took counts once the ledger holds it.
    async fn record(&self, taken: Taken, answer: Answer, message: Option<&Message>) -> Result<Approval, OperatorError> {
        let event = if answer.approved { Event::Approved } else { Event::Rejected };
        let (open, decides) = match taken {
            Taken::Decides(open) => (open, true),
            Taken::OneOf(open) => (open, false),
        };
        let mut note = note(&open, &answer);
        if let Some(message) = message {
            note.push_str(&format!(" (signed message {})", message.id));
        }
        let mut entry = Entry::new(event, &open.attempt, &open.call_id);
        entry.approval = Some(open.id.clone());
        entry.tool = Some(ToolRef { name: open.tool.clone(), pin: Some(open.pin.clone()), source: None });
        entry.args_hmac = Some(open.digest.clone());
        entry.note = Some(note);
        self.ledger.append(vec![entry], Durability::Strict).await?;
        let now = self.clock.now();
        Ok(match decides {
            true => self.store.answer_recorded(open.id, answer, now).await?,
            false => self.store.yes_recorded(open.id, answer.by, now).await?,
        })
    }

    /// Answers a question with yes, and with it all calls of the same tool by the same caller in the same session, for
    /// [`limits::GRANT_TTL_MS`] and [`limits::GRANT_CALLS_MAX`] calls. Policy is asked for each of them all the same.
    ///
    /// # Errors
    /// As [`Operator::answer`]; where the question was not asked in a session, or wants more than a plain yes.
    pub async fn approve_for_session(&self, id: &str, answer: Answer) -> Result<Approval, OperatorError> {
        let open = self.approval(id).await?;
        open.session_to_grant()?;
        let expires = self.clock.now() + SignedDuration::from_millis_i128(i128::from(limits::GRANT_TTL_MS));
        let terms = format!("for its session until {expires}, {} calls at most", limits::GRANT_CALLS_MAX);
        let reason = answer.reason.as_ref().map_or(terms.clone(), |reason| format!("{terms}: {reason}"));
        let by = answer.by.clone();
        let answered = self.answer(open.id.as_str(), Answer { approved: true, reason: Some(reason), ..answer }).await?;
        // The ledger holds the terms before the grant counts.
        self.store.grant(&answered, by, expires).await?;
        // The question's own yes is part of the grant, and not one more for calls out of the session.
        self.store.consume(answered.id.clone(), self.clock.now()).await?;
        self.approval(answered.id.as_str()).await
    }

    /// What stands for the rest of a session.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn grants(&self) -> Result<Vec<Grant>, OperatorError> {
        if !self.store.exists() {
            return Ok(Vec::new());
        }
        Ok(self.store.grants(self.clock.now()).await?)
    }

    /// Takes back what stands for the rest of a session; `id` may be an unambiguous beginning or end of its id.
    ///
    /// # Errors
    /// When no grant answers to `id`, or it could not be recorded.
    pub async fn revoke(&self, id: &str, by: &str) -> Result<Grant, OperatorError> {
        // Taken back first: what fails after this leaves less allowed, not more.
        let grant = self.store.revoke_grant(id, self.clock.now()).await?;
        let asked = self.store.approval(grant.id.as_str(), self.clock.now()).await?;
        let mut entry = Entry::new(Event::Rejected, &asked.attempt, &asked.call_id);
        entry.approval = Some(grant.id.clone());
        entry.tool = Some(ToolRef { name: grant.tool.clone(), pin: Some(grant.pin.clone()), source: None });
        entry.note = Some(format!("by {by}: taken back for the rest of the session"));
        self.ledger.append(vec![entry], Durability::Strict).await?;
        Ok(grant)
    }

    /// The attempts whose outcome nobody knows, oldest first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn unsettled(&self) -> Result<Vec<Unsettled>, OperatorError> {
        if !self.store.exists() {
            return Ok(Vec::new());
        }
        Ok(self.store.unsettled().await?)
    }

    /// Says what became of an attempt; `id` may be an unambiguous part of its id.
    ///
    /// # Errors
    /// When no unsettled attempt answers to `id`, or the word could not be recorded.
    pub async fn settle(&self, id: &str, verdict: Verdict, note: String) -> Result<Unsettled, OperatorError> {
        let mut fitting =
            self.unsettled().await?.into_iter().filter(|one| one.attempt.as_str().contains(id) && !id.is_empty());
        let (Some(one), None) = (fitting.next(), fitting.next()) else {
            return Err(OperatorError::NotUnsettled(id.to_owned()));
        };
        let mut entry = Entry::new(Event::Settled, &one.attempt, &CallId::new(one.call_id.as_str()));
        entry.tool = Some(ToolRef { name: one.tool.clone(), pin: None, source: None });
        entry.outcome = Some(OutcomeRef {
            status: if verdict == Verdict::Done { Status::Done } else { Status::Failed },
            code: None,
            tool_code: None,
            retryable: None,
        });
        entry.note = Some(note);
        // Recorded first, forgotten last: whoever dies in between leaves it to be settled once more.
        self.ledger.append(vec![entry], Durability::Strict).await?;
        match verdict {
            Verdict::Done => {
                let told = stored::encode(&settled_as_done());
                self.store.fulfil_settled(one.attempt.clone(), told, self.clock.now()).await?;
                self.store.keep_spent(one.attempt.clone(), None).await?;
            }
            Verdict::Failed => {
                self.store.release(vec![one.attempt.clone()]).await?;
                self.store.give_back(one.attempt.clone()).await?;
                self.store.release_undo(one.attempt.clone()).await?;
            }
        }
        // Of two operators at once, one settles.
        if !self.store.settle(one.attempt.clone()).await? {
            return Err(OperatorError::NotUnsettled(id.to_owned()));
        }
        Ok(one)
    }
}

/// A result that a human gives is one that the tool could have given.
fn fits(open: &Approval, result: &Value) -> Result<(), OperatorError> {
    if result.to_string().len() > limits::INTERVENTION_RESULT_BYTES_MAX {
        let most = limits::INTERVENTION_RESULT_BYTES_MAX;
        return Err(OperatorError::Unfit(format!("it has more than {most} bytes")));
    }
    let Some(schema) = &open.expects else { return Ok(()) };
    let schema = Schema::compile(schema).map_err(|error| OperatorError::Unfit(error.to_string()))?;
    let wrong: Vec<String> = schema
        .validate(result)
        .iter()
        .map(|violation| format!("{} {}", violation.path, violation.message).trim_start().to_owned())
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(OperatorError::Unfit(wrong.join("; "))) }
}

/// Who answered, and in which words, as a record says it.
pub(crate) fn note(open: &Approval, answer: &Answer) -> String {
    let place = match answer.approved && open.approvers > 1 {
        true => format!(", {} of {}", open.yes_by.len() + 1, open.approvers),
        false => String::new(),
    };
    match &answer.reason {
        Some(reason) => format!("by {}{place}: {reason}", answer.by),
        None => format!("by {}{place}", answer.by),
    }
}

fn settled_as_done() -> End {
    let text = "an operator found that this call happened; its result is not known";
    End::Done(CallResult { content: vec![Content::Text(text.into())], ..CallResult::default() })
}
