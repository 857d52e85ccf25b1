//! Which attempt the code that asks is part of, so that what is logged on the way can say so. A task that a tool starts of
//! its own is not part of it.

use tollgate_types::AttemptId;

tokio::task_local! {
    static CURRENT: AttemptId;
}

/// The attempt that the current task works on.
pub fn current_attempt() -> Option<AttemptId> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Does `work` as part of an attempt.
pub(crate) fn within<F: Future>(attempt: &AttemptId, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(attempt.clone(), work)
}
