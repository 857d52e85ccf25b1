//! A door with canned tools, for tests of surfaces: it keeps what came through and answers by closure. It has no
//! policy, no schema check and no record; tests of those use the real gate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::watch;
use tollgate_types::{
    AttemptId, BoxFuture, Call, CallId, CallResult, Caller, Code, Door, End, ErrorObject, ObservedCall, Outcome,
    ToolDefinition, ToolError, ToolOutput,
};

type Answer = Box<dyn Fn(Call, Value) -> BoxFuture<'static, End> + Send + Sync>;

/// A [`Door`] with canned tools that keeps what came through.
///
/// ```
/// use serde_json::{Value, json};
/// use tollgate_testkit::RecordingDoor;
/// use tollgate_types::{Call, Caller, Door, Surface, ToolDefinition, ToolOutput};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let door = RecordingDoor::new().tool(ToolDefinition::new("get_weather", "…"), |arguments| {
///     Ok(ToolOutput::text(format!("{}: 晴", arguments["city"].as_str().unwrap_or("?"))))
/// });
/// let caller = Caller::new("ann", "reader", Surface::Library);
/// let outcome = door.call(&caller, Call::tool("get_weather", json!({"city": "北京"}))).await;
/// assert_eq!(outcome.model_text(), "北京: 晴");
/// assert_eq!(door.calls()[0].1.name, "get_weather");
/// # }
/// ```
pub struct RecordingDoor {
    tools: BTreeMap<String, (Arc<ToolDefinition>, Answer)>,
    seen: Mutex<Seen>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Seen {
    calls: Vec<(Caller, Call)>,
    cancelled: Vec<CallId>,
    observed: Vec<ObservedCall>,
}

impl RecordingDoor {
    /// A door without tools.
    pub fn new() -> Self {
        Self { tools: BTreeMap::new(), seen: Mutex::default(), count: watch::Sender::new(0) }
    }

    /// The same door with a tool that answers at once.
    #[must_use]
    pub fn tool(
        self,
        definition: ToolDefinition,
        answer: impl Fn(Value) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.on(definition, move |_, arguments| {
            let end = end(answer(arguments));
            Box::pin(async move { end })
        })
    }

    /// The same door with a tool whose call ends as the closure says: one that waits, is refused, reports progress on
    /// `call.progress`, or never comes back.
    #[must_use]
    pub fn on(
        mut self,
        definition: ToolDefinition,
        answer: impl Fn(Call, Value) -> BoxFuture<'static, End> + Send + Sync + 'static,
    ) -> Self {
        self.tools.insert(definition.name.clone(), (Arc::new(definition), Box::new(answer)));
        self
    }

    /// Everything that was asked for, in order.
    pub fn calls(&self) -> Vec<(Caller, Call)> {
        self.seen().calls.clone()
    }

    /// The ids of the calls that their asker dropped before they ended.
    pub fn cancelled(&self) -> Vec<CallId> {
        self.seen().cancelled.clone()
    }

    /// The calls that a provider was said to have run, in order.
    pub fn observed(&self) -> Vec<ObservedCall> {
        self.seen().observed.clone()
    }

    /// Returns once `count` calls have arrived, be they answered or not.
    pub async fn wait_for_calls(&self, count: usize) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.count.subscribe().wait_for(|seen| *seen >= count).await;
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, caller: &Caller, call: &Call) -> AttemptId {
        let mut seen = self.seen();
        seen.calls.push((caller.clone(), call.clone()));
        self.count.send_replace(seen.calls.len());
        AttemptId::new(format!("attempt-{}", seen.calls.len()))
    }

    async fn answer(&self, call: Call) -> End {
        if let Some(refusal) = call.refusal {
            return End::from_error(refusal);
        }
        let Some((_, answer)) = self.tools.get(&call.name) else {
            return refused(Code::UnknownTool, format!("no tool is called `{}`", call.name));
        };
        let arguments = if call.arguments.is_empty() { "{}" } else { &call.arguments };
        match serde_json::from_str::<Map<String, Value>>(arguments) {
            Ok(arguments) => answer(call, Value::Object(arguments)).await,
            Err(error) => refused(Code::InvalidJson, format!("the arguments are not a JSON object: {error}")),
        }
    }
}

impl Default for RecordingDoor {
    fn default() -> Self {
        Self::new()
    }
}

impl Door for RecordingDoor {
    fn list<'a>(&'a self, _caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        let tools = self.tools.values().map(|(definition, _)| Arc::clone(definition)).collect();
        Box::pin(async move { tools })
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let attempt = self.record(caller, &call);
            let call_id = if call.id.as_str().is_empty() { CallId::new(attempt.as_str()) } else { call.id.clone() };
            let tool = call.name.clone();
            let mut watch = Watch { door: self, open: Some(call_id.clone()) };
            let end = self.answer(call).await;
            watch.open = None;
            Outcome { call_id, attempt: Some(attempt), tool, duration_ms: 0, end, repairs: Vec::new(), replayed: false }
        })
    }

    fn permits(&self, _caller: &Caller, _tool: &ToolDefinition) -> bool {
        true
    }

    fn observe<'a>(&'a self, _caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        let mut seen = self.seen();
        seen.observed.push(call);
        let attempt = AttemptId::new(format!("observed-{}", seen.observed.len()));
        Box::pin(async move { Ok(attempt) })
    }
}

/// Notes a call whose future was dropped before it ended.
struct Watch<'a> {
    door: &'a RecordingDoor,
    open: Option<CallId>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(call_id) = self.open.take() {
            self.door.seen().cancelled.push(call_id);
        }
    }
}

fn end(result: Result<ToolOutput, ToolError>) -> End {
    match result {
        Ok(ToolOutput { content, structured, raw }) => {
            End::Done(CallResult { content, structured, raw, ..CallResult::default() })
        }
        Err(error) => End::from_error(error.into()),
    }
}

fn refused(code: Code, message: String) -> End {
    End::Refused(ErrorObject::new(code, message))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use serde_json::json;
    use tollgate_types::{Progress, ProgressUpdate, Status, Surface};

    use super::*;

    fn caller() -> Caller {
        Caller::new("ann", "reader", Surface::McpStdio)
    }

    #[tokio::test]
    async fn tools_are_listed_by_name_and_answer_by_closure() {
        let door = RecordingDoor::new()
            .tool(ToolDefinition::new("b", "…"), |_| Err(ToolError::new("no").with_tool_code("NO")))
            .tool(ToolDefinition::new("a", "…"), |arguments| Ok(ToolOutput::structured(arguments)));
        let names: Vec<_> = door.list(&caller()).await.iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, ["a", "b"]);

        let cases = [
            (Call::tool("a", json!({"x": 1})).with_id("c1"), Status::Done, None, r#"{"x":1}"#),
            (Call::raw("a", ""), Status::Done, None, "{}"),
            (Call::raw("a", "[1]"), Status::Refused, Some(Code::InvalidJson), "not a JSON object"),
            (Call::raw("b", "{}"), Status::Failed, Some(Code::ToolError), r#""tool_code":"NO""#),
            (Call::raw("c", "{}"), Status::Refused, Some(Code::UnknownTool), "no tool is called `c`"),
        ];
        for (call, status, code, text) in cases {
            let outcome = door.call(&caller(), call.clone()).await;
            assert_eq!((outcome.status(), outcome.code()), (status, code), "{call:?}");
            assert!(outcome.model_text().contains(text), "{}", outcome.model_text());
        }
        let calls = door.calls();
        assert_eq!(calls.len(), 5);
        assert_eq!((calls[0].0.clone(), calls[0].1.id.as_str()), (caller(), "c1"));
        assert!(door.cancelled().is_empty());
    }

    #[tokio::test]
    async fn a_dropped_call_is_noted() {
        let door = RecordingDoor::new().on(ToolDefinition::new("wait", "…"), |call, _| {
            call.progress.report(ProgressUpdate { progress: 1.0, total: None, message: None });
            Box::pin(pending())
        });
        let (sender, mut steps) = watch::channel(0.0);
        let progress = Progress::to(move |step| {
            let _ = sender.send(step.progress);
        });
        let asker = caller();
        tokio::select! {
            _ = door.call(&asker, Call::raw("wait", "").with_id("c9").with_progress(progress)) => unreachable!(),
            () = door.wait_for_calls(1) => {}
        }
        assert_eq!(door.cancelled(), [CallId::new("c9")]);
        assert_eq!(*steps.borrow_and_update(), 1.0);
    }
}
