//! Many calls of one caller: side by side where they may be, in their order where they must be.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tollgate_catalog::{Lanes, Schedule};
use tollgate_types::limits::{BATCH_CALLS_AT_ONCE_MAX, BATCH_CALLS_MAX};
use tollgate_types::{Call, Caller, Code, Door, ErrorObject, Outcome, RepairLevel};
use tollgate_wire::repair;

use crate::Gate;

impl Gate {
    /// Takes many calls from request to recorded outcome, each as [`Door::call`] does. There is one outcome for each call, in
    /// the order of the calls, however the others ended.
    ///
    /// [`BATCH_CALLS_AT_ONCE_MAX`] are under way at once; each waits for its turn at its tool like every other call, and
    /// callers take turns there. Calls that would get into each other's way run in the order in which they stand: those of a
    /// tool with `concurrency = "sequential"`, and those whose `execution.resources` name the same thing, unless all of them
    /// read. Of more than [`BATCH_CALLS_MAX`] calls, those beyond are refused.
    ///
    /// Dropping the future cancels what is under way; the calls that had not begun are not made.
    pub async fn call_many(&self, caller: &Caller, mut calls: Vec<Call>) -> Vec<Outcome> {
        for call in calls.iter_mut().skip(BATCH_CALLS_MAX) {
            call.refusal.get_or_insert_with(too_many);
        }
        let mut schedule = Schedule::new(calls.iter().map(|call| self.lanes(call)));
        let mut calls: Vec<_> = calls.into_iter().map(Some).collect();
        let mut outcomes: Vec<_> = std::iter::repeat_with(|| None).take(calls.len()).collect();
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < BATCH_CALLS_AT_ONCE_MAX {
                let Some(at) = schedule.begin() else { break };
                if let Some(call) = calls.get_mut(at).and_then(Option::take) {
                    running.push(async move { (at, self.call(caller, call).await) });
                }
            }
            let Some((at, outcome)) = running.next().await else { break };
            schedule.end(at);
            if let Some(place) = outcomes.get_mut(at) {
                *place = Some(outcome);
            }
        }
        // INVARIANT: the schedule lets each call begin once, and none waits for a later one.
        outcomes.into_iter().flatten().collect()
    }

    fn lanes(&self, call: &Call) -> Lanes {
        let Some(tool) = self.catalog().get(&call.name) else { return Lanes::unknown(&call.name) };
        let arguments = repair::arguments(&call.arguments, RepairLevel::Lenient).ok();
        Lanes::of(&tool.definition, arguments.as_ref().map(|parsed| &parsed.value))
    }
}

fn too_many() -> ErrorObject {
    let message = format!("a batch has at most {BATCH_CALLS_MAX} calls");
    ErrorObject::new(Code::RateLimited, message).with_hint("ask for the rest in another batch")
}
