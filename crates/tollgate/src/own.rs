//! The house's own capabilities as tools: what it knows of itself, for those whose role grants it. Those that tell of others
//! or answer for them are granted by name alone: no glob of a role covers them.

mod approvals;
mod ledger;
mod list_roles;
mod search_tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tollgate_gate::{Gate, Operator, WeakGate};
use tollgate_types::{Annotations, Category, Permission, Risk, Source, SourceKind, Tool, ToolDefinition};

use crate::view::Selection;

/// What they stand on. The gate comes last, because it holds them.
pub(crate) struct Desk {
    operator: Operator,
    data_dir: PathBuf,
    gate: Arc<OnceLock<WeakGate>>,
}

impl Desk {
    pub(crate) fn new(operator: &Operator, data_dir: &Path) -> Self {
        Self { operator: operator.clone(), data_dir: data_dir.to_owned(), gate: Arc::default() }
    }

    /// Lets those that ask the gate reach it.
    pub(crate) fn know(&self, gate: &Gate) {
        // Nobody else sets it.
        let _ = self.gate.set(gate.downgrade());
    }

    /// All of them. Where no list is ever too long, nothing is searched.
    pub(crate) fn tools(&self, sets: &Arc<BTreeMap<String, Selection>>) -> Vec<Arc<dyn Tool>> {
        let mut tools = vec![
            list_roles::tool(Arc::clone(&self.gate)),
            approvals::list(self.operator.clone()),
            approvals::answer(self.operator.clone()),
            ledger::tool(self.data_dir.clone(), ledger::Whose::Own),
            ledger::tool(self.data_dir.clone(), ledger::Whose::Everybodys),
        ];
        if sets.values().any(Selection::may_be_too_long) {
            tools.push(Arc::new(search_tools::SearchTools::new(Arc::clone(sets))));
        }
        tools
    }
}

/// What those have in common that only tell: they read, and what they tell was written by whoever asked.
fn tells(tool: &mut ToolDefinition) {
    (tool.risk, tool.permission) = (Risk::Read, Permission::Read);
    tool.annotations = Annotations { read_only: Some(true), open_world: Some(true), ..Annotations::default() };
    named_alone(tool);
}

fn named_alone(tool: &mut ToolDefinition) {
    tool.category = Category::Information;
    tool.source = Source::of(SourceKind::Builtin);
    tool.security.named_only = true;
}
