//! From a call's end to the collector: a queue with an end, and the one task that empties it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tollgate_guard::client::ClientError;
use tollgate_types::{AttemptId, CancellationToken, Observed, Observer, Secret, TraceContext, limits};

use crate::export::{self, Fault};
use crate::{Sampler, environment, span};

/// Where spans go, and which.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where they are posted, the path included. No other origin is asked.
    pub endpoint: String,
    /// What goes with every post.
    pub headers: Vec<(String, Secret)>,
    /// What the service is called; unsaid: what `OTEL_SERVICE_NAME` says.
    pub service_name: Option<String>,
    /// Which traces are kept.
    pub sampler: Sampler,
    /// Whether arguments and results are sent, redacted.
    pub has_content: bool,
    /// How long the collector may take for one batch, tries again included.
    pub timeout: Duration,
}

impl Settings {
    /// Everything as it is by default, for the collector at `base`.
    pub fn below(base: &str) -> Self {
        Self::at(environment::posted_to(base))
    }

    /// The same for spans that are posted to `endpoint`.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            headers: Vec::new(),
            service_name: None,
            sampler: Sampler::default(),
            has_content: false,
            timeout: Duration::from_millis(limits::TELEMETRY_TIMEOUT_MS),
        }
    }
}

/// Why no spans can be sent.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The address is none.
    #[error(transparent)]
    Endpoint(#[from] ClientError),
    /// The exporter does not take its settings.
    #[error("the exporter cannot be made: {0}")]
    Exporter(String),
}

/// What became of the calls of this process whose traces are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector took their spans.
    pub sent: u64,
    /// It did not.
    pub failed: u64,
    /// They did not fit the queue, or were left at the end.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    taken: AtomicU64,
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
}

impl Counters {
    fn read(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { sent: count(&self.sent), failed: count(&self.failed), dropped: count(&self.dropped) }
    }
}

/// Makes spans of calls and sends them, from [`Telemetry::start`] to [`Telemetry::stop`].
pub struct Telemetry {
    sampler: Sampler,
    has_content: bool,
    queue: mpsc::Sender<Arc<Observed>>,
    counters: Arc<Counters>,
    tasks: TaskTracker,
    /// What is in the queue is sent once, and nothing is waited for.
    stop: CancellationToken,
    /// What is under way is let go of.
    cut: CancellationToken,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Begins to take calls. Must be called in a runtime.
    ///
    /// # Errors
    /// When the address is none, or the exporter does not take its settings.
    pub fn start(settings: &Settings) -> Result<Self, TelemetryError> {
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let (exporter, fault) = export::exporter(settings, &stop)?;
        let (queue, calls) = mpsc::channel(limits::TELEMETRY_QUEUE_CALLS_MAX);
        let (counters, tasks) = (Arc::<Counters>::default(), TaskTracker::new());
        let courier = Courier { exporter, fault, counters: Arc::clone(&counters), is_failing: false, dropped: 0 };
        let (until, end) = (stop.clone(), cut.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = courier.carry(calls, &until) => {}
                () = end.cancelled() => {}
            }
        });
        let Settings { sampler, has_content, .. } = *settings;
        Ok(Self { sampler, has_content, queue, counters, tasks, stop, cut })
    }

    /// What became of the calls so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Sends what is in the queue and ends. What takes longer than [`limits::TELEMETRY_STOP_MS`] is let go of and said.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(Duration::from_millis(limits::TELEMETRY_STOP_MS), self.tasks.wait()).await.is_err() {
            self.cut.cancel();
            self.tasks.wait().await;
        }
        let Counts { sent, failed, dropped } = self.counts();
        let left = self.counters.taken.load(Ordering::Relaxed).saturating_sub(sent + failed);
        if left > 0 {
            self.counters.dropped.store(dropped + left, Ordering::Relaxed);
            self.counters.taken.store(sent + failed, Ordering::Relaxed);
            tracing::warn!("the spans of {left} calls were not sent before the end");
        }
    }
}

/// One that nobody stopped ends with its last owner.
impl Drop for Telemetry {
    fn drop(&mut self) {
        self.cut.cancel();
    }
}

impl Observer for Telemetry {
    fn place(&self, attempt: &AttemptId, asked: Option<&TraceContext>) -> Option<TraceContext> {
        let mut place = match asked {
            Some(asked) => asked.below(attempt)?,
            None => TraceContext::root(attempt)?,
        };
        place.is_sampled = self.sampler.keeps(place.trace, asked);
        Some(place)
    }

    fn wants_content(&self) -> bool {
        self.has_content
    }

    fn seen(&self, call: &Arc<Observed>) {
        if !call.trace.as_ref().is_some_and(|trace| trace.is_sampled) {
            return;
        }
        let counter = match self.queue.try_send(Arc::clone(call)) {
            Ok(()) => &self.counters.taken,
            Err(_full_or_over) => &self.counters.dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Carries calls to the collector, one batch after the other.
struct Courier {
    exporter: SpanExporter,
    fault: Fault,
    counters: Arc<Counters>,
    is_failing: bool,
    /// Of the calls that were dropped, those that were said.
    dropped: u64,
}

impl Courier {
    async fn carry(mut self, mut calls: mpsc::Receiver<Arc<Observed>>, stop: &CancellationToken) {
        let scope = span::scope();
        loop {
            let batch = gather(&mut calls, stop).await;
            if batch.is_empty() && stop.is_cancelled() {
                if calls.is_closed() {
                    return;
                }
                calls.close();
                continue;
            }
            let spans = batch.iter().flat_map(|call| span::of(call, &scope)).collect();
            self.deliver(spans, batch.len() as u64).await;
        }
    }

    async fn deliver(&mut self, spans: Vec<SpanData>, calls: u64) {
        let counter = match self.exporter.export(spans).await {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::warn!("spans are taken again");
                }
                &self.counters.sent
            }
            Err(error) => {
                let why = self.fault.take().unwrap_or_else(|| error.to_string());
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!("spans are lost until the collector takes them: {why}");
                }
                &self.counters.failed
            }
        };
        counter.fetch_add(calls, Ordering::Relaxed);
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        if dropped > self.dropped {
            tracing::warn!(
                "the spans of {} calls were dropped: more came than the collector takes",
                dropped - self.dropped
            );
            self.dropped = dropped;
        }
    }
}

/// The calls of one batch: as many as fit, or as came in its time, which begins with the first. Empty when it is over and
/// there are none.
async fn gather(calls: &mut mpsc::Receiver<Arc<Observed>>, stop: &CancellationToken) -> Vec<Arc<Observed>> {
    let mut batch = Vec::new();
    let filled = async {
        batch.extend(calls.recv().await);
        let rest = async {
            while (1..limits::TELEMETRY_BATCH_CALLS_MAX).contains(&batch.len()) {
                let Some(call) = calls.recv().await else { return };
                batch.push(call);
            }
        };
        tokio::select! {
            biased;
            () = rest => {}
            () = tokio::time::sleep(Duration::from_millis(limits::TELEMETRY_BATCH_MS)) => {}
            () = stop.cancelled() => {}
        }
    };
    tokio::select! {
        biased;
        () = filled => {}
        () = stop.cancelled() => {}
    }
    batch
}
