//! Circles: a call that keeps ending in the same way is not made once more.

use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate_types::{Code, Digest, ErrorObject};

use super::Stop;
use super::judge::Judged;
use crate::gate::Trip;

/// Refuses what ended in the same way as often as the role allows.
pub(crate) fn look(trip: Trip<'_>, judged: &Judged) -> Result<(), Stop> {
    let gate = trip.gate.inner();
    let caller = &trip.attempt.caller;
    let Some(repeats) = gate.policy.now().repeats(&caller.role) else { return Ok(()) };
    let call = call_of(&judged.entry().definition.name, judged.digest());
    let times = gate.circles.times(caller, call, gate.clock.monotonic());
    if times >= repeats {
        let message = format!("the same call ended in the same way {times} times in a row");
        let hint = "use what it said, ask for something else, or say what is missing";
        return Err(Stop::Error(ErrorObject::new(Code::NoProgress, message).with_hint(hint)));
    }
    trip.attempt.repeats(call);
    Ok(())
}

/// Equal for equal arguments, whatever the order of their keys.
fn call_of(tool: &str, arguments: &Digest) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, arguments).hash(&mut hasher);
    hasher.finish()
}
