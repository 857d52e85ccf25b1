//! What is counted, in the text format of Prometheus (0.0.4).

mod histogram;
mod servers;
mod stages;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tollgate::mcp::upstream::UpstreamStatus;
use tollgate::spans;
use tollgate::webhooks::Counts;
use tollgate::{
    AnchorStatus, ApprovalId, AttemptId, BoxFuture, Call, CallKind, Caller, Changes, Clock, Code, Door, ErrorObject,
    Following, ObservedCall, Outcome, Reloads, SourceReport, Status, ToolDefinition,
};

use crate::limits::SERIES_MAX;
use histogram::Histogram;
use stages::Stages;

/// The upper bounds of the histogram's buckets.
const BUCKETS_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];
/// Stands for the names of tools that do not exist: an asker must not make new lines.
const NO_TOOL: &str = "(unknown)";
/// Stands for everything beyond [`SERIES_MAX`].
const OTHER: &str = "(other)";

/// The counters of one server.
#[derive(Default)]
pub(crate) struct Metrics {
    calls: Mutex<BTreeMap<(String, &'static str, &'static str), u64>>,
    durations: Mutex<BTreeMap<String, Histogram<{ BUCKETS_SECONDS.len() }>>>,
    stages: Stages,
    in_flight: AtomicI64,
    lists: AtomicU64,
}

/// What is not counted here but looked at.
pub(crate) struct House<'a> {
    pub(crate) is_ledger_writable: bool,
    /// Checkpoints are written.
    pub(crate) is_ledger_signed: bool,
    /// The places that keep checkpoints.
    pub(crate) anchors: Vec<AnchorStatus>,
    /// Open sessions of MCP's handshake era.
    pub(crate) sessions: usize,
    pub(crate) reloads: &'a Reloads,
    /// Calls of tools that are kept from their callers; none for those who may not know.
    pub(crate) forbidden: Option<u64>,
    /// What became of approvals that were sent, where they are.
    pub(crate) sent: Option<Counts>,
    /// What happened at the sources that tools ask; a client sees none.
    pub(crate) sources: Vec<SourceReport>,
    /// The MCP servers behind the gate; a client sees none.
    pub(crate) servers: Vec<UpstreamStatus>,
    /// What became of calls whose spans are sent, where they are.
    pub(crate) spans: Option<spans::Counts>,
}

/// Whose tools are named: for a client, a tool that it may not list does not exist here either.
pub(crate) enum Shown {
    All,
    Only(HashSet<String>),
}

impl Shown {
    fn has(&self, tool: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => tool == NO_TOOL || tool == OTHER || names.contains(tool),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    fn count(&self, tool: &str, status: Status, code: Option<Code>, took: Duration) {
        let tool = if code == Some(Code::UnknownTool) { NO_TOOL } else { tool };
        let code = code.map_or("", Code::as_str);
        let mut calls = lock(&self.calls);
        let mut key = (tool.to_owned(), status.as_str(), code);
        if calls.len() >= SERIES_MAX && !calls.contains_key(&key) {
            OTHER.clone_into(&mut key.0);
        }
        let tool = key.0.clone();
        *calls.entry(key).or_default() += 1;
        drop(calls);
        let mut durations = lock(&self.durations);
        durations.entry(tool).or_insert_with(|| Histogram::new(&BUCKETS_SECONDS)).observe(took);
    }

    /// Everything as text, of the tools that `shown` lets through.
    pub(crate) fn render(&self, house: &House<'_>, shown: &Shown) -> String {
        let mut text = String::new();
        // INVARIANT: writing to a String cannot fail.
        let _ = self
            .write_calls(&mut text, shown)
            .and_then(|()| self.stages.write(&mut text, shown))
            .and_then(|()| self.write_house(&mut text, house))
            .and_then(|()| write_forbidden(&mut text, house.forbidden))
            .and_then(|()| write_sent(&mut text, house.sent))
            .and_then(|()| write_spans(&mut text, house.spans))
            .and_then(|()| write_anchors(&mut text, &house.anchors))
            .and_then(|()| write_sources(&mut text, &house.sources))
            .and_then(|()| servers::write(&mut text, &house.servers));
        text
    }

    fn write_calls(&self, out: &mut String, shown: &Shown) -> std::fmt::Result {
        head(out, "calls_total", "counter", "Calls by tool, and how they ended.")?;
        for ((tool, status, code), count) in lock(&self.calls).iter().filter(|((tool, ..), _)| shown.has(tool)) {
            writeln!(
                out,
                "tollgate_calls_total{{tool=\"{}\",status=\"{status}\",code=\"{code}\"}} {count}",
                escaped(tool)
            )?;
        }
        head(out, "call_duration_seconds", "histogram", "From asking to answer.")?;
        for (tool, histogram) in lock(&self.durations).iter().filter(|(tool, _)| shown.has(tool)) {
            let label = format!("tool=\"{}\"", escaped(tool));
            histogram.write(out, "tollgate_call_duration_seconds", &label)?;
        }
        Ok(())
    }

    fn write_house(&self, out: &mut String, house: &House<'_>) -> std::fmt::Result {
        head(out, "calls_in_flight", "gauge", "Calls that are not answered yet.")?;
        writeln!(out, "tollgate_calls_in_flight {}", self.in_flight.load(Ordering::Relaxed))?;
        head(out, "lists_total", "counter", "How often the tools were listed.")?;
        writeln!(out, "tollgate_lists_total {}", self.lists.load(Ordering::Relaxed))?;
        head(out, "mcp_sessions", "gauge", "Open sessions of MCP's handshake era.")?;
        writeln!(out, "tollgate_mcp_sessions {}", house.sessions)?;
        head(out, "ledger_writable", "gauge", "1 when the ledger can be written.")?;
        writeln!(out, "tollgate_ledger_writable {}", u8::from(house.is_ledger_writable))?;
        head(out, "ledger_signed", "gauge", "1 when checkpoints of the ledger are written.")?;
        writeln!(out, "tollgate_ledger_signed {}", u8::from(house.is_ledger_signed))?;
        let name = "tollgate_policy_reloads_total";
        head(
            out,
            "policy_reloads_total",
            "counter",
            "Policies that took the place of the one before, or were broken.",
        )?;
        writeln!(out, "{name}{{result=\"ok\"}} {}", house.reloads.taken_over())?;
        writeln!(out, "{name}{{result=\"failed\"}} {}", house.reloads.failed())?;
        head(out, "policy_broken", "gauge", "1 when the policy in the files is broken, and an older one counts.")?;
        writeln!(out, "tollgate_policy_broken {}", u8::from(house.reloads.is_broken()))
    }
}

/// To a client a tool that is kept from it does not exist; a count would tell otherwise.
fn write_forbidden(out: &mut String, forbidden: Option<u64>) -> std::fmt::Result {
    let Some(forbidden) = forbidden else { return Ok(()) };
    head(out, "forbidden_total", "counter", "Calls of tools that are kept from their callers.")?;
    writeln!(out, "tollgate_forbidden_total {forbidden}")
}

fn write_sent(out: &mut String, sent: Option<Counts>) -> std::fmt::Result {
    let Some(sent) = sent else { return Ok(()) };
    head(out, "webhooks_total", "counter", "Approvals sent by webhook, by how a try ended.")?;
    writeln!(out, "tollgate_webhooks_total{{result=\"delivered\"}} {}", sent.delivered)?;
    writeln!(out, "tollgate_webhooks_total{{result=\"failed\"}} {}", sent.failed)
}

fn write_spans(out: &mut String, spans: Option<spans::Counts>) -> std::fmt::Result {
    let Some(spans) = spans else { return Ok(()) };
    head(out, "traced_calls_total", "counter", "Calls whose traces are kept, by what became of their spans.")?;
    for (result, count) in [("sent", spans.sent), ("failed", spans.failed), ("dropped", spans.dropped)] {
        writeln!(out, "tollgate_traced_calls_total{{result=\"{result}\"}} {count}")?;
    }
    Ok(())
}

fn write_anchors(out: &mut String, anchors: &[AnchorStatus]) -> std::fmt::Result {
    if anchors.is_empty() {
        return Ok(());
    }
    head(out, "ledger_anchored", "gauge", "1 when the last checkpoint was taken by the place that keeps it.")?;
    for AnchorStatus { kind, failing, .. } in anchors {
        writeln!(out, "tollgate_ledger_anchored{{anchor=\"{kind}\"}} {}", u8::from(failing.is_none()))?;
    }
    head(out, "ledger_anchored_total", "counter", "Checkpoints that were taken by the place that keeps them.")?;
    for AnchorStatus { kind, kept, .. } in anchors {
        writeln!(out, "tollgate_ledger_anchored_total{{anchor=\"{kind}\"}} {kept}")?;
    }
    Ok(())
}

/// What is counted of each source: the name, what it is, and where it stands.
type SourceCount = (&'static str, &'static str, fn(&SourceReport) -> u64);

const SOURCE_COUNTS: [SourceCount; 6] = [
    ("retries_total", "Calls that were made again after a failure.", |source| source.retries),
    ("fallbacks_total", "Failed calls that another tool was asked instead of.", |source| source.fallbacks),
    ("timeouts_total", "Tries whose time was up.", |source| source.timeouts),
    ("breaker_refused_total", "Calls that were refused because the source was left alone.", |source| source.refused),
    ("breaker_opened_total", "How often the source was left alone.", |source| source.opened),
    ("source_busy_total", "Calls that got no turn: too many ran or waited.", |source| source.busy),
];

fn write_sources(out: &mut String, sources: &[SourceReport]) -> std::fmt::Result {
    let sources = sources.get(..SERIES_MAX).unwrap_or(sources);
    if sources.is_empty() {
        return Ok(());
    }
    for (name, help, count) in SOURCE_COUNTS {
        head(out, name, "counter", help)?;
        for source in sources {
            writeln!(out, "tollgate_{name}{{source=\"{}\"}} {}", escaped(&source.source), count(source))?;
        }
    }
    head(out, "breaker_open", "gauge", "1 while the source is left alone, 0.5 while it is tried.")?;
    for source in sources {
        let value = match source.breaker {
            Some("open") => "1",
            Some("half_open") => "0.5",
            Some(_) => "0",
            None => continue,
        };
        writeln!(out, "tollgate_breaker_open{{source=\"{}\"}} {value}", escaped(&source.source))?;
    }
    Ok(())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(out, "# HELP tollgate_{name} {help}\n# TYPE tollgate_{name} {kind}")
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// A door whose calls are counted.
#[derive(Clone)]
pub(crate) struct Metered {
    door: Arc<dyn Door>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    places: Option<Arc<Semaphore>>,
}

impl Metered {
    pub(crate) fn new(door: Arc<dyn Door>, metrics: Arc<Metrics>, clock: Arc<dyn Clock>) -> Self {
        Self { door, metrics, clock, places: None }
    }

    /// The same, whose calls wait for one of these places: for those who come by no request that could be refused one.
    pub(crate) fn waiting_for(&self, places: &Arc<Semaphore>) -> Self {
        Self { places: Some(Arc::clone(places)), ..self.clone() }
    }
}

impl Door for Metered {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.metrics.lists.fetch_add(1, Ordering::Relaxed);
        self.door.list(caller)
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.metrics.lists.fetch_add(1, Ordering::Relaxed);
        self.door.list_kind(caller, kind)
    }

    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        self.door.list_now(caller, kind)
    }

    fn changes(&self) -> Option<Changes> {
        self.door.changes()
    }

    fn following(&self, caller: &Caller, call: Call) -> Following {
        self.door.following(caller, call)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        let passage = Passage::begin(self);
        Box::pin(async move {
            let _place = match &self.places {
                // INVARIANT: nobody closes the semaphore.
                Some(places) => places.acquire().await.ok(),
                None => None,
            };
            let outcome = self.door.call(caller, call).await;
            passage.end(&outcome);
            outcome
        })
    }

    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        self.door.special(caller, tool)
    }

    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        self.door.answered(approval)
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.door.permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.door.observe(caller, call)
    }
}

/// One call; dropped before its end it was cancelled, and of which tool is only known behind the door.
struct Passage<'a> {
    door: &'a Metered,
    began: Duration,
    is_over: bool,
}

impl<'a> Passage<'a> {
    fn begin(door: &'a Metered) -> Self {
        door.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { door, began: door.clock.monotonic(), is_over: false }
    }

    fn end(mut self, outcome: &Outcome) {
        self.is_over = true;
        self.door.metrics.count(&outcome.tool, outcome.status(), outcome.code(), self.took());
    }

    fn took(&self) -> Duration {
        self.door.clock.monotonic().saturating_sub(self.began)
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        self.door.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.is_over {
            self.door.metrics.count(OTHER, Status::Failed, Some(Code::Cancelled), self.took());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_no_tools_make_no_lines_and_quotes_are_escaped() {
        let metrics = Metrics::default();
        for name in 0..3 {
            metrics.count(&format!("x{name}"), Status::Refused, Some(Code::UnknownTool), Duration::from_millis(2));
        }
        metrics.count("a\"b\\", Status::Done, None, Duration::from_secs(2));
        let house = House {
            is_ledger_writable: true,
            is_ledger_signed: true,
            anchors: Vec::new(),
            sessions: 0,
            forbidden: Some(2),
            reloads: &Reloads::default(),
            sent: None,
            sources: Vec::new(),
            servers: Vec::new(),
            spans: None,
        };
        let text = metrics.render(&house, &Shown::All);
        assert!(
            text.contains(r#"tollgate_calls_total{tool="(unknown)",status="refused",code="unknown_tool"} 3"#),
            "{text}"
        );
        assert!(text.contains(r#"tollgate_calls_total{tool="a\"b\\",status="done",code=""} 1"#), "{text}");
        let text = metrics.render(&house, &Shown::Only(HashSet::new()));
        assert!(text.contains("(unknown)") && !text.contains("tool=\"a"), "{text}");
        let text = metrics.render(&house, &Shown::All);
        assert!(text.contains(r#"_bucket{tool="a\"b\\",le="1"} 0"#) && text.contains(r#"le="5"} 1"#), "{text}");
        for name in 0..2 * SERIES_MAX {
            metrics.count(&format!("y{name}"), Status::Done, None, Duration::ZERO);
        }
        assert_eq!(lock(&metrics.calls).len(), SERIES_MAX + 1);
    }

    #[test]
    fn sources_are_counted_for_those_who_may_see_them() {
        let source = SourceReport {
            source: "crm \"1\"".into(),
            breaker: Some("half_open"),
            breaker_rule: None,
            max_concurrent: Some(4),
            waiting: 0,
            retry_budget: Default::default(),
            retries: 1,
            fallbacks: 2,
            timeouts: 3,
            refused: 4,
            busy: 5,
            opened: 6,
        };
        let plain = SourceReport { source: "calculate".into(), breaker: None, ..source.clone() };
        let mut text = String::new();
        write_sources(&mut text, &[source, plain]).unwrap();
        for line in [
            r#"tollgate_retries_total{source="crm \"1\""} 1"#,
            r#"tollgate_fallbacks_total{source="crm \"1\""} 2"#,
            r#"tollgate_timeouts_total{source="calculate"} 3"#,
            r#"tollgate_breaker_refused_total{source="crm \"1\""} 4"#,
            r#"tollgate_source_busy_total{source="crm \"1\""} 5"#,
            r#"tollgate_breaker_opened_total{source="crm \"1\""} 6"#,
            r#"tollgate_breaker_open{source="crm \"1\""} 0.5"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains(r#"breaker_open{source="calculate""#));
        text.clear();
        write_sources(&mut text, &[]).unwrap();
        assert_eq!(text, "");
    }
}
