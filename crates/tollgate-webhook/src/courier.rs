//! Sends open questions, again and with growing pauses until they arrive, expire or are given up. A call never waits for it,
//! and what it meets changes no outcome. Which questions are open and where they stand is in the store, so that another
//! process goes on where this one ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use tollgate_guard::client::{Client, ClientError, Origin, Request};
use tollgate_store::{Approval, Due, Store, StoreError};
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, CancellationToken, Clock, Code, Observed, Observer,
    Secret, limits,
};

use crate::alerts::Alerts;
use crate::answer::{self, Headers, Received, Refusal};
use crate::message;
use crate::signature::{Keys, SecretFault};

/// Beyond the receiver's time: when a process dies with a question in its hands, another one takes it after this.
const LEASE_SLACK: Duration = Duration::from_secs(10);

/// Where questions are sent, and how.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    /// The address; its origin is the only one that is asked.
    pub url: String,
    /// What signs and what answers are signed with; the first is the current one, the others are for its rotation.
    pub secrets: Vec<Secret>,
    /// What goes with every request.
    pub headers: Vec<(String, Secret)>,
    /// How long the receiver may take.
    pub timeout: Duration,
    /// How often a question is sent again.
    pub retries: u32,
    /// Whether calls of tools that are kept from who asked are told too.
    pub alerts: bool,
}

/// Why there is no webhook.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The address is none.
    #[error(transparent)]
    Url(#[from] ClientError),
    /// A secret cannot sign.
    #[error(transparent)]
    Secret(#[from] SecretFault),
}

/// How tries of this process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions that arrived.
    pub delivered: u64,
    /// Tries that failed.
    pub failed: u64,
}

/// The webhook of one data folder.
pub struct Webhook {
    inner: Arc<Inner>,
    tasks: TaskTracker,
    has_begun: AtomicBool,
    /// Nothing new is begun after one more look.
    stop: CancellationToken,
    /// What is under way is let go of.
    cut: CancellationToken,
}

struct Inner {
    config: WebhookConfig,
    keys: Keys,
    client: Client,
    store: Store,
    clock: Arc<dyn Clock>,
    alerts: Alerts,
    nudge: Notify,
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Webhook {
    /// The webhook of the data folder of `store`. Nothing is sent before [`Webhook::start`], or before a call of this
    /// process begins to wait.
    ///
    /// # Errors
    /// When the address is none, or a secret cannot sign.
    pub fn new(config: WebhookConfig, store: Store, clock: Arc<dyn Clock>) -> Result<Self, WebhookError> {
        let inner = Inner {
            keys: Keys::new(&config.secrets)?,
            client: Client::new([Origin::of(&config.url)?]),
            config,
            store,
            clock,
            alerts: Alerts::default(),
            nudge: Notify::new(),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        Ok(Self {
            inner: Arc::new(inner),
            tasks: TaskTracker::new(),
            has_begun: AtomicBool::new(false),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        })
    }

    /// Sends what is open, and from now on what any process asks that shares the data folder, until [`Webhook::stop`].
    pub fn start(&self) {
        if self.stop.is_cancelled() || self.has_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let (inner, stop, cut) = (Arc::clone(&self.inner), self.stop.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = carry(&inner, &stop) => {}
                () = cut.cancelled() => {}
            }
        });
    }

    /// Sends once more what is due and ends. What takes longer than [`limits::WEBHOOK_STOP_MS`] is let go of, and is sent by
    /// the next process that serves the data folder.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(Duration::from_millis(limits::WEBHOOK_STOP_MS), self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }

    /// Reads a signed answer that was sent to the question `approval`.
    ///
    /// # Errors
    /// Why it is not taken. Nothing was changed by it.
    pub fn read(&self, approval: &str, headers: Headers<'_>, body: &[u8]) -> Result<Received, Refusal> {
        answer::read(&self.inner.keys, approval, headers, body, self.inner.clock.now())
    }

    /// How the tries of this process ended so far.
    pub fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { delivered: count(&self.inner.delivered), failed: count(&self.inner.failed) }
    }
}

/// One that nobody stopped ends with its last owner.
impl Drop for Webhook {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}

impl ApprovalChannel for Webhook {
    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        // The question is in the store by now; whoever answers it does so there.
        self.start();
        self.inner.nudge.notify_one();
        Box::pin(std::future::ready(ApprovalAnswer::Later))
    }
}

impl Observer for Webhook {
    fn seen(&self, call: &Arc<Observed>) {
        if self.inner.config.alerts && call.code == Some(Code::Forbidden) {
            self.inner.alerts.add(call);
            self.start();
            self.inner.nudge.notify_one();
        }
    }
}

/// Looks for questions that are due, sends them, and sleeps; looks once more after it was told to stop.
async fn carry(inner: &Inner, stop: &CancellationToken) {
    let mut is_broken = false;
    loop {
        let is_last = stop.is_cancelled();
        let looked = inner.send_due().await;
        if let Err(error) = &looked
            && !is_broken
        {
            tracing::warn!(%error, "open approvals cannot be looked up, and are not sent");
        }
        is_broken = looked.is_err();
        inner.send_alert().await;
        match (looked, is_last) {
            (Ok(limits::WEBHOOKS_AT_ONCE_MAX), _) => continue,
            (_, true) => return,
            (_, false) => {}
        }
        tokio::select! {
            () = inner.nudge.notified() => {}
            () = tokio::time::sleep(Duration::from_millis(limits::WEBHOOK_LOOK_MS)) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// Why a question did not arrive.
struct Fault {
    text: String,
    /// Whether another try may end otherwise.
    is_final: bool,
    /// How long the receiver asks to be left alone.
    wait: Duration,
}

impl Fault {
    fn last(text: String) -> Self {
        Self { text, is_final: true, wait: Duration::ZERO }
    }
}

impl Inner {
    /// Sends what is due, and says how many questions that were.
    async fn send_due(&self) -> Result<u32, StoreError> {
        if !self.store.exists() {
            return Ok(0);
        }
        let now = self.clock.now();
        let until = later(now, self.config.timeout.saturating_add(LEASE_SLACK));
        let due = self.store.take_due(limits::WEBHOOKS_AT_ONCE_MAX, until, now).await?;
        let count = u32::try_from(due.len()).unwrap_or(u32::MAX);
        for sent in join_all(due.into_iter().map(|due| self.send(due))).await {
            sent?;
        }
        Ok(count)
    }

    /// Tells of calls that were forbidden, all that came since the last time in one message.
    async fn send_alert(&self) {
        let Some(batch) = self.alerts.due(self.clock.now()) else { return };
        let Err(fault) = self.post(&batch.id, batch.body).await else { return self.alerts.over() };
        let tries = batch.tries + 1;
        if fault.is_final || tries > limits::ALERT_RETRIES_MAX {
            tracing::warn!(tries, "calls that were forbidden are not told: {}", fault.text);
            self.alerts.over();
        } else {
            self.alerts.again(later(self.clock.now(), pause(tries).max(fault.wait)));
        }
    }

    async fn send(&self, due: Due) -> Result<(), StoreError> {
        let id = due.approval.id.clone();
        let sent = match question(&due.approval) {
            Ok(body) => self.post(id.as_str(), body).await,
            Err(fault) => Err(fault),
        };
        let Err(fault) = sent else {
            self.store.delivered(id, self.clock.now()).await?;
            self.delivered.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        let is_over = fault.is_final || due.tries > self.config.retries;
        let again = (!is_over).then(|| later(self.clock.now(), pause(due.tries).max(fault.wait)));
        match &again {
            Some(again) => {
                tracing::warn!(%id, tries = due.tries, %again, "an approval was not delivered: {}", fault.text)
            }
            None => tracing::warn!(%id, tries = due.tries, "an approval is given up: {}", fault.text),
        }
        self.store.not_delivered(id, fault.text, again).await?;
        self.failed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn post(&self, id: &str, body: Vec<u8>) -> Result<(), Fault> {
        let timestamp = self.clock.now().as_second();
        let signature = self.keys.sign(id, timestamp, &body);
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        let request = Request {
            method: "POST".into(),
            url: self.config.url.clone(),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            secret_headers: self.config.headers.clone(),
            body: Some(body),
            timeout: self.config.timeout,
        };
        let again = |text: String, wait: Duration| Err(Fault { text, is_final: false, wait });
        // The body of the response is not signed, and so says nothing.
        match self.client.send(request).await {
            Ok(response) => match response.status {
                200..=299 => Ok(()),
                410 => Err(Fault::last("the receiver answered 410: it wants no more".into())),
                status => {
                    let asked = response.header("retry-after").and_then(|value| value.parse().ok()).unwrap_or(0);
                    let longest = Duration::from_millis(limits::WEBHOOK_PAUSE_MS_MAX);
                    again(format!("the receiver answered {status}"), Duration::from_secs(asked).min(longest))
                }
            },
            Err(error) => again(error.to_string(), Duration::ZERO),
        }
    }
}

fn question(approval: &Approval) -> Result<Vec<u8>, Fault> {
    let body = message::body(approval).map_err(|error| Fault::last(error.to_string()))?;
    if body.len() > limits::WEBHOOK_BODY_BYTES_MAX {
        let max = limits::WEBHOOK_BODY_BYTES_MAX;
        return Err(Fault::last(format!("it has {} bytes, and {max} are sent at most", body.len())));
    }
    Ok(body)
}

/// The pause after this try.
fn pause(tries: u32) -> Duration {
    let factor = 1_u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_millis(limits::WEBHOOK_PAUSE_MS.saturating_mul(factor).min(limits::WEBHOOK_PAUSE_MS_MAX))
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_an_hour_and_all_of_them_outlive_a_question() {
        assert_eq!(pause(1), Duration::from_secs(1));
        assert_eq!(pause(5), Duration::from_secs(16));
        for tries in [13, 64, 65, u32::MAX] {
            assert_eq!(pause(tries), Duration::from_secs(3600));
        }
        let all: Duration = (1..=limits::WEBHOOK_RETRIES).map(pause).sum();
        assert!(all >= Duration::from_millis(limits::APPROVAL_TTL_MS), "{all:?}");
    }
}
