//! A running request whose tool may report progress: the steps go out under the client's token while it runs, and the
//! tool never waits for the client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tollgate_types::{Caller, Door, Progress, ProgressUpdate};

use crate::server::{Answer, Request, progress_notification};

/// Steps of one request that wait for the client to read; the oldest makes room.
const STEPS_MAX: usize = 16;

/// Answers a request; its progress goes to `out` before the answer is returned and never after.
pub(crate) async fn answer(
    mut request: Request,
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
    out: mpsc::Sender<Vec<u8>>,
) -> Answer {
    request.attach(&out);
    let Some(token) = request.progress_token().map(ToOwned::to_owned) else {
        return request.answer(door, caller, Progress::none()).await;
    };
    let steps = Arc::new(Steps::default());
    let listener = Arc::clone(&steps);
    let progress = Progress::to(move |step| listener.push(step));
    let answer = tokio::select! {
        biased;
        answer = request.answer(door, caller, progress) => answer,
        never = steps.forward(&token, &out) => match never {},
    };
    while let Ok(permit) = out.try_reserve()
        && let Some(step) = steps.pop()
    {
        permit.send(progress_notification(&token, &step));
    }
    answer
}

#[derive(Default)]
struct Steps {
    queue: Mutex<Queue>,
    pushed: Notify,
}

#[derive(Default)]
struct Queue {
    steps: VecDeque<ProgressUpdate>,
    last: Option<f64>,
}

impl Steps {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step that does not go forward is left out: the value must increase with each notification (MCP, Progress).
    fn push(&self, step: ProgressUpdate) {
        let mut queue = self.lock();
        if !step.progress.is_finite() || queue.last.is_some_and(|last| step.progress <= last) {
            return;
        }
        queue.last = Some(step.progress);
        if queue.steps.len() == STEPS_MAX {
            queue.steps.pop_front();
        }
        queue.steps.push_back(step);
        drop(queue);
        self.pushed.notify_one();
    }

    fn pop(&self) -> Option<ProgressUpdate> {
        self.lock().steps.pop_front()
    }

    /// Sends steps as the client reads them, for as long as it is polled. A step leaves the queue only once there is
    /// room for it, so that the newest ones survive a client that does not read.
    async fn forward(&self, token: &RawValue, out: &mpsc::Sender<Vec<u8>>) -> Infallible {
        loop {
            self.pushed.notified().await;
            while !self.lock().steps.is_empty() {
                let Ok(permit) = out.reserve().await else { return std::future::pending().await };
                if let Some(step) = self.pop() {
                    permit.send(progress_notification(token, &step));
                }
            }
        }
    }
}
