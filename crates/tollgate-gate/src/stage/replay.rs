//! Replay: a call under an idempotency key happens at most once; asking again brings the first answer.

use serde::{Deserialize, Serialize};
use tollgate_store::{Reservation, ReservationKey};
use tollgate_types::{CallResult, Code, End, ErrorObject, Status, limits};

use super::approve::Cleared;
use super::judge::Judged;
use super::{Stop, store_unavailable};
use crate::gate::Trip;

/// An end as it is stored under its key.
#[derive(Serialize, Deserialize)]
struct StoredEnd {
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<CallResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

/// The stored form of an end.
pub(crate) fn encode(end: &End) -> String {
    let result = match end {
        End::Done(result) => Some(result.clone()),
        End::Refused(_) | End::Failed(_) | End::Waiting(..) | End::Unknown(_) => None,
    };
    let stored = StoredEnd { status: end.status(), result, error: end.error().cloned() };
    serde_json::to_string(&stored).unwrap_or_default()
}

fn decode(stored: &str) -> Option<End> {
    let stored: StoredEnd = serde_json::from_str(stored).ok()?;
    match (stored.status, stored.result, stored.error) {
        (Status::Done, Some(result), _) => Some(End::Done(result)),
        (_, _, Some(error)) => Some(End::from_error(error)),
        _ => None,
    }
}

/// Stops with what stands under the call's key, if anything does.
pub(crate) async fn recall(trip: Trip<'_>, judged: &Judged) -> Result<(), Stop> {
    let Some(scope) = scope(trip, judged)? else { return Ok(()) };
    let standing = trip.gate.inner().store.reservation(scope, judged.digest().clone()).await;
    settle(trip, standing.map_err(|error| store_unavailable(&error))?).await
}

/// Takes the call's key, or stops with what stands under it.
pub(super) async fn reserve(trip: Trip<'_>, cleared: &Cleared) -> Result<(), Stop> {
    let Some(scope) = scope(trip, cleared)? else { return Ok(()) };
    let gate = trip.gate.inner();
    let (digest, attempt) = (cleared.digest().clone(), trip.attempt.id.clone());
    let standing = gate.store.reserve(scope.clone(), digest, attempt, gate.clock.now()).await;
    settle(trip, standing.map_err(|error| store_unavailable(&error))?).await?;
    trip.attempt.holds(scope);
    Ok(())
}

fn scope(trip: Trip<'_>, judged: &Judged) -> Result<Option<ReservationKey>, Stop> {
    let Some(key) = &trip.call.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.chars().count() > limits::IDEMPOTENCY_KEY_CHARS_MAX {
        let message = format!("an idempotency key has 1 to {} characters", limits::IDEMPOTENCY_KEY_CHARS_MAX);
        return Err(Stop::new(Code::InvalidArguments, message));
    }
    Ok(Some(ReservationKey::new(&trip.attempt.caller, &judged.entry().definition.name, key)))
}

async fn settle(trip: Trip<'_>, standing: Reservation) -> Result<(), Stop> {
    match standing {
        Reservation::Fresh => Ok(()),
        Reservation::Ended { outcome } => {
            let end = decode(&outcome).ok_or_else(|| {
                Stop::new(Code::Internal, "the stored answer under this idempotency key does not read")
            })?;
            trip.attempt.replays();
            Err(Stop::Replay(Box::new(end)))
        }
        Reservation::OtherArguments => Err(Stop::Error(
            ErrorObject::new(Code::Conflict, "this idempotency key was used with other arguments")
                .with_hint("use a new key for a new call"),
        )),
        Reservation::Open { attempt } => Err(open(trip, &attempt).await?),
    }
}

/// The first call under the key has no end: either it is under way, or its process died.
async fn open(trip: Trip<'_>, first: &tollgate_types::AttemptId) -> Result<Stop, Stop> {
    let unsettled = trip.gate.inner().store.unsettled().await.map_err(|error| store_unavailable(&error))?;
    if unsettled.iter().any(|one| &one.attempt == first) {
        let message =
            format!("the first call under this idempotency key (attempt {first}) was started and never finished");
        let hint = format!("check whether it happened, then run `tollgate audit settle {first}`");
        return Ok(Stop::Error(ErrorObject::new(Code::OutcomeUnknown, message).with_hint(hint)));
    }
    let mut error = ErrorObject::new(Code::Conflict, "the first call under this idempotency key is still under way");
    error.retryable = true;
    Ok(Stop::Error(error.with_hint("ask again later with the same key and arguments")))
}
