//! The house's own capabilities as tools: what it knows of itself, for those whose role grants it.

mod search_tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_types::Tool;

use crate::view::Selection;

/// The tools that this house has of its own. Where no list is ever too long, nothing is searched.
pub(crate) fn tools(sets: &Arc<BTreeMap<String, Selection>>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if sets.values().any(Selection::may_be_too_long) {
        tools.push(Arc::new(search_tools::SearchTools::new(Arc::clone(sets))));
    }
    tools
}
