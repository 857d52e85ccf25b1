//! What a run took, as a table of its calls and a line.

use tollgate::agent::{Spent, ToolTally};

use crate::output::{self, visible};

/// The table, where there were calls, and the line.
pub(super) fn page(spent: &Spent) -> String {
    if spent.calls.is_empty() {
        return spent.to_string();
    }
    let header = ["tool", "calls", "done", "refused", "failed", "waiting", "ms"];
    let rows = spent.calls.iter().map(|tally| {
        let ToolTally { tool, count, done, refused, failed, waiting, duration_ms } = tally;
        let counts = [count, done, refused, failed, waiting].map(u32::to_string);
        std::iter::once(visible(tool)).chain(counts).chain([duration_ms.to_string()]).collect()
    });
    format!("{}{spent}", output::table(&header, rows))
}
