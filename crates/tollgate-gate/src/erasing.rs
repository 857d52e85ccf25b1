//! Erasing content at the operator's desk: of chosen attempts, or of all that is old. The store's copies go first, so that
//! who was chosen by a name can be found again should it fail in between; the ledger says what was erased, and goes last.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tollgate_ledger::{Erasable, EraseOrder, Erased, LedgerError, Level, would_erase};
use tollgate_store::{Copies, CopiesOf};
use tollgate_types::{CallResult, Content, End};

use crate::operator::{Operator, OperatorError};
use crate::stored;

/// How long content is kept; none for as long as the data folder is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// What was asked and answered.
    pub contents: Option<Duration>,
    /// The rest of the records.
    pub whole: Option<Duration>,
}

/// What was erased, in the ledger and beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erasing {
    /// In the ledger.
    pub ledger: Erased,
    /// Beside it.
    pub copies: Copies,
}

impl Operator {
    /// Erases the content of chosen attempts, and their copies in the store.
    ///
    /// # Errors
    /// When the filter asks for nothing that can be, or the store or the ledger fails. It can be done again then.
    pub async fn erase(&self, order: EraseOrder) -> Result<Erasing, OperatorError> {
        let copies = match &order.what {
            Erasable::Before(end) => self.erase_copies(CopiesOf::Before(*end)).await?,
            what @ Erasable::Attempts(_) => {
                let (data_dir, what, level) = (self.ledger.data_dir().to_owned(), what.clone(), order.level);
                let would = blocking(move || would_erase(&data_dir, &what, level)).await?;
                self.erase_copies(CopiesOf::Attempts(would.attempts)).await?
            }
        };
        let ledger = Arc::clone(&self.ledger);
        Ok(Erasing { ledger: blocking(move || ledger.erase(&order)).await?, copies })
    }

    /// Erases what is older than it is kept, and finishes what a process died over.
    ///
    /// # Errors
    /// When the store or the ledger fails. It can be done again then.
    pub async fn retain(&self, retention: Retention) -> Result<Erasing, OperatorError> {
        let ledger = Arc::clone(&self.ledger);
        blocking(move || ledger.finish_erasing()).await?;
        let mut all = Erasing::default();
        for order in retention.orders(self.clock.now()) {
            let erasing = self.erase(order).await?;
            all.ledger.records += erasing.ledger.records;
            all.ledger.erasures.extend(erasing.ledger.erasures);
            all.copies = Copies {
                results: all.copies.results + erasing.copies.results,
                answers: all.copies.answers + erasing.copies.answers,
                approvals: all.copies.approvals + erasing.copies.approvals,
                ..erasing.copies
            };
        }
        Ok(all)
    }

    async fn erase_copies(&self, of: CopiesOf) -> Result<Copies, OperatorError> {
        if !self.store.exists() {
            return Ok(Copies::default());
        }
        Ok(self.store.erase(of, stored::encode(&erased()), self.clock.now()).await?)
    }
}

impl Retention {
    /// What would be erased at this moment, in the order in which it would be.
    pub fn orders(&self, now: Timestamp) -> Vec<EraseOrder> {
        let kept = [(self.contents, Level::Contents), (self.whole, Level::Whole)];
        kept.into_iter().filter_map(|(kept, level)| Some(expired(now, kept?, level))).collect()
    }
}

/// The order to erase what is older than it is kept.
fn expired(now: Timestamp, kept: Duration, level: Level) -> EraseOrder {
    let age = SignedDuration::try_from(kept).unwrap_or(SignedDuration::MAX);
    let end = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
    EraseOrder {
        what: Erasable::Before(end),
        chosen: "before".to_owned(),
        level,
        by: "retention".to_owned(),
        reason: format!("kept for {} days", kept.as_secs() / 86_400),
    }
}

/// What is told under a key whose answer was erased.
fn erased() -> End {
    let text = "this call happened, and its answer was erased since";
    End::Done(CallResult { content: vec![Content::Text(text.into())], ..CallResult::default() })
}

/// Erasing reads whole segments.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, LedgerError> {
    let task = tokio::task::spawn_blocking(work).await;
    task.map_err(|error| LedgerError::Unavailable { doing: "erase", cause: Arc::new(error.into()) })?
}
