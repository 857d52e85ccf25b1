//! A door whose entries come and go, and of which some are kept from the client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tollgate_types::{
    BoxFuture, Call, CallKind, CallResult, Caller, Changes, Code, Door, End, ErrorObject, Following, Outcome,
    ToolDefinition,
};

/// Whether the client may know of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    Shown,
    Hidden,
}

#[derive(Default)]
pub(crate) struct Shelf {
    entries: Mutex<BTreeMap<String, (Arc<ToolDefinition>, Is)>>,
    pub(crate) changes: Changes,
    pub(crate) calls: Mutex<Vec<Call>>,
}

impl Shelf {
    pub(crate) fn new() -> Arc<Self> {
        let shelf = Arc::new(Self::default());
        shelf.put(CallKind::Resource, "resources/demo://a", Is::Shown);
        shelf.put(CallKind::Resource, "mcp__my_x__resources/demo://b", Is::Shown);
        shelf.put(CallKind::Resource, "resources/demo://secret", Is::Hidden);
        shelf
    }

    pub(crate) fn put(&self, kind: CallKind, name: &str, is: Is) {
        let definition = Arc::new(ToolDefinition::new(name, "An entry.").of_kind(kind));
        self.entries.lock().unwrap().insert(name.to_owned(), (definition, is));
        self.changes.lists_changed();
    }

    pub(crate) fn take(&self, name: &str) {
        self.entries.lock().unwrap().remove(name);
        self.changes.lists_changed();
    }

    fn is_allowed(&self, name: &str) -> Option<bool> {
        self.entries.lock().unwrap().get(name).map(|(_, is)| *is == Is::Shown)
    }
}

impl Door for Shelf {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.list_kind(caller, CallKind::Tool)
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async move { self.list_now(caller, kind) })
    }

    fn list_now(&self, _: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        let entries = self.entries.lock().unwrap();
        let shown = entries.values().filter(|(definition, is)| *is == Is::Shown && definition.kind == kind);
        shown.map(|(definition, _)| Arc::clone(definition)).collect()
    }

    fn changes(&self) -> Option<Changes> {
        Some(self.changes.clone())
    }

    fn following(&self, _: &Caller, call: Call) -> Following {
        Following { is_allowed: self.is_allowed(&call.name), name: call.name }
    }

    fn call<'a>(&'a self, _: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        self.calls.lock().unwrap().push(call.clone());
        Box::pin(async move {
            let end = match self.is_allowed(&call.name) {
                Some(true) => End::Done(CallResult::default()),
                _ => End::Refused(ErrorObject::new(Code::UnknownTool, "there is none")),
            };
            let (call_id, tool) = (call.id, call.name);
            Outcome { end, call_id, attempt: None, tool, duration_ms: 0, repairs: Vec::new(), replayed: false }
        })
    }
}
