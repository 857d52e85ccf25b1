//! The door of a tool: what a tool asks for is asked on behalf of its own call, and only so deep.

use std::sync::Arc;

use futures_util::FutureExt;
use tollgate_types::{
    AttemptId, BoxFuture, Call, CallKind, Caller, CancellationToken, Changes, ClientCapabilities, Door, ErrorObject,
    Following, ObservedCall, Outcome, Peer, Text, ToolDefinition, TraceContext, limits::CALL_DEPTH_MAX,
};

use crate::Gate;
use crate::gate::{Trip, Way};

/// The way in for one call of a tool. It knows how deep it stands: a tool cannot say so of itself.
pub(crate) struct Nested {
    gate: Gate,
    /// The call of the tool.
    parent: AttemptId,
    /// The place of that call in its trace.
    pub(crate) trace: Option<TraceContext>,
    /// The client that the call of the tool came from.
    client: (ClientCapabilities, Option<Arc<dyn Peer>>),
    /// How many calls are above what is asked for here.
    depth: u32,
}

impl Door for Nested {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.gate.list(caller)
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.gate.list_kind(caller, kind)
    }

    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        self.gate.list_now(caller, kind)
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.gate.changes().clone())
    }

    fn following(&self, caller: &Caller, call: Call) -> Following {
        self.gate.following(caller, call)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        self.enter(caller, call, CancellationToken::new()).boxed()
    }

    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        self.gate.special(caller, tool)
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.gate.permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.gate.observe(caller, call)
    }
}

impl Nested {
    /// The door of the tool that this call is for.
    pub(crate) fn of(trip: Trip<'_>) -> Self {
        let trace = trip.attempt.onward().or_else(|| trip.call.trace.clone());
        let client = (trip.call.client, trip.peer());
        Self { gate: trip.gate.clone(), parent: trip.attempt.id.clone(), trace, client, depth: trip.depth + 1 }
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
        if call.peer.is_none() {
            (call.client, call.peer) = self.client.clone();
        }
        if self.depth > CALL_DEPTH_MAX {
            call.refusal = Some(Text::TooDeep.error(&[("max", &CALL_DEPTH_MAX)]));
        }
        let way = Way { depth: self.depth, ..Way::default() };
        self.gate.enter(caller, call, stop, way)
    }
}
