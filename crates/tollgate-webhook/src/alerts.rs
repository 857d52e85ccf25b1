//! Calls of tools that are kept from who asked, told to the operator. The ledger has each of them; a message says that
//! somebody may want to look now. Many at once are one message, and beyond a limit they are only counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use tollgate_types::{Observed, limits, uuid_v7, visible};

/// The type of an alert.
const FORBIDDEN: &str = "calls.forbidden";

/// What is still to be told.
#[derive(Default)]
pub(crate) struct Alerts(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<Arc<Observed>>,
    /// Those for which there was no room.
    more: u64,
    batch: Option<Batch>,
}

/// One message, which is sent until it arrives or was tried too often.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
    pub(crate) tries: u32,
    /// Not before this.
    pub(crate) due: Timestamp,
}

impl Alerts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, call: &Arc<Observed>) {
        let mut state = self.state();
        if state.waiting.len() < limits::ALERT_CALLS_MAX {
            state.waiting.push(Arc::clone(call));
        } else {
            state.more = state.more.saturating_add(1);
        }
    }

    /// The message that is due: the one that did not arrive yet, or what came since in a new one.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Batch> {
        let mut state = self.state();
        if state.batch.is_none() && !state.waiting.is_empty() {
            let calls: Vec<Value> = std::mem::take(&mut state.waiting).iter().map(|call| told(call)).collect();
            let more = std::mem::take(&mut state.more);
            let data = json!({ "calls": calls, "more": more, "command": "tollgate audit query --code forbidden" });
            let message = json!({ "type": FORBIDDEN, "timestamp": now, "data": data });
            let body = visible::json(&message).map(String::into_bytes).unwrap_or_default();
            state.batch = Some(Batch { id: uuid_v7(now), body, tries: 0, due: now });
        }
        state.batch.clone().filter(|batch| batch.due <= now)
    }

    /// The message arrived, or is given up.
    pub(crate) fn over(&self) {
        self.state().batch = None;
    }

    /// The message did not arrive, and is sent again.
    pub(crate) fn again(&self, due: Timestamp) {
        if let Some(batch) = &mut self.state().batch {
            batch.tries += 1;
            batch.due = due;
        }
    }
}

fn told(call: &Observed) -> Value {
    let caller = &call.caller;
    json!({
        "attempt": call.attempt,
        "time": call.began,
        "tool": call.tool,
        "caller": {
            "subject": caller.subject, "role": caller.role, "tenant": caller.tenant,
            "surface": caller.surface, "session": caller.session,
        },
    })
}
