//! Callers that go in circles: the same call with the same end again and again, also with others between. Remembered in
//! this process, bounded, and only for roles that have a limit.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tollgate_types::{Caller, End, Risk};

/// Sessions that are remembered; of more, those are forgotten that came first.
const SESSIONS_MAX: usize = 10_000;
/// Different calls of one session that are remembered, the newest.
const CALLS_MAX: usize = 64;
/// After this time a call that ends as before is news: the world may have changed, and did not.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// What sessions asked for, and how it ended.
#[derive(Default)]
pub(crate) struct Circles(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    calls: HashMap<Key, VecDeque<Asked>>,
    order: VecDeque<Key>,
}

type Key = (String, Option<String>);

struct Asked {
    call: u64,
    end: u64,
    /// How often in a row it ended so.
    times: u32,
    last: Duration,
}

impl Circles {
    /// How often in a row this call ended in the same way.
    pub(crate) fn times(&self, caller: &Caller, call: u64, now: Duration) -> u32 {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = sessions.calls.get(&key(caller));
        let asked = calls.into_iter().flatten().find(|asked| asked.call == call);
        asked.filter(|asked| now.saturating_sub(asked.last) < FORGOTTEN_AFTER).map_or(0, |asked| asked.times)
    }

    /// The caller's session is over: it asks for nothing any more.
    pub(crate) fn forget(&self, caller: &Caller) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(caller);
        if sessions.calls.remove(&key).is_some() {
            sessions.order.retain(|other| *other != key);
        }
    }

    /// A call has ended. After a change that was made, what was read before may read differently.
    pub(crate) fn ended(&self, caller: &Caller, call: u64, risk: Risk, end: &End, now: Duration) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(caller);
        if !sessions.calls.contains_key(&key) {
            sessions.order.push_back(key.clone());
            if sessions.order.len() > SESSIONS_MAX
                && let Some(oldest) = sessions.order.pop_front()
            {
                sessions.calls.remove(&oldest);
            }
        }
        let calls = sessions.calls.entry(key).or_default();
        let before = calls.iter().position(|asked| asked.call == call).and_then(|at| calls.remove(at));
        if risk != Risk::Read && matches!(end, End::Done(_)) {
            calls.clear();
        }
        let end = digest(end);
        let fresh = before.filter(|asked| asked.end == end && now.saturating_sub(asked.last) < FORGOTTEN_AFTER);
        calls.push_back(Asked { call, end, times: fresh.map_or(1, |asked| asked.times.saturating_add(1)), last: now });
        if calls.len() > CALLS_MAX {
            calls.pop_front();
        }
    }
}

/// Calls without a session share that of their subject.
fn key(caller: &Caller) -> Key {
    (caller.subject.clone(), caller.session.clone())
}

fn digest(end: &End) -> u64 {
    let mut hasher = DefaultHasher::new();
    end.status().as_str().hash(&mut hasher);
    match end {
        End::Done(result) => {
            result.structured.hash(&mut hasher);
            serde_json::to_string(&result.content).unwrap_or_default().hash(&mut hasher);
        }
        End::Refused(error) | End::Failed(error) | End::Unknown(error) => {
            (error.error.as_str(), &error.message, &error.tool_code).hash(&mut hasher);
        }
        End::Waiting(..) => {}
    }
    hasher.finish()
}
