//! The glue between a tool as it is written (typed arguments in, text and a typed value out, on a thread that may
//! block) and the port that the gate runs. It also derives both schemas, so that they can not disagree with the code.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::{Deserialize as _, DeserializeOwned};
use serde_json::{Map, Value};
use tollgate_types::{
    Annotations, BoxFuture, CancellationToken, Clock, Code, Cx, Source, SourceKind, Tool, ToolDefinition, ToolError,
    ToolOutput, input_schema, output_schema,
};

/// A built-in tool. `check`, `preview` and `run` see the same arguments.
pub(crate) trait Typed: Send + Sync + 'static {
    /// The arguments; their schema is the input schema.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;
    /// The structured result; its schema is the output schema.
    type Output: Serialize + JsonSchema;

    /// The definition without schemas.
    fn definition(&self) -> ToolDefinition;

    /// What the schema can not say.
    fn check(&self, args: &Self::Args, cx: &Cx) -> Result<(), ToolError> {
        let _ = (args, cx);
        Ok(())
    }

    /// What a human is shown.
    fn preview(&self, args: &Self::Args, cx: &Cx) -> Option<String> {
        let _ = (args, cx);
        None
    }

    /// Does it, on a thread that may block. Asks `run.stop` wherever it could take long.
    fn run(&self, args: Self::Args, run: &Run) -> Result<(String, Self::Output), ToolError>;
}

/// One run.
pub(crate) struct Run {
    /// What the gate said about it.
    pub(crate) cx: Cx,
    /// Whether to go on.
    pub(crate) stop: Stop,
}

impl Run {
    /// Waits for the world on this thread, no longer than the run may last.
    pub(crate) fn wait<T>(&self, what: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
        self.block_on(async {
            tokio::select! {
                done = what => done,
                why = self.stop.ended() => Err(why),
            }
        })
    }

    /// Waits for what asks `stop` by itself.
    pub(crate) fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        block_on(what)
    }
}

/// Waits on a thread that may.
pub(crate) fn block_on<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(what)
}

/// Whether a run must end: its asker went away, or its time is up.
#[derive(Clone)]
pub(crate) struct Stop {
    cancellation: CancellationToken,
    clock: Arc<dyn Clock>,
    deadline: Duration,
    ends: Duration,
}

impl Stop {
    fn new(cx: &Cx) -> Self {
        // A child, so that a dropped run stops its thread without stopping anything of the gate's.
        Self::of(cx.cancellation.child_token(), Arc::clone(&cx.clock), cx.deadline)
    }

    pub(crate) fn of(cancellation: CancellationToken, clock: Arc<dyn Clock>, deadline: Duration) -> Self {
        let ends = clock.monotonic().saturating_add(deadline);
        Self { cancellation, clock, deadline, ends }
    }

    /// The time, from an arbitrary origin.
    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// How long it may still take.
    pub(crate) fn left(&self) -> Duration {
        self.ends.saturating_sub(self.clock.monotonic())
    }

    /// Comes when it must end, and says why.
    pub(crate) async fn ended(&self) -> ToolError {
        let _ = tokio::time::timeout(self.left(), self.cancellation.cancelled()).await;
        self.reason().unwrap_or_else(|| self.late())
    }

    /// What is said of a run whose time is up.
    pub(crate) fn late(&self) -> ToolError {
        ToolError::with_code(Code::Timeout, format!("not finished within {} ms", self.deadline.as_millis()))
    }

    /// Why it must end, if it must.
    pub(crate) fn reason(&self) -> Option<ToolError> {
        if self.clock.monotonic() >= self.ends {
            return Some(self.late());
        }
        self.cancellation.is_cancelled().then(|| ToolError::with_code(Code::Cancelled, "the asker stopped waiting"))
    }

    /// Goes on, or says why not.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        self.reason().map_or(Ok(()), Err)
    }
}

/// Does one run on a thread that may block.
pub(crate) async fn on_thread<T: Send + 'static>(
    cx: Cx,
    work: impl FnOnce(&Run) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let run = Run { stop: Stop::new(&cx), cx };
    stoppable(&run.stop.clone(), move || work(&run)).await
}

/// The same of work that is no run. Dropping the future stops it where it asks.
pub(crate) async fn stoppable<T: Send + 'static>(
    stop: &Stop,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let _stops_when_dropped = stop.cancellation.clone().drop_guard();
    stop.check()?;
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ToolError::with_code(Code::Cancelled, "the process is shutting down")),
        },
    }
}

/// The annotations of a tool that only looks.
pub(crate) const READS: Annotations =
    Annotations { read_only: Some(true), destructive: Some(false), idempotent: Some(true), open_world: Some(false) };

/// Words as the owned list that a definition wants.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A definition's own codes.
pub(crate) fn codes(codes: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    codes.iter().map(|&(code, meaning)| (code.to_owned(), meaning.to_owned())).collect()
}

/// The tool behind the port.
pub(crate) fn tool<T: Typed>(tool: T) -> Arc<dyn Tool> {
    let mut definition = tool.definition();
    definition.source = Source::of(SourceKind::Builtin);
    if definition.input_schema.pointer("/properties").and_then(Value::as_object).is_none_or(Map::is_empty) {
        definition.input_schema = input_schema::<T::Args>();
    }
    definition.output_schema = Some(output_schema::<T::Output>());
    Arc::new(Adapter { tool: Arc::new(tool), definition })
}

struct Adapter<T> {
    tool: Arc<T>,
    definition: ToolDefinition,
}

impl<T: Typed> Tool for Adapter<T> {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn check(&self, arguments: &Value, cx: &Cx) -> Result<(), ToolError> {
        match self.tool.check(&parse::<T>(arguments)?, cx) {
            // What the world looks like is for the run to say; only what can never be right ends here.
            Err(error) if error.code == Code::ToolError => Ok(()),
            verdict => verdict,
        }
    }

    fn preview(&self, arguments: &Value, cx: &Cx) -> Option<String> {
        self.tool.preview(&parse::<T>(arguments).ok()?, cx)
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let tool = Arc::clone(&self.tool);
        Box::pin(async move {
            let args = parse::<T>(&arguments)?;
            drop(arguments);
            on_thread(cx, move |run| {
                let (text, output) = tool.run(args, run)?;
                let structured = serde_json::to_value(output).map_err(|error| {
                    ToolError::with_code(Code::Internal, format!("no JSON for the result: {error}"))
                })?;
                Ok(ToolOutput::text_and_structured(text, structured))
            })
            .await
        })
    }
}

fn parse<T: Typed>(arguments: &Value) -> Result<T::Args, ToolError> {
    T::Args::deserialize(arguments).map_err(|error| ToolError::invalid("", error.to_string()))
}
