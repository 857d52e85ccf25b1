//! A connection to a server, whichever way it goes, and the revision that was agreed on.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tollgate_types::{CancellationToken, Progress};

use super::config::Asks;
use super::fault::Fault;
use super::hearing::Listener;
use super::http::HttpLink;
use super::message::{self, Ask, Lists};
use super::stdio::StdioLink;
use crate::server::Revision;

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    way: Way,
    asks: Asks,
    agreed: Mutex<Option<Revision>>,
    offers: Mutex<Offers>,
}

/// What a server says it has beside tools. Of one that did not say, everything is asked, and nothing waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offers {
    pub(super) resources: bool,
    pub(super) subscriptions: bool,
    pub(super) prompts: bool,
    /// Whether it says when anything changes.
    pub(super) changes: bool,
}

impl Offers {
    const UNSAID: Self = Self { resources: true, subscriptions: true, prompts: true, changes: false };

    fn of(capabilities: &Value) -> Self {
        let Value::Object(said) = capabilities else { return Self::UNSAID };
        let has = |of: &str, what: &str| said.get(of).and_then(|of| of.get(what)) == Some(&Value::Bool(true));
        let subscriptions = has("resources", "subscribe");
        Self {
            resources: said.contains_key("resources"),
            subscriptions,
            prompts: said.contains_key("prompts"),
            changes: subscriptions || ["tools", "resources", "prompts"].iter().any(|of| has(of, "listChanged")),
        }
    }

    pub(super) fn has(self, list: Lists) -> bool {
        match list {
            Lists::Tools => true,
            Lists::Resources | Lists::Templates => self.resources,
            Lists::Prompts => self.prompts,
        }
    }
}

/// The two ways.
#[derive(Debug)]
pub(super) enum Way {
    Stdio(StdioLink),
    Http(Box<HttpLink>, CancellationToken),
}

impl Link {
    pub(super) fn new(way: Way, asks: Asks) -> Self {
        Self { way, asks, agreed: Mutex::new(None), offers: Mutex::new(Offers::UNSAID) }
    }

    /// What the server may ask.
    pub(super) fn asks(&self) -> Asks {
        self.asks
    }

    pub(super) fn is_stdio(&self) -> bool {
        matches!(self.way, Way::Stdio(_))
    }

    pub(super) fn agreed(&self) -> Option<Revision> {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn agree(&self, revision: Revision) {
        *self.agreed.lock().unwrap_or_else(PoisonError::into_inner) = Some(revision);
    }

    /// What the server said it has, when it was greeted.
    pub(super) fn offered(&self, capabilities: &Value) {
        *self.offers.lock().unwrap_or_else(PoisonError::into_inner) = Offers::of(capabilities);
    }

    pub(super) fn offers(&self) -> Offers {
        *self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server said it speaks the stateless era, after we had stopped waiting for it to say so.
    pub(super) fn discovered_late(&self) -> bool {
        match &self.way {
            Way::Stdio(link) => link.discovered_late(),
            Way::Http(..) => false,
        }
    }

    /// Asks and waits, however long it takes; dropping the future takes the question back.
    pub(super) async fn ask(&self, ask: Ask<'_>, progress: Progress) -> Result<Box<RawValue>, Fault> {
        self.ask_heard(ask, Listener { progress, ..Listener::default() }).await
    }

    /// The same for whoever hears all that comes before the answer.
    pub(super) async fn ask_heard(&self, ask: Ask<'_>, listener: Listener) -> Result<Box<RawValue>, Fault> {
        match &self.way {
            Way::Stdio(link) => link.ask(ask, self.agreed(), listener).await,
            Way::Http(link, _) => link.ask(ask, self.agreed(), &listener).await,
        }
    }

    /// Asks and waits for so long.
    pub(super) async fn ask_within(&self, wait: Duration, ask: Ask<'_>) -> Result<Box<RawValue>, Fault> {
        let asked = timeout(wait, self.ask(ask, Progress::none())).await;
        asked.unwrap_or(Err(Fault::TimedOut { ms: wait.as_millis() }))
    }

    pub(super) async fn tell_initialized(&self) -> Result<(), Fault> {
        self.tell(message::INITIALIZED).await
    }

    /// Says what needs no answer.
    pub(super) async fn tell(&self, line: &[u8]) -> Result<(), Fault> {
        match &self.way {
            Way::Stdio(link) => link.tell(line).await,
            Way::Http(link, _) => link.tell(line, self.agreed()).await,
        }
    }

    /// Ends the connection; its driver does the rest.
    pub(super) fn close(&self) {
        match &self.way {
            Way::Stdio(link) => link.close(),
            Way::Http(_, close) => close.cancel(),
        }
    }

    /// Hears what a server says beside all answers, where that comes another way and it may say something there. Never returns.
    pub(super) async fn overhear(&self) {
        match &self.way {
            Way::Http(link, _) if self.offers().changes || self.asks.is_something() => {
                link.overhear(self.agreed()).await
            }
            Way::Http(..) | Way::Stdio(_) => std::future::pending().await,
        }
    }

    /// Waits until something may have been missed of that; never where it comes with the answers.
    pub(super) async fn missed(&self) {
        match &self.way {
            Way::Stdio(_) => std::future::pending().await,
            Way::Http(link, _) => link.missed().await,
        }
    }

    /// Returns why the server must be greeted anew; never where its connection ends with it.
    pub(super) async fn fell(&self) -> String {
        match &self.way {
            Way::Stdio(_) => std::future::pending().await,
            Way::Http(link, _) => link.fell().await,
        }
    }

    /// The last words over HTTP.
    pub(super) async fn end_session(&self) {
        match &self.way {
            Way::Stdio(_) => {}
            Way::Http(link, _) => link.end_session().await,
        }
    }
}
