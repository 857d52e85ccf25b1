//! What a server says unasked, and the resources whose changes are followed: each connection is asked for them anew, in the
//! way of its era, and what nobody follows any more is taken back.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::{sleep, timeout};
use tollgate_types::{Code, ToolError};

use super::Server;
use crate::server::Revision;
use crate::upstream::fault::Fault;
use crate::upstream::hearing::{Acknowledge, Granted, Listener};
use crate::upstream::link::Link;
use crate::upstream::message::{Ask, Lists};
use crate::upstream::outcome;

/// Resources of one server that are followed.
const FOLLOWED_MAX: usize = 4_096;
/// Wishes that come in a burst are said at once.
const BURST_PAUSE: Duration = Duration::from_millis(20);
/// The pause before a server is listened to again, doubled each time up to the longest.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);
const LISTEN_PAUSE_MAX: Duration = Duration::from_secs(60);
const METHOD_NOT_FOUND: i64 = -32601;

/// The resources of a server that are followed.
#[derive(Default)]
pub(super) struct Followed {
    wanted: watch::Sender<BTreeSet<String>>,
    /// What the connection of now was asked for in the handshake era. Whoever holds it may ask.
    asked: Mutex<BTreeSet<String>>,
    /// What came of it in the stateless era.
    heeded: watch::Sender<Heeded>,
}

/// What a server agreed to say, of what it was asked for.
#[derive(Debug, Default)]
struct Heeded {
    asked: BTreeSet<String>,
    granted: BTreeSet<String>,
    /// Why it is asked for nothing more.
    refusal: Option<String>,
}

impl Followed {
    /// A new connection knows nothing of what another was asked for.
    pub(super) async fn begin_anew(&self) {
        self.asked.lock().await.clear();
        self.heeded.send_replace(Heeded::default());
    }

    /// False where there are too many.
    fn want(&self, uri: &str) -> bool {
        let mut has_room = true;
        self.wanted.send_if_modified(|wanted| {
            has_room = wanted.contains(uri) || wanted.len() < FOLLOWED_MAX;
            has_room && wanted.insert(uri.to_owned())
        });
        has_room
    }

    fn forget(&self, uri: &str) {
        self.wanted.send_if_modified(|wanted| wanted.remove(uri));
    }
}

/// A question that stands for as long as the server listens to it.
type Listening<'a> = Pin<Box<dyn Future<Output = Result<Box<RawValue>, Fault>> + Send + 'a>>;

impl Server {
    /// Asks the server to say when a resource changes, for as long as somebody follows it.
    pub(in crate::upstream) async fn follow(&self, uri: &str) -> Result<(), ToolError> {
        let link = self.link().await?;
        if !link.offers().subscriptions {
            return Err(self.unheeded("it does not say when a resource changes"));
        }
        if !self.followed.want(uri) {
            return Err(self.unheeded(&format!("{FOLLOWED_MAX} of its resources are followed")));
        }
        let asked = if link.agreed().is_some_and(Revision::is_stateless) {
            self.heeds(uri).await
        } else {
            self.ask_for(&link, uri).await.map_err(|fault| outcome::explain(&self.config.name, &fault))
        };
        if asked.is_err() {
            self.followed.forget(uri);
        }
        asked
    }

    /// Nobody follows the resource any more. The server hears of it by and by.
    pub(in crate::upstream) fn unfollow(&self, uri: &str) {
        self.followed.forget(uri);
    }

    /// Whether anybody follows any of its resources.
    pub(in crate::upstream) fn is_followed(&self) -> bool {
        !self.followed.wanted.borrow().is_empty()
    }

    fn unheeded(&self, why: &str) -> ToolError {
        let error = ToolError::with_code(Code::UpstreamError, format!("`{}`: {why}", self.config.name));
        ToolError { retryable: false, ..error }
    }

    async fn ask_for(&self, link: &Link, uri: &str) -> Result<(), Fault> {
        let mut asked = self.followed.asked.lock().await;
        if !asked.contains(uri) {
            link.ask_within(self.limits.list, Ask::Subscribe { uri, is_on: true }).await?;
            asked.insert(uri.to_owned());
        }
        Ok(())
    }

    /// Whether the server says that it will tell of a resource, which it was asked for with the others.
    async fn heeds(&self, uri: &str) -> Result<(), ToolError> {
        let mut heeded = self.followed.heeded.subscribe();
        let said = heeded.wait_for(|heeded| heeded.asked.contains(uri) || heeded.refusal.is_some());
        let Ok(Ok(heeded)) = timeout(self.limits.list, said).await else {
            return Err(self.unheeded("it did not say in time whether it tells of this resource"));
        };
        match &heeded.refusal {
            Some(why) => Err(self.unheeded(why)),
            None if heeded.granted.contains(uri) => Ok(()),
            None => Err(self.unheeded("it does not say when this resource changes")),
        }
    }

    /// Hears what the server says unasked, for as long as the connection is there. What changes is heard where it comes in.
    pub(super) async fn listen(&self, link: &Link) {
        if link.agreed().is_some_and(Revision::is_stateless) {
            return self.listen_by_question(link).await;
        }
        tokio::select! {
            () = self.keep_subscribed(link) => {}
            () = link.overhear() => {}
        }
    }

    /// The handshake era: each resource is asked for by itself.
    async fn keep_subscribed(&self, link: &Link) {
        let mut wanted = self.followed.wanted.subscribe();
        let mut may_have_missed = self.facts().restarts > 0;
        loop {
            let now = wanted.borrow_and_update().clone();
            self.ask_as_wanted(link, &now).await;
            if std::mem::take(&mut may_have_missed) {
                self.heard.updated_all(&now);
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = link.missed() => {
                    self.followed.asked.lock().await.clear();
                    may_have_missed = true;
                }
            }
        }
    }

    async fn ask_as_wanted(&self, link: &Link, wanted: &BTreeSet<String>) {
        let mut asked = self.followed.asked.lock().await;
        let new: Vec<String> = wanted.difference(&asked).cloned().collect();
        let old: Vec<String> = asked.difference(wanted).cloned().collect();
        for uri in new {
            if link.ask_within(self.limits.list, Ask::Subscribe { uri: &uri, is_on: true }).await.is_ok() {
                asked.insert(uri);
            }
        }
        for uri in old {
            asked.remove(&uri);
            let _ = link.ask_within(self.limits.list, Ask::Subscribe { uri: &uri, is_on: false }).await;
        }
    }

    /// The stateless era: one question that stands, and is put anew where other resources are wanted. The old one stands until
    /// the new one does, so that nothing is missed between them.
    async fn listen_by_question(&self, link: &Link) {
        let mut wanted = self.followed.wanted.subscribe();
        let mut standing: Option<Listening<'_>> = None;
        let mut pause = LISTEN_PAUSE;
        let mut may_have_missed = self.facts().restarts > 0;
        loop {
            let resources = wanted.borrow_and_update().clone();
            let (next, said) = put(link, resources.clone());
            let ended = match self.stands(&mut standing, next, said).await {
                Ok((next, granted)) => {
                    let began = self.clock.monotonic();
                    standing = Some(next);
                    self.heeded(&resources, granted);
                    if std::mem::take(&mut may_have_missed) {
                        self.heard.add(Lists::ALL);
                        self.heard.updated_all(&resources);
                    }
                    tokio::select! {
                        changed = wanted.changed() => {
                            if changed.is_err() {
                                return;
                            }
                            sleep(BURST_PAUSE).await;
                            continue;
                        }
                        ended = until_ended(&mut standing) => {
                            if self.clock.monotonic().saturating_sub(began) >= self.limits.sustained {
                                pause = LISTEN_PAUSE;
                            }
                            ended
                        }
                    }
                }
                Err(ended) => ended,
            };
            (standing, may_have_missed) = (None, true);
            if let Err(fault) = &ended
                && is_deaf(fault)
            {
                let refusal = Some(format!("it cannot be listened to: {fault}"));
                self.followed.heeded.send_modify(|heeded| heeded.refusal = refusal);
                return std::future::pending().await;
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(LISTEN_PAUSE_MAX);
        }
    }

    /// Waits until a question stands, and says what the server agreed to; or how it ended before.
    async fn stands<'a>(
        &self,
        standing: &mut Option<Listening<'a>>,
        mut next: Listening<'a>,
        mut said: oneshot::Receiver<Granted>,
    ) -> Result<(Listening<'a>, Granted), Result<Box<RawValue>, Fault>> {
        loop {
            tokio::select! {
                ended = &mut next => return Err(ended),
                granted = &mut said => return Ok((next, granted.ok().flatten())),
                _ = until_ended(standing) => *standing = None,
                // One that does not say so is believed to listen.
                () = sleep(self.limits.list) => return Ok((next, None)),
            }
        }
    }

    fn heeded(&self, asked: &BTreeSet<String>, granted: Granted) {
        let granted = granted.map_or_else(|| asked.clone(), |granted| granted.into_iter().collect());
        self.followed.heeded.send_replace(Heeded { asked: asked.clone(), granted, refusal: None });
    }
}

/// Asks to be told of all changes, those of these resources among them. Beside it comes what the server agrees to.
fn put(link: &Link, resources: BTreeSet<String>) -> (Listening<'_>, oneshot::Receiver<Granted>) {
    let (acknowledge, said) = Acknowledge::new();
    let resources: Vec<String> = resources.into_iter().collect();
    let next = async move {
        let listener = Listener { acknowledge, ..Listener::default() };
        link.ask_heard(Ask::Listen { resources: &resources }, listener).await
    };
    (Box::pin(next), said)
}

async fn until_ended(standing: &mut Option<Listening<'_>>) -> Result<Box<RawValue>, Fault> {
    match standing {
        Some(standing) => standing.await,
        None => std::future::pending().await,
    }
}

/// Whether a server does not know how to be listened to.
fn is_deaf(fault: &Fault) -> bool {
    match fault {
        Fault::Rpc(failure) => failure.code == METHOD_NOT_FOUND,
        Fault::Http { status, .. } => matches!(status, 400 | 404 | 405 | 406 | 501),
        _ => false,
    }
}
