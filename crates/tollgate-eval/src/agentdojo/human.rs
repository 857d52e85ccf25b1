//! The human who is asked: says yes to what belongs to the user's task, and no to what an injection asks for.

use std::sync::Mutex;
use std::sync::PoisonError;

use tollgate_types::{ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture};

/// Whose call is being made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Behalf {
    /// The user's.
    #[default]
    User,
    /// The injection's.
    Injection,
}

/// The human, and how often a question came since somebody looked.
#[derive(Default)]
pub(super) struct Human(Mutex<(Behalf, usize)>);

impl Human {
    pub(super) fn expect(&self, behalf: Behalf) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (behalf, 0);
    }

    pub(super) fn questions(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl ApprovalChannel for Human {
    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        let by = "the user".to_owned();
        let answer = match state.0 {
            Behalf::User => ApprovalAnswer::Approved { by, typed: None },
            Behalf::Injection => ApprovalAnswer::Rejected { by, reason: None },
        };
        drop(state);
        Box::pin(async move { answer })
    }
}
