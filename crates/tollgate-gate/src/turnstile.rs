//! How many may be inside at once, and who is next: callers in turns, however many calls each of them has waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A door with so many places behind it.
#[derive(Debug)]
pub(crate) struct Turnstile {
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// The callers with calls that wait, whose turn is next first.
    callers: VecDeque<Arc<str>>,
    waiting: HashMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
}

/// A place behind the turnstile, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Arc<Turnstile>>);

impl Turnstile {
    pub(crate) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, state: Mutex::default() })
    }

    /// Waits for a place. Whoever stops waiting leaves the queue.
    pub(crate) async fn turn(self: &Arc<Self>, caller: &str) -> Turn {
        loop {
            let Some(place) = self.take_or_queue(caller) else { return Turn(Some(Arc::clone(self))) };
            if let Ok(turn) = place.await {
                return turn;
            }
        }
    }

    /// A place, if one is free: then nobody waits.
    pub(crate) fn now(self: &Arc<Self>) -> Option<Turn> {
        let mut state = self.state();
        let is_free = state.taken < self.places;
        state.taken += usize::from(is_free);
        is_free.then(|| Turn(Some(Arc::clone(self))))
    }

    /// Takes a free place, or says where one will be handed over.
    fn take_or_queue(&self, caller: &str) -> Option<oneshot::Receiver<Turn>> {
        let mut state = self.state();
        if state.taken < self.places {
            state.taken += 1;
            return None;
        }
        let (hand_over, place) = oneshot::channel();
        match state.waiting.get_mut(caller) {
            Some(queue) => queue.push_back(hand_over),
            None => {
                let caller: Arc<str> = caller.into();
                state.callers.push_back(Arc::clone(&caller));
                state.waiting.insert(caller, VecDeque::from([hand_over]));
            }
        }
        Some(place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Who goes in next; its caller goes to the end of the line.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let caller = self.callers.pop_front()?;
        let queue = self.waiting.get_mut(&caller)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&caller);
        } else {
            self.callers.push_back(caller);
        }
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turnstile) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = turnstile.state();
                let next = state.next();
                if next.is_none() {
                    state.taken -= 1;
                }
                next
            };
            let Some(hand_over) = next else { return };
            match hand_over.send(Self(Some(Arc::clone(&turnstile)))) {
                Ok(()) => return,
                // Nobody waits there any more: the place is still ours to give.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn callers_take_turns_and_who_left_is_passed_over() {
        let turnstile = Turnstile::new(1);
        let inside = turnstile.turn("busy").await;
        let (order, mut came) = tokio::sync::mpsc::channel(16);
        let mut queue = Vec::new();
        for caller in ["busy", "busy", "busy", "left", "quiet"] {
            let (turnstile, order) = (Arc::clone(&turnstile), order.clone());
            let mut call = async move {
                let _turn = turnstile.turn(caller).await;
                order.send(caller).await.unwrap();
            }
            .boxed();
            assert!(futures_util::poll!(&mut call).is_pending());
            queue.push(call);
        }
        drop(queue.remove(3));
        drop(inside);
        futures_util::future::join_all(queue).await;
        drop(order);
        let mut seen = Vec::new();
        while let Some(caller) = came.recv().await {
            seen.push(caller);
        }
        assert_eq!(seen, ["busy", "quiet", "busy", "busy"]);
        assert_eq!(turnstile.state().taken, 0);
        assert!(turnstile.state().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_place_that_was_handed_to_somebody_who_left_is_given_on() {
        let turnstile = Turnstile::new(1);
        let inside = turnstile.turn("a").await;
        let mut left = turnstile.turn("b").boxed();
        assert!(futures_util::poll!(&mut left).is_pending());
        drop(inside);
        drop(left);
        assert!(turnstile.turn("c").now_or_never().is_some());
        assert_eq!(turnstile.state().taken, 0);
    }
}
