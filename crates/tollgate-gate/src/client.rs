//! The client of a call as what runs for the call meets it: what is asked of it and told to it holds no secret, and while it
//! is asked the call's own time does not pass.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use tokio::time::sleep;
use tollgate_guard::redact::Redactor;
use tollgate_types::{BoxFuture, Clock, GoesOn, LogMessage, Peer, PeerError, PeerQuestion};

use crate::Gate;
use crate::gate::Trip;
use crate::seat::Seat;

/// Whether somebody waits for the client of a call, and where the call sits meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    waits: watch::Sender<usize>,
    pub(crate) seat: Seat,
}

/// One wait; over when it is dropped.
struct Wait<'a>(&'a Patience);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.waits.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Patience {
    fn wait(&self) -> Wait<'_> {
        self.waits.send_modify(|count| *count += 1);
        Wait(self)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        *self.waits.borrow() > 0
    }

    /// Returns once so much time has passed in which nobody waited for the client.
    pub(crate) async fn outlast(&self, time: Duration, clock: &dyn Clock) {
        let (mut left, mut waits) = (time, self.waits.subscribe());
        loop {
            // The sender is in `self`: it does not go away.
            let _ = waits.wait_for(|count| *count == 0).await;
            let began = clock.monotonic();
            tokio::select! {
                () = sleep(left) => return,
                _ = waits.changed() => left = left.saturating_sub(clock.monotonic().saturating_sub(began)),
            }
        }
    }
}

/// The client of one call.
pub(crate) struct Client {
    peer: Arc<dyn Peer>,
    patience: Arc<Patience>,
    gate: Gate,
    /// Whether the call is another's, which did what nobody else knows of.
    is_nested: bool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn of(peer: &Arc<dyn Peer>, trip: Trip<'_>) -> Arc<dyn Peer> {
        let (peer, patience) = (Arc::clone(peer), Arc::clone(trip.patience));
        Arc::new(Self { peer, patience, gate: trip.gate.clone(), is_nested: trip.depth > 0 })
    }
}

impl Peer for Client {
    fn ask(&self, mut question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        Box::pin(async move {
            if let Some(clean) = cleaned(&self.gate.inner().redactor, &question.params) {
                question.params = clean;
            }
            if self.is_nested {
                question.goes_on = GoesOn::Here;
            }
            let _wait = self.patience.wait();
            if matches!(question.goes_on, GoesOn::Here) {
                return self.peer.ask(question).await;
            }
            // What could begin elsewhere has nothing under way here.
            let away = self.patience.seat.leave();
            let answer = self.peer.ask(question).await?;
            away.back().await.map_err(|busy| PeerError::Denied(Box::new(busy.into())))?;
            Ok(answer)
        })
    }

    fn resumed(&self) -> Option<Arc<RawValue>> {
        self.peer.resumed().filter(|_| !self.is_nested)
    }

    fn log(&self, mut message: LogMessage) {
        let redactor = &self.gate.inner().redactor;
        redactor.result_value(&mut message.data);
        message.logger = message.logger.map(|logger| redactor.result(&logger).into_owned());
        self.peer.log(message);
    }
}

/// The parameters without what must not leave; none where they may leave as they are.
fn cleaned(redactor: &Redactor, params: &RawValue) -> Option<Box<RawValue>> {
    let Ok(value) = serde_json::from_str::<Value>(params.get()) else { return Some(RawValue::NULL.to_owned()) };
    let mut clean = value.clone();
    redactor.result_value(&mut clean);
    (clean != value).then(|| to_raw_value(&clean).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use tollgate_testkit::TestClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_does_not_pass_while_the_client_is_asked() {
        let (patience, clock, second) = (Patience::default(), TestClock::default(), Duration::from_secs(1));
        let wait = patience.wait();
        let mut passing = std::pin::pin!(patience.outlast(second, &clock));
        assert!(timeout(60 * second, &mut passing).await.is_err());
        assert!(patience.is_waiting());
        drop(wait);
        assert!(timeout(2 * second, passing).await.is_ok() && !patience.is_waiting());
    }
}
