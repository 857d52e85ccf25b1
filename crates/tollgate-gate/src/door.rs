//! The gate as the way in for every surface.

use std::sync::Arc;

use futures_util::FutureExt;
use tollgate_types::{
    ApprovalId, AttemptId, BoxFuture, Call, CallKind, Caller, CancellationToken, Changes, Door, ErrorObject, Following,
    ObservedCall, Outcome, ToolDefinition,
};

use crate::Gate;
use crate::stage::{admit, approve};

impl Door for Gate {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.list_kind(caller, CallKind::Tool)
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        async move {
            if let Some(supply) = self.inner().supply() {
                supply.bring_all().await;
            }
            let mut listed = admit::listed(self.inner(), caller, kind);
            if kind == CallKind::Resource {
                listed.extend(admit::members(self.inner(), caller).await);
                listed.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            }
            listed
        }
        .boxed()
    }

    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        admit::listed(self.inner(), caller, kind)
    }

    fn changes(&self) -> Option<Changes> {
        Some(Gate::changes(self).clone())
    }

    fn following(&self, caller: &Caller, call: Call) -> Following {
        self.inner().following(caller, call)
    }

    fn call<'a>(&'a self, caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        self.call_until(caller, call, CancellationToken::new()).boxed()
    }

    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        admit::special(self.inner(), caller, tool)
    }

    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        approve::answered(self.inner(), approval).boxed()
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.inner().permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.inner().observe(caller, call).boxed()
    }
}
