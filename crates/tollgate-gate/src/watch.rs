//! What observers are told of a trip. Without observers nothing here is made, and a call costs no more.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tollgate_ledger::Abridged;
use tollgate_policy::Decision;
use tollgate_types::{
    ApprovalId, AttemptId, Call, CallId, CallKind, Caller, Code, Observed, Observer, Outcome, SpanId, Stage, Staged,
    ToolDefinition, TraceContext,
};

use crate::gate::Inner;

/// Observers of one gate.
const OBSERVERS_MAX: usize = 8;

/// Those who watch the calls of one gate.
#[derive(Default)]
pub(crate) struct Observers([OnceLock<Arc<dyn Observer>>; OBSERVERS_MAX]);

impl Observers {
    /// False when there are too many.
    pub(crate) fn add(&self, mut observer: Arc<dyn Observer>) -> bool {
        for slot in &self.0 {
            match slot.set(observer) {
                Ok(()) => return true,
                Err(back) => observer = back,
            }
        }
        false
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Observer>> {
        self.0.iter().map_while(OnceLock::get)
    }
}

/// One trip that somebody watches.
pub(crate) struct Watch {
    trace: Option<TraceContext>,
    above: Option<SpanId>,
    wants_content: bool,
    opened: Timestamp,
    began: Duration,
    protocol: Option<&'static str>,
    learned: Mutex<Learned>,
}

#[derive(Default)]
struct Learned {
    /// Stages, each with its beginning.
    marks: Vec<(Stage, Duration)>,
    decision: Option<(&'static str, String)>,
    arguments: Option<String>,
    result: Option<String>,
}

impl Watch {
    /// None when nobody watches.
    pub(crate) fn begin(gate: &Inner, attempt: &AttemptId, call: &Call, began: Duration) -> Option<Box<Self>> {
        gate.observers.all().next()?;
        let asked = call.trace.as_ref();
        let trace = gate.observers.all().find_map(|observer| observer.place(attempt, asked));
        let is_kept = trace.as_ref().is_some_and(|trace| trace.is_sampled);
        let mut marks = Vec::with_capacity(Stage::ALL.len());
        marks.push((Stage::Open, began));
        Some(Box::new(Self {
            above: asked.map(|asked| asked.span).filter(|_| trace.is_some()),
            trace,
            wants_content: is_kept && gate.observers.all().any(|observer| observer.wants_content()),
            opened: gate.clock.now(),
            began,
            protocol: call.protocol,
            learned: Mutex::new(Learned { marks, ..Learned::default() }),
        }))
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enters(&self, stage: Stage, now: Duration) {
        self.learned().marks.push((stage, now));
    }

    /// The place that is told to whom the tool asks: that of its run.
    pub(crate) fn onward(&self) -> Option<TraceContext> {
        self.trace.as_ref().map(|trace| trace.child(Stage::Run.place()))
    }

    pub(crate) fn decided(&self, decision: &Decision) {
        self.learned().decision = Some((decision.effect.as_str(), decision.rule.clone()));
    }

    /// The arguments, as their record has them.
    pub(crate) fn asked(&self, arguments: Option<&Abridged>) {
        if self.wants_content {
            self.learned().arguments = arguments.map(|arguments| arguments.json().to_owned());
        }
    }

    /// The result, likewise.
    pub(crate) fn answered(&self, result: Option<&Abridged>) {
        if self.wants_content {
            self.learned().result = result.map(|result| result.json().to_owned());
        }
    }
}

/// What a trip came to.
pub(crate) struct Ended<'a> {
    pub(crate) outcome: &'a Outcome,
    /// As records say it.
    pub(crate) call_id: CallId,
    pub(crate) parent: Option<AttemptId>,
    pub(crate) caller: &'a Arc<Caller>,
    pub(crate) kind: CallKind,
    pub(crate) definition: Option<Arc<ToolDefinition>>,
    pub(crate) approval: Option<ApprovalId>,
    /// As records say it.
    pub(crate) code: Option<Code>,
    pub(crate) retries: u32,
}

impl Ended<'_> {
    /// Tells the log and the observers.
    pub(crate) fn tell(self, gate: &Inner, watch: Option<Box<Watch>>) {
        self.log(gate, watch.as_deref().and_then(|watch| watch.trace.as_ref()));
        let Some(watch) = watch else { return };
        let (now, tool) = (gate.clock.monotonic(), self.tool(gate));
        let Some(attempt) = self.outcome.attempt.clone() else { return };
        let learned = watch.learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        let observed = Arc::new(Observed {
            attempt,
            call_id: self.call_id,
            parent: self.parent,
            caller: Arc::clone(self.caller),
            kind: self.kind,
            protocol: watch.protocol,
            tool,
            definition: self.definition,
            trace: watch.trace,
            above: watch.above,
            began: watch.opened,
            took: now.saturating_sub(watch.began),
            stages: staged(&learned.marks, watch.began, now),
            status: self.outcome.status(),
            code: self.code,
            tool_code: self.outcome.end.error().and_then(|error| error.tool_code.clone()),
            decision: learned.decision,
            approval: self.approval,
            retries: self.retries,
            is_replayed: self.outcome.replayed,
            sandbox: gate.sandbox,
            arguments: learned.arguments,
            result: learned.result,
        });
        gate.observers.all().for_each(|observer| observer.seen(&observed));
    }

    /// The tool's name; of one that is not there, whatever the asker wrote, without secrets.
    fn tool(&self, gate: &Inner) -> String {
        match &self.definition {
            Some(definition) => definition.name.clone(),
            None => gate.redactor.text(&self.outcome.tool).into_owned(),
        }
    }

    /// One line for each call, at the level of those who want to hear of each.
    fn log(&self, gate: &Inner, trace: Option<&TraceContext>) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        tracing::info!(
            attempt = self.outcome.attempt.as_ref().map(AttemptId::as_str),
            trace_id = trace.map(|trace| tracing::field::display(trace.trace)),
            tool = self.tool(gate),
            surface = self.caller.surface.as_str(),
            role = self.caller.role,
            status = self.outcome.status().as_str(),
            code = self.code.map(Code::as_str),
            duration_ms = self.outcome.duration_ms,
            "a call ended"
        );
    }
}

fn staged(marks: &[(Stage, Duration)], began: Duration, now: Duration) -> Vec<Staged> {
    let ends = marks.iter().skip(1).map(|(_, at)| *at).chain([now]);
    let stages = marks.iter().zip(ends).map(|(&(stage, from), to)| Staged {
        stage,
        began: from.saturating_sub(began),
        took: to.saturating_sub(from),
    });
    stages.collect()
}
