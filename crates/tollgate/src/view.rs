//! A door that shows only some of what is behind another, and as some clients are to see it. A view never grants: what it
//! shows is a part of what the door behind it shows to the same caller, and each of its calls passes that door.

mod calls;
mod selection;

use std::sync::Arc;

use tollgate_catalog::unknown_tool;
use tollgate_types::{
    ApprovalId, AttemptId, BoxFuture, Call, CallKind, Caller, Changes, Code, Door, End, ErrorObject, Following,
    Language, ObservedCall, Outcome, ToolDefinition,
};

use calls::{CALL_TOOL, call_tool, unwrap};
pub use selection::Selection;
pub(crate) use selection::{SEARCH_TOOLS, is_own, prefix};

/// A door to what a [`Selection`] shows. A call for anything else is refused as unknown, and recorded.
///
/// ```
/// # use std::sync::Arc;
/// # use tollgate::{Caller, Door, Selection, Surface, View};
/// # async fn example(door: Arc<dyn Door>) -> Result<(), String> {
/// let view = View::new(door, Selection::of_tools(&["read_*".to_owned()])?);
/// let listed = view.list(&Caller::new("ada", "reader", Surface::Library)).await;
/// assert!(listed.iter().all(|tool| tool.name.starts_with("read_")));
/// # Ok(())
/// # }
/// ```
pub struct View {
    door: Arc<dyn Door>,
    selection: Selection,
    language: Language,
}

impl View {
    /// What `selection` shows of `door`.
    pub fn new(door: Arc<dyn Door>, selection: Selection) -> Self {
        Self { door, selection, language: Language::default() }
    }

    /// The same, which speaks this language.
    #[must_use]
    pub fn in_language(self, language: Language) -> Self {
        Self { language, ..self }
    }

    /// What this caller is shown, by the names of here, and whether that is more than a list may have.
    async fn shown(&self, caller: &Caller) -> (Vec<Arc<ToolDefinition>>, bool) {
        self.shown_of(caller, &self.door.list(caller).await)
    }

    fn shown_of(&self, caller: &Caller, all: &[Arc<ToolDefinition>]) -> (Vec<Arc<ToolDefinition>>, bool) {
        let shown: Vec<_> = all.iter().filter_map(|tool| self.selection.shown(tool)).collect();
        let is_found_by_search = self.selection.is_too_long(&shown);
        if is_found_by_search && !shown.iter().any(|tool| tool.name == SEARCH_TOOLS) {
            let (set, role) = (self.selection.name(), &caller.role);
            tracing::warn!(
                set,
                role,
                "the role does not grant `{SEARCH_TOOLS}`: the list stays longer than `max_tools`"
            );
            return (shown, false);
        }
        (shown, is_found_by_search)
    }

    /// The list of a kind that is shown of all that is behind.
    fn listed(&self, caller: &Caller, kind: CallKind, all: &[Arc<ToolDefinition>]) -> Vec<Arc<ToolDefinition>> {
        let mut shown: Vec<_> = if kind.is_tool() {
            let (mut shown, is_found_by_search) = self.shown_of(caller, all);
            if is_found_by_search {
                shown.retain(|tool| self.selection.is_own(&tool.name));
                shown.push(call_tool());
            }
            shown
        } else {
            all.iter().filter_map(|entry| self.selection.shown(entry)).collect()
        };
        shown.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        shown
    }

    /// What the asker is told, in the words of here.
    async fn told(&self, caller: &Caller, (kind, asked): (CallKind, &str), outcome: &mut Outcome) {
        if outcome.code() == Some(Code::UnknownTool) {
            // The door behind this one would name what it has itself.
            let shown = if kind.is_tool() { self.shown(caller).await.0 } else { Vec::new() };
            let error = unknown_tool(asked, shown.iter().map(|tool| tool.name.as_str()));
            outcome.end = End::Refused(self.spoken(error));
        }
    }

    fn spoken(&self, mut error: ErrorObject) -> ErrorObject {
        error.put_in(self.language);
        error
    }
}

impl Door for View {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.list_kind(caller, CallKind::Tool)
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async move { self.listed(caller, kind, &self.door.list_kind(caller, kind).await) })
    }

    fn list_now(&self, caller: &Caller, kind: CallKind) -> Vec<Arc<ToolDefinition>> {
        self.listed(caller, kind, &self.door.list_now(caller, kind))
    }

    fn changes(&self) -> Option<Changes> {
        self.door.changes()
    }

    fn following(&self, caller: &Caller, mut call: Call) -> Following {
        self.selection.take(&mut call);
        match call.refusal {
            Some(_) => Following { name: call.name, is_allowed: Some(false) },
            None => self.door.following(caller, call),
        }
    }

    fn call<'a>(&'a self, caller: &'a Caller, mut call: Call) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if call.kind.is_tool()
                && call.name == CALL_TOOL
                && self.selection.may_be_too_long()
                && self.shown(caller).await.1
            {
                unwrap(&mut call);
            }
            let (kind, asked) = (call.kind, call.name.clone());
            let bound = self.selection.take(&mut call);
            let mut outcome = self.door.call(caller, call).await;
            if let Some(error) = self.selection.misfit(&asked, &bound, &mut outcome) {
                outcome.end = End::Refused(self.spoken(error));
            }
            self.told(caller, (kind, &asked), &mut outcome).await;
            outcome
        })
    }

    fn special(&self, caller: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        self.selection.shown(&self.door.special(caller, &self.selection.behind(tool)?)?)
    }

    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        self.door.answered(approval)
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.selection.shows(CallKind::Tool, &tool.name) && self.door.permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.door.observe(caller, call)
    }
}
