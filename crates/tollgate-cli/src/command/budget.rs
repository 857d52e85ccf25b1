//! How budgets stand, for those who ask about a tool.

use tollgate::BudgetReport;

/// One line for each.
pub(crate) fn lines(budgets: &[BudgetReport]) -> Vec<String> {
    let line = |report: &BudgetReport| {
        let BudgetReport { budget, units, spent, left, ends } = report;
        let until = ends.map(|ends| format!(" until {ends}")).unwrap_or_default();
        format!("{budget}: {left} of {units} units left ({spent} spent){until}")
    };
    budgets.iter().map(line).collect()
}
