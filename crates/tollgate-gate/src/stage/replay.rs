//! Replay: a call under an idempotency key happens at most once; asking again brings the first answer. A call under way is
//! waited for, and one whose process died is never made again unless its tool may happen twice.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_store::{NewReservation, Reservation, ReservationKey, StoreError};
use tollgate_types::{AttemptId, End, Flaw, HandedKey, Text, ToolOutput, limits};

use super::approve::Cleared;
use super::judge::Judged;
use super::{Stop, cancelled, store_full, store_unavailable};
use crate::gate::Trip;
use crate::stored;

/// Between two looks at a call under way, doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// Stands before a key that no caller gave: given ones have no control characters.
const OWN: char = '\u{1}';

/// Stops with what stands under the call's keys, if anything does.
pub(crate) async fn recall(trip: Trip<'_>, judged: &Judged) -> Result<(), Stop> {
    let keys = keys(trip, judged)?;
    if keys.is_empty() { Ok(()) } else { Waiting { trip, judged, keys }.until(Wanted::Look).await }
}

/// Takes the call's keys, or stops with what stands under them.
pub(super) async fn reserve(trip: Trip<'_>, cleared: &Cleared) -> Result<(), Stop> {
    let keys = keys(trip, cleared)?;
    if keys.is_empty() {
        return Ok(());
    }
    Waiting { trip, judged: cleared, keys }.until(Wanted::Take).await?;
    trip.attempt.holds_keys();
    Ok(())
}

/// What runs is told this key, where its definition wants that.
pub(super) fn handed(trip: Trip<'_>, judged: &Judged) -> Result<Option<HandedKey>, Stop> {
    let own = &judged.entry().definition.idempotency;
    let Some(name) = own.hand_on.clone() else { return Ok(None) };
    let Some(key) = keys(trip, judged)?.pop() else { return Ok(None) };
    // After its time an equal call is a new one, and must not be taken for the old one outside.
    let since = if own.derive { Some(&trip.attempt.id) } else { None };
    let value = json!([key.subject, key.tenant, key.tool, key.key, since.map(AttemptId::as_str)]);
    let digest = trip.gate.inner().key.digest(&value).map_err(|error| store_unavailable(&error))?;
    Ok(Some(HandedKey { name, value: uuid(digest.as_str()) }))
}

/// The first bytes of a digest as a UUID of the version for such (RFC 9562 §5.8): 36 characters fit everywhere.
fn uuid(hex: &str) -> String {
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-8{}-8{}-{}", part(0, 8), part(8, 12), part(12, 15), part(15, 18), part(18, 30))
}

/// The keys of a call: the one that was given, and after it the tool's own.
fn keys(trip: Trip<'_>, judged: &Judged) -> Result<Vec<ReservationKey>, Stop> {
    let entry = judged.entry();
    let key = |key: &str| ReservationKey::new(&trip.attempt.caller, &entry.definition.name, key);
    let mut keys = Vec::new();
    if let Some(given) = &trip.call.idempotency_key {
        let count = given.chars().count();
        if count == 0 || count > limits::IDEMPOTENCY_KEY_CHARS_MAX || given.chars().any(char::is_control) {
            let most = limits::IDEMPOTENCY_KEY_CHARS_MAX;
            return Err(Stop::Error(Text::BadKey.error(&[("max", &most)])));
        }
        keys.push(key(given));
    }
    let own = &entry.definition.idempotency;
    if let Some(pointer) = &own.argument {
        let value = judged.arguments().pointer(pointer);
        let Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) = value else {
            return Err(no_key(pointer));
        };
        let digest = trip.gate.inner().key.digest(value).map_err(|error| store_unavailable(&error))?;
        keys.push(key(&format!("{OWN}argument {pointer} {digest}")));
    }
    if own.derive {
        keys.push(key(&format!("{OWN}equal {} {}", entry.pin, judged.digest())));
    }
    Ok(keys)
}

fn no_key(pointer: &str) -> Stop {
    Stop::Error(Text::NoKey.error(&[]).with_details(vec![Flaw::KeyKind.at(pointer, &[])]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What stands there.
    Look,
    /// The keys.
    Take,
}

/// A call at its keys.
struct Waiting<'a> {
    trip: Trip<'a>,
    judged: &'a Judged,
    keys: Vec<ReservationKey>,
}

impl Waiting<'_> {
    /// Returns once the call may go on. A first call that is under way is waited for, as long as this one may run.
    async fn until(&self, wanted: Wanted) -> Result<(), Stop> {
        let (mut pause, mut waited) = (PAUSE_MIN, Duration::ZERO);
        loop {
            let first = match self.look(wanted).await? {
                Reservation::Fresh => return Ok(()),
                Reservation::Open { attempt } => attempt,
                other => return Err(self.ended(other)),
            };
            if self.is_over(wanted, &first, pause == PAUSE_MAX).await? {
                return Ok(());
            }
            let is_its_parent = self.trip.call.parent.as_ref() == Some(&first);
            if waited >= self.judged.cx().deadline || is_its_parent {
                return Err(under_way(&first));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.trip.cancellation.cancelled() => {
                    return Err(cancelled("cancelled while it waited for the first call under its idempotency key"));
                }
            }
            waited += pause;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn look(&self, wanted: Wanted) -> Result<Reservation, Stop> {
        let gate = self.trip.gate.inner();
        let (keys, digest, asked) = (self.keys.clone(), self.judged.digest().clone(), self.trip.attempt.asked);
        let waited = gate.clock.now().duration_since(asked);
        if waited.as_millis() >= i128::from(limits::IDEMPOTENCY_GRACE_MS) {
            let message = "it waited for more than a day, and what stood under its idempotency key may be forgotten";
            return Err(cancelled(message));
        }
        let standing = match wanted {
            Wanted::Look => gate.store.reservation(keys, digest, asked).await,
            Wanted::Take => {
                let ttl_ms = self.judged.entry().definition.idempotency.ttl_ms;
                let new = NewReservation { keys, digest, attempt: self.trip.attempt.id.clone(), ttl_ms };
                gate.store.reserve(new, asked).await
            }
        };
        standing.map_err(|error| match error {
            StoreError::Limit(message) => store_full(message),
            other => store_unavailable(&other),
        })
    }

    /// Whether the first call's process died and this call may be made all the same; a stop where it may not.
    async fn is_over(&self, wanted: Wanted, first: &AttemptId, has_waited: bool) -> Result<bool, Stop> {
        let gate = self.trip.gate.inner();
        if has_waited {
            gate.take_over_dead().await;
        }
        let unsettled = gate.store.is_unsettled(first.clone()).await.map_err(|error| store_unavailable(&error))?;
        if !unsettled {
            return Ok(false);
        }
        if !self.judged.entry().definition.may_happen_twice() {
            return Err(unknown(first));
        }
        match wanted {
            Wanted::Look => Ok(true),
            // Of several that come for them one gets them, and the others wait for it.
            Wanted::Take => gate
                .store
                .take_keys_over(first.clone(), self.trip.attempt.id.clone())
                .await
                .map_err(|error| store_unavailable(&error)),
        }
    }

    fn ended(&self, standing: Reservation) -> Stop {
        let Reservation::Ended { attempt, outcome } = standing else {
            return Stop::Error(Text::KeyReused.error(&[]));
        };
        match stored::decode(&outcome) {
            None => {
                let what = "the stored answer under this idempotency key does not read";
                Stop::Error(Text::Amiss.error(&[("what", &what)]))
            }
            Some(end) => {
                self.trip.attempt.replays(attempt);
                if let End::Done(result) = &end {
                    // A session that is told it again may hear it for the first time.
                    let (content, structured) = (result.content.clone(), result.structured.clone());
                    let said = ToolOutput { content, structured, raw: None };
                    let (caller, tool) = (&self.trip.attempt.caller, &self.judged.entry().definition);
                    self.trip.gate.inner().heard(caller, tool, self.judged.arguments(), &Ok(said));
                }
                Stop::Ended(Box::new(end))
            }
        }
    }
}

fn unknown(first: &AttemptId) -> Stop {
    Stop::Error(Text::FirstUnknown.error(&[("attempt", first)]))
}

fn under_way(first: &AttemptId) -> Stop {
    let mut error = Text::UnderWay.error(&[("attempt", first)]);
    error.retryable = true;
    error.retry_after_ms = Some(limits::IDEMPOTENCY_WAIT_MS);
    Stop::Error(error)
}
