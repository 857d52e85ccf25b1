//! The door of a tool: what a tool asks for is asked on behalf of its own call, and only so deep.

use std::sync::Arc;

use futures_util::FutureExt;
use tollgate_types::{
    AttemptId, BoxFuture, Call, Caller, CancellationToken, Code, Door, ErrorObject, Outcome, ToolDefinition,
    TraceContext, limits::CALL_DEPTH_MAX,
};

use crate::Gate;
use crate::gate::Trip;

/// The way in for one call of a tool. It knows how deep it stands: a tool cannot say so of itself.
pub(crate) struct Nested {
    gate: Gate,
    /// The call of the tool.
    parent: AttemptId,
    /// The place of that call in its trace.
    pub(crate) trace: Option<TraceContext>,
    /// How many calls are above what is asked for here.
    depth: u32,
}

impl Door for Nested {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.gate.list(caller)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        self.enter(caller, call, CancellationToken::new()).boxed()
    }
}

impl Nested {
    /// The door of the tool that this call is for.
    pub(crate) fn of(trip: Trip<'_>) -> Self {
        let trace = trip.attempt.onward().or_else(|| trip.call.trace.clone());
        Self { gate: trip.gate.clone(), parent: trip.attempt.id.clone(), trace, depth: trip.depth + 1 }
    }

    /// [`Door::call`], which `stop` ends too.
    pub(crate) fn enter(
        &self,
        caller: &Caller,
        mut call: Call,
        stop: CancellationToken,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        call.parent = Some(self.parent.clone());
        call.trace.clone_from(&self.trace);
        if self.depth > CALL_DEPTH_MAX {
            let message = format!("tools that call tools may go {CALL_DEPTH_MAX} calls deep, and this is one deeper");
            let error = ErrorObject::new(Code::BudgetExceeded, message);
            call.refusal =
                Some(error.with_hint("the tools call each other in a circle, or too far: ask for less at once"));
        }
        self.gate.enter(caller, call, stop, self.depth)
    }
}
