//! The stream that a GET opens in the handshake era: what a server says there belongs to no question. A server need not
//! have one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tollgate_guard::client::{Current, Renewal, Response};
use tollgate_types::limits;

use super::{HttpLink, INTERNAL_ERROR, RESUME_PAUSE_MAX, header, is_stream};
use crate::server::Revision;
use crate::upstream::hearing::{Ear, Question};
use crate::upstream::message::{self, Incoming, Lists};
use crate::upstream::sse::Events;

/// How long the stream may be silent.
const SILENCE: Duration = Duration::from_millis(2 * limits::TOOL_TIMEOUT_MS_MAX);
/// The pause before it is opened again, doubled each time while nothing comes of it, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// Why there is no stream.
enum Refused {
    /// The server has none.
    ForGood,
    /// It may have one later.
    ForNow,
}

impl HttpLink {
    /// Waits until something may have been missed of what the server says unasked.
    pub(in crate::upstream) async fn missed(&self) {
        self.missed.notified().await;
    }

    /// Hears what the server says unasked, from session to session. Never returns.
    pub(in crate::upstream) async fn overhear(&self, agreed: Option<Revision>) {
        let mut renewals = self.renewals.subscribe();
        loop {
            renewals.borrow_and_update();
            tokio::select! {
                () = self.overhear_session(agreed) => {}
                _ = renewals.changed() => {}
            }
        }
    }

    /// The same for as long as the session is the one of now.
    async fn overhear_session(&self, agreed: Option<Revision>) {
        let (mut events, mut pause, mut is_first) = (Events::default(), PAUSE, true);
        loop {
            match self.open_stream(agreed, events.last_id()).await {
                Ok(response) => {
                    if !is_first && events.last_id().is_none() {
                        self.heard.add(Lists::ALL);
                        self.missed.notify_one();
                    }
                    is_first = false;
                    if self.hear(response, &mut events, agreed).await {
                        pause = PAUSE;
                    }
                    events.broke_off();
                }
                Err(Refused::ForGood) => return std::future::pending().await,
                // From there it cannot be taken up again.
                Err(Refused::ForNow) => events = Events::default(),
            }
            tokio::time::sleep(events.retry().unwrap_or(pause).min(RESUME_PAUSE_MAX)).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Opens it, and once more with credentials that were read anew where the server does not take those it was shown.
    async fn open_stream(&self, agreed: Option<Revision>, last_id: Option<&str>) -> Result<Response, Refused> {
        let known_by = self.credentials.current();
        let mut response = self.get(&known_by, agreed, last_id).await?;
        if response.status == 401 && self.credentials.renew(&known_by).await == Renewal::Renewed {
            response = self.get(&self.credentials.current(), agreed, last_id).await?;
        }
        match response.status {
            200 if is_stream(&response) => Ok(response),
            // In a session it says that the session is gone, which the next question finds out too.
            404 if self.session().is_some() => Err(Refused::ForNow),
            404 | 405 | 501 | 200..=299 => Err(Refused::ForGood),
            _ => Err(Refused::ForNow),
        }
    }

    async fn get(
        &self,
        known_by: &Current,
        agreed: Option<Revision>,
        last_id: Option<&str>,
    ) -> Result<Response, Refused> {
        let mut request = self.request(known_by, "GET", self.session().as_deref(), None);
        request.headers.extend(agreed.map(|revision| header("MCP-Protocol-Version", revision.as_str())));
        request.headers.extend(last_id.map(|id| header("Last-Event-ID", id)));
        // Some send the head of an answer with its first event.
        request.timeout = SILENCE;
        self.client.send(request).await.map_err(|_| Refused::ForNow)
    }

    /// Hears the stream to its end. Says whether anything came.
    async fn hear(&self, mut response: Response, events: &mut Events, agreed: Option<Revision>) -> bool {
        let mut has_come = false;
        while let Ok(Some(piece)) = response.next_chunk(SILENCE).await {
            let mut replies = Vec::new();
            let fed = events.feed(&piece, self.limits.response_bytes_max, |event| {
                has_come = true;
                replies.extend(self.take_unasked(event.data));
            });
            for reply in replies {
                let _ = self.tell(&reply, agreed).await;
            }
            if fed.is_err() {
                break;
            }
        }
        has_come
    }

    /// Hands a question to whoever hears for the call that it can only belong to. Returns what is to be said to others.
    fn asked(&self, id: &str, method: &str, params: Option<&RawValue>) -> Option<Vec<u8>> {
        let Some(question) = Question::read(id, method, params) else { return Some(message::reply(id, method)) };
        let refused = |why| message::refusal(id, INTERNAL_ERROR, why);
        match self.ears.only() {
            Some(ear) => ear.put(question).err().map(refused),
            None => Some(refused("nobody can say on which call's behalf it is asked")),
        }
    }

    /// Takes a message. Returns what is to be said to it.
    fn take_unasked(&self, frame: &[u8]) -> Option<Vec<u8>> {
        if frame.is_empty() {
            return None;
        }
        match message::read(frame) {
            Some(Incoming::Notification { method, params }) => match &*method {
                "notifications/message" => self.ears.only().iter().for_each(|ear| ear.log(params)),
                _ => self.heard.take(&method, params),
            },
            Some(Incoming::Request { id, method, params }) => return self.asked(id, &method, params),
            Some(Incoming::Response { .. }) => self.traces.unknown_id(),
            None => self.traces.line(frame),
        }
        None
    }
}

/// The calls under way, whose clients can be asked. Some servers ask on this stream what belongs to a call.
#[derive(Default)]
pub(super) struct Ears(Mutex<BTreeMap<u64, Ear>>);

impl Ears {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Ear>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears until the guard is dropped.
    pub(super) fn enter(&self, number: u64, ear: Ear) -> Open<'_> {
        self.lock().insert(number, ear);
        Open { ears: self, number }
    }

    /// Who asked last. The server does not say for whom it speaks, so that all calls must be one caller's.
    fn only(&self) -> Option<Ear> {
        let ears = self.lock();
        let (_, last) = ears.last_key_value()?;
        ears.values().all(|ear| ear.caller == last.caller).then(|| last.clone())
    }
}

/// A call that is under way.
pub(super) struct Open<'a> {
    ears: &'a Ears,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.ears.lock().remove(&self.number);
    }
}
